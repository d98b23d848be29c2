"""The native step with a lane, over a socket pair."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from kproducer._core.network import channel_io
from tests.support.units.lane_bench import Bench

pytestmark = pytest.mark.skipif(channel_io.native is None, reason="needs the native step")


class Step:
    """A ``SocketIo`` with the connection of a bench."""

    def __init__(self) -> None:
        self.bench = Bench(has_wake_descriptor=True)
        self.reader, self.writer = socket.socketpair()
        self.reader.setblocking(False)
        self.io = channel_io.native.SocketIo(self.reader.fileno(), bytearray(1 << 16), 1 << 15)
        self.io.use_plane(self.bench.plane)
        self.sock = self.io.register(self.bench.ours.fileno(), "owner")
        self.sock.establish()
        self.sock.use_lane(self.bench.lane)

    def close(self) -> None:
        self.io.close()
        self.reader.close()
        self.writer.close()
        self.bench.close()


@pytest.fixture
def step() -> Iterator[Step]:
    made = Step()
    yield made
    made.close()


def test_a_response_behind_one_for_python_is_settled_before_the_next_wait(step: Step) -> None:
    bench = step.bench
    bench.lane.foreign = 1
    future = bench.send("t", 0, b"v")
    foreign = b"\0\0\0\5\0\0\0\7x"
    bench.theirs.send(foreign + bench.response([("t", 0, 4)]))
    assert step.io.exchange([], 1000) == []
    assert step.io.take_frames() == [("owner", foreign[4:])]
    assert not future.done()
    # The wait has no other end than a wake-up.
    waiting = threading.Thread(target=step.io.exchange, args=([], 60_000))
    waiting.start()
    try:
        assert future.result(10).offset == 4
    finally:
        step.writer.send(b"x")
        waiting.join(10)


def test_an_unusual_response_behind_one_for_python_waits_until_python_has_handled_that(step: Step) -> None:
    bench = step.bench
    bench.lane.foreign = 1
    bench.send("t", 0, b"v")
    foreign, unusual = b"\0\0\0\5\0\0\0\7x", b"\0\0\0\5\0\0\0\x09x"
    bench.theirs.send(foreign + unusual)
    assert step.io.exchange([], 1000) == []
    assert step.io.take_frames() == [("owner", foreign[4:])]
    assert not bench.lane.needs_python
    (event,) = step.io.exchange([], 1000)
    assert event[0] == "owner"
    assert event[5] == len(unusual)
    assert bench.lane.needs_python


def test_a_lane_waits_until_a_large_frame_of_python_is_written(step: Step) -> None:
    bench = step.bench
    frame = bytes(4 << 20)
    step.sock.queue([frame])
    future = bench.send("t", 0, b"v")
    events = step.io.exchange([step.sock], 0)
    received = bytearray()
    while len(received) <= len(frame):
        received += bench.theirs.recv(1 << 20)
        events += step.io.exchange([], 0)
        assert not bench.lane.needs_python
    assert sum(event[2] for event in events) == len(frame)
    bench.theirs.send(bench.response([("t", 0, 4)]))
    step.io.exchange([], 1000)
    assert future.result(10).offset == 4
