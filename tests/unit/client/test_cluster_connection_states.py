"""The life of connections: legal moves, backoff, setup timeout, addresses in turn, throttling."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kproducer.client.cluster_connection_states import (
    SLOW_LOOKUP_MS,
    ClusterConnectionStates,
    ConnectionState,
)
from kproducer.errors import AuthenticationError, IllegalStateError, NetworkError
from kproducer.network.host_resolver import ResolvedAddress
from kproducer.runtime.clock import NEVER_MS
from tests.support.units.lookups import OpenLookups, at_once

NOW = 1_000_000
BACKOFF, BACKOFF_MAX = 50, 1000
SETUP, SETUP_MAX = 10_000, 30_000


class Resolver:
    def __init__(self, *hosts: str) -> None:
        self.hosts = list(hosts)
        self.calls = 0

    def __call__(self, host: str, port: int) -> list[ResolvedAddress]:
        self.calls += 1
        if not self.hosts:
            raise NetworkError(f"could not resolve the host name {host!r}")
        return [ResolvedAddress(2, (address, port)) for address in self.hosts]


def make(resolver: Callable[[str, int], list[ResolvedAddress]] | None = None) -> ClusterConnectionStates:
    return ClusterConnectionStates(
        BACKOFF, BACKOFF_MAX, SETUP, SETUP_MAX, at_once(resolver or Resolver("10.0.0.1")), random.Random(1)
    )


def connect(states: ClusterConnectionStates, node_id: str = "0", now_ms: int = NOW) -> str:
    resolved = states.connecting(node_id, now_ms, "kafka", 9092)
    assert resolved is not None
    return resolved.address[0]


def make_ready(states: ClusterConnectionStates, node_id: str = "0", now_ms: int = NOW) -> None:
    connect(states, node_id, now_ms)
    states.checking_api_versions(node_id)
    states.ready(node_id)


def test_the_life_cycle_of_a_connection() -> None:
    states = make()
    assert states.can_connect("0", NOW)
    assert states.connection_delay_ms("0", NOW) == 0
    connect(states)
    assert states.state("0") is ConnectionState.CONNECTING
    assert states.is_preparing("0", NOW)
    assert not states.can_connect("0", NOW)
    assert states.connection_delay_ms("0", NOW) == NEVER_MS
    states.checking_api_versions("0")
    assert states.is_preparing("0", NOW)
    assert states.is_connected("0")
    assert not states.is_ready("0", NOW)
    states.ready("0")
    assert states.is_ready("0", NOW)
    assert not states.is_preparing("0", NOW)
    states.disconnected("0", NOW)
    assert states.is_disconnected("0")
    assert states.is_backing_off("0", NOW)
    assert not states.is_backing_off("0", NOW + 60)
    assert states.can_connect("0", NOW + 60)


def test_nodes_are_independent() -> None:
    states = make()
    make_ready(states, "0")
    connect(states, "1")
    assert states.is_ready("0", NOW)
    states.disconnected("1", NOW)
    assert states.is_ready("0", NOW)
    assert states.can_connect("2", NOW)
    states.remove("0")
    assert states.is_disconnected("0")


@pytest.mark.parametrize("move", ["checking_api_versions", "ready", "disconnected"])
def test_illegal_moves_raise(move: str) -> None:
    states = make()
    arguments = (NOW,) if move == "disconnected" else ()
    with pytest.raises(IllegalStateError):
        getattr(states, move)("0", *arguments)
    make_ready(states)
    states.disconnected("0", NOW)
    with pytest.raises(IllegalStateError, match="from disconnected to"):
        getattr(states, move)("0", *arguments)


def test_reconnect_backoff_grows_to_its_maximum_and_is_reset_by_success() -> None:
    states = make()
    now = NOW
    for attempt in range(10):
        connect(states, now_ms=now)
        states.disconnected("0", now)
        expected = min(BACKOFF * 2**attempt, BACKOFF_MAX)
        delay = states.connection_delay_ms("0", now)
        assert expected * 0.8 - 1 <= delay <= min(expected * 1.2, BACKOFF_MAX)
        assert not states.can_connect("0", now + delay - 1)
        now += delay
    make_ready(states, now_ms=now)
    states.disconnected("0", now)
    assert states.connection_delay_ms("0", now) <= BACKOFF * 1.2


def test_the_backoff_is_jittered() -> None:
    delays = set()
    states = make()
    for number in range(30):
        connect(states, str(number))
        states.disconnected(str(number), NOW)
        delays.add(states.connection_delay_ms(str(number), NOW))
    assert len(delays) > 5


def test_the_setup_timeout_grows_to_its_maximum_and_is_reset_once_connected() -> None:
    states = make()
    now = NOW
    for attempt in range(5):
        connect(states, now_ms=now)
        timeout = states.setup_timeout_ms("0")
        expected = min(SETUP * 2**attempt, SETUP_MAX)
        assert expected * 0.8 - 1 <= timeout <= min(expected * 1.2, SETUP_MAX)
        assert states.nodes_past_setup_timeout(now + timeout) == []
        now += timeout + 1
        assert states.nodes_past_setup_timeout(now) == ["0"]
        states.disconnected("0", now)
        assert states.nodes_past_setup_timeout(now) == []
        now += BACKOFF_MAX
    connect(states, now_ms=now)
    states.checking_api_versions("0")
    assert states.setup_timeout_ms("0") <= SETUP * 1.2
    assert states.nodes_past_setup_timeout(now + 10 * SETUP_MAX) == []


def test_the_next_setup_timeout_is_that_of_the_first_node_to_reach_it() -> None:
    states = make()
    assert states.next_setup_timeout_ms(NOW) == NEVER_MS
    connect(states, "0", NOW)
    connect(states, "1", NOW + 5)
    wait = states.next_setup_timeout_ms(NOW + 5)
    assert states.nodes_past_setup_timeout(NOW + 5 + wait - 1) == []
    assert len(states.nodes_past_setup_timeout(NOW + 5 + wait)) == 1


def test_every_address_is_tried_once_a_round_and_the_name_resolved_once_a_round() -> None:
    resolver = Resolver("10.0.0.1", "10.0.0.2", "10.0.0.3")
    states = make(resolver)
    tried = []
    for attempt in range(3):
        tried.append(connect(states, now_ms=NOW + attempt))
        states.disconnected("0", NOW + attempt)
    assert tried == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert resolver.calls == 1
    connect(states, now_ms=NOW + 10)
    assert resolver.calls == 2


def test_a_new_round_does_not_begin_with_the_address_tried_last() -> None:
    resolver = Resolver("10.0.0.1", "10.0.0.2")
    states = make(resolver)
    assert connect(states) == "10.0.0.1"
    states.disconnected("0", NOW)
    assert connect(states) == "10.0.0.2"
    states.disconnected("0", NOW)
    resolver.hosts = ["10.0.0.2", "10.0.0.9"]
    assert connect(states) == "10.0.0.9"


def test_after_a_lost_connection_the_name_is_resolved_again_and_another_address_taken() -> None:
    resolver = Resolver("10.0.0.1", "10.0.0.2")
    states = make(resolver)
    make_ready(states)
    states.disconnected("0", NOW)
    assert connect(states) == "10.0.0.2"
    assert resolver.calls == 2


def test_a_single_address_is_used_again() -> None:
    states = make(Resolver("10.0.0.1"))
    make_ready(states)
    states.disconnected("0", NOW)
    assert connect(states) == "10.0.0.1"


def test_a_name_that_does_not_resolve_can_be_tried_again_later() -> None:
    resolver = Resolver()
    states = make(resolver)
    for _ in range(2):
        with pytest.raises(NetworkError, match="resolve"):
            connect(states)
        states.disconnected("0", NOW)
    resolver.hosts = ["10.0.0.7"]
    assert connect(states) == "10.0.0.7"


def test_a_node_that_moved_to_another_host_starts_afresh() -> None:
    states = make()
    for _ in range(6):
        connect(states)
        states.disconnected("0", NOW)
    states.connecting("0", NOW, "elsewhere", 9092)
    states.disconnected("0", NOW)
    assert states.connection_delay_ms("0", NOW) <= BACKOFF * 1.2


def test_an_authentication_failure_is_kept_and_backed_off_until_a_connection_succeeds() -> None:
    states = make()
    connect(states)
    error = AuthenticationError("wrong password")
    states.authentication_failed("0", NOW, error)
    assert states.state("0") is ConnectionState.AUTHENTICATION_FAILED
    assert states.is_disconnected("0")
    assert states.is_backing_off("0", NOW)
    assert states.authentication_error("0") is error
    later = NOW + 100
    connect(states, now_ms=later)
    states.checking_api_versions("0")
    assert states.authentication_error("0") is error
    states.ready("0")
    assert states.authentication_error("0") is None


def test_a_throttled_node_is_not_ready_until_the_time_is_over_and_others_are() -> None:
    states = make()
    make_ready(states, "0")
    make_ready(states, "1")
    states.throttle("0", NOW + 100)
    states.throttle("0", NOW + 50)
    assert not states.is_ready("0", NOW + 99)
    assert states.is_ready("1", NOW)
    assert states.poll_delay_ms("0", NOW + 40) == 60
    assert states.poll_delay_ms("1", NOW) == NEVER_MS
    assert states.is_ready("0", NOW + 100)
    states.throttle("0", NOW + 10_000)
    states.disconnected("0", NOW)
    assert states.throttle_delay_ms("0", NOW) == 0


def test_brokers_that_left_the_cluster_are_forgotten_once_disconnected() -> None:
    states = make()
    make_ready(states, "0")
    connect(states, "1")
    states.disconnected("1", NOW)
    states.retain(["2"])
    assert states.last_attempt_ms("1") == 0
    assert states.is_ready("0", NOW)


def lookups_of_one_node() -> tuple[ClusterConnectionStates, OpenLookups]:
    lookups = OpenLookups()
    states = ClusterConnectionStates(BACKOFF, BACKOFF_MAX, SETUP, SETUP_MAX, lookups, random.Random(1))
    assert states.connecting("0", NOW, "kafka", 9092) is None
    return states, lookups


def test_the_time_to_connect_begins_when_the_name_is_known() -> None:
    states, lookups = lookups_of_one_node()
    assert states.is_resolving("0")
    assert states.looked_up() == []
    lookups.find("kafka", "10.0.0.1")
    assert states.looked_up() == ["0"]
    assert states.resolved_address("0", NOW + 5000).address == ("10.0.0.1", 9092)
    assert not states.is_resolving("0")
    assert states.looked_up() == []
    assert states.nodes_past_setup_timeout(NOW + SETUP) == []
    assert states.nodes_past_setup_timeout(NOW + 5000 + 2 * SETUP) == ["0"]


def test_a_failed_lookup_ends_the_attempt_and_the_next_one_asks_again() -> None:
    states, lookups = lookups_of_one_node()
    lookups.fail("kafka")
    with pytest.raises(NetworkError, match="kafka"):
        states.resolved_address("0", NOW)
    states.disconnected("0", NOW)
    assert states.connecting("0", NOW + BACKOFF_MAX, "kafka", 9092) is None
    assert lookups.begun == ["kafka", "kafka"]


def test_a_lookup_outlives_the_attempt_that_did_not_wait_for_it() -> None:
    states, lookups = lookups_of_one_node()
    states.disconnected("0", NOW + SETUP)
    assert not states.is_resolving("0")
    lookups.find("kafka", "10.0.0.1")
    assert states.looked_up() == []
    resolved = states.connecting("0", NOW + SETUP + BACKOFF_MAX, "kafka", 9092)
    assert resolved is not None
    assert resolved.address == ("10.0.0.1", 9092)
    assert lookups.begun == ["kafka"]


def test_a_slow_lookup_is_not_waited_for_by_other_nodes() -> None:
    states, lookups = lookups_of_one_node()
    assert states.is_preparing("0", NOW)
    assert states.next_setup_timeout_ms(NOW) == SLOW_LOOKUP_MS
    slow = NOW + SLOW_LOOKUP_MS
    assert not states.is_preparing("0", slow)
    assert not states.is_any_preparing(slow)
    assert not states.can_connect("0", slow)
    assert states.next_setup_timeout_ms(slow) > SLOW_LOOKUP_MS
    lookups.find("kafka", "10.0.0.1")
    states.resolved_address("0", slow)
    assert states.is_preparing("0", slow)


class Connections(RuleBasedStateMachine):
    """Whatever happens in whatever order: delays are bounded and the answers do not contradict each other."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.states = make(Resolver("10.0.0.1", "10.0.0.2"))

    node_ids = st.sampled_from(["0", "1"])

    @rule(node_id=node_ids)
    def begin(self, node_id: str) -> None:
        if self.states.can_connect(node_id, self.now):
            connect(self.states, node_id, self.now)

    @rule(node_id=node_ids)
    def advance(self, node_id: str) -> None:
        state = self.states.state(node_id)
        if state is ConnectionState.CONNECTING:
            self.states.checking_api_versions(node_id)
        elif state is ConnectionState.CHECKING_API_VERSIONS:
            self.states.ready(node_id)

    @rule(node_id=node_ids)
    def lose(self, node_id: str) -> None:
        if not self.states.is_disconnected(node_id):
            self.states.disconnected(node_id, self.now)

    @rule(node_id=node_ids)
    def refuse(self, node_id: str) -> None:
        if not self.states.is_disconnected(node_id):
            self.states.authentication_failed(node_id, self.now, AuthenticationError("no"))

    @rule(ms=st.integers(0, 40_000))
    def wait(self, ms: int) -> None:
        self.now += ms

    @invariant()
    def answers_agree(self) -> None:
        for node_id in ("0", "1"):
            delay = self.states.connection_delay_ms(node_id, self.now)
            assert delay == NEVER_MS or 0 <= delay <= BACKOFF_MAX
            assert self.states.can_connect(node_id, self.now) == (delay == 0)
            kinds = [
                self.states.is_disconnected(node_id),
                self.states.is_preparing(node_id, self.now),
                self.states.is_ready(node_id, self.now),
            ]
            assert kinds.count(True) == 1
            assert self.states.setup_timeout_ms(node_id) <= SETUP_MAX


TestConnections = Connections.TestCase
