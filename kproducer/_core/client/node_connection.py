"""NodeConnection: the connection to one node, and what is remembered from one connection to the next.

A state machine without I/O, stepped by ``Connections``: life cycle, reconnect backoff, setup timeout, the
addresses of the host, throttling, version check. Source: Kafka class ``ClusterConnectionStates``; KIP-144 and
KIP-580 (backoff), KIP-601 (setup timeout), KIP-302 (all addresses), KIP-219 (throttling).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from kproducer._core.client.api_versions import ApiVersionsExchange, NodeApiVersions
from kproducer._core.network.host_resolver import BeginLookup, Lookup, ResolvedAddress
from kproducer._core.runtime.clock import NEVER_MS, ExponentialBackoff
from kproducer.errors import IllegalStateError, printable
from kproducer.types import Node

#: A lookup that takes longer than this is slow: metadata requests go to other nodes meanwhile.
SLOW_LOOKUP_MS = 1000


class ConnectionState(enum.Enum):
    """The state of the connection to a node."""

    DISCONNECTED = "disconnected"
    #: Host name lookup, TCP connect or handshake in progress.
    CONNECTING = "connecting"
    #: The connection is up; the broker has not answered ApiVersions yet.
    CHECKING_API_VERSIONS = "checking_api_versions"
    #: SASL, for the first time or again before the session ends.
    AUTHENTICATING = "authenticating"
    READY = "ready"


_S = ConnectionState
LEGAL_TRANSITIONS: dict[ConnectionState, frozenset[ConnectionState]] = {
    _S.DISCONNECTED: frozenset({_S.CONNECTING}),
    _S.CONNECTING: frozenset({_S.CHECKING_API_VERSIONS, _S.DISCONNECTED}),
    _S.CHECKING_API_VERSIONS: frozenset({_S.AUTHENTICATING, _S.READY, _S.DISCONNECTED}),
    _S.AUTHENTICATING: frozenset({_S.READY, _S.DISCONNECTED}),
    _S.READY: frozenset({_S.AUTHENTICATING, _S.DISCONNECTED}),
}


class NodeConnection:
    """The connection to one node at one ``host:port``. I/O thread only, except to read the two errors.

    Args:
        node: the node to connect to.
        reconnect_backoff: the wait after each failed attempt.
        setup_timeout: the time for a host name lookup, and again for the connection to come up.

    Attributes:
        id: the connection id (the node id as text).
        broker: the node in words, for messages.
        versions: the APIs that the broker supports; None before it has said so.
        exchange: the ApiVersions exchange; it remembers versions across connections.
        has_moved: metadata says that the node has another address; the connection ends when it is idle.
        is_resolving: the host name is being looked up.
        last_attempt_ms: when a connection was last attempted or lost (monotonic); 0 before the first attempt.
        setup_timeout_ms: of the current or next attempt.
        reauthenticate_ms: when to authenticate again (monotonic); set once the connection is ready.
        ready_count: how often it became ready since it came up: more than once if it was authenticated again.
        was_used: a request of the client's users was sent since the connection became ready.
        was_answered: the broker answered a request since the connection came up, other than ApiVersions
            and those of SASL.
        last_error: how the last connection ended, in words; None since one became ready.
        earlier_error: how the connection before ended, if it had no request answered.
    """

    def __init__(
        self, node: Node, reconnect_backoff: ExponentialBackoff, setup_timeout: ExponentialBackoff
    ) -> None:
        self.node = node
        self._reconnect_backoff = reconnect_backoff
        self._setup_timeout = setup_timeout
        self.id = str(node.id)
        self.broker = f"{printable(node.host)}:{node.port} (bootstrap)" if node.id < 0 else str(node)
        self.state = ConnectionState.DISCONNECTED
        self.versions: NodeApiVersions | None = None
        self.exchange = ApiVersionsExchange()
        self.has_moved = False
        self.is_resolving = False
        self.last_attempt_ms = 0
        self.last_error: str | None = None
        self.earlier_error: str | None = None
        self.setup_timeout_ms = setup_timeout.backoff_ms(0)
        self.reauthenticate_ms = NEVER_MS
        self.ready_count = 0
        self.was_used = False
        self.was_answered = False
        self._reconnect_backoff_ms = 0
        self._failed_attempts = 0
        self._failed_setups = 0
        self._throttled_until_ms = 0
        self._addresses: Sequence[ResolvedAddress] = ()
        self._address_index = 0
        self._last_address: ResolvedAddress | None = None
        #: A look-up that has begun, and whose result was not used yet. It outlives an attempt that timed out.
        self._lookup: Lookup | None = None

    # -- queries ---------------------------------------------------------------------------------------

    def is_at(self, node: Node) -> bool:
        """Whether the connection is to the address of ``node``."""
        return self.node.port == node.port and self.node.host == node.host

    @property
    def is_disconnected(self) -> bool:
        """Whether there is neither a connection nor an attempt to connect."""
        return self.state is _S.DISCONNECTED

    @property
    def is_connected(self) -> bool:
        """Whether the connection is up, with or without version check and authentication."""
        return self.state not in (_S.CONNECTING, _S.DISCONNECTED)

    def is_ready(self, now_ms: int) -> bool:
        """Whether the connection is ready, not throttled by the broker and not to be authenticated again."""
        return (
            self.state is _S.READY and self._throttled_until_ms <= now_ms and now_ms < self.reauthenticate_ms
        )

    def is_reauthentication_due(self, now_ms: int) -> bool:
        """Whether to authenticate again, as soon as no request is in flight."""
        return self.state is _S.READY and now_ms >= self.reauthenticate_ms

    def is_preparing(self, now_ms: int) -> bool:
        """Whether the connection is about to become ready, and not held up by a slow lookup."""
        return self.state in (_S.CONNECTING, _S.CHECKING_API_VERSIONS, _S.AUTHENTICATING) and not (
            self.is_resolving and now_ms - self.last_attempt_ms >= SLOW_LOOKUP_MS
        )

    @property
    def is_unreachable(self) -> bool:
        """Whether the last attempt to connect failed.

        False after a connection was lost that had been ready: it may come back at once.
        """
        return self.is_disconnected and (self._failed_setups > 0 or self._failed_attempts > 1)

    def connection_delay_ms(self, now_ms: int) -> int:
        """How long until a connection may be attempted; NEVER_MS if there is one already."""
        if not self.is_disconnected:
            return NEVER_MS
        return max(self.last_attempt_ms + self._reconnect_backoff_ms - now_ms, 0)

    def poll_delay_ms(self, now_ms: int) -> int:
        """How long until backoff or throttling end; NEVER_MS if only an event can make the node usable."""
        throttled_ms = self._throttled_until_ms - now_ms
        return throttled_ms if throttled_ms > 0 else self.connection_delay_ms(now_ms)

    def setup_left_ms(self, now_ms: int) -> int:
        """How much of the setup timeout is left; negative once it has passed."""
        return self.last_attempt_ms + self.setup_timeout_ms - now_ms

    def setup_delay_ms(self, now_ms: int) -> int:
        """How long until the setup timeout has passed or, before that, the lookup becomes a slow one."""
        delay_ms = max(self.setup_left_ms(now_ms) + 1, 0)
        slow_in_ms = self.last_attempt_ms + SLOW_LOOKUP_MS - now_ms
        return min(delay_ms, slow_in_ms) if self.is_resolving and slow_in_ms > 0 else delay_ms

    # -- transitions -----------------------------------------------------------------------------------

    def connecting(self, now_ms: int, begin_lookup: BeginLookup) -> None:
        """An attempt begins. ``next_address`` returns the address to connect to."""
        self._move(_S.CONNECTING)
        self.last_attempt_ms = now_ms
        self._address_index += 1
        if self._address_index >= len(self._addresses):
            if self._lookup is None:
                self._lookup = begin_lookup(self.node.host, self.node.port)
            self.is_resolving = True

    def next_address(self, now_ms: int) -> ResolvedAddress | None:
        """The address to connect to; ``None`` while the host name is being looked up.

        Each address of the host is tried once before any is tried again; then the name is looked up again.
        The setup timeout counts from the end of the lookup. Raises NetworkError if the lookup failed; the
        state is CONNECTING then, and ``ended`` must follow.
        """
        if self.is_resolving:
            lookup = self._lookup
            if lookup is None or not lookup.done():
                return None
            self.is_resolving = False
            self._lookup = None
            self._addresses = ()
            self._addresses = lookup.result(timeout=0)
            # Do not begin with the address that was tried last.
            repeats = len(self._addresses) > 1 and self._addresses[0] == self._last_address
            self._address_index = 1 if repeats else 0
            self.last_attempt_ms = now_ms
        self._last_address = self._addresses[self._address_index]
        return self._last_address

    def checking_api_versions(self) -> None:
        """The connection is up and ApiVersions is being sent."""
        self._move(_S.CHECKING_API_VERSIONS)
        self.ready_count = 0
        self.earlier_error = None if self.was_answered else self.last_error
        self.was_answered = False
        self._reset_setup_timeout()

    def authenticating(self, versions: NodeApiVersions) -> None:
        """The version check succeeded, or the session is about to end: the authentication begins."""
        self._move(_S.AUTHENTICATING)
        self.versions = versions

    def ready(self, versions: NodeApiVersions) -> None:
        """Version check and authentication succeeded. The backoff is reset."""
        self._move(_S.READY)
        self.versions = versions
        self.ready_count += 1
        self.last_error = None
        self.reauthenticate_ms = NEVER_MS
        self.was_used = False
        self._failed_attempts = 0

    def ended(self, now_ms: int) -> None:
        """The connection, or the attempt, ended. The next attempt waits for the backoff."""
        was_connecting = self.state is _S.CONNECTING
        self._move(_S.DISCONNECTED)
        self.versions = None
        self.has_moved = False
        self.last_attempt_ms = now_ms
        self._reconnect_backoff_ms = self._reconnect_backoff.backoff_ms(self._failed_attempts)
        self._failed_attempts += 1
        self._throttled_until_ms = 0
        self.is_resolving = False
        if was_connecting:
            self._failed_setups += 1
            self.setup_timeout_ms = self._setup_timeout.backoff_ms(self._failed_setups)
        else:
            self._reset_setup_timeout()
            # After a lost connection the name may resolve to other machines.
            self._addresses = ()

    def throttle(self, until_ms: int) -> None:
        """The broker asked for a pause. A later end is never replaced by an earlier one."""
        self._throttled_until_ms = max(self._throttled_until_ms, until_ms)

    def _reset_setup_timeout(self) -> None:
        self._failed_setups = 0
        self.setup_timeout_ms = self._setup_timeout.backoff_ms(0)

    def _move(self, state: ConnectionState) -> None:
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise IllegalStateError(f"node {self.id} cannot go from {self.state.value} to {state.value}")
        self.state = state
