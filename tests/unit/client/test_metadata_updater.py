"""Metadata is asked for, one question at a time, from a node that can answer; from the start if need be."""

from __future__ import annotations

import logging
import random
import struct
from functools import partial
from typing import Any

import pytest
from kproducer_messages import MetadataResponse
from kproducer_messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from kproducer._core.client.client_request import ClientResponse
from kproducer._core.client.metadata import Metadata
from kproducer._core.client.metadata_updater import MetadataUpdater
from kproducer._core.client.network_client import NetworkClient
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.network.host_resolver import ResolvedAddress
from kproducer._core.runtime.clock import NEVER_MS
from kproducer.errors import (
    AuthenticationError,
    BootstrapResolutionError,
    DisconnectedError,
    NetworkError,
)
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.errors.internal_errors import IdleDisconnectError
from kproducer.types import Node
from tests.support.manual_clock import ManualClock
from tests.support.units.client_harness import ALL_APIS, api_versions_response
from tests.support.units.lookups import at_once
from tests.support.units.mock_selector import MockSelector, SentRequest

BROKERS = {1: ("b1", 9092), 2: ("b2", 9092)}


def metadata_response(brokers: dict[int, tuple[str, int]] | None = None, **fields: Any) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=i, host=host, port=port)
            for i, (host, port) in (BROKERS if brokers is None else brokers).items()
        ],
        topics=[
            MetadataResponseTopic(
                name="t", partitions=[MetadataResponsePartition(partition_index=0, leader_id=1)]
            )
        ],
        cluster_id="cluster",
        **fields,
    )


class World:
    """A client with real metadata over a mock selector."""

    def __init__(self, servers: tuple[str, ...] = ("boot1:9092", "boot2:9092"), **settings: Any) -> None:
        self.clock = ManualClock()
        self.selector = MockSelector(self.clock)
        self._answered: list[SentRequest] = []
        config = ProducerConfig(bootstrap_servers=servers, **settings)
        self.metadata = Metadata(config, random=random.Random(1))
        self.metadata.bootstrap([(server.split(":")[0], 9092) for server in servers])
        self.metadata.add("t", self.clock.now_ms)
        self.client = NetworkClient(
            self.selector,
            partial(MetadataUpdater, self.metadata, config),
            config,
            self.clock,
            begin_lookup=at_once(lambda host, port: [ResolvedAddress(2, (host, port))]),
            random=random.Random(1),
        )

    def poll(self, timeout_ms: int = 60_000) -> list[ClientResponse]:
        return self.client.poll(timeout_ms, self.clock.now_ms)

    @property
    def waited_ms(self) -> int:
        return self.selector.poll_timeouts_ms[-1]

    def answer_versions(self) -> None:
        for request in self.selector.requests:
            if request.api_key == 18 and request not in self._answered:
                self._answered.append(request)
                self.selector.respond(request, api_versions_response(ALL_APIS))

    def until_asked(self, polls: int = 20) -> SentRequest:
        """Poll, letting time pass as the client asks for, until a new metadata request is out."""
        before = len(self.metadata_requests)
        for _ in range(polls):
            self.poll()
            self.answer_versions()
            if len(self.metadata_requests) > before:
                return self.metadata_requests[-1]
            if not self.selector.disconnected:
                self.clock.advance(min(self.waited_ms, 1000))
        raise AssertionError("no metadata request was sent")

    @property
    def metadata_requests(self) -> list[SentRequest]:
        return [request for request in self.selector.requests if request.api_key == 3]

    def update(self, response: MetadataResponse | None = None) -> None:
        self.selector.respond(self.until_asked(), response or metadata_response())
        self.poll()


def test_the_first_update_connects_to_one_bootstrap_server_and_asks_for_the_topics() -> None:
    world = World()
    request = world.until_asked()
    assert len(world.selector.attempts) == 1
    assert [topic.name for topic in request.message.topics] == ["t"]
    assert request.message.allow_auto_topic_creation
    assert not world.client._updater.is_update_due(world.clock.now_ms)
    world.selector.respond(request, metadata_response())
    world.poll()
    assert set(world.metadata.snapshot.nodes) == {1, 2}
    world.poll(NEVER_MS)
    assert world.waited_ms > 100_000
    assert len(world.metadata_requests) == 1


