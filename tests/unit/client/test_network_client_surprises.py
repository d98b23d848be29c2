"""What no broker should do and no code of ours should: each costs one connection, and no request its end."""

from __future__ import annotations

from typing import Any

import pytest
from kproducer_messages import ProduceResponse

from kproducer._core.client.node_connection import NodeConnection
from kproducer.errors import IllegalStateError
from tests.support.units.client_harness import ALL_APIS, NODES, Harness, api_versions_response

NODE, OTHER = NODES[0], NODES[1]
ID, OTHER_ID = str(NODE.id), str(OTHER.id)


def test_an_answer_to_a_request_that_is_half_written_ends_the_connection() -> None:
    """Believing it would give the records' buffers to others while the socket still reads them."""
    harness = Harness()
    harness.make_ready()
    template = harness.request()
    answer = harness.selector.last_request()
    harness.selector.respond(answer, ProduceResponse())
    harness.poll()
    harness.selector.full.add(ID)
    request = harness.request()
    harness.selector.respond(answer, ProduceResponse(), correlation_id=request.correlation_id)
    harness.poll()
    assert [r.request.correlation_id for r in harness.done] == [
        template.correlation_id,
        request.correlation_id,
    ]
    response = harness.done[-1]
    assert response.disconnected
    assert response.body is None
    assert response.error is not None
    assert "not sent yet" in str(response.error)
    assert harness.selector.closed == [ID]


def test_a_version_range_upside_down_ends_the_connection_and_the_next_one_is_asked_afresh() -> None:
    harness = Harness()
    harness.connect()
    for attempt in range(1, 4):
        question = harness.selector.last_request()
        harness.selector.respond(question, api_versions_response({**ALL_APIS, 0: (9, 5)}))
        harness.poll()
        assert harness.selector.closed == [ID] * attempt
        assert "invalid range for Produce: versions 9 to 5" in str(harness.client.connections.last_error(ID))
        delay_ms = harness.client.connections.poll_delay_ms(NODE, harness.clock.now_ms)
        assert delay_ms > 0
        harness.clock.advance(delay_ms)
        harness.connect()
    harness.selector.respond(harness.selector.last_request(), api_versions_response(ALL_APIS))
    harness.poll()
    assert harness.client.connections.can_send(ID, harness.clock.now_ms)
    assert harness.client.connections.last_error(ID) is None


def test_a_bug_met_in_one_answer_ends_that_connection_and_no_other_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = Harness()
    harness.make_ready()
    harness.make_ready(OTHER)
    fine = harness.request(node=OTHER)
    harness.selector.respond(harness.selector.last_request(OTHER_ID), ProduceResponse())
    unlucky = harness.request()
    asked = harness.selector.last_request(ID)
    throttle = harness.client.connections.throttle

    def stumble(connection: NodeConnection, *arguments: Any) -> None:
        if connection.id == ID:
            raise ZeroDivisionError("a bug")
        throttle(connection, *arguments)

    harness.client.connections.throttle = stumble  # type: ignore[method-assign,assignment]
    harness.selector.respond(asked, ProduceResponse(throttle_time_ms=1))
    harness.poll()
    assert [r.request.correlation_id for r in harness.done] == [fine.correlation_id, unlucky.correlation_id]
    assert harness.selector.closed == [ID]
    assert "a bug" in caplog.text


def test_requests_that_ended_are_told_although_the_rest_of_the_poll_fails() -> None:
    harness = Harness()
    harness.make_ready()
    request = harness.request()
    harness.selector.respond(harness.selector.last_request(), ProduceResponse())

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    harness.client._in_flight.next_expiry_ms = 0
    harness.client._handle_request_timeouts = fail  # type: ignore[method-assign,assignment]
    with pytest.raises(ZeroDivisionError):
        harness.poll()
    assert [r.request.correlation_id for r in harness.done] == [request.correlation_id]


def test_a_send_that_fails_unexpectedly_leaves_no_connection_that_reads_its_buffers() -> None:
    harness = Harness()
    harness.make_ready()
    earlier = harness.request()

    def fail(*_: Any) -> bool:
        raise IllegalStateError("half of it may be written")

    harness.selector.send = fail  # type: ignore[method-assign,assignment]
    with pytest.raises(IllegalStateError):
        harness.request()
    assert harness.selector.closed == [ID]
    harness.poll()
    assert [(r.request.correlation_id, r.disconnected) for r in harness.done] == [
        (earlier.correlation_id, True)
    ]
