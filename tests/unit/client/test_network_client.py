"""Requests to ready nodes and their answers: matching, limits, timeouts, throttling, closing."""

from __future__ import annotations

import logging
import struct
import traceback
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kproducer_messages import MetadataResponse, ProduceResponse
from kproducer_messages.metadata_response import MetadataResponseBroker

from kproducer._core.client import network_client
from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.client_request import ClientResponse
from kproducer._core.client.connections import LONGEST_THROTTLE_MS
from kproducer._core.client.metadata import Metadata
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.clock import NEVER_MS
from kproducer._core.security import sasl_settings
from kproducer._core.security.sasl_mechanisms import PlainMechanism, SaslMechanism
from kproducer.errors import IllegalStateError, LocalProtocolError, RequestTimeoutError
from tests.support.manual_clock import ManualClock
from tests.support.units.client_harness import (
    NODES,
    Builder,
    Harness,
    metadata_builder,
)

NODE = NODES[0]
ID = str(NODE.id)


def respond(harness: Harness, **fields: int) -> None:
    harness.selector.respond(harness.selector.last_request(), ProduceResponse(**fields))


def test_a_request_to_a_node_that_is_not_ready_is_refused_locally() -> None:
    harness = Harness()
    with pytest.raises(IllegalStateError, match="not ready"):
        harness.request()
    harness.connect()
    with pytest.raises(IllegalStateError, match="not ready"):
        harness.request()
    assert [request.api_key for request in harness.selector.requests] == [18]


def test_a_request_and_its_response() -> None:
    harness = Harness()
    harness.make_ready()
    request = harness.request()
    sent = harness.selector.last_request()
    assert (sent.node_id, sent.api_key, sent.version, sent.client_id) == (ID, 0, 9, "tester")
    assert sent.correlation_id == request.correlation_id
    assert harness.client.in_flight_request_count() == 1
    harness.clock.advance(7)
    respond(harness, throttle_time_ms=0)
    (response,) = harness.poll()
    assert harness.done == [response]
    assert response.body == ProduceResponse()
    assert (response.request.api_version, response.latency_ms, response.request.destination) == (9, 7, ID)
    assert not response.disconnected
    assert response.error is None
    assert harness.client.in_flight_request_count() == 0
    assert harness.poll() == []


def test_several_responses_of_one_poll_are_matched_in_order() -> None:
    harness = Harness()
    harness.make_ready()
    requests = [harness.request() for _ in range(5)]
    for sent in harness.selector.requests[-5:]:
        harness.selector.respond(sent, ProduceResponse())
    harness.poll()
    assert [r.request.correlation_id for r in harness.done] == [r.correlation_id for r in requests]


def test_the_in_flight_limit_and_a_full_socket_make_the_node_unready() -> None:
    harness = Harness(max_in_flight_requests_per_connection=2)
    harness.make_ready()
    harness.selector.full.add(ID)
    harness.request()
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    harness.selector.full.clear()
    harness.selector.finish_sends()
    harness.poll()
    assert harness.client.ready(NODE, harness.clock.now_ms)
    harness.request()
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    with pytest.raises(IllegalStateError):
        harness.request()


def test_a_due_metadata_update_goes_first() -> None:
    harness = Harness()
    harness.make_ready()
    harness.updater.due = True
    assert not harness.client.is_ready(NODE, harness.clock.now_ms)
    assert harness.client.connections.can_send(ID, harness.clock.now_ms)


@pytest.mark.parametrize("full", [False, True])
def test_without_expected_response_a_request_ends_when_it_is_written(full: bool) -> None:
    harness = Harness()
    harness.make_ready()
    if full:
        harness.selector.full.add(ID)
    first = harness.request(expect_response=False)
    assert harness.done == []
    if full:
        assert harness.poll() == []
        harness.selector.full.clear()
        harness.selector.finish_sends()
    else:
        harness.request(expect_response=False)
    harness.poll()
    assert harness.done[0].request.correlation_id == first.correlation_id
    assert harness.done[0].body is None
    assert not harness.done[0].disconnected
    assert len(harness.done) == (1 if full else 2)
    assert harness.client.in_flight_request_count() == 0
    assert harness.poll() == []