def test_while_connecting_or_waiting_for_the_answer_the_poll_is_not_cut_short() -> None:
    world = World(socket_connection_setup_timeout_ms=10_000)
    world.poll(NEVER_MS)
    assert world.waited_ms > 1000
    world.until_asked()
    world.poll(NEVER_MS)
    assert world.waited_ms > 1000
    assert len(world.metadata_requests) == 1


def test_the_next_update_is_asked_of_a_broker_when_the_age_is_reached() -> None:
    world = World()
    world.update()
    world.clock.advance(300_001)
    request = world.until_asked()
    assert request.node_id in ("1", "2")


def test_unreachable_bootstrap_servers_are_tried_in_turn_without_a_busy_loop() -> None:
    world = World()
    world.selector.hang.update({"-1", "-2"})
    polls = 0
    end = world.clock.now_ms + 10_000
    while world.clock.now_ms < end:
        world.poll()
        polls += 1
        connecting = list(world.selector._connecting)
        for connection_id in connecting:
            world.selector.break_connection(connection_id, NetworkError("refused"))
        if not connecting and not world.selector.disconnected:
            world.clock.advance(min(world.waited_ms, end - world.clock.now_ms))
    assert {attempt[0] for attempt in world.selector.attempts} == {"-1", "-2"}
    assert 10 <= len(world.selector.attempts) <= 60
    assert polls < 400
    assert "refused" in str(world.metadata.last_failure)


def test_when_the_asked_node_dies_another_one_is_asked_after_the_backoff() -> None:
    world = World()
    first = world.until_asked()
    world.selector.break_connection(first.node_id, DisconnectedError("gone"))
    world.poll()
    assert str(world.metadata.last_failure).startswith("gone")
    second = world.until_asked()
    assert second.node_id != first.node_id


def test_a_request_that_is_not_answered_in_time_is_repeated_elsewhere() -> None:
    world = World(request_timeout_ms=1000, delivery_timeout_ms=5000)
    first = world.until_asked()
    world.clock.advance(1001)
    world.poll()
    assert "request_timeout_ms" in str(world.metadata.last_failure)
    assert world.until_asked().node_id != first.node_id


def test_an_answer_without_brokers_is_a_failure_and_keeps_what_is_known() -> None:
    world = World()
    world.selector.respond(world.until_asked(), metadata_response({}))
    world.poll()
    assert set(world.metadata.snapshot.nodes) == {-1, -2}
    world.update()
    assert set(world.metadata.snapshot.nodes) == {1, 2}


def test_a_top_level_error_is_a_failure_with_its_name() -> None:
    world = World()
    world.selector.respond(world.until_asked(), metadata_response(error_code=-1))
    world.poll()
    assert "UNKNOWN_SERVER_ERROR" in str(world.metadata.last_failure)
    world.update()


def kill_all_brokers(world: World) -> None:
    for node_id in list(world.selector._up):
        world.selector.break_connection(node_id, NetworkError("refused"))
    world.selector.fail_at_once.update({"1", "2"})


def test_when_no_known_broker_can_be_reached_the_bootstrap_servers_are_asked_again() -> None:
    world = World()
    world.update()
    kill_all_brokers(world)
    request = world.until_asked(60)
    assert request.node_id in ("-1", "-2")
    world.selector.fail_at_once.clear()
    world.selector.respond(request, metadata_response({7: ("b7", 9092)}))
    world.poll()
    assert set(world.metadata.snapshot.nodes) == {7}


def test_a_single_lost_connection_is_no_reason_to_start_afresh() -> None:
    world = World()
    world.update(metadata_response({1: ("b1", 9092)}))
    world.metadata.request_update("test")
    request = world.until_asked()
    world.selector.break_connection(request.node_id, DisconnectedError("restarting"))
    world.poll()
    assert world.until_asked().node_id == "1"
    assert set(world.metadata.snapshot.topics) == {"t"}


def test_without_the_recovery_strategy_the_known_brokers_stay() -> None:
    world = World(metadata_recovery_strategy="none")
    world.update()
    kill_all_brokers(world)
    with pytest.raises(AssertionError, match="no metadata request"):
        world.until_asked(60)
    assert set(world.metadata.snapshot.nodes) == {1, 2}
    world.selector.fail_at_once.clear()
    assert world.until_asked().node_id in ("1", "2")


