"""Nothing that the compiled modules are given makes them write or read where they should not."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_tools.native_build import ROOT, native_sources
from kproducer._core.kernel.layout import RECORD_BATCH_OVERHEAD
from kproducer.testing.fakebroker.batch_check import read_records
from kproducer.types import INT32_MAX, INT64_MAX

TS = 1_700_000_000_000
CANARY = b"\xa5" * 64
MODULES = [name for name, source in native_sources(ROOT).items() if source.suffix == ".pyx"]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("module", MODULES)
def test_misuse_raises_and_does_no_worse(module: str, seed: int) -> None:
    pytest.importorskip(module, exc_type=ImportError)
    others = [name for name in MODULES if name != module]
    misuse = ["tests.unit.kernel.native_misuse", module, str(seed), "1000", *others]
    assert "raised nothing" in output_of(misuse)


def test_the_collector_may_find_a_buffer_before_those_who_hold_it() -> None:
    pytest.importorskip("kproducer._core.network._native_channel_io", exc_type=ImportError)
    # Every buffer by a NativeSocket, a bytearray by the others.
    assert "7 collected" in output_of(["tests.unit.kernel.collected_exports"])


def test_the_collector_may_take_producers_down_in_any_order() -> None:
    pytest.importorskip("kproducer._core.network._native_channel_io", exc_type=ImportError)
    assert "25 rounds" in output_of(["tests.unit.kernel.collected_producers"])


def test_sockets_in_the_middle_of_an_exchange_are_refused_to_other_threads() -> None:
    """They were freed and moved under it, as when a start was interrupted, or a session shared."""
    native = pytest.importorskip("kproducer._core.network._native_channel_io", exc_type=ImportError)
    with contextlib.ExitStack() as stack:
        reader, writer = (stack.enter_context(end) for end in socket.socketpair())
        near, far = (stack.enter_context(end) for end in socket.socketpair())
        io = native.SocketIo(reader.fileno(), bytearray(8192), 8192)
        native_socket = io.register(near.fileno(), "owner")
        native_socket.establish()
        native_socket.queue([b"a"])
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.extend(io.exchange([native_socket], 60_000)))
        thread.start()
        try:
            assert far.recv(1) == b"a"  # written; now it waits
            for call in (
                native_socket.close,
                lambda: native_socket.queue([b"b"]),
                lambda: io.register(far.fileno(), "other"),
                lambda: io.exchange([], 0),
                io.close,
            ):
                with pytest.raises(RuntimeError, match="in use"):
                    call()
        finally:
            writer.send(b"w")
            thread.join()
        assert [outcome[:3] for outcome in found] == [("owner", 2, 1)]  # type: ignore[index]
        native_socket.close()
        assert io.exchange([], 0) == []
        io.close()


def output_of(arguments: list[str]) -> str:
    """What a Python module prints as a process of its own, where memory that was freed is noticed."""
    environment = {**os.environ, "KPRODUCER_KERNEL": "native", "PYTHONMALLOC": "debug"}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


numbers = st.one_of(
    st.integers(-100, 700),
    st.sampled_from([INT32_MAX - 1, INT32_MAX, INT32_MAX + 1, INT64_MAX - 1, INT64_MAX, -(2**63), -1]),
)


@given(
    size=st.integers(2 * len(CANARY), 400),
    limits=st.lists(numbers, min_size=1, max_size=8),
    counts=st.lists(numbers, max_size=3),
    weight=st.sampled_from([0.0, 1e-9, 1.0]),
    value=st.binary(max_size=300),
    header=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=90)), max_size=3),
)
def test_no_limit_and_no_count_lead_outside_of_the_buffer(
    kernel: ModuleType,
    size: int,
    limits: list[int],
    counts: list[int],
    weight: float,
    value: bytes,
    header: list[tuple[str, bytes | None]],
) -> None:
    buffer = bytearray(bytes(size) + CANARY)
    del buffer[size:]  # shrinks by so little that the memory stays as it is
    behind = ctypes.addressof(ctypes.c_char.from_buffer(buffer)) + size + 1
    assert ctypes.string_at(behind, len(CANARY) - 1) == CANARY[1:]
    writer = kernel.BatchWriter(buffer)
    writer.set_compression_estimate(weight, 2**40)
    for limit in limits:
        with contextlib.suppress(ValueError, IndexError, OverflowError):
            writer.limit = limit
            writer.append(TS, value, value, header)
        for count in counts:
            with contextlib.suppress(ValueError, IndexError, OverflowError):
                writer.record_count = count
                writer.append(0, value, None, header)
    assert len(buffer) == size
    assert ctypes.string_at(behind, len(CANARY) - 1) == CANARY[1:]


@contextlib.contextmanager
def running(change: object) -> Iterator[None]:
    """Call ``change`` again and again in another thread."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            change()  # type: ignore[operator]

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_headers_that_change_meanwhile_are_written_as_they_were_at_one_moment(kernel: ModuleType) -> None:
    states = [[], [("h", b"a")], [("h", b"a"), ("i", b"b")]]
    headers: list[tuple[str, bytes]] = []

    def change() -> None:
        headers.clear()
        headers.append(("h", b"a"))
        headers.append(("i", b"b"))

    found: set[int] = set()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with running(change):
            for _ in range(400):
                buffer = bytearray(4096)
                writer = kernel.BatchWriter(buffer)
                for _ in range(3):
                    assert writer.append(TS, None, None, headers)
                content = bytes(buffer[RECORD_BATCH_OVERHEAD : writer.position])
                for record in read_records(content, writer.record_count, TS):
                    found.add(states.index(list(record.headers)))
    finally:
        sys.setswitchinterval(interval)
    assert found
