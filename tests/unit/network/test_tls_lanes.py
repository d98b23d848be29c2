"""A lane of the data plane over TLS in the native step: all bytes arrive, in order and once each."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import random
import re
import socket
import ssl
from collections import deque
from collections.abc import Iterator

import pytest

import kproducer._core.network.selector as selector_module
from kproducer._core.kernel import data_plane
from kproducer._core.network import native_tls
from kproducer._core.network.channel_io import READ, WRITE, NativeChannelIo
from tests.support.tls_peer import HOST, client_context, server_context
from tests.support.units.lane_bench import Bench

pytestmark = pytest.mark.skipif(
    data_plane is None or selector_module.PlaintextChannelIo is not NativeChannelIo,
    reason="needs the compiled kernel and epoll",
)

#: SSL_KEY_UPDATE_REQUESTED: the peer has to change its keys as well, and says so.
_KEY_UPDATE_REQUESTED = 1


class TlsBench(Bench):
    """A lane over a slow TLS connection. The test is the peer, and Python's side of the client.

    Attributes:
        received: what the peer has decrypted.
        python_in_flight: correlation ids of the requests that are Python's, oldest first.
        python_unwritten: bytes in Python's queue.
        for_python: what was read for Python, and not cut into frames yet.
        ends: errors and the end of the stream, as the step has reported them.
    """

    def __init__(self, arena_bytes: int = 1 << 16, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        from kproducer._core.network import _native_channel_io as native

        assert native_tls.why_not(client_context()) == ""
        super().__init__(has_wake_descriptor=True)
        self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        bios = [ssl.MemoryBIO() for _ in range(4)]
        client = client_context(maximum_version=version).wrap_bio(bios[0], bios[1], server_hostname=HOST)
        self.tls = server_context(num_tickets=0).wrap_bio(bios[2], bios[3], server_side=True)
        self.incoming, self.outgoing = bios[2:]
        for _ in range(3):
            for side, source, target in (
                (client, bios[1], bios[2]),
                (self.tls, bios[3], bios[0]),
            ):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
                target.write(source.read())
        self.wakeup = socket.socketpair()
        self.arena = bytearray(arena_bytes)
        self.io = native.SocketIo(self.wakeup[0].fileno(), self.arena, arena_bytes)
        self.sock = self.io.register(self.ours.fileno(), "owner")
        self.session = native_tls.new_session(client, bios[0], bios[1])
        self.sock.encrypt(self.session)
        self.sock.establish()
        self.io.use_plane(self.plane)
        self.received = bytearray()
        self.has_lane = False
        self.python_in_flight: deque[int] = deque()
        self.python_unwritten = 0
        self.for_python = bytearray()
        self.answered = 0
        self.ends: list[tuple[int, int, int]] = []
        self.to_client = bytearray()
        self.next_in_python = 0

    def close(self) -> None:
        super().close()
        self.io.close()
        for each in self.wakeup:
            each.close()

    # -- the client

    def arm(self) -> int:
        """Give the connection to a lane. Returns how many of the records sent last are forgotten."""
        forgotten = 0
        if self.lane.needs_python:
            forgotten = sum(batch.record_count for batch in self.part("t", 0).disarm())
            self.parts.clear()
            self.plane.remove_lane(self.lane)
            self.new_lane()
        self.sock.use_lane(self.lane)
        self.lane.next_correlation_id = self.next_in_python
        self.lane.is_armed = self.has_lane = True
        return forgotten

    def adopt(self) -> None:
        """The lane's requests in flight become Python's."""
        self.plane.settle(0)
        for correlation_id, _, _, _, pieces in self.lane.take_requests():
            self.python_in_flight.append(correlation_id)
            self.python_unwritten += sum(map(len, pieces))
            self.sock.queue(pieces)
        self.next_in_python = self.lane.next_correlation_id

    def take_back(self) -> None:
        self.lane.is_armed = self.has_lane = False
        self.adopt()
        self.for_python += self.lane.take_partial()
        self.sock.use_lane(None)
        if self.python_unwritten:
            self.sock.note_full()

    def request_in_python(self, size: int) -> None:
        """A frame that only Python sends, while the lane stays armed."""
        if self.has_lane:
            self.adopt()
        self.lane.next_correlation_id = self.next_in_python + 1
        self.python_in_flight.append(self.next_in_python)
        payload = b"\0\x63\0\0" + self.next_in_python.to_bytes(4, "big") + bytes(size)
        self.next_in_python += 1
        self.python_unwritten += 4 + len(payload)
        self.sock.queue([len(payload).to_bytes(4, "big"), payload])

    def exchange(self, timeout_ms: int = 0) -> None:
        if self.has_lane and not self.lane.in_flight:
            self.lane.foreign = len(self.python_in_flight)
        events = self.io.exchange([self.sock] if self.python_unwritten else [], timeout_ms)
        frames = self.io.take_frames()
        if self.has_lane and self.lane.needs_python:
            self.take_back()
        for _, payload in frames:
            assert int.from_bytes(payload[:4], "big") == self.python_in_flight.popleft()
            self.answered += 1
        for _, mask, sent, write_errno, at, count, read_errno in events:
            self.python_unwritten -= sent
            if count > 0:
                assert not self.has_lane
                self.for_python += self.arena[at : at + count]
            if write_errno or read_errno or not count:
                self.ends.append((mask, write_errno, read_errno))
        while len(self.for_python) >= 4 and not self.has_lane:
            size = 4 + int.from_bytes(self.for_python[:4], "big")
            if len(self.for_python) < size:
                break
            assert int.from_bytes(self.for_python[4:8], "big") == self.python_in_flight.popleft()
            self.answered += 1
            del self.for_python[:size]

    # -- the peer

    def peer_reads(self, size: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self.incoming.write(self.theirs.recv(size))
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := self.tls.read(1 << 16):
                self.received += data

    def requests(self) -> list[bytes]:
        """The complete frames that the peer has got."""
        frames, at = [], 0
        while at + 4 <= len(self.received):
            end = at + 4 + int.from_bytes(self.received[at : at + 4], "big")
            if end > len(self.received):
                break
            frames.append(bytes(self.received[at + 4 : end]))
            at = end
        return frames

    def peer_writes(self, data: bytes) -> None:
        self.tls.write(data)
        self.to_client += self.outgoing.read()

    def peer_sends(self, size: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while self.to_client and size > 0:
                sent = self.theirs.send(self.to_client[:size])
                del self.to_client[:sent]
                size -= sent

    def update_keys(self) -> None:
        """Have the next write of the peer begin with a key update."""
        import _ssl

        # The place of the pointer is the one that TlsSession has checked for the client.
        word = ctypes.c_void_p.from_address(id(self.tls._sslobj) + 3 * ctypes.sizeof(ctypes.c_void_p))  # type: ignore[attr-defined]
        assert ctypes.CDLL(_ssl.__file__).SSL_key_update(word, _KEY_UPDATE_REQUESTED) == 1


@pytest.fixture
def tls_bench() -> Iterator[TlsBench]:
    made = TlsBench()
    yield made
    made.close()


def response(bench: TlsBench, request: bytes, offset: int) -> bytes:
    correlation_id = int.from_bytes(request[4:8], "big")
    if request[1] == 0x63:
        return b"\0\0\0\5" + correlation_id.to_bytes(4, "big") + b"x"
    return bench.response([("t", 0, offset)], correlation_id)


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_events_gives_the_same_bytes(seed: int) -> None:
    chooser = random.Random(seed)
    bench = TlsBench(chooser.choice([100, 1000, 1 << 16]))
    responses = bytearray()
    answered = wanted = 0

    def send() -> None:
        nonlocal wanted
        if wanted < 150:
            size = chooser.choice([10, 1000, 3000, 20_000, 200_000])
            if bench.send("t", 0, b"<record %d>" % wanted + bytes(size)) is not None:
                wanted += 1

    def answer() -> None:
        nonlocal answered
        requests = bench.requests()[answered:]
        for request in requests:
            responses.extend(response(bench, request, answered))
            answered += 1
        while responses and chooser.random() < 0.9:
            part = responses[: chooser.choice([1, 30, 100, 1000])]
            if chooser.random() < 0.2:
                bench.update_keys()
            bench.peer_writes(bytes(part))
            del responses[: len(part)]

    def hand_over() -> None:
        nonlocal wanted
        if bench.has_lane:
            bench.take_back()
        elif not bench.python_unwritten and not bench.for_python:
            wanted -= bench.arm()

    def python() -> None:
        is_stalled = bench.has_lane and bench.lane.is_stalled
        if not is_stalled and not bench.python_unwritten and len(bench.python_in_flight) < 4:
            bench.request_in_python(chooser.choice([1, 3000, 60_000]))

    steps = [
        send,
        send,
        bench.exchange,
        bench.exchange,
        lambda: bench.peer_reads(chooser.choice([10, 5000, 100_000])),
        answer,
        lambda: bench.peer_sends(chooser.choice([10, 1000, 1 << 20])),
    ]
    rare = [hand_over, python]
    bench.part("t", 0)
    bench.arm()
    for _ in range(4000):
        chooser.choice(rare if chooser.random() < 0.1 else steps)()
    for _ in range(4000):
        if not bench.has_lane:
            hand_over()
        send()
        bench.exchange()
        bench.peer_reads(1 << 20)
        answer()
        bench.peer_sends(1 << 20)
        in_lane = bench.part("t", 0).waiting_count or bench.lane.in_flight
        if wanted == 150 and not (in_lane or bench.python_in_flight or bench.python_unwritten):
            break
    requests = bench.requests()
    assert sum(map(len, requests)) + 4 * len(requests) == len(bench.received)
    assert [int.from_bytes(request[4:8], "big") for request in requests] == list(range(len(requests)))
    found = [int(number) for number in re.findall(rb"<record (\d+)>", bytes(bench.received))]
    assert found == list(range(150))
    assert not bench.ends
    bench.close()


def test_a_hand_over_while_a_frame_is_partly_encrypted(tls_bench: TlsBench) -> None:
    """Python reads all bytes in order, and counts none that the lane has encrypted."""
    bench = tls_bench
    bench.part("t", 0)
    bench.request_in_python(10)
    bench.exchange()
    bench.arm()
    value = b"v" * 10_000
    bench.send("t", 0, value)
    foreign, unusual = (b"\0\0\0\5\0\0\0%cx" % number for number in range(2))
    bench.peer_writes(foreign + unusual)
    bench.peer_sends(1 << 20)
    bench.exchange()
    assert (bench.answered, bench.lane.is_stalled, bench.lane.holds_bytes) == (1, True, True)
    # What is held makes Python take over, in a step that also finds bytes, and space for all ciphertext.
    for _ in range(10):
        bench.peer_reads(1 << 20)
    assert 0 < len(bench.session.take(0)) < 4096
    bench.peer_writes(b"\0\0")
    bench.peer_sends(1 << 20)
    events = bench.io.exchange([], 0)
    assert bench.session.take(0) == b""
    assert bench.lane.needs_python
    assert b"".join(bytes(bench.arena[at : at + max(count, 0)]) for *_, at, count, _ in events) == (
        unusual + b"\0\0"
    )
    assert bench.lane.take_partial() == b""
    assert [sent for _, _, sent, *_ in events] == [0, 0]
    bench.take_back()
    for _ in range(10):
        bench.exchange()
        bench.peer_reads(1 << 20)
    assert bench.python_unwritten == 0
    assert len(bench.requests()) == 2
    assert bytes(bench.received).count(value) == 1


def test_decrypted_bytes_that_no_event_announces() -> None:
    bench = TlsBench(100)
    bench.part("t", 0)
    bench.python_in_flight.extend(range(30))
    bench.arm()
    bench.peer_writes(b"".join(b"\0\0\0\5\0\0\0%cx" % number for number in range(30)))
    bench.peer_sends(1 << 20)
    for number in range(30):
        bench.exchange(5000)
        assert bench.answered == number + 1
    bench.close()


def test_answers_to_key_updates_wait_for_a_full_socket(tls_bench: TlsBench) -> None:
    bench = tls_bench
    bench.part("t", 0)
    bench.arm()
    number = 0
    while not bench.session.take(0):
        bench.python_in_flight.append(number % 128)
        bench.update_keys()
        bench.peer_writes(b"\0\0\0\5\0\0\0%cx" % (number % 128))
        bench.peer_sends(1 << 20)
        bench.exchange(5000)
        number += 1
    assert bench.answered == number
    bench.peer_reads(1 << 20)
    bench.exchange()
    assert not bench.session.take(0)
    assert bench.has_lane
    bench.send("t", 0, b"<record>")
    bench.exchange()
    for _ in range(100):
        bench.peer_reads(1 << 20)
    assert b"<record>" in bench.received


@pytest.mark.parametrize("how", ["close_notify", "end", "bad record", "alert", "write"])
def test_python_reports_the_end_of_a_connection(how: str) -> None:
    bench = TlsBench(version=ssl.TLSVersion.TLSv1_2)
    bench.part("t", 0)
    bench.arm()
    future = bench.send("t", 0, b"answered")
    bench.exchange()
    bench.peer_reads(1 << 20)
    bench.send("t", 0, b"not answered" * 100_000)
    bench.exchange()
    bench.peer_writes(response(bench, bench.requests()[0], 7))
    if how == "close_notify":
        with pytest.raises(ssl.SSLWantReadError):
            bench.tls.unwrap()
        bench.to_client += bench.outgoing.read()
    elif how == "bad record":
        bench.to_client += b"\x17\x03\x03\x00\x20" + bytes(32)
    elif how == "alert":
        bench.incoming.write(b"\x17\x03\x03\x00\x20" + bytes(32))
        with contextlib.suppress(ssl.SSLError):
            while True:
                bench.tls.read(1 << 16)
        bench.to_client += bench.outgoing.read()
    bench.peer_sends(1 << 20)
    if how == "write":
        bench.ours.shutdown(socket.SHUT_WR)
    elif how == "end":
        bench.theirs.shutdown(socket.SHUT_WR)
    for _ in range(20):
        if not bench.ends:
            bench.exchange(1000)
    # After a failed write, Python also handles what was read.
    assert bench.answered == 1 if how == "write" else future.result(0).offset == 7
    assert not bench.has_lane
    assert bench.python_unwritten > 0
    expected = {
        "close_notify": (READ, 0, 0),
        "end": (READ, 0, 0),
        "bad record": (READ, 0, errno.ECONNABORTED),
        "alert": (READ, 0, errno.ECONNABORTED),
        "write": (READ | WRITE, errno.EPIPE, 0),
    }
    assert bench.ends == [expected[how]]
    reasons = {"bad record": "bad record mac|decryption failed", "alert": "alert bad record mac"}
    assert re.search(reasons.get(how, "^$"), bench.session.failure)
    bench.close()
