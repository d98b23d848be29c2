"""A frame answers the oldest request in flight, or one that expected no answer, or nothing at all."""

from __future__ import annotations

import pytest
from kproducer_messages import ProduceResponse

from kproducer.client.client_request import ClientRequest
from kproducer.client.in_flight_requests import InFlightRequest, InFlightRequests
from kproducer.client.response_correlation import ResponseCorrelation
from kproducer.client.unanswered_requests import UnansweredRequests
from kproducer.errors import RemoteProtocolError
from kproducer.network.network_receive import NetworkReceive
from kproducer.network.network_send import NetworkSend
from tests.support.units.client_harness import produce_builder

VERSION = 8


def frame(correlation_id: int) -> NetworkReceive:
    body = ProduceResponse(throttle_time_ms=3).encode(VERSION)
    return NetworkReceive("1", correlation_id.to_bytes(4, "big") + body)


class World:
    def __init__(self) -> None:
        self.in_flight = InFlightRequests(5)
        self.unanswered = UnansweredRequests()
        self.correlation = ResponseCorrelation(self.in_flight, self.unanswered)

    def send(self, correlation_id: int, *, written: bool = True) -> InFlightRequest:
        request = ClientRequest("1", produce_builder(), correlation_id, "c", 0, True, 1000, None)
        send = NetworkSend("1", [memoryview(b"rest")])
        send.completed = written
        pending = InFlightRequest(request, VERSION, send, False, 0)
        self.in_flight.add(pending)
        return pending


def test_the_oldest_request_is_the_one_that_is_answered() -> None:
    world = World()
    oldest = world.send(4)
    world.send(5)
    assert world.correlation.request_of(frame(4), "b") is oldest
    assert world.correlation.parse(frame(4), oldest) == ProduceResponse(throttle_time_ms=3)


def test_a_stray_answer_is_dropped_once_whether_or_not_anything_is_in_flight() -> None:
    world = World()
    world.unanswered.add("1", 7)
    world.unanswered.add("1", 8)
    assert world.correlation.request_of(frame(7), "b") is None
    pending = world.send(9)
    assert world.correlation.parse(frame(8), pending) is None
    with pytest.raises(RemoteProtocolError):
        world.correlation.parse(frame(8), pending)


def test_an_answer_to_nothing_or_to_half_a_request_is_a_protocol_error() -> None:
    world = World()
    with pytest.raises(RemoteProtocolError, match=r"b sent a response of .* nothing asked for"):
        world.correlation.request_of(frame(1), "b")
    world.send(1, written=False)
    with pytest.raises(RemoteProtocolError, match="4 bytes were not sent yet"):
        world.correlation.request_of(frame(1), "b")
