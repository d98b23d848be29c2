"""Connections to nodes: version checks, failures, backoff, addresses, and the choice of a node."""

from __future__ import annotations

import pytest
from kproducer_messages import MetadataResponse, ProduceResponse

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.node_connection import NodeConnection
from kproducer.errors import (
    AuthenticationError,
    DisconnectedError,
    NetworkError,
    RemoteProtocolError,
    RequestTimeoutError,
)
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.types import Node
from tests.support.units.client_harness import (
    ALL_APIS,
    NODES,
    Builder,
    Harness,
    api_versions_response,
    metadata_builder,
    produce_builder,
)
from tests.support.units.lookups import OpenLookups, at_once

NODE = NODES[0]
ID = str(NODE.id)


def connection_of(harness: Harness, node: Node) -> NodeConnection:
    connection = harness.client.connections.get(str(node.id))
    assert connection is not None
    return connection


def wait_out_backoff(harness: Harness, node: Node = NODE) -> None:
    harness.clock.advance(harness.client.connections.poll_delay_ms(node, harness.clock.now_ms))


# -- version check ---------------------------------------------------------------------------------------


def test_every_new_connection_is_asked_for_versions_before_anything_else() -> None:
    harness = Harness()
    harness.connect()
    question = harness.selector.last_request()
    assert (question.api_key, question.version) == (18, 5)
    assert question.message.client_software_name == "kproducer"
    assert question.message.client_software_version
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    harness.selector.respond(question, api_versions_response(ALL_APIS))
    harness.poll()
    assert harness.client.ready(NODE, harness.clock.now_ms)
    harness.selector.break_connection(ID)
    harness.poll()
    wait_out_backoff(harness)
    harness.connect()
    assert harness.selector.last_request().api_key == 18


@pytest.mark.parametrize(("ranges", "expected"), [({18: (0, 2)}, 2), ({}, 0)])
def test_a_broker_that_does_not_know_our_question_is_asked_again_on_the_same_connection(
    ranges: dict[int, tuple[int, int]], expected: int
) -> None:
    harness = Harness()
    harness.connect()
    question = harness.selector.last_request()
    refusal = api_versions_response(ranges, error_code=35).encode(0)
    harness.selector.respond_raw(ID, question.correlation_id.to_bytes(4, "big") + refusal)
    harness.poll()
    again = harness.selector.last_request()
    assert (again.api_key, again.version) == (18, expected)
    assert len(harness.selector.attempts) == 1
    harness.selector.respond(again, api_versions_response({0: (0, 7)}))
    harness.poll()
    harness.request()
    assert harness.selector.last_request().version == 7
    assert harness.client.negotiated_versions()[0][ApiKey.API_VERSIONS] == expected


def test_a_broker_that_closes_on_our_question_is_asked_lower_on_the_next_connections() -> None:
    harness = Harness()
    asked = []
    for _ in range(3):
        wait_out_backoff(harness)
        harness.connect()
        asked.append(harness.selector.last_request().version)
        if asked[-1] > 0:
            harness.selector.break_connection(ID)
            harness.poll()
    assert asked == [5, 3, 0]
    harness.selector.respond(harness.selector.last_request(), api_versions_response(ALL_APIS))
    harness.poll()
    assert harness.client.ready(NODE, harness.clock.now_ms)


def test_a_broker_that_closes_on_every_question_is_explained_and_tried_again() -> None:
    harness = Harness()
    for _ in range(3):
        wait_out_backoff(harness)
        harness.connect()
        harness.selector.break_connection(ID)
        harness.poll()
    text = harness.client.connections.last_error(NODE.id)
    assert text is not None
    assert "every version of ApiVersions" in text
    assert harness.updater.disconnects[-1][1].retriable
    wait_out_backoff(harness)
    harness.make_ready()


