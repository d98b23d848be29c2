"""A frame goes out whole and in order however little the transport takes, without copies."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.network.kafka_channel import KafkaChannel
from kproducer._core.network.network_receive import FrameAssembler
from kproducer._core.network.network_send import MAX_PIECES, NetworkSend


class StingyTransport:
    """Takes at most so many bytes a call, and notes what it was offered."""

    def __init__(self, allowances: Sequence[int]) -> None:
        self.allowances = list(allowances)
        self.taken = bytearray()
        self.calls: list[list[memoryview]] = []
        self.is_ready = True
        self.wants_write = False

    def send(self, buffers: Sequence[memoryview]) -> int:
        self.calls.append(list(buffers))
        allowance = self.allowances.pop(0) if self.allowances else 1 << 30
        data = b"".join(buffers)[:allowance]
        self.taken += data
        return len(data)

    def close(self) -> None:
        self.is_ready = False


def channel_of(transport: StingyTransport, *sends: NetworkSend) -> KafkaChannel:
    channel = KafkaChannel("1", "host:1", transport, FrameAssembler(100), 0)  # type: ignore[arg-type]
    channel.sends.extend(sends)
    return channel


def views(*pieces: bytes) -> list[memoryview]:
    return [memoryview(piece) for piece in pieces]


@given(
    pieces=st.lists(st.binary(max_size=20), max_size=10),
    allowances=st.lists(st.integers(0, 30), max_size=20),
)
def test_any_partial_writes_give_the_same_bytes(pieces: list[bytes], allowances: list[int]) -> None:
    transport = StingyTransport(allowances)
    send = NetworkSend("1", views(*pieces))
    total = sum(map(len, pieces))
    channel = channel_of(transport, send)
    completed: list[NetworkSend] = []
    for _ in range(100):
        assert send.remaining_bytes == total - len(transport.taken)
        channel.write(completed)
        if completed:
            break
    assert completed == [send]
    assert send.completed
    assert bytes(transport.taken) == b"".join(pieces)


def test_pieces_are_offered_by_reference() -> None:
    records = bytearray(b"r" * 100)
    transport = StingyTransport([30])
    send = NetworkSend("1", [memoryview(b"header"), memoryview(records)])
    channel = channel_of(transport, send)
    channel.write([])
    assert not send.completed
    channel.write([])
    assert send.completed
    assert transport.calls[0][1].obj is records
    assert transport.calls[1][0].obj is records
    assert transport.calls[1][0].nbytes == 76


def test_more_pieces_than_the_system_allows_go_out_in_groups() -> None:
    count = 2 * MAX_PIECES + 5
    transport = StingyTransport([])
    send = NetworkSend("1", views(*(b"%06d" % i for i in range(count))))
    channel_of(transport, send).write([])
    assert send.completed
    assert [len(call) for call in transport.calls] == [MAX_PIECES, MAX_PIECES, 5]
    assert bytes(transport.taken) == b"".join(b"%06d" % i for i in range(count))


def test_a_real_vector_write_accepts_that_many_pieces() -> None:
    reader, writer = os.pipe()
    try:
        assert os.writev(writer, [b"x"] * MAX_PIECES) == MAX_PIECES
    finally:
        os.close(reader)
        os.close(writer)


def test_a_short_write_is_not_tried_again_at_once() -> None:
    transport = StingyTransport([1, 0])
    send = NetworkSend("1", views(b"abc"))
    channel = channel_of(transport, send)
    channel.write([])
    assert (send.completed, send.is_stalled, channel.is_stalled) == (False, True, True)
    assert len(transport.calls) == 1


def test_an_empty_frame_is_complete_without_a_write() -> None:
    transport = StingyTransport([])
    completed: list[NetworkSend] = []
    channel_of(transport, NetworkSend("1", [])).write(completed)
    assert len(completed) == 1
    assert not transport.calls


class Owner(bytearray):
    """A buffer that can be watched."""


@pytest.mark.parametrize("how", ["completed", "released"])
def test_buffers_are_let_go(how: str) -> None:
    owner = Owner(b"record bytes")
    watch = weakref.ref(owner)
    send = NetworkSend("1", [memoryview(owner)])
    del owner
    gc.collect()
    assert watch() is not None
    if how == "completed":
        transport = StingyTransport([])
        channel_of(transport, send).write([])
        transport.calls.clear()
    else:
        channel = channel_of(StingyTransport([3]), send)
        channel.write([])
        channel.close()
        del channel
    gc.collect()
    assert watch() is None
