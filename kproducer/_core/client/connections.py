"""Connections: the connections of one client by node, and which of them can take a request.

Owns the ``NodeConnection`` of each node and begins connections; ``NetworkClient`` reports their events and
sends the requests. Source: Kafka's ``NetworkClient`` (connection handling, leastLoadedNode) and KIP-219
(throttling). Differs from Kafka: the log names equal failures once a minute, and a throttle time is limited.
"""

from __future__ import annotations

import logging
import random as random_module
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from kproducer._core.client.api_keys import ApiKey, api_name
from kproducer._core.client.api_versions import NodeApiVersions
from kproducer._core.client.client_request import RequestBuilder
from kproducer._core.client.in_flight_requests import InFlightRequests
from kproducer._core.client.node_connection import ConnectionState, NodeConnection
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.network.host_resolver import BeginLookup
from kproducer._core.network.selector import Selector
from kproducer._core.runtime.clock import NEVER_MS, ExponentialBackoff
from kproducer._core.runtime.guarded_logger import GuardedLogger, LogRepeats, error_fields
from kproducer.errors import AuthenticationError, KafkaError, NetworkError
from kproducer.types import Node

# Programs without SASL do not import it.
if TYPE_CHECKING:
    from kproducer._core.security.sasl_mechanisms import SaslMechanism

_log = GuardedLogger(__name__)

#: A broker that is down is tried about every second: equal messages are logged once in this time.
_QUIET_MS = 60_000

#: The longest throttle time that is honoured, and the most by which throttling extends a request's timeout.
#: Quota windows span 11 s by default, and a large burst over a small quota may cost minutes. A longer time
#: comes from a broken broker, and would make it unusable for up to 24 days after one response.
LONGEST_THROTTLE_MS = 300_000

#: API key to the first version whose throttle time the client waits out; APIs not listed: every version.
#: Before KIP-219 the broker delayed the response itself, and a wait by the client would be a second one.
_FIRST_CLIENT_SIDE_THROTTLING: dict[int, int] = {
    ApiKey.PRODUCE: 6,
    ApiKey.METADATA: 6,
    ApiKey.API_VERSIONS: 2,
}


class InternalClient(Protocol):
    """What the parts of a ``NetworkClient`` that send requests of their own need of it."""

    @property
    def connections(self) -> Connections: ...

    def connect_if_possible(self, node: Node, now_ms: int) -> None: ...

    def end_connection(self, connection: NodeConnection, error: KafkaError, now_ms: int) -> None: ...

    def send(self, node_id: int | str, builder: RequestBuilder, now_ms: int, callback: None) -> object: ...

    def wakeup(self) -> object: ...