def test_a_broker_that_refuses_even_version_0_is_an_unsupported_version_error() -> None:
    harness = Harness()
    harness.connect()
    for _ in range(2):
        question = harness.selector.last_request()
        refusal = api_versions_response({}, error_code=35).encode(0)
        harness.selector.respond_raw(ID, question.correlation_id.to_bytes(4, "big") + refusal)
        harness.poll()
    assert isinstance(harness.updater.disconnects[0][1], UnsupportedVersionError)
    assert "host0:9092" in str(harness.client.connections.last_error(0))
    assert ID in harness.selector.closed


def test_garbage_instead_of_versions_ends_the_connection() -> None:
    harness = Harness()
    harness.connect()
    question = harness.selector.last_request()
    harness.selector.respond_raw(ID, question.correlation_id.to_bytes(4, "big") + b"\0\0\x7f\xff\xff\xff")
    harness.poll()
    assert isinstance(harness.updater.disconnects[0][1], RemoteProtocolError)
    assert ID in harness.selector.closed


def test_a_broker_without_a_needed_version_is_a_clear_error_and_no_hang() -> None:
    harness = Harness()
    harness.make_ready(ranges={0: (0, 2), 18: (0, 3)})
    request = harness.request()
    (response,) = harness.poll()
    assert response.request.correlation_id == request.correlation_id
    assert not response.disconnected
    assert not response.was_sent
    assert isinstance(response.unsupported_version, UnsupportedVersionError)
    for words in ("0 to 2", "3 to 9", "host0:9092 (id 0)", "Produce"):
        assert words in str(response.unsupported_version)
    assert harness.client.ready(NODE, harness.clock.now_ms)


def test_a_builder_that_cannot_say_it_in_that_version() -> None:
    class Picky(Builder):
        def build_frame(self, version: int, correlation_id: int, client_id: str | None) -> list[memoryview]:
            raise UnsupportedVersionError("needs a newer broker")

    harness = Harness()
    harness.make_ready()
    harness.request(Picky(produce_builder().message, 3, 9))
    (response,) = harness.poll()
    assert response.unsupported_version is not None


def test_an_internal_request_without_a_common_version_is_told_to_the_updater() -> None:
    harness = Harness()
    harness.make_ready(ranges={0: (0, 9), 18: (0, 3), 3: (99, 100)})
    harness.client.send(NODE.id, metadata_builder(), harness.clock.now_ms, None)
    assert isinstance(harness.updater.failures[0], UnsupportedVersionError)
    assert "too new" in str(harness.updater.failures[0])


def test_versions_are_chosen_per_node_and_per_connection() -> None:
    harness = Harness()
    harness.make_ready(NODES[0], {0: (0, 9), 18: (0, 4)})
    harness.make_ready(NODES[1], {0: (0, 7), 18: (0, 4)})
    harness.request(node=NODES[0])
    harness.request(node=NODES[1])
    assert [r.version for r in harness.selector.requests[-2:]] == [9, 7]
    harness.selector.break_connection("0")
    harness.poll()
    assert [each.ranges[0] for each in harness.client.connections.versions()] == [(0, 7)]
    wait_out_backoff(harness)
    harness.make_ready(NODES[0], {0: (0, 5), 18: (0, 4)})  # downgraded meanwhile
    harness.request(node=NODES[0])
    assert harness.selector.last_request().version == 5


@pytest.mark.parametrize("who", ["peer", "us"])
def test_a_connection_lost_during_the_version_check_is_made_again_after_the_backoff(who: str) -> None:
    harness = Harness()
    harness.connect()
    if who == "peer":
        harness.selector.break_connection(ID)
    else:
        harness.disconnect(NODE)
    harness.poll()
    assert harness.client.in_flight_request_count() == 0
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    assert len(harness.selector.attempts) == 1
    wait_out_backoff(harness)
    harness.make_ready()


