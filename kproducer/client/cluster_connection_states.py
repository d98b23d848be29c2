"""The state of each node's connection: life cycle, reconnect backoff, setup timeout, addresses, throttle.

A table of states stepped by the network client; does no I/O of its own, except that it begins lookups of host
names, which end elsewhere. Source: Kafka class ``ClusterConnectionStates``; KIP-144 and KIP-580 (backoff),
KIP-601 (setup timeout), KIP-302 (all addresses), KIP-219 (throttling).
"""

from __future__ import annotations

import enum
import random as random_module
from collections.abc import Iterable, Sequence

from kproducer.client.exponential_backoff import ExponentialBackoff
from kproducer.errors import IllegalStateError, KafkaError
from kproducer.network.host_resolver import BeginLookup, Lookup, ResolvedAddress
from kproducer.runtime.clock import NEVER_MS

BACKOFF_MULTIPLIER = 2
BACKOFF_JITTER = 0.2

#: A lookup that takes longer is a slow one: other nodes need not wait for its end.
SLOW_LOOKUP_MS = 1000


class ConnectionState(enum.Enum):
    """Where the connection to a node stands."""

    DISCONNECTED = "disconnected"
    #: Lookup of the host name, TCP connect or a handshake under way.
    CONNECTING = "connecting"
    #: Bytes may flow; asked which versions the broker speaks, no answer yet.
    CHECKING_API_VERSIONS = "checking_api_versions"
    READY = "ready"
    #: Ended by the broker's refusal of our credentials.
    AUTHENTICATION_FAILED = "authentication_failed"


_S = ConnectionState
_TRANSITIONS: dict[ConnectionState, frozenset[ConnectionState]] = {
    _S.DISCONNECTED: frozenset({_S.CONNECTING}),
    _S.CONNECTING: frozenset({_S.CHECKING_API_VERSIONS, _S.DISCONNECTED, _S.AUTHENTICATION_FAILED}),
    _S.CHECKING_API_VERSIONS: frozenset({_S.READY, _S.DISCONNECTED, _S.AUTHENTICATION_FAILED}),
    _S.READY: frozenset({_S.DISCONNECTED, _S.AUTHENTICATION_FAILED}),
    _S.AUTHENTICATION_FAILED: frozenset({_S.CONNECTING, _S.DISCONNECTED}),
}
_DISCONNECTED_STATES = frozenset({_S.DISCONNECTED, _S.AUTHENTICATION_FAILED})
_PREPARING_STATES = frozenset({_S.CONNECTING, _S.CHECKING_API_VERSIONS})


class _NodeState:
    """One node's row of the table."""

    __slots__ = (
        "address_index",
        "addresses",
        "authentication_error",
        "failed_attempts",
        "failed_setups",
        "host",
        "last_address",
        "last_attempt_ms",
        "lookup",
        "port",
        "reconnect_backoff_ms",
        "setup_timeout_ms",
        "state",
        "throttled_until_ms",
    )

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.state = ConnectionState.DISCONNECTED
        self.last_attempt_ms = 0
        self.failed_attempts = 0
        self.failed_setups = 0
        self.reconnect_backoff_ms = 0
        self.setup_timeout_ms = 0
        self.throttled_until_ms = 0
        self.addresses: Sequence[ResolvedAddress] = ()
        self.address_index = 0
        self.last_address: ResolvedAddress | None = None
        #: Begun and not used yet. It outlives an attempt that did not wait for its end.
        self.lookup: Lookup | None = None
        self.authentication_error: KafkaError | None = None


