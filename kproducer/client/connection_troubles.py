"""ConnectionTroubles: what is wrong with each node's connection, in words, for errors and for the log.

Knows the names of the brokers and how their last connections ended; decides nothing about connections. A
broker that is down is tried every second or so: the log hears of it once a minute. Source: ours; Kafka's
``NetworkClient`` logs each end by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kproducer.client.cluster_connection_states import ClusterConnectionStates, ConnectionState
from kproducer.client.in_flight_requests import InFlightRequests
from kproducer.errors import (
    KafkaError,
    printable,
)
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.runtime.log_repeats import LogRepeats
from kproducer.types import Node

_log = GuardedLogger(__name__)

_QUIET_MS = 60_000


class ConnectionTroubles:
    """I/O thread only, except ``last_error`` and ``of_all``, which any thread may use.

    Args:
        states, in_flight: read to say what a connection without error waits for.
        request_timeout_ms: named in the texts.
    """

    __slots__ = ("_brokers", "_in_flight", "_last_errors", "_repeats", "_request_timeout_ms", "_states")

    def __init__(
        self, states: ClusterConnectionStates, in_flight: InFlightRequests, request_timeout_ms: int
    ) -> None:
        self._states = states
        self._in_flight = in_flight
        self._request_timeout_ms = request_timeout_ms
        self._repeats = LogRepeats(_QUIET_MS)
        # written by the I/O thread, read by any; each write is one atomic dictionary operation
        self._brokers: dict[str, str] = {}  # connection id to words
        self._last_errors: dict[str, str] = {}

    def broker(self, node_id: str) -> str:
        """The node in words, as far as it is known."""
        return self._brokers.get(node_id, f"node {node_id}")

    def connecting(self, node_id: str, node: Node) -> None:
        """A connection to the node begins."""
        self._brokers[node_id] = (
            f"{printable(node.host)}:{node.port} (bootstrap)" if node.id < 0 else str(node)
        )

    def over(self, node_id: str) -> None:
        """The connection is ready: what was wrong before is history."""
        self._last_errors.pop(node_id, None)

    def connection_ended(self, node_id: str, state: ConnectionState, error: KafkaError, now_ms: int) -> None:
        """Note and log how a connection ended that had got as far as ``state``."""
        self._last_errors[node_id] = str(error)
        broker = self.broker(node_id)
        suffix = self._repeats.suffix((broker, state, type(error).__name__), now_ms)
        level = logging.DEBUG if suffix is None else logging.INFO
        _log.log(level, "Connection to %s ended while %s: %s%s", broker, state.value, error, suffix or "")

    def no_broker_reachable(self, nodes: Iterable[Node], now_ms: int) -> None:
        """Warn that the last attempt to connect failed for every node."""
        suffix = self._repeats.suffix("no broker", now_ms)
        if suffix is not None:
            _log.warning("No broker can be reached, trying on: %s", "; ".join(self.of_all(nodes)))

    def last_error(self, node_id: str) -> str | None:
        """How the last connection to the node ended; None while all is well. Any thread."""
        return self._last_errors.get(node_id)

    def of_all(self, nodes: Iterable[Node]) -> list[str]:
        """For every node in trouble its last error, or what it is waited for. Any thread."""
        troubles = (self.last_error(str(node.id)) or self._waits_for(str(node.id)) for node in nodes)
        return [trouble for trouble in troubles if trouble is not None]

    def _waits_for(self, node_id: str) -> str | None:
        """What a connection without error waits for. A peer that keeps silent has no error for long."""
        state = self._states.state(node_id)
        broker = self.broker(node_id)
        if self._states.is_resolving(node_id):
            return f"the name service has not answered for the host name of {broker} yet"
        if state is ConnectionState.CONNECTING:
            return f"still connecting to {broker} (socket_connection_setup_timeout_ms)"
        limit = f"(request_timeout_ms={self._request_timeout_ms})"
        if state is ConnectionState.CHECKING_API_VERSIONS:
            return f"{broker} accepted the connection and has not answered ApiVersions yet {limit}"
        unanswered = self._in_flight.count_of(node_id)
        return f"{broker} has not answered {unanswered} request(s) yet {limit}" if unanswered else None
