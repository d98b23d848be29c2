"""A frame goes out whole and in order however little the transport takes, without copies."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer.network.network_send import MAX_PIECES, NetworkSend


class StingyTransport:
    """Takes at most so many bytes a call, and notes what it was offered."""

    def __init__(self, allowances: Sequence[int]) -> None:
        self.allowances = list(allowances)
        self.taken = bytearray()
        self.calls: list[list[memoryview]] = []
        self.pending = 0

    def send(self, buffers: Sequence[memoryview]) -> int:
        self.calls.append(list(buffers))
        allowance = self.allowances.pop(0) if self.allowances else 1 << 30
        data = b"".join(buffers)[:allowance]
        self.taken += data
        return len(data)

    @property
    def has_pending_writes(self) -> bool:
        return self.pending > 0

    def flush(self) -> None:
        self.pending -= 1


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
    for _ in range(100):
        assert send.remaining_bytes == total - len(transport.taken)
        if send.write_to(transport):
            break
    assert send.completed
    assert bytes(transport.taken) == b"".join(pieces)


def test_pieces_are_offered_by_reference() -> None:
    records = bytearray(b"r" * 100)
    transport = StingyTransport([30])
    send = NetworkSend("1", [memoryview(b"header"), memoryview(records)])
    assert not send.write_to(transport)
    assert send.write_to(transport)
    assert transport.calls[0][1].obj is records
    assert transport.calls[1][0].obj is records
    assert transport.calls[1][0].nbytes == 76


def test_more_pieces_than_the_system_allows_go_out_in_groups() -> None:
    count = 2 * MAX_PIECES + 5
    transport = StingyTransport([])
    send = NetworkSend("1", views(*(b"%06d" % i for i in range(count))))
    assert send.write_to(transport)
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
    assert not send.write_to(transport)
    assert len(transport.calls) == 1


def test_an_empty_frame_is_complete_without_a_write() -> None:
    transport = StingyTransport([])
    assert NetworkSend("1", []).write_to(transport)
    assert not transport.calls


def test_completion_with_no_byte_written_when_the_transport_had_buffered_all() -> None:
    transport = StingyTransport([])
    transport.pending = 2
    send = NetworkSend("1", views(b"abc"))
    assert not send.write_to(transport)
    assert (send.remaining_bytes, send.completed) == (0, False)
    assert send.write_to(transport)
    assert len(transport.calls) == 1


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
        send.write_to(transport)
        transport.calls.clear()
    else:
        send.write_to(StingyTransport([3]))
        send.release()
    gc.collect()
    assert watch() is None
