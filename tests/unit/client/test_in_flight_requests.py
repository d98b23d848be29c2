"""Queues of requests by node: order, limits and timeouts, and the request that a response belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kproducer_messages import ProduceResponse

from kproducer._core.client.client_request import ClientRequest
from kproducer._core.client.in_flight_requests import InFlightRequests
from kproducer._core.network.network_send import NetworkSend
from kproducer._core.runtime.clock import NEVER_MS
from kproducer.errors import IllegalStateError, RemoteProtocolError
from tests.support.units.client_harness import produce_builder

NOW = 1_000_000
VERSION = 8


def make(
    node_id: str = "0",
    number: int = 0,
    sent_ms: int = NOW,
    timeout_ms: int = 1000,
    completed: bool = True,
    expect_response: bool = True,
) -> ClientRequest:
    request = ClientRequest(node_id, produce_builder(), number, expect_response, sent_ms, timeout_ms)
    request.send = NetworkSend(node_id, [])
    request.send.completed = completed
    return request


def test_requests_leave_in_the_order_they_came() -> None:
    queues = InFlightRequests(5)
    first, second, third = (make(number=i) for i in range(3))
    for request in (first, second, third):
        queues.add(request)
    assert queues.count_of("0") == queues.count == 3
    assert [queues.complete_oldest("0") for _ in range(3)] == [first, second, third]
    with pytest.raises(IllegalStateError):
        queues.complete_oldest("0")
    assert queues.count == 0


def test_requests_without_response_leave_when_they_are_written_wherever_they_stand() -> None:
    queues = InFlightRequests(5)
    asks, tells, tells_more = (make(number=i, expect_response=i == 0) for i in range(3))
    for request in (asks, tells, tells_more):
        queues.add(request)
    assert queues.complete_unanswered(asks.send) is None
    assert queues.complete_unanswered(tells.send) is tells
    assert queues.complete_unanswered(tells.send) is None
    assert queues.complete_unanswered(tells_more.send) is tells_more
    assert queues.complete_unanswered(make("unknown").send) is None
    assert (queues.count, queues.complete_oldest("0")) == (1, asks)


def test_no_more_than_the_limit_and_none_while_the_socket_is_full() -> None:
    queues = InFlightRequests(2)
    assert queues.can_send_more("0")
    half_sent = make(completed=False)
    queues.add(half_sent)
    assert queues.can_send_more("0")  # no poll has tried to write it
    half_sent.send.is_stalled = True
    assert not queues.can_send_more("0")
    half_sent.send.completed = True
    assert queues.can_send_more("0")
    queues.add(make())
    assert not queues.can_send_more("0")
    assert queues.can_send_more("1")


def test_clearing_gives_the_requests_of_one_node_oldest_first() -> None:
    queues = InFlightRequests(5)
    mine = [make(number=i) for i in range(3)]
    for request in mine:
        queues.add(request)
    queues.add(make("1"))
    assert queues.clear("0") == mine
    assert queues.clear("0") == []
    assert queues.count == 1
    assert queues.node_ids() == ["1"]


def test_timeouts_count_from_the_sending_of_each_request() -> None:
    queues = InFlightRequests(5)
    queues.add(make("0", timeout_ms=1000))
    quick = make("0", number=1, sent_ms=NOW + 10, timeout_ms=100)
    queues.add(quick)
    queues.add(make("1", sent_ms=NOW + 500, timeout_ms=1000))
    assert (queues.expired(NOW + 110)) == []
    assert (queues.expired(NOW + 111)) == [quick]
    queues.clear("0")
    assert queues.next_expiry_ms <= NOW + 1500
    assert (queues.expired(NOW + 1500)) == []
    assert [r.destination for r in queues.expired(NOW + 1501)] == ["1"]


def test_throttling_gives_more_time() -> None:
    queues = InFlightRequests(5)
    queues.add(make(timeout_ms=100))
    queues.delay_expiry("0", 50, 1000)
    assert (queues.expired(NOW + 150)) == []
    assert len(queues.expired(NOW + 151)) == 1


def test_throttling_over_and_over_does_not_keep_a_request_for_ever() -> None:
    queues = InFlightRequests(5)
    queues.add(make(timeout_ms=100))
    for _ in range(9):
        queues.delay_expiry("0", 50, 70)
    assert (queues.expired(NOW + 170)) == []
    assert len(queues.expired(NOW + 171)) == 1


def test_nothing_in_flight_never_expires() -> None:
    queues = InFlightRequests(5)
    assert queues.next_expiry_ms == NEVER_MS
    queues.add(make())
    queues.complete_oldest("0")
    assert queues.expired(queues.next_expiry_ms + 1) == []
    assert queues.next_expiry_ms == NEVER_MS


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500), st.integers(0, 500)), max_size=20))
def test_the_announced_delay_is_never_too_late(requests: list[tuple[int, int, int]]) -> None:
    queues = InFlightRequests(100)
    now = NOW
    for node, wait_ms, timeout_ms in requests:
        now += wait_ms
        late = {r.destination for r in queues.expired(now)}
        for node_id in late:
            queues.clear(node_id)
        queues.add(make(str(node), sent_ms=now, timeout_ms=timeout_ms))
        if now <= queues.next_expiry_ms:
            assert (queues.expired(queues.next_expiry_ms)) == []
    looks = 0
    while queues.count:
        now = max(now, queues.next_expiry_ms + 1)
        for request in queues.expired(now):
            queues.clear(request.destination)
        looks += 1
    assert looks <= 2 * len(requests)  # following the delays is no busy loop


def frame(correlation_id: int) -> bytes:
    return correlation_id.to_bytes(4, "big") + ProduceResponse(throttle_time_ms=3).encode(VERSION)


def sent(queues: InFlightRequests, correlation_id: int, *, written: bool = True) -> ClientRequest:
    request = ClientRequest("1", produce_builder(), correlation_id, True, 0, 1000)
    request.api_version = VERSION
    request.send = NetworkSend("1", [memoryview(b"rest")])
    request.send.completed = written
    queues.add(request)
    return request


def unanswered(queues: InFlightRequests, correlation_id: int) -> None:
    """A request that expects no response has been written."""
    pending = make("1", correlation_id, expect_response=False)
    queues.add(pending)
    queues.complete_unanswered(pending.send)


def test_the_oldest_request_is_the_one_that_is_answered() -> None:
    queues = InFlightRequests(5)
    oldest = sent(queues, 4)
    sent(queues, 5)
    assert queues.request_of("1", frame(4), "b") is oldest
    assert queues.complete(oldest, frame(4)) == ProduceResponse(throttle_time_ms=3)


def test_a_stray_answer_is_dropped_once_whether_or_not_anything_is_in_flight() -> None:
    queues = InFlightRequests(5)
    unanswered(queues, 7)
    unanswered(queues, 8)
    assert queues.request_of("1", frame(7), "b") is None
    pending = sent(queues, 9)
    assert queues.complete(pending, frame(8)) is None
    with pytest.raises(RemoteProtocolError):
        queues.complete(pending, frame(8))


def test_an_answer_to_nothing_or_to_half_a_request_is_a_protocol_error() -> None:
    queues = InFlightRequests(5)
    with pytest.raises(RemoteProtocolError, match=r"b sent a response of .* to no request"):
        queues.request_of("1", frame(1), "b")
    sent(queues, 1, written=False)
    with pytest.raises(RemoteProtocolError, match="4 bytes are not sent yet"):
        queues.request_of("1", frame(1), "b")