def test_a_channel_that_never_becomes_ready_runs_into_the_setup_timeout() -> None:
    harness = Harness(socket_connection_setup_timeout_ms=1000)
    harness.selector.never_ready.add(ID)
    harness.connect()
    assert harness.selector.requests == []
    harness.clock.advance(1201)
    harness.poll()
    assert harness.client.connections.has_failed(NODE)
    assert "socket_connection_setup_timeout_ms" in str(harness.client.connections.last_error(0))
    harness.selector.never_ready.clear()
    wait_out_backoff(harness)
    harness.make_ready()


def test_a_version_question_that_is_never_answered_runs_into_the_request_timeout() -> None:
    harness = Harness(request_timeout_ms=1000, delivery_timeout_ms=5000)
    harness.connect()
    harness.clock.advance(1001)
    harness.poll()
    assert isinstance(harness.updater.disconnects[0][1], RequestTimeoutError)
    assert "ApiVersions" in str(harness.client.connections.last_error(0))
    wait_out_backoff(harness)
    harness.make_ready()


# -- connections ending ----------------------------------------------------------------------------------


def test_a_lost_connection_ends_its_requests_once_each_in_order_and_asks_for_metadata() -> None:
    harness = Harness()
    harness.make_ready()
    harness.make_ready(NODES[1])
    sent = [harness.request() for _ in range(3)]
    harness.request(node=NODES[1])
    harness.selector.break_connection(ID, DisconnectedError("host0:9092 closed the connection"))
    harness.poll()
    harness.poll()
    assert [r.request.correlation_id for r in harness.done] == [r.correlation_id for r in sent]
    assert all(r.disconnected and not isinstance(r.error, RequestTimeoutError) for r in harness.done)
    assert str(harness.done[0].error) == "host0:9092 closed the connection"
    assert [node_id for node_id, _ in harness.updater.disconnects] == [ID]
    assert harness.client.connections.last_error(NODE.id) == "host0:9092 closed the connection"
    assert harness.client.connections.last_errors()[0] == "host0:9092 closed the connection"
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    wait_out_backoff(harness)
    harness.make_ready()
    assert harness.client.connections.last_error(NODE.id) is None


def test_responses_that_came_before_the_end_are_delivered() -> None:
    harness = Harness()
    harness.make_ready()
    harness.request()
    harness.request()
    first = harness.selector.requests[-2]
    harness.selector.respond(first, produce_response())
    harness.selector.break_connection(ID)
    harness.poll()
    assert [r.disconnected for r in harness.done] == [False, True]


def produce_response() -> ProduceResponse:

    return ProduceResponse()


def test_our_own_disconnect_ends_the_requests_in_the_next_poll() -> None:
    harness = Harness()
    harness.make_ready()
    harness.request()
    harness.disconnect(NODE)
    assert harness.done == []
    harness.poll(10_000)
    assert harness.selector.poll_timeouts_ms[-1] == 0
    assert [r.disconnected for r in harness.done] == [True]


def test_a_metadata_request_in_flight_is_reported_as_failed() -> None:
    harness = Harness()
    harness.make_ready()
    harness.client.send(NODE.id, metadata_builder(), harness.clock.now_ms, None)
    harness.selector.break_connection(ID)
    assert harness.poll() == []
    assert len(harness.updater.failures) == 1
    assert len(harness.updater.disconnects) == 1


def test_a_metadata_answer_goes_to_the_updater_only() -> None:
    harness = Harness()
    harness.make_ready()
    harness.client.send(NODE.id, metadata_builder(), harness.clock.now_ms, None)
    harness.selector.respond(harness.selector.last_request(), MetadataResponse(cluster_id="c"))
    assert harness.poll() == []
    assert harness.updater.successes[0].cluster_id == "c"


def test_an_authentication_failure_is_kept_apart_from_a_lost_connection() -> None:
    harness = Harness()
    harness.make_ready()
    harness.request()
    error = AuthenticationError("wrong password")
    harness.selector.break_connection(ID, error)
    harness.poll()
    assert harness.done[0].error is error
    assert harness.updater.disconnects[0][1] is error
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    wait_out_backoff(harness)
    harness.make_ready()