class ClusterConnectionStates:
    """The states of all nodes' connections. I/O thread only. Node ids are connection ids (text).

    Args:
        reconnect_backoff_ms, reconnect_backoff_max_ms: wait between attempts, doubling, jittered by a fifth.
        setup_timeout_ms, setup_timeout_max_ms: time for a lookup of the host name, and then for a connection
            to be usable, growing likewise.
        begin_lookup: name to addresses.
        random: for the jitter.
    """

    def __init__(
        self,
        reconnect_backoff_ms: int,
        reconnect_backoff_max_ms: int,
        setup_timeout_ms: int,
        setup_timeout_max_ms: int,
        begin_lookup: BeginLookup,
        random: random_module.Random | None = None,
    ) -> None:
        # fixed after construction
        self._reconnect_backoff = ExponentialBackoff(
            reconnect_backoff_ms, BACKOFF_MULTIPLIER, reconnect_backoff_max_ms, BACKOFF_JITTER, random
        )
        self._setup_timeout = ExponentialBackoff(
            setup_timeout_ms, BACKOFF_MULTIPLIER, setup_timeout_max_ms, BACKOFF_JITTER, random
        )
        self._begin_lookup = begin_lookup
        # I/O thread only
        self._nodes: dict[str, _NodeState] = {}
        self._connecting: set[str] = set()
        self._resolving: set[str] = set()  # those of _connecting that wait for a lookup

    # -- questions -------------------------------------------------------------------------------------

    def state(self, node_id: str) -> ConnectionState:
        """The node's state; a node never heard of is disconnected."""
        node = self._nodes.get(node_id)
        return ConnectionState.DISCONNECTED if node is None else node.state

    def can_connect(self, node_id: str, now_ms: int) -> bool:
        """Whether there is no connection and the backoff is over."""
        node = self._nodes.get(node_id)
        if node is None:
            return True
        return (
            node.state in _DISCONNECTED_STATES and now_ms - node.last_attempt_ms >= node.reconnect_backoff_ms
        )

    def is_backing_off(self, node_id: str, now_ms: int) -> bool:
        """Whether there is no connection and a new attempt has to wait."""
        node = self._nodes.get(node_id)
        return (
            node is not None
            and node.state in _DISCONNECTED_STATES
            and now_ms - node.last_attempt_ms < node.reconnect_backoff_ms
        )

    def is_ready(self, node_id: str, now_ms: int) -> bool:
        """Whether requests may be sent: ready, and not throttled by the broker."""
        node = self._nodes.get(node_id)
        return node is not None and node.state is _S.READY and node.throttled_until_ms <= now_ms

    def is_connected(self, node_id: str) -> bool:
        """Whether TCP is up, whatever the version check is doing."""
        return self.state(node_id) in (_S.CHECKING_API_VERSIONS, _S.READY)

    def is_preparing(self, node_id: str, now_ms: int) -> bool:
        """Whether the connection is on its way to ready, and not held up by a slow lookup."""
        node = self._nodes.get(node_id)
        return (
            node is not None
            and node.state in _PREPARING_STATES
            and not (node_id in self._resolving and now_ms - node.last_attempt_ms >= SLOW_LOOKUP_MS)
        )

    def is_resolving(self, node_id: str) -> bool:
        """Whether the node's host name is being looked up."""
        return node_id in self._resolving

    def is_disconnected(self, node_id: str) -> bool:
        """Whether there is no connection and none is being made."""
        return self.state(node_id) in _DISCONNECTED_STATES

    def is_unreachable(self, node_id: str) -> bool:
        """Whether there is no connection and the last attempt to make one came to nothing.

        A connection that was lost after it had been ready does not count: it may come back at once.
        """
        node = self._nodes.get(node_id)
        return (
            node is not None
            and node.state in _DISCONNECTED_STATES
            and (node.failed_setups > 0 or node.failed_attempts > 1)
        )

    def is_any_preparing(self, now_ms: int) -> bool:
        """Whether ``is_preparing`` holds for any node."""
        return any(self.is_preparing(node_id, now_ms) for node_id in self._nodes)

    def is_elsewhere(self, node_id: str, host: str, port: int) -> bool:
        """Whether there is a connection, or the attempt to make one, to another address than this."""
        node = self._nodes.get(node_id)
        return (
            node is not None
            and node.state not in _DISCONNECTED_STATES
            and (node.port != port or node.host != host)
        )

    def authentication_error(self, node_id: str) -> KafkaError | None:
        """Why the node refused us, until a later connection succeeds."""
        node = self._nodes.get(node_id)
        return None if node is None else node.authentication_error

    def last_attempt_ms(self, node_id: str) -> int:
        """When a connection was last attempted or lost; 0 for a node never heard of."""
        node = self._nodes.get(node_id)
        return 0 if node is None else node.last_attempt_ms

    def connection_delay_ms(self, node_id: str, now_ms: int) -> int:
        """How long until a connection may be attempted; ``NEVER_MS`` if an event ends the wait."""
        node = self._nodes.get(node_id)
        if node is None:
            return 0
        if node.state not in _DISCONNECTED_STATES:
            return NEVER_MS
        return max(node.last_attempt_ms + node.reconnect_backoff_ms - now_ms, 0)

    def throttle_delay_ms(self, node_id: str, now_ms: int) -> int:
        """How long the broker asked us to stay away, from now."""
        node = self._nodes.get(node_id)
        return 0 if node is None else max(node.throttled_until_ms - now_ms, 0)

    def poll_delay_ms(self, node_id: str, now_ms: int) -> int:
        """How long until this node may become usable by itself; ``NEVER_MS`` if an event ends the wait."""
        delay_ms = self.throttle_delay_ms(node_id, now_ms)
        return delay_ms if delay_ms else self.connection_delay_ms(node_id, now_ms)

    def setup_timeout_ms(self, node_id: str) -> int:
        """The setup timeout of the present or next attempt."""
        node = self._nodes.get(node_id)
        return 0 if node is None else node.setup_timeout_ms

    def nodes_past_setup_timeout(self, now_ms: int) -> list[str]:
        """Nodes that have been connecting for longer than their setup timeout."""
        return [node_id for node_id in self._connecting if self._setup_left_ms(node_id, now_ms) < 0]

    def next_setup_timeout_ms(self, now_ms: int) -> int:
        """How long until the next connecting node runs into its setup timeout, or its lookup becomes a slow
        one; NEVER_MS: no node is connecting."""
        if not self._connecting:
            return NEVER_MS
        delay_ms = max(min(self._setup_left_ms(node_id, now_ms) for node_id in self._connecting) + 1, 0)
        for node_id in self._resolving:
            slow_in_ms = self._nodes[node_id].last_attempt_ms + SLOW_LOOKUP_MS - now_ms
            if 0 < slow_in_ms < delay_ms:
                delay_ms = slow_in_ms
        return delay_ms

    def _setup_left_ms(self, node_id: str, now_ms: int) -> int:
        node = self._nodes[node_id]
        return node.last_attempt_ms + node.setup_timeout_ms - now_ms

    # -- moves -----------------------------------------------------------------------------------------

    def connecting(self, node_id: str, now_ms: int, host: str, port: int) -> ResolvedAddress | None:
        """An attempt begins: the address to connect to, another one at each attempt.

        Every address of the host is tried once before any is tried again; then the name is looked up again.
        ``None``: it is being looked up, and ``looked_up`` tells when that has ended.
        Raises NetworkError when it failed: the state is CONNECTING then, and ``disconnected`` must follow.
        """
        node = self._nodes.get(node_id)
        if node is None or (node.host, node.port) != (host, port):
            if node is not None and node.state not in _DISCONNECTED_STATES:
                raise IllegalStateError(
                    f"node {node_id} is {node.state.value}, cannot connect to {host}:{port}"
                )
            node = self._nodes[node_id] = _NodeState(host, port)
            node.reconnect_backoff_ms = self._reconnect_backoff.backoff_ms(0)
            node.setup_timeout_ms = self._setup_timeout.backoff_ms(0)
        self._move(node_id, node, ConnectionState.CONNECTING)
        node.last_attempt_ms = now_ms
        self._connecting.add(node_id)
        node.address_index += 1
        if node.address_index < len(node.addresses):
            node.last_address = node.addresses[node.address_index]
            return node.last_address
        if node.lookup is None:
            node.lookup = self._begin_lookup(host, port)
        self._resolving.add(node_id)
        return self.resolved_address(node_id, now_ms) if node.lookup.done() else None

    def looked_up(self) -> list[str]:
        """Connecting nodes whose lookup has ended: ask each for its ``resolved_address``."""
        if not self._resolving:
            return []
        lookups = {node_id: self._nodes[node_id].lookup for node_id in self._resolving}
        return [node_id for node_id, lookup in lookups.items() if lookup is not None and lookup.done()]

    def resolved_address(self, node_id: str, now_ms: int) -> ResolvedAddress:
        """The address to connect to, after a lookup that has ended. The setup timeout counts from here.

        Raises NetworkError, as ``connecting`` does.
        """
        node = self._node(node_id)
        self._resolving.discard(node_id)
        lookup, node.lookup = node.lookup, None
        assert lookup is not None
        node.addresses = ()
        node.addresses = lookup.result(timeout=0)
        # A fresh round must not begin with the address that the last round ended with.
        repeats = len(node.addresses) > 1 and node.addresses[0] == node.last_address
        node.address_index = 1 if repeats else 0
        node.last_address = node.addresses[node.address_index]
        node.last_attempt_ms = now_ms
        return node.last_address

    def checking_api_versions(self, node_id: str) -> None:
        """The connection is up, and the question which versions the broker speaks is being sent."""
        node = self._node(node_id)
        self._move(node_id, node, ConnectionState.CHECKING_API_VERSIONS)
        self._connecting.discard(node_id)
        self._reset_setup_timeout(node)

    def ready(self, node_id: str) -> None:
        """The version check is done. Backoff and throttle start afresh."""
        node = self._node(node_id)
        self._move(node_id, node, ConnectionState.READY)
        node.authentication_error = None
        node.failed_attempts = 0
        node.reconnect_backoff_ms = self._reconnect_backoff.backoff_ms(0)
        node.throttled_until_ms = 0

    def disconnected(self, node_id: str, now_ms: int) -> None:
        """The connection, or the attempt, ended. The next attempt waits for the backoff."""
        self._end(node_id, now_ms, ConnectionState.DISCONNECTED)

    def authentication_failed(self, node_id: str, now_ms: int, error: KafkaError) -> None:
        """The broker refused our credentials. Backed off like any failure, and remembered."""
        self._node(node_id).authentication_error = error
        self._end(node_id, now_ms, ConnectionState.AUTHENTICATION_FAILED)

    def _end(self, node_id: str, now_ms: int, state: ConnectionState) -> None:
        node = self._node(node_id)
        was = node.state
        self._move(node_id, node, state)
        node.last_attempt_ms = now_ms
        node.reconnect_backoff_ms = self._reconnect_backoff.backoff_ms(node.failed_attempts)
        node.failed_attempts += 1
        node.throttled_until_ms = 0
        self._connecting.discard(node_id)
        self._resolving.discard(node_id)
        if was is ConnectionState.CONNECTING:
            node.failed_setups += 1
            node.setup_timeout_ms = self._setup_timeout.backoff_ms(node.failed_setups)
        else:
            self._reset_setup_timeout(node)
            # This address worked; after a lost connection the name may mean other machines.
            node.addresses = ()

    def throttle(self, node_id: str, until_ms: int) -> None:
        """The broker asked for a pause. A later moment is never replaced by an earlier one."""
        node = self._node(node_id)
        node.throttled_until_ms = max(node.throttled_until_ms, until_ms)

    def remove(self, node_id: str) -> None:
        """Forget the node."""
        self._nodes.pop(node_id, None)
        self._connecting.discard(node_id)
        self._resolving.discard(node_id)

    def retain(self, node_ids: Iterable[str]) -> None:
        """Forget disconnected nodes that are not among ``node_ids`` (brokers that left the cluster)."""
        keep = set(node_ids)
        gone = [i for i, n in self._nodes.items() if i not in keep and n.state in _DISCONNECTED_STATES]
        for node_id in gone:
            del self._nodes[node_id]

    def _node(self, node_id: str) -> _NodeState:
        node = self._nodes.get(node_id)
        if node is None:
            raise IllegalStateError(f"nothing is known of node {node_id}")
        return node

    def _reset_setup_timeout(self, node: _NodeState) -> None:
        node.failed_setups = 0
        node.setup_timeout_ms = self._setup_timeout.backoff_ms(0)

    @staticmethod
    def _move(node_id: str, node: _NodeState, state: ConnectionState) -> None:
        if state not in _TRANSITIONS[node.state]:
            raise IllegalStateError(f"node {node_id} cannot go from {node.state.value} to {state.value}")
        node.state = state