class Connections:
    """The connections by node id. I/O thread only, except the methods that say "any thread".

    Args:
        selector: the sockets.
        in_flight: the requests on the connections; not changed here, except for timeouts while throttled.
        config: backoffs and timeouts.
        fetch_nodes: the nodes of the cluster that are known at present.
        begin_lookup: host name to addresses.
        random: for jitter, and for the choice among equal nodes.
        through: the proxy in words, for messages; empty: there is none.
        sasl: says in messages why an authentication has not begun; ``None``: there is none.

    Attributes:
        connecting: the connections that are not up yet, by node id.
        repeats: of messages about brokers.
        has_resolved: whether the address of any node was found so far.
        refusals: by node id, why the last connection ended, if one side refused the other because of
            credentials or certificates. The next attempt to connect removes it.
    """

    def __init__(
        self,
        selector: Selector,
        in_flight: InFlightRequests,
        config: ProducerConfig,
        fetch_nodes: Callable[[], Sequence[Node]],
        begin_lookup: BeginLookup,
        random: random_module.Random,
        through: str = "",
        sasl: SaslMechanism | None = None,
    ) -> None:
        # fixed after construction
        self._selector = selector
        self._in_flight = in_flight
        self._client_id = config.client_id
        self._request_timeout_ms = config.request_timeout_ms
        self._reconnect_backoff = ExponentialBackoff(
            config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, random
        )
        self._setup_timeout = ExponentialBackoff(
            config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms, random
        )
        self._fetch_nodes = fetch_nodes
        self._begin_lookup = begin_lookup
        self._random = random
        self._through = through
        self._sasl = sasl
        # written by the I/O thread, read by any; each write is one atomic dictionary operation
        self._by_id: dict[str, NodeConnection] = {}
        #: (node id as text) -> its connection, None before the first attempt. Any thread.
        self.get: Callable[[str], NodeConnection | None] = self._by_id.get
        # I/O thread only
        self.connecting: dict[str, NodeConnection] = {}
        self.has_resolved = False
        self.refusals: dict[int, AuthenticationError] = {}
        self.repeats = LogRepeats(_QUIET_MS)

    # -- queries ---------------------------------------------------------------------------------------

    def versions(self) -> list[NodeApiVersions]:
        """The API versions of the brokers that a connection is ready to. Any thread."""
        tables = [connection.versions for connection in self._by_id.copy().values()]
        return [versions for versions in tables if versions is not None]

    def brokers_in(self, state: ConnectionState) -> list[str]:
        """The brokers, in words, whose connection is in this state. Any thread."""
        return [each.broker for each in self._by_id.copy().values() if each.state is state]

    def can_send(self, node_id: str, now_ms: int) -> bool:
        """Whether the connection is ready, not throttled, and has room for a request."""
        connection = self._by_id.get(node_id)
        return (
            connection is not None
            and connection.is_ready(now_ms)
            and not connection.has_moved
            and self._in_flight.can_send_more(node_id)
        )

    def can_connect(self, node: Node, now_ms: int) -> bool:
        """Whether there is no connection and the backoff has ended."""
        connection = self._by_id.get(str(node.id))
        return connection is None or connection.connection_delay_ms(now_ms) == 0

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        """How long until backoff or throttling end; NEVER_MS if only an event can make the node usable."""
        connection = self._by_id.get(str(node.id))
        return 0 if connection is None else connection.poll_delay_ms(now_ms)

    def least_loaded(self, now_ms: int) -> Node | None:
        """The known node best suited for a request; None if every one is throttled, full or backing off.

        Ready nodes first, of these the one with the fewest requests in flight; then one that is connecting;
        then, of those that may be connected to, the one whose last attempt is the longest ago, so that each
        has its turn. Source: KAFKA-9181 and others for the order.
        """
        nodes = self._fetch_nodes()
        start = self._random.randrange(len(nodes)) if nodes else 0
        ranks = [(self._rank(node, now_ms), node) for node in (*nodes[start:], *nodes[:start])]
        usable = [(rank, node) for rank, node in ranks if rank is not None]
        return min(usable, key=itemgetter(0))[1] if usable else None

    def ready(self, now_ms: int) -> list[NodeConnection]:
        """The connections that can take a request now, the one with the fewest requests in flight first.

        Those to bootstrap addresses come last: they end once they are not needed.
        """
        ready = [each for each in self._by_id.values() if self.can_send(each.id, now_ms)]
        self._random.shuffle(ready)
        ready.sort(key=lambda each: (each.node.id < 0, self._in_flight.count_of(each.id)))
        return ready

    def is_any_connected(self) -> bool:
        """Whether a connection is up."""
        return any(connection.is_connected for connection in self._by_id.values())

    def _rank(self, node: Node, now_ms: int) -> tuple[int, int] | None:
        """The place of a node in the order of ``least_loaded``, lowest first; None: it cannot be used now."""
        node_id = str(node.id)
        connection = self._by_id.get(node_id)
        if self.can_send(node_id, now_ms):
            return 0, self._in_flight.count_of(node_id)
        if connection is not None and connection.is_preparing(now_ms):
            return 1, 0
        if self.can_connect(node, now_ms):
            return 2, 0 if connection is None else connection.last_attempt_ms
        return None

    def are_all_unreachable(self, nodes: Iterable[Node]) -> bool:
        """Whether the last attempt to connect failed for each of the nodes."""
        connections = [self._by_id.get(str(node.id)) for node in nodes]
        return all(connection is not None and connection.is_unreachable for connection in connections)

    def refusal_by_all(self) -> AuthenticationError | None:
        """One of the ``refusals``, if every known node has refused or cannot be reached."""
        nodes = self._fetch_nodes()
        refusals = [self.refusals[node.id] for node in nodes if node.id in self.refusals]
        others = [node for node in nodes if node.id not in self.refusals]
        return refusals[0] if refusals and self.are_all_unreachable(others) else None

    def is_any_preparing(self, now_ms: int) -> bool:
        """Whether a connection is about to become ready, and not held up by a slow name service."""
        return any(connection.is_preparing(now_ms) for connection in self._by_id.values())

    def has_failed(self, node: Node) -> bool:
        """Whether the node has no connection because the last one ended or the last attempt failed."""
        connection = self._by_id.get(str(node.id))
        return connection is not None and connection.is_disconnected

    def last_error(self, node_id: int | str) -> str | None:
        """How the last connection to the node ended, in words; None since one became ready. Any thread."""
        connection = self._by_id.get(str(node_id))
        return None if connection is None else connection.last_error

    def last_errors(self, with_unanswered: bool = True) -> list[str]:
        """For each known node its ``last_error``, or what its connection waits for, if anything. Any thread.

        Args:
            with_unanswered: also the requests in flight on ready connections, which a busy client always has.
        """
        errors: list[str | None] = []
        for node in self._fetch_nodes():
            each = self._by_id.get(str(node.id))
            if each is not None:
                has_wait = with_unanswered or each.state is not ConnectionState.READY
                errors.append(each.last_error or (self._waits_for(each) if has_wait else None))
        return [error for error in errors if error is not None]

    def failures(self) -> tuple[list[str], bool]:
        """How connections to known nodes have failed, and whether all nodes are unreachable. Any thread."""
        nodes = self._fetch_nodes()
        errors = [self.last_error(node.id) for node in nodes]
        return [error for error in errors if error is not None], self.are_all_unreachable(nodes)

    def _waits_for(self, connection: NodeConnection) -> str | None:
        broker = connection.broker
        if connection.is_resolving:
            return f"the name service has not answered for the host name of {broker}{self._through} yet"
        if connection.state is ConnectionState.CONNECTING:
            return f"still connecting to {broker}{self._through} (socket_connection_setup_timeout_ms)"
        limit = f"(request_timeout_ms={self._request_timeout_ms})"
        if connection.state is ConnectionState.CHECKING_API_VERSIONS:
            return f"{broker} accepted the connection and has not answered ApiVersions yet {limit}"
        if connection.state is ConnectionState.AUTHENTICATING:
            waits_for = "" if self._sasl is None else self._sasl.waits_for(connection.node.host)
            if waits_for:
                return f"the authentication with {broker} has no credentials yet: {waits_for}"
            return f"the authentication with {broker} has not ended yet {limit}"
        unanswered = self._in_flight.count_of(connection.id)
        earlier = None if connection.was_answered else connection.earlier_error
        before = "" if earlier is None else f"; the connection before ended: {earlier}"
        return (
            f"{broker} has not answered {unanswered} request(s) yet {limit}{before}" if unanswered else None
        )

    # -- beginning and ending --------------------------------------------------------------------------

    def begin(self, node: Node, now_ms: int) -> NodeConnection:
        """Begin a connection: look up the host name. ``connect_if_resolved`` must follow."""
        node_id = str(node.id)
        self.refusals.pop(node.id, None)
        connection = self._by_id.get(node_id)
        if connection is None or not connection.is_at(node):
            connection = NodeConnection(node, self._reconnect_backoff, self._setup_timeout)
            self._by_id[node_id] = connection
        self.connecting[node_id] = connection
        connection.connecting(now_ms, self._begin_lookup)
        return connection

    def connect_if_resolved(self, connection: NodeConnection, now_ms: int) -> None:
        """Connect the socket once the address is known. Raises NetworkError; ``ended`` must follow."""
        resolved = connection.next_address(now_ms)
        if resolved is not None:
            self.has_resolved = True
            family, address, target = resolved
            self._selector.connect(connection.id, address, family, connection.node.host, target)

    def resolving(self) -> list[NodeConnection]:
        """The connections that wait for a host name lookup."""
        return [connection for connection in self.connecting.values() if connection.is_resolving]

    def next_setup_timeout_ms(self, now_ms: int) -> int:
        """How long until a connection may run into its setup timeout; NEVER_MS if none is connecting."""
        return min(
            (connection.setup_delay_ms(now_ms) for connection in self.connecting.values()), default=NEVER_MS
        )

    def past_setup_timeout(self, now_ms: int) -> list[tuple[NodeConnection, NetworkError]]:
        """The connections that have been connecting for longer than their setup timeout, with the error."""
        late: list[tuple[NodeConnection, NetworkError]] = []
        for each in self.connecting.values():
            if each.setup_left_ms(now_ms) < 0:
                what = "no connection to"
                if each.is_resolving:
                    what = "the name service has not answered for the host name of"
                text = f"{what} {each.broker}{self._through} within {each.setup_timeout_ms} ms"
                late.append((each, NetworkError(f"{text} (socket_connection_setup_timeout_ms)")))
        return late

    def checking_api_versions(self, connection: NodeConnection) -> None:
        """The connection is up and ApiVersions is being sent."""
        del self.connecting[connection.id]
        connection.checking_api_versions()

    def ended(self, connection: NodeConnection, error: KafkaError, now_ms: int) -> None:
        """Note and log how a connection ended."""
        state, broker = connection.state, connection.broker
        self.connecting.pop(connection.id, None)
        connection.ended(now_ms)
        connection.last_error = str(error)
        if isinstance(error, AuthenticationError):
            self.refusals[connection.node.id] = error
        suffix = self.repeats.suffix((broker, state, type(error).__name__), now_ms)
        level = logging.WARNING if isinstance(error, AuthenticationError) else logging.INFO
        level = logging.DEBUG if suffix is None else level
        _log.log(
            level,
            "Connection to %s ended while %s: %s%s",
            broker,
            state.value,
            error,
            suffix or "",
            extra={"client_id": self._client_id, "broker": broker, **error_fields(error)},
        )
        if state is ConnectionState.READY or not self.are_all_unreachable(self._fetch_nodes()):
            return
        if self.repeats.suffix("no broker", now_ms) is not None:
            errors = "; ".join(self.last_errors())
            fields = {"client_id": self._client_id}
            _log.warning(
                "No broker can be reached; retrying, and send() waits for up to max_block_ms: %s",
                errors,
                extra=fields,
            )

    def retain(self, nodes: Iterable[Node]) -> None:
        """Forget disconnected nodes that have left the cluster."""
        keep = {str(node.id) for node in nodes}
        for node_id, connection in list(self._by_id.items()):
            if node_id not in keep and connection.is_disconnected:
                del self._by_id[node_id]

    def throttle(
        self, connection: NodeConnection, api_key: int, version: int, throttle_ms: int, now_ms: int
    ) -> None:
        """Send nothing for the time that a response asks for, at most for ``LONGEST_THROTTLE_MS``."""
        if version < _FIRST_CLIENT_SIDE_THROTTLING.get(api_key, 0):
            return
        if throttle_ms > LONGEST_THROTTLE_MS:
            suffix = self.repeats.suffix((connection.broker, "throttle"), now_ms)
            if suffix is not None:
                _log.warning(
                    "%s response of %s: throttle time of %d ms limited to %d ms%s",
                    api_name(api_key),
                    connection.broker,
                    throttle_ms,
                    LONGEST_THROTTLE_MS,
                    suffix,
                    extra={"client_id": self._client_id, "broker": connection.broker},
                )
            throttle_ms = LONGEST_THROTTLE_MS
        connection.throttle(now_ms + throttle_ms)
        self._in_flight.delay_expiry(connection.id, throttle_ms, LONGEST_THROTTLE_MS)