def test_a_connect_that_fails_at_once_is_reported_and_backed_off() -> None:
    harness = Harness()
    harness.selector.fail_at_once.add(ID)
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    assert isinstance(harness.updater.disconnects[0][1], NetworkError)
    assert harness.client.connections.has_failed(NODE)
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    assert len(harness.selector.attempts) == 1
    harness.selector.fail_at_once.clear()
    wait_out_backoff(harness)
    harness.make_ready()


def test_a_name_that_does_not_resolve_is_a_failed_connection() -> None:
    harness = Harness()
    harness.addresses["host0"] = []

    def fail(host: str, port: int) -> list:  # type: ignore[type-arg]
        raise NetworkError(f"could not resolve the host name {host!r}")

    harness.client.connections._begin_lookup = at_once(fail)
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    assert "host0" in str(harness.client.connections.last_error(0))
    assert harness.selector.attempts == []
    harness.client.connections._begin_lookup = at_once(harness.resolve)
    harness.addresses.clear()
    wait_out_backoff(harness)
    harness.make_ready()


def test_every_address_of_a_host_gets_its_turn() -> None:
    harness = Harness()
    harness.addresses["host0"] = ["10.0.0.1", "10.0.0.2", "::1"]
    for _ in range(3):
        wait_out_backoff(harness)
        assert not harness.client.ready(NODE, harness.clock.now_ms)
        harness.selector.break_connection(ID, NetworkError("refused"))
        harness.poll()
    assert [address[0] for _, address, _ in harness.selector.attempts] == ["10.0.0.1", "10.0.0.2", "::1"]
    assert harness.resolved == ["host0"]


def test_a_hanging_connect_ends_at_the_setup_timeout() -> None:
    harness = Harness(socket_connection_setup_timeout_ms=1000)
    harness.selector.hang.add(ID)
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    harness.clock.advance(700)
    harness.poll()
    assert not harness.client.connections.has_failed(NODE)
    harness.clock.advance(600)
    harness.poll()
    assert harness.client.connections.has_failed(NODE)
    assert ID in harness.selector.closed


def test_after_a_fork_nothing_is_usable_and_nothing_was_closed_politely() -> None:
    harness = Harness()
    harness.make_ready()
    harness.client.release_after_fork()
    assert harness.selector.is_closed
    assert harness.selector.closed == []
    assert not harness.client.active


# -- the choice of a node --------------------------------------------------------------------------------


def least_loaded(harness: Harness) -> Node | None:
    return harness.client.connections.least_loaded(harness.clock.now_ms)


def test_the_node_with_the_fewest_requests_in_flight() -> None:
    harness = Harness()
    for node, load in zip(NODES, (2, 1, 3), strict=True):
        harness.make_ready(node)
        for _ in range(load):
            harness.request(node=node)
    assert least_loaded(harness) == NODES[1]


def test_equal_nodes_share_the_work() -> None:
    harness = Harness()
    for node in NODES:
        harness.make_ready(node)
    assert {least_loaded(harness) for _ in range(60)} == set(NODES)


def test_a_ready_node_before_a_connecting_one_before_one_without_connection() -> None:
    harness = Harness()
    harness.connect(NODES[1])
    assert least_loaded(harness) == NODES[1]
    harness.make_ready(NODES[2])
    harness.request(node=NODES[2])
    assert least_loaded(harness) == NODES[2]


def test_a_throttled_node_is_avoided() -> None:
    harness = Harness(NODES[:2])
    harness.make_ready(NODES[0], throttle_time_ms=0)
    connection_of(harness, NODES[0]).throttle(harness.clock.now_ms + 1000)
    assert least_loaded(harness) == NODES[1]


def test_a_full_node_is_avoided() -> None:
    harness = Harness(NODES[:2], max_in_flight_requests_per_connection=1)
    harness.make_ready(NODES[0])
    harness.request()
    assert least_loaded(harness) == NODES[1]