def test_a_written_request_without_response_does_not_wait_for_the_poll_timeout() -> None:
    harness = Harness()
    harness.make_ready()
    harness.request(expect_response=False)
    harness.poll(10_000)
    assert harness.selector.poll_timeouts_ms[-1] == 0


def test_an_answer_to_a_request_without_response_is_let_pass_once() -> None:
    harness = Harness()
    harness.make_ready()
    harness.request(expect_response=False)
    unanswered = harness.selector.last_request()
    expected = harness.request()
    harness.selector.respond(unanswered, ProduceResponse())
    respond(harness)
    harness.poll()
    assert [r.request.correlation_id for r in harness.done][1] == expected.correlation_id
    assert harness.done[1].body is not None
    harness.selector.respond(unanswered, ProduceResponse())
    harness.poll()
    assert len(harness.updater.disconnects) == 1


def wrong_correlation_id(harness: Harness) -> None:
    sent = harness.selector.last_request()
    harness.selector.respond(sent, ProduceResponse(), correlation_id=sent.correlation_id + 1)


def another_apis_body(harness: Harness) -> None:
    sent = harness.selector.last_request()
    body = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="h", port=1)]).encode(9)
    harness.selector.respond_raw(ID, struct.pack(">ib", sent.correlation_id, 0) + body)


def empty_frame(harness: Harness) -> None:
    harness.selector.respond_raw(ID, b"")


def truncated(harness: Harness) -> None:
    sent = harness.selector.last_request()
    harness.selector.respond_raw(ID, struct.pack(">i", sent.correlation_id) + b"\0\x7f")


@pytest.mark.parametrize("lie", [wrong_correlation_id, another_apis_body, empty_frame, truncated])
def test_a_wrong_response_ends_the_connection_and_its_requests_retriably(lie) -> None:  # type: ignore[no-untyped-def]
    harness = Harness()
    harness.make_ready()
    harness.make_ready(NODES[1])
    other = harness.request(node=NODES[1])
    mine = [harness.request(), harness.request()]
    lie(harness)
    respond(harness)  # right or not: the stream is out of step
    harness.poll()
    assert ID in harness.selector.closed
    assert [r.request.correlation_id for r in harness.done] == [r.correlation_id for r in mine]
    for response in harness.done:
        assert response.disconnected
        assert response.body is None
        assert response.error is not None
        assert response.error.retriable
    assert harness.client.connections.last_error(NODE.id)
    assert harness.client.in_flight_request_count() == 1
    assert other.destination == "1"


def test_a_response_that_nothing_asked_for_ends_the_connection() -> None:
    harness = Harness()
    harness.make_ready()
    harness.request()
    respond(harness)
    respond(harness)
    harness.poll()
    assert len(harness.done) == 1
    assert not harness.done[0].disconnected
    assert "to no request" in str(harness.updater.disconnects[0][1])
    assert not harness.client.is_ready(NODE, harness.clock.now_ms)


def test_a_request_timeout_counts_from_the_sending_and_ends_the_connection() -> None:
    harness = Harness(request_timeout_ms=1000, delivery_timeout_ms=5000)
    harness.make_ready()
    harness.clock.advance(900)
    request = harness.request()
    second = harness.request()
    harness.poll(60_000)
    assert 0 < harness.selector.poll_timeouts_ms[-1] <= 1001
    harness.clock.advance(1000)
    assert harness.poll() == []
    harness.clock.advance(1)
    harness.poll()
    assert [r.request.correlation_id for r in harness.done] == [request.correlation_id, second.correlation_id]
    assert all(r.disconnected and isinstance(r.error, RequestTimeoutError) for r in harness.done)
    assert isinstance(harness.done[0].error, RequestTimeoutError)
    text = str(harness.done[0].error)
    for words in ("host0:9092", "Produce", "1000 ms", "request_timeout_ms"):
        assert words in text
    assert ID in harness.selector.closed
    assert harness.client.connections.poll_delay_ms(NODE, harness.clock.now_ms) > 0
    assert harness.client.connections.has_failed(NODE)


def test_a_broker_that_sends_a_byte_a_second_does_not_put_the_timeout_off() -> None:
    # Partial frames never reach the client; all it sees is polls that bring nothing.
    harness = Harness(request_timeout_ms=3000, delivery_timeout_ms=5000)
    harness.make_ready()
    harness.request()
    for _ in range(3):
        harness.clock.advance(1000)
        assert harness.poll() == []
    harness.clock.advance(1)
    assert isinstance(harness.poll()[0].error, RequestTimeoutError)


