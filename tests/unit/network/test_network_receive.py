"""Frames are the same however the stream is divided; hostile sizes are refused with helpful errors."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kproducer._core.network.network_receive import FrameAssembler
from kproducer.errors import RemoteProtocolError
from tests.support.loopback import frame

LIMIT = 100 * 1024 * 1024


def feed(assembler: FrameAssembler, data: bytes) -> list[bytes]:
    # One buffer overwritten by every read, as in the selector: payloads must not alias it.
    buffer = bytearray(data)
    frames: list[bytes] = []
    assembler.feed(memoryview(buffer), frames)
    buffer[:] = b"\xee" * len(buffer)
    return frames


PAYLOADS = [b"first", b"", b"x" * 300, b"\0\0\0\1", b"last"]


def test_several_frames_in_one_read_keep_their_order() -> None:
    assert feed(FrameAssembler(LIMIT), b"".join(map(frame, PAYLOADS))) == PAYLOADS


def test_byte_by_byte() -> None:
    assembler = FrameAssembler(LIMIT)
    stream = b"".join(map(frame, PAYLOADS))
    got = [payload for i in range(len(stream)) for payload in feed(assembler, stream[i : i + 1])]
    assert got == PAYLOADS
    assert assembler.describe_position() == "between responses"


def test_every_split_point() -> None:
    stream = b"".join(map(frame, PAYLOADS))
    for cut in range(len(stream) + 1):
        assembler = FrameAssembler(LIMIT)
        assert feed(assembler, stream[:cut]) + feed(assembler, stream[cut:]) == PAYLOADS, cut


@given(st.lists(st.binary(max_size=50), max_size=8), st.data())
def test_any_fragmentation_gives_the_same_frames(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frame, payloads))
    assembler = FrameAssembler(64)
    got: list[bytes] = []
    position = 0
    while position < len(stream):
        step = data.draw(st.integers(1, 40))
        got += feed(assembler, stream[position : position + step])
        position += step
    assert got == payloads


class Fragmentation(RuleBasedStateMachine):
    """A peer that writes frames, and a network that delivers any piece of what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.assembler = FrameAssembler(1000)
        self.written: list[bytes] = []
        self.got: list[bytes] = []
        self.wire = b""
        self.delivered = 0

    @rule(payload=st.binary(max_size=200))
    def write(self, payload: bytes) -> None:
        self.written.append(payload)
        self.wire += frame(payload)

    @rule(count=st.integers(1, 300))
    def deliver(self, count: int) -> None:
        piece = self.wire[self.delivered : self.delivered + count]
        self.delivered += len(piece)
        self.got += feed(self.assembler, piece)

    @invariant()
    def complete_frames_are_out_and_no_others(self) -> None:
        whole, at = 0, 0
        for payload in self.written:
            at += 4 + len(payload)
            if at > self.delivered:
                break
            whole += 1
        assert self.got == self.written[:whole]
        boundary = sum(4 + len(payload) for payload in self.written[:whole])
        is_between = self.assembler.describe_position() == "between responses"
        assert is_between == (self.delivered == boundary)


TestFragmentation = Fragmentation.TestCase


@pytest.mark.parametrize("size", [-1, -(2**31), 65, 2**31 - 1])
@pytest.mark.parametrize("cut", range(4))
def test_senseless_sizes_are_refused_wherever_the_prefix_is_cut(size: int, cut: int) -> None:
    assembler = FrameAssembler(64)
    stream = struct.pack(">i", size) + b"tail"
    feed(assembler, stream[:cut])
    with pytest.raises(RemoteProtocolError, match=str(size)):
        feed(assembler, stream[cut:])


def test_frames_before_the_bad_one_are_delivered() -> None:
    frames: list[bytes] = []
    with pytest.raises(RemoteProtocolError):
        FrameAssembler(64).feed(memoryview(frame(b"good") + b"\xff\xff\xff\xff"), frames)
    assert frames == [b"good"]


def test_the_limit_itself_is_accepted() -> None:
    assert feed(FrameAssembler(64), frame(b"y" * 64)) == [b"y" * 64]


@pytest.mark.parametrize(
    ("opening", "hint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP server"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "TLS"),
        (b"\x16\x03\x01\x00\x05hello", "security_protocol"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "'SSH-'"),
        (b"\x80\x01\x02\x03", "do not look like a Kafka listener"),
    ],
)
def test_other_protocols_are_recognised(opening: bytes, hint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=hint):
        feed(FrameAssembler(LIMIT), opening)


def test_nothing_is_allocated_on_the_word_of_a_length() -> None:
    tracemalloc.start()
    try:
        assembler = FrameAssembler(LIMIT)
        feed(assembler, struct.pack(">i", LIMIT) + b"only this")
        with pytest.raises(RemoteProtocolError):
            feed(FrameAssembler(LIMIT), struct.pack(">i", LIMIT + 1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert "9 of 104857600" in assembler.describe_position()