def test_every_node_is_tried_in_a_round_before_any_is_tried_again() -> None:
    harness = Harness()
    tried = []
    for _ in range(6):
        harness.clock.advance(2000)
        node = least_loaded(harness)
        assert node is not None
        tried.append(node.id)
        harness.client.ready(node, harness.clock.now_ms)
        harness.selector.break_connection(str(node.id), NetworkError("refused"))
        harness.poll()
    assert sorted(tried[:3]) == [0, 1, 2]
    assert tried[:3] == tried[3:]


def test_no_node_while_all_are_backing_off_or_none_is_known() -> None:
    harness = Harness(NODES[:1])
    harness.client.ready(NODE, harness.clock.now_ms)
    harness.selector.break_connection(ID, NetworkError("refused"))
    harness.poll()
    assert least_loaded(harness) is None
    delay = min(
        harness.client.connections.poll_delay_ms(node, harness.clock.now_ms) for node in harness.updater.nodes
    )
    assert 0 < delay <= 60
    harness.clock.advance(delay)
    assert least_loaded(harness) == NODE
    harness.updater.nodes.clear()
    assert least_loaded(harness) is None


def test_a_silent_node_is_named_with_what_it_is_waited_for() -> None:
    harness = Harness()
    assert harness.client.connections.last_errors() == []
    harness.client.ready(NODE, harness.clock.now_ms)
    assert "still connecting to host0:9092" in " ".join(harness.client.connections.last_errors())
    harness.connect()
    assert "host0:9092" in " ".join(harness.client.connections.last_errors())
    assert "not answered ApiVersions" in " ".join(harness.client.connections.last_errors())
    harness.selector.respond(harness.selector.last_request(), api_versions_response(ALL_APIS))
    harness.poll()
    assert harness.client.connections.last_errors() == []


def test_why_the_last_connection_ended_is_told_until_this_one_is_answered() -> None:
    harness = Harness()
    harness.make_ready()
    harness.request()
    harness.selector.break_connection(ID, DisconnectedError("host0:9092 does not like this client"))
    harness.poll()
    wait_out_backoff(harness)
    harness.make_ready()
    harness.request()
    (unanswered,) = harness.client.connections.last_errors()
    assert "has not answered 1 request(s) yet" in unanswered
    assert "host0:9092 does not like this client" in unanswered
    harness.selector.respond(harness.selector.last_request(), produce_response())
    harness.request()
    harness.poll()
    (unanswered,) = harness.client.connections.last_errors()
    assert "does not like" not in unanswered


def test_a_cluster_that_is_down_is_one_warning_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    caplog.set_level("INFO")
    end_ms = harness.clock.now_ms + 59_000
    attempts = 0
    while harness.clock.now_ms < end_ms:
        for node in NODES:
            assert not harness.client.ready(node, harness.clock.now_ms)
            if not harness.client.connections.has_failed(node):
                harness.selector.break_connection(str(node.id), NetworkError(f"{node.host}: refused"))
                attempts += 1
        harness.poll()
        harness.clock.advance(500)
    assert attempts > 20 * len(NODES)
    levels = [record.levelname for record in caplog.records]
    assert levels.count("WARNING") == 1
    assert levels.count("INFO") <= len(NODES)
    assert "No broker can be reached" in caplog.text
    assert NODE.host in caplog.text


# -- host names ------------------------------------------------------------------------------------------


def test_a_slow_name_keeps_no_other_connection_waiting() -> None:
    lookups = OpenLookups()
    harness = Harness(begin_lookup=lookups)
    first, other = NODES[:2]
    assert not harness.client.ready(first, harness.clock.now_ms)
    assert not harness.client.ready(other, harness.clock.now_ms)
    assert harness.selector.attempts == []
    assert "name service" in " ".join(harness.client.connections.last_errors())
    lookups.find(other.host, "10.0.0.2")
    harness.poll()
    assert [attempt[0] for attempt in harness.selector.attempts] == [str(other.id)]
    lookups.find(first.host, "10.0.0.1")
    harness.poll()
    assert [attempt[1] for attempt in harness.selector.attempts[1:]] == [("10.0.0.1", 9092)]