def test_responses_that_wait_in_the_socket_after_a_long_pause_are_not_timed_out() -> None:
    harness = Harness(request_timeout_ms=1000, delivery_timeout_ms=5000)
    harness.make_ready()
    harness.request()
    respond(harness)
    harness.clock.advance(60_000)  # a slow callback held the thread up
    (response,) = harness.poll()
    assert response.body is not None


def test_throttling_makes_one_node_unready_and_gives_its_requests_more_time() -> None:
    harness = Harness(request_timeout_ms=1000, delivery_timeout_ms=5000)
    harness.make_ready()
    harness.make_ready(NODES[1])
    harness.request()
    harness.request()
    harness.selector.respond(harness.selector.requests[-2], ProduceResponse(throttle_time_ms=500))
    harness.poll()
    now = harness.clock.now_ms
    assert not harness.client.ready(NODE, now)
    assert harness.client.ready(NODES[1], now)
    assert harness.client.connections.poll_delay_ms(NODE, now) == 500
    with pytest.raises(IllegalStateError):
        harness.request()
    harness.clock.advance(1001)
    assert harness.poll() == []
    assert harness.client.ready(NODE, harness.clock.now_ms)
    harness.clock.advance(500)
    assert isinstance(harness.poll()[0].error, RequestTimeoutError)


def test_a_throttle_time_beyond_reason_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    """One broken answer would otherwise shut the node out for 24 days, and keep its requests as long."""
    harness = Harness(request_timeout_ms=1000, delivery_timeout_ms=5000)
    harness.make_ready()
    for _ in range(3):
        harness.request()
    for sent in harness.selector.requests[-3:-1]:
        harness.selector.respond(sent, ProduceResponse(throttle_time_ms=2**31 - 1))
    harness.poll()
    assert harness.client.connections.poll_delay_ms(NODE, harness.clock.now_ms) == LONGEST_THROTTLE_MS
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert "throttle time of 2147483647 ms limited to 300000 ms" in caplog.text
    harness.clock.advance(LONGEST_THROTTLE_MS)
    assert harness.client.ready(NODE, harness.clock.now_ms)
    harness.clock.advance(1000)
    assert harness.poll() == []
    harness.clock.advance(1)
    assert isinstance(harness.poll()[0].error, RequestTimeoutError)


def test_old_versions_were_throttled_by_the_broker_already() -> None:
    harness = Harness()
    harness.make_ready(ranges={0: (0, 5), 3: (0, 5), 18: (0, 4)})
    harness.request()
    respond(harness, throttle_time_ms=500)
    harness.poll()
    assert harness.client.ready(NODE, harness.clock.now_ms)


def test_what_a_callback_raises_comes_out_of_poll_after_all_were_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def explode(response: ClientResponse) -> None:
        raise RuntimeError("a bug")

    harness = Harness()
    harness.make_ready()
    harness.request(callback=explode)
    harness.request()
    for sent in harness.selector.requests[-2:]:
        harness.selector.respond(sent, ProduceResponse())
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError, match="a bug"):
        harness.poll()
    assert len(harness.done) == 1
    assert "a bug" in caplog.text


class Unencodable:
    API_KEY, MIN_VERSION, MAX_VERSION = 0, 3, 9

    def size(self, version: int) -> int:
        raise LocalProtocolError("a field does not fit")


def test_a_message_that_cannot_be_encoded_ends_unsent() -> None:
    harness = Harness()
    harness.make_ready()
    harness.request(Builder(Unencodable()))
    (response,) = harness.poll()
    assert isinstance(response.error, LocalProtocolError)
    assert not response.disconnected
    assert not response.was_sent
    assert response.unsupported_version is None
    assert harness.client.ready(NODE, harness.clock.now_ms)
    assert harness.client.in_flight_request_count() == 0


def test_correlation_ids_are_distinct_and_wrap_without_going_negative() -> None:
    harness = Harness()
    harness.make_ready()
    harness.client._correlation_id = 2**31 - 2
    ids = [harness.request().correlation_id for _ in range(4)]
    assert ids == [2**31 - 2, 2**31 - 1, 0, 1]