def test_updates_that_fail_for_too_long_lead_back_to_the_bootstrap_servers() -> None:
    world = World(
        metadata_recovery_rebootstrap_trigger_ms=5000, request_timeout_ms=1000, delivery_timeout_ms=5000
    )
    world.update()
    world.metadata.request_update("test")
    asked: list[str] = []
    # Reachable brokers that never answer: the least loaded node is always there.
    for _ in range(30):
        asked.append(world.until_asked(100).node_id)
        world.clock.advance(1001)
        world.poll()
        if asked[-1].startswith("-"):
            break
    assert len(asked) >= 3
    assert asked[-1].startswith("-")
    assert world.metadata.snapshot.is_bootstrap


# -- names of bootstrap servers (KIP-909) ------------------------------------------------------------------


class Names(World):
    """Names resolve only once ``known`` has them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.known: set[str] = set()

        def resolve(host: str, port: int) -> list[ResolvedAddress]:
            if host not in self.known:
                raise NetworkError(f"could not resolve the host name {host!r}")
            return [ResolvedAddress(2, (host, port))]

        self.client.connections._begin_lookup = at_once(resolve)

    def let_pass(self, for_ms: int) -> None:
        end_ms = self.clock.now_ms + for_ms
        while self.clock.now_ms < end_ms:
            self.poll()
            self.answer_versions()
            self.clock.advance(min(max(self.waited_ms, 1), end_ms - self.clock.now_ms))
        self.poll()


def test_names_that_never_resolve_are_an_error_that_stays() -> None:
    world = Names(bootstrap_resolve_timeout_ms=5000)
    world.let_pass(4999)
    world.metadata.maybe_throw_fatal_error()
    world.let_pass(1)
    for _ in range(3):
        with pytest.raises(BootstrapResolutionError, match=r"boot1:9092, boot2:9092.*5000.*'boot\d'"):
            world.metadata.begin_wait()
    # It is final, as in Java: names that resolve later change nothing, and nothing is tried any more.
    world.known.add("boot1")
    world.let_pass(60_000)
    assert world.selector.attempts == []
    assert world.waited_ms == 60_000
    with pytest.raises(BootstrapResolutionError):
        world.metadata.maybe_throw_fatal_error()
    assert world.client.bootstrap_error is not None


def test_one_name_that_resolves_in_time_is_enough() -> None:
    world = Names(bootstrap_resolve_timeout_ms=5000)
    world.let_pass(4000)
    world.known.add("boot2")
    world.update()
    assert not world.metadata.snapshot.is_bootstrap
    world.let_pass(20_000)
    world.metadata.maybe_throw_fatal_error()


def test_without_the_setting_names_are_tried_forever() -> None:
    world = Names()
    world.let_pass(600_000)
    world.metadata.maybe_throw_fatal_error()
    world.known.add("boot2")
    world.update()
    assert not world.metadata.snapshot.is_bootstrap


def identities(world: World) -> list[tuple[str | None, int]]:
    asked = [request.message for request in world.selector.requests if request.api_key == 18]
    return [(each.cluster_id, each.node_id) for each in asked]


def test_brokers_whose_cluster_is_known_check_who_they_are() -> None:
    world = World()
    world.update()
    assert set(identities(world)) == {(None, -1)}  # any broker may answer at a bootstrap address
    world.client.ready(world.metadata.snapshot.nodes[2], world.clock.now_ms)
    world.poll()
    assert identities(world)[-1] == ("cluster", 2)


@pytest.mark.parametrize(
    "settings", [{"metadata_cluster_check_enable": False}, {"metadata_recovery_strategy": "none"}], ids=str
)
def test_the_check_can_be_turned_off(settings: dict[str, Any]) -> None:
    world = World(**settings)
    world.update()
    world.client.ready(world.metadata.snapshot.nodes[2], world.clock.now_ms)
    world.poll()
    assert set(identities(world)) == {(None, -1)}


def test_the_wrong_broker_leads_to_a_rebootstrap() -> None:
    world = World()
    world.update()
    world.client.ready(world.metadata.snapshot.nodes[2], world.clock.now_ms)
    world.poll()
    asked = world.selector.requests[-1]
    assert asked.api_key == 18
    world.selector.respond(asked, api_versions_response({}, error_code=129))
    world.poll()
    assert world.metadata.snapshot.is_bootstrap
    assert not world.client.connections.get("2").is_connected  # type: ignore[union-attr]
    world.update()
    assert not world.metadata.snapshot.is_bootstrap


def test_a_wrong_broker_that_stays_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.INFO, "kproducer.client"):
        for second in range(61):
            world.client._updater.handle_wrong_broker(second * 1000, "b2:9092 (id 2)")
    first, second = caplog.records
    assert first.levelno == logging.WARNING
    assert first.getMessage().startswith("b2:9092 (id 2) is another broker")
    assert second.getMessage().endswith("(59 more like this since the last such message)")


def test_the_wrong_broker_is_an_error_without_recovery() -> None:
    """A broker that refuses although it was not asked to check: the connection ends, and nothing else."""
    world = World(metadata_recovery_strategy="none")
    world.update()
    world.client.ready(world.metadata.snapshot.nodes[2], world.clock.now_ms)
    world.poll()
    world.selector.respond(world.selector.requests[-1], api_versions_response({}, error_code=129))
    world.poll()
    assert not world.metadata.snapshot.is_bootstrap
    assert "REBOOTSTRAP_REQUIRED" in str(world.client.connections.last_error(2))


def test_a_broker_may_ask_for_a_rebootstrap() -> None:
    world = World()
    world.update()
    world.metadata.request_update("test")
    request = world.until_asked()
    world.selector.respond(request, metadata_response(error_code=129))
    world.poll()
    assert world.metadata.snapshot.is_bootstrap
    assert request.node_id in world.selector.closed
    world.update()
    assert set(world.metadata.snapshot.nodes) == {1, 2}


def test_an_idle_close_asks_for_nothing() -> None:
    world = World()
    world.update()
    world.selector.break_connection(world.metadata_requests[-1].node_id, IdleDisconnectError("idle"))
    world.poll()
    assert not world.metadata.update_requested
    world.metadata.request_update("test")
    world.until_asked()


@pytest.mark.parametrize("error", [AuthenticationError("no"), UnsupportedVersionError("too old")])
def test_errors_that_do_not_pass_reach_whoever_waits(error: Any) -> None:
    world = World()
    world.poll()
    world.poll()
    world.selector.break_connection(world.selector.attempts[0][0], error)
    world.poll()
    with pytest.raises(type(error)):
        world.metadata.maybe_throw_fatal_error()


def test_a_broker_too_old_for_metadata_is_a_fatal_error_with_both_ranges() -> None:
    world = World()
    world.poll()
    question = world.selector.last_request() if world.selector.requests else None
    if question is None:
        world.poll()
        question = world.selector.last_request()
    world.selector.respond(question, api_versions_response({3: (90, 91), 18: (0, 4)}))
    world.poll()
    world.poll()
    with pytest.raises(UnsupportedVersionError, match="90 to 91"):
        world.metadata.maybe_throw_fatal_error()


def test_nodes_are_those_of_the_snapshot() -> None:
    world = World(("boot1:9092",))
    assert world.client._updater.fetch_nodes() == [Node(-1, "boot1", 9092)]


def test_a_response_that_claims_impossible_lengths_costs_the_connection_only() -> None:
    world = World()
    request = world.until_asked()
    world.selector.respond_raw(
        request.node_id, struct.pack(">ib", request.correlation_id, 0) + b"\0\0\0\0\xff\xff\xff\xff\x0f"
    )
    world.poll()
    assert request.node_id in world.selector.closed
    world.update()


def test_a_request_that_cannot_even_be_sent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for its response would stop all updates."""
    world = World()
    failures = 0

    send = world.client.send

    def fail(node_id: int | str, builder: Any, now_ms: int, callback: Any) -> None:
        nonlocal failures
        if builder.api_key != 3:
            send(node_id, builder, now_ms, callback)
            return
        failures += 1
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(world.client, "send", fail)
        for _ in range(4):
            try:
                world.poll()
            except ZeroDivisionError:
                break
            world.answer_versions()
    assert failures == 1
    world.clock.advance(1000)
    assert world.until_asked()
