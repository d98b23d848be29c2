"""The life of a connection: legal transitions, backoff, setup timeout, addresses in turn, throttling."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kproducer._core.client.api_versions import NodeApiVersions
from kproducer._core.client.node_connection import SLOW_LOOKUP_MS, ConnectionState, NodeConnection
from kproducer._core.network.host_resolver import BeginLookup, ResolvedAddress
from kproducer._core.runtime.clock import NEVER_MS, ExponentialBackoff
from kproducer.errors import IllegalStateError, NetworkError
from kproducer.types import Node
from tests.support.units.lookups import OpenLookups, at_once

NOW = 1_000_000
BACKOFF, BACKOFF_MAX = 50, 1000
SETUP, SETUP_MAX = 10_000, 30_000
NODE = Node(0, "kafka", 9092)
VERSIONS = NodeApiVersions("b", {})


class Resolver:
    def __init__(self, *hosts: str) -> None:
        self.hosts = list(hosts)
        self.calls = 0

    def __call__(self, host: str, port: int) -> list[ResolvedAddress]:
        self.calls += 1
        if not self.hosts:
            raise NetworkError(f"could not resolve the host name {host!r}")
        return [ResolvedAddress(2, (address, port)) for address in self.hosts]


class Peer:
    """A NodeConnection and the name service of its host."""

    def __init__(
        self, resolver: Callable[[str, int], list[ResolvedAddress]] | None = None, seed: int = 1
    ) -> None:
        source = random.Random(seed)
        self.connection = NodeConnection(
            NODE,
            ExponentialBackoff(BACKOFF, BACKOFF_MAX, source),
            ExponentialBackoff(SETUP, SETUP_MAX, source),
        )
        self.begin_lookup: BeginLookup = at_once(resolver or Resolver("10.0.0.1"))

    def connect(self, now_ms: int = NOW) -> str:
        self.connection.connecting(now_ms, self.begin_lookup)
        resolved = self.connection.next_address(now_ms)
        assert resolved is not None
        return resolved.address[0]

    def make_ready(self, now_ms: int = NOW) -> None:
        self.connect(now_ms)
        self.connection.checking_api_versions()
        self.connection.ready(VERSIONS)


def test_the_life_cycle_of_a_connection() -> None:
    peer = Peer()
    connection = peer.connection
    assert connection.is_disconnected
    assert connection.connection_delay_ms(NOW) == 0
    peer.connect()
    assert connection.state is ConnectionState.CONNECTING
    assert connection.is_preparing(NOW)
    assert not connection.is_connected
    assert connection.connection_delay_ms(NOW) == NEVER_MS
    connection.checking_api_versions()
    assert connection.is_preparing(NOW)
    assert connection.is_connected
    assert not connection.is_ready(NOW)
    connection.ready(VERSIONS)
    assert connection.is_ready(NOW)
    assert connection.versions is VERSIONS
    assert not connection.is_preparing(NOW)
    connection.ended(NOW)
    assert connection.is_disconnected
    assert connection.versions is None
    assert connection.connection_delay_ms(NOW) > 0
    assert connection.connection_delay_ms(NOW + 60) == 0


@pytest.mark.parametrize("move", ["checking_api_versions", "ready", "ended"])
def test_illegal_transitions_raise(move: str) -> None:
    peer = Peer()
    arguments = {"ended": (NOW,), "ready": (VERSIONS,)}.get(move, ())
    with pytest.raises(IllegalStateError, match="from disconnected to"):
        getattr(peer.connection, move)(*arguments)
    peer.make_ready()
    with pytest.raises(IllegalStateError, match="from ready to connecting"):
        peer.connect()


def test_a_node_is_unreachable_after_a_failed_attempt_and_not_after_a_lost_connection() -> None:
    peer = Peer()
    assert not peer.connection.is_unreachable
    peer.make_ready()
    peer.connection.ended(NOW)
    assert not peer.connection.is_unreachable
    peer.connect()
    peer.connection.ended(NOW)
    assert peer.connection.is_unreachable


def test_reconnect_backoff_grows_to_its_maximum_and_is_reset_by_success() -> None:
    peer = Peer()
    now = NOW
    for attempt in range(10):
        peer.connect(now)
        peer.connection.ended(now)
        expected = min(BACKOFF * 2**attempt, BACKOFF_MAX)
        delay = peer.connection.connection_delay_ms(now)
        assert expected * 0.8 - 1 <= delay <= min(expected * 1.2, BACKOFF_MAX)
        assert peer.connection.connection_delay_ms(now + delay - 1) == 1
        now += delay
    peer.make_ready(now)
    peer.connection.ended(now)
    assert peer.connection.connection_delay_ms(now) <= BACKOFF * 1.2


def test_the_backoff_is_jittered() -> None:
    delays = set()
    for seed in range(30):
        peer = Peer(seed=seed)
        peer.connect()
        peer.connection.ended(NOW)
        delays.add(peer.connection.connection_delay_ms(NOW))
    assert len(delays) > 5


def test_the_setup_timeout_grows_to_its_maximum_and_is_reset_once_connected() -> None:
    peer = Peer()
    now = NOW
    for attempt in range(5):
        peer.connect(now)
        timeout = peer.connection.setup_timeout_ms
        expected = min(SETUP * 2**attempt, SETUP_MAX)
        assert expected * 0.8 - 1 <= timeout <= min(expected * 1.2, SETUP_MAX)
        assert peer.connection.setup_left_ms(now + timeout) == 0
        assert peer.connection.setup_delay_ms(now) == timeout + 1
        now += timeout + 1
        assert peer.connection.setup_left_ms(now) < 0
        peer.connection.ended(now)
        now += BACKOFF_MAX
    peer.connect(now)
    peer.connection.checking_api_versions()
    assert peer.connection.setup_timeout_ms <= SETUP * 1.2


def test_every_address_is_tried_once_per_round_and_the_name_resolved_once_per_round() -> None:
    resolver = Resolver("10.0.0.1", "10.0.0.2", "10.0.0.3")
    peer = Peer(resolver)
    tried = []
    for attempt in range(3):
        tried.append(peer.connect(NOW + attempt))
        peer.connection.ended(NOW + attempt)
    assert tried == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert resolver.calls == 1
    peer.connect(NOW + 10)
    assert resolver.calls == 2


def test_a_new_round_does_not_begin_with_the_address_tried_last() -> None:
    resolver = Resolver("10.0.0.1", "10.0.0.2")
    peer = Peer(resolver)
    assert peer.connect() == "10.0.0.1"
    peer.connection.ended(NOW)
    assert peer.connect() == "10.0.0.2"
    peer.connection.ended(NOW)
    resolver.hosts = ["10.0.0.2", "10.0.0.9"]
    assert peer.connect() == "10.0.0.9"


def test_after_a_lost_connection_the_name_is_resolved_again_and_another_address_taken() -> None:
    resolver = Resolver("10.0.0.1", "10.0.0.2")
    peer = Peer(resolver)
    peer.make_ready()
    peer.connection.ended(NOW)
    assert peer.connect() == "10.0.0.2"
    assert resolver.calls == 2


def test_a_single_address_is_used_again() -> None:
    peer = Peer(Resolver("10.0.0.1"))
    peer.make_ready()
    peer.connection.ended(NOW)
    assert peer.connect() == "10.0.0.1"


def test_a_name_that_does_not_resolve_can_be_tried_again_later() -> None:
    resolver = Resolver()
    peer = Peer(resolver)
    for _ in range(2):
        with pytest.raises(NetworkError, match="resolve"):
            peer.connect()
        peer.connection.ended(NOW)
    resolver.hosts = ["10.0.0.7"]
    assert peer.connect() == "10.0.0.7"


def test_a_throttled_node_is_not_ready_until_the_time_is_over() -> None:
    peer = Peer()
    peer.make_ready()
    assert peer.connection.poll_delay_ms(NOW) == NEVER_MS
    peer.connection.throttle(NOW + 100)
    peer.connection.throttle(NOW + 50)
    assert not peer.connection.is_ready(NOW + 99)
    assert peer.connection.poll_delay_ms(NOW + 40) == 60
    assert peer.connection.is_ready(NOW + 100)
    peer.connection.throttle(NOW + 10_000)
    peer.connection.ended(NOW)
    assert peer.connection.poll_delay_ms(NOW) <= BACKOFF * 1.2


def resolving_peer() -> tuple[Peer, OpenLookups]:
    lookups = OpenLookups()
    peer = Peer()
    peer.begin_lookup = lookups
    peer.connection.connecting(NOW, lookups)
    assert peer.connection.next_address(NOW) is None
    return peer, lookups


def test_the_time_to_connect_begins_when_the_name_is_known() -> None:
    peer, lookups = resolving_peer()
    assert peer.connection.is_resolving
    lookups.find("kafka", "10.0.0.1")
    resolved = peer.connection.next_address(NOW + 5000)
    assert resolved is not None
    assert resolved.address == ("10.0.0.1", 9092)
    assert not peer.connection.is_resolving
    assert peer.connection.setup_left_ms(NOW + SETUP) > 0
    assert peer.connection.setup_left_ms(NOW + 5000 + 2 * SETUP) < 0


def test_a_failed_lookup_ends_the_attempt_and_the_next_one_asks_again() -> None:
    peer, lookups = resolving_peer()
    lookups.fail("kafka")
    with pytest.raises(NetworkError, match="kafka"):
        peer.connection.next_address(NOW)
    peer.connection.ended(NOW)
    peer.connection.connecting(NOW + BACKOFF_MAX, lookups)
    assert peer.connection.next_address(NOW + BACKOFF_MAX) is None
    assert lookups.begun == ["kafka", "kafka"]


def test_a_lookup_outlives_the_attempt_that_timed_out() -> None:
    peer, lookups = resolving_peer()
    peer.connection.ended(NOW + SETUP)
    assert not peer.connection.is_resolving
    lookups.find("kafka", "10.0.0.1")
    assert peer.connect(NOW + SETUP + BACKOFF_MAX) == "10.0.0.1"
    assert lookups.begun == ["kafka"]


def test_other_nodes_do_not_wait_for_a_slow_lookup() -> None:
    peer, lookups = resolving_peer()
    connection = peer.connection
    assert connection.is_preparing(NOW)
    assert connection.setup_delay_ms(NOW) == SLOW_LOOKUP_MS
    slow = NOW + SLOW_LOOKUP_MS
    assert not connection.is_preparing(slow)
    assert connection.connection_delay_ms(slow) == NEVER_MS
    assert connection.setup_delay_ms(slow) > SLOW_LOOKUP_MS
    lookups.find("kafka", "10.0.0.1")
    connection.next_address(slow)
    assert connection.is_preparing(slow)


class AnyOrder(RuleBasedStateMachine):
    """Delays are bounded and the queries agree with each other after events in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.peer = Peer(Resolver("10.0.0.1", "10.0.0.2"))

    @rule()
    def begin(self) -> None:
        if self.peer.connection.connection_delay_ms(self.now) == 0:
            self.peer.connect(self.now)

    @rule()
    def advance(self) -> None:
        if self.peer.connection.state is ConnectionState.CONNECTING:
            self.peer.connection.checking_api_versions()
        elif self.peer.connection.state is ConnectionState.CHECKING_API_VERSIONS:
            self.peer.connection.ready(VERSIONS)

    @rule()
    def lose(self) -> None:
        if not self.peer.connection.is_disconnected:
            self.peer.connection.ended(self.now)

    @rule(ms=st.integers(0, 40_000))
    def wait(self, ms: int) -> None:
        self.now += ms

    @invariant()
    def queries_agree(self) -> None:
        connection = self.peer.connection
        delay = connection.connection_delay_ms(self.now)
        assert delay == NEVER_MS or 0 <= delay <= BACKOFF_MAX
        kinds = [connection.is_disconnected, connection.is_preparing(self.now), connection.is_ready(self.now)]
        assert kinds.count(True) == 1
        assert (connection.versions is None) == (not connection.is_ready(self.now))
        assert connection.setup_timeout_ms <= SETUP_MAX


TestAnyOrder = AnyOrder.TestCase