def test_the_poll_timeout_is_the_shortest_of_what_may_happen_by_itself() -> None:
    harness = Harness(socket_connection_setup_timeout_ms=500)
    harness.poll(NEVER_MS)
    assert harness.selector.poll_timeouts_ms[-1] == NEVER_MS
    harness.selector.hang.add(ID)
    harness.client.ready(NODE, harness.clock.now_ms)
    harness.poll(NEVER_MS)
    assert harness.selector.poll_timeouts_ms[-1] <= 601
    harness.poll(3)
    assert harness.selector.poll_timeouts_ms[-1] == 3


def test_versions_really_used_are_told_by_node() -> None:
    harness = Harness()
    harness.make_ready()
    harness.make_ready(NODES[1], {0: (0, 7), 3: (0, 9), 18: (0, 4)})
    harness.request(node=NODES[1])
    harness.request(metadata_builder(), node=NODES[0])
    assert harness.client.negotiated_versions() == {
        0: {ApiKey.API_VERSIONS: 5, ApiKey.METADATA: 13},
        1: {ApiKey.API_VERSIONS: 5, ApiKey.PRODUCE: 7},
    }


def test_closing_ends_what_is_in_flight_and_refuses_what_comes_after() -> None:
    harness = Harness()
    harness.make_ready()
    harness.request()
    harness.client.close()
    harness.client.close()
    assert harness.selector.is_closed
    assert [r.disconnected for r in harness.done] == [True]
    assert not harness.client.active
    with pytest.raises(IllegalStateError):
        harness.request()
    with pytest.raises(IllegalStateError):
        harness.poll()


def test_wakeup_reaches_the_selector() -> None:
    harness = Harness()
    harness.client.wakeup()
    assert harness.selector.wakeups == 1


@settings(max_examples=150)
@given(st.lists(st.sampled_from(["send", "respond", "lie", "break", "wait", "poll", "ready"])), st.booleans())
def test_whatever_happens_each_request_ends_exactly_once_and_in_order(
    steps: list[str], expect_response: bool
) -> None:
    harness = Harness(request_timeout_ms=1000, delivery_timeout_ms=5000)
    harness.make_ready()
    sent: list[int] = []
    for step in steps:
        now = harness.clock.now_ms
        waiting = [
            request
            for request in harness.selector.requests
            if request.correlation_id in sent
            and request.correlation_id not in [r.request.correlation_id for r in harness.done]
        ]
        if step == "send" and harness.client.is_ready(NODE, now):
            sent.append(harness.request(expect_response=expect_response).correlation_id)
        elif step == "respond" and waiting:
            harness.selector.respond(waiting[0], ProduceResponse())
            harness.poll()
        elif step == "lie" and harness.client.is_ready(NODE, now):
            harness.selector.respond_raw(ID, b"\x7f" * 9)
        elif step == "break" and harness.client.is_ready(NODE, now):
            harness.selector.break_connection(ID)
            harness.poll()
        elif step == "wait":
            harness.clock.advance(700)
        elif step == "ready" and harness.client.connections.poll_delay_ms(NODE, now) == 0:
            harness.make_ready()
        harness.poll()
    harness.client.close()
    assert [response.request.correlation_id for response in harness.done] == sent
    assert harness.client.in_flight_request_count() == 0


def test_credentials_that_arrive_end_the_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    wakeups = []

    def new_mechanism(config: ProducerConfig, wakeup: Callable[[], object]) -> SaslMechanism:
        wakeups.append(wakeup)
        return PlainMechanism("alice", "secret")

    monkeypatch.setattr(sasl_settings, "sasl_mechanism_of", new_mechanism)
    config = ProducerConfig(bootstrap_servers="b1:9092", security_protocol="SASL_PLAINTEXT")
    metadata = Metadata(config)
    client = network_client.new_network_client(config, metadata, ManualClock())
    client.close()
    metadata.close()
    assert wakeups == [client.wakeup]


def test_no_local_variable_has_the_private_key_if_the_constructor_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_client, "BackgroundResolver", None)
    with pytest.raises(TypeError) as caught:
        Harness(security_protocol="SSL", ssl_keystore_key="PRIVATE")
    for frame, _ in traceback.walk_tb(caught.tb):
        if frame.f_globals["__name__"].startswith("kproducer."):
            assert "PRIVATE" not in repr(frame.f_locals)