def test_a_lookup_has_its_time_and_is_used_when_it_ends_later() -> None:
    lookups = OpenLookups()
    harness = Harness(begin_lookup=lookups, socket_connection_setup_timeout_ms=100)
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    harness.clock.advance(200)
    harness.poll()
    assert harness.client.connections.has_failed(NODE)
    assert "name service" in str(harness.client.connections.last_error(NODE.id))
    lookups.find(NODE.host, "10.0.0.1")
    harness.poll()
    assert harness.selector.attempts == []
    wait_out_backoff(harness)
    harness.make_ready()
    assert lookups.begun == [NODE.host]


def test_a_name_that_fails_while_it_is_waited_for_is_a_failed_connection() -> None:
    lookups = OpenLookups()
    harness = Harness(begin_lookup=lookups)
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    lookups.fail(NODE.host)
    harness.poll()
    assert NODE.host in str(harness.client.connections.last_error(NODE.id))
    assert isinstance(harness.updater.disconnects[0][1], NetworkError)


def test_disconnecting_and_closing_do_not_wait_for_a_lookup() -> None:
    lookups = OpenLookups()
    harness = Harness(begin_lookup=lookups)
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    harness.disconnect(NODE)
    assert connection_of(harness, NODE).is_disconnected
    harness.poll()
    wait_out_backoff(harness)
    assert not harness.client.ready(NODE, harness.clock.now_ms)
    harness.client.close()
    assert harness.selector.attempts == []


# -- nodes that move -------------------------------------------------------------------------------------


def test_a_node_that_moves_is_asked_at_its_new_address_when_the_old_one_has_answered() -> None:
    harness = Harness()
    harness.make_ready()
    harness.request()
    moved = harness.updater.nodes[0] = NODE._replace(host="elsewhere")
    assert not harness.client.ready(moved, harness.clock.now_ms)
    harness.poll()
    assert not harness.client.connections.has_failed(NODE)  # it is still to answer
    harness.selector.respond(harness.selector.last_request(), ProduceResponse())
    harness.poll()
    assert [response.disconnected for response in harness.done] == [False]
    harness.poll()
    wait_out_backoff(harness)
    harness.make_ready(moved)
    assert harness.selector.attempts[-1][1][0] == "elsewhere"


def test_an_idle_connection_to_where_the_node_was_ends_at_once() -> None:
    harness = Harness()
    harness.make_ready()
    moved = harness.updater.nodes[0] = NODE._replace(port=9999)
    assert not harness.client.ready(moved, harness.clock.now_ms)
    harness.poll(60_000)
    assert harness.selector.poll_timeouts_ms[-1] == 0
    assert harness.client.connections.has_failed(moved)


def test_an_address_that_metadata_does_not_name_ends_no_connection() -> None:
    """A coordinator that was found before its broker moved."""
    harness = Harness()
    harness.make_ready()
    assert harness.client.ready(NODE._replace(host="former"), harness.clock.now_ms)
    harness.poll()
    assert harness.client.ready(NODE, harness.clock.now_ms)


def test_metadata_that_names_another_address_is_acted_on() -> None:
    harness = Harness()
    harness.make_ready()
    harness.updater.nodes[0] = NODE._replace(host="elsewhere")
    harness.client.send(NODE.id, metadata_builder(), harness.clock.now_ms, None)
    harness.poll()
    harness.selector.respond(harness.selector.last_request(), MetadataResponse())
    harness.poll()
    assert harness.client.connections.has_failed(NODE)
    assert "another address" in str(harness.client.connections.last_error(NODE.id))
