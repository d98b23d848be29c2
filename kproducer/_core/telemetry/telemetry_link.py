"""TelemetryLink: sends the requests of ``ClientTelemetry`` to a connected broker that has the APIs.

It opens no connection, and lets metadata updates and, for a second, records go first. An error in telemetry
ends telemetry, and nothing else. Source: Kafka's ``NetworkClient.TelemetrySender``. Differs from
Kafka: the Java client connects to a broker if it has no connection, and asks brokers without the APIs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.client_request import MessageBuilder
from kproducer._core.runtime.clock import NEVER_MS
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.telemetry.client_telemetry import ClientTelemetry

if TYPE_CHECKING:
    from kproducer._core.client.client_request import ClientResponse
    from kproducer._core.client.network_client import NetworkClient
    from kproducer._core.runtime.clock import Clock

_log = GuardedLogger(__name__)

#: When to look again while no connected broker can take a request (no event shows the end of throttling), and
#: how long telemetry lets records go first.
_BUSY_MS = 1000


class TelemetryLink:
    """Sends the requests of one producer's telemetry. I/O thread only.

    Args:
        telemetry: makes the requests.
        client: the connections.
        clock: for the time of responses.

    Attributes:
        telemetry: as given.
        first_ms: when to call ``step`` before records are sent (monotonic): under full load they would take
            every place in flight. ``NEVER_MS`` unless a request waits for a place.
    """

    def __init__(self, telemetry: ClientTelemetry, client: NetworkClient, clock: Clock) -> None:
        self.telemetry = telemetry
        self.first_ms = NEVER_MS
        self._client = client
        self._clock = clock

    def step(self, now_ms: int) -> int:
        """Send the request that is due, if a broker can take it.

        Returns:
            Milliseconds until the next step; responses and connections end the poll sooner.
        """
        telemetry = self.telemetry
        if self._client.bootstrap_error is not None:
            telemetry.end()  # no broker will ever be known: end the waits for the id
        if now_ms < telemetry.due_ms:
            return telemetry.due_ms - now_ms
        try:
            telemetry.end_if_late(now_ms)
            if telemetry.is_open and not self._send(now_ms):
                if self._client.connections.is_any_connected():
                    self.first_ms = min(self.first_ms, now_ms + _BUSY_MS)
                    return min(_BUSY_MS, telemetry.close_ends_ms - now_ms)
                if not telemetry.is_closing:
                    return NEVER_MS
                telemetry.end()
            self.first_ms = NEVER_MS
        except Exception as bug:
            self._end_after(bug)
        # 0 if telemetry has ended just now: the loop that closes the producer may wait for that.
        return max(telemetry.due_ms - now_ms, 0) if telemetry.is_open else 0

    def begin_close(self, now_ms: int) -> None:
        """All records have their outcome: send the terminating push, or end."""
        try:
            self.telemetry.begin_close(now_ms)
        except Exception as bug:
            self._end_after(bug)

    def _send(self, now_ms: int) -> bool:
        """Send the request that is due. Returns false if no broker can take it now."""
        telemetry, api_key = self.telemetry, self.telemetry.next_api_key
        connections = self._client.ready_connections(now_ms)
        if not connections:
            return False
        for connection in connections:
            if connection.versions is not None and api_key in connection.versions.ranges:
                request = telemetry.next_request(now_ms)
                if request is not None:
                    self._client.send(connection.id, MessageBuilder(request), now_ms, self._handle)
                return True
        telemetry.not_supported(now_ms)
        return True

    def _handle(self, response: ClientResponse) -> None:
        """A request has ended."""
        telemetry, now_ms = self.telemetry, self._clock.monotonic_ms()
        try:
            if response.body is None:
                telemetry.handle_failure(response.error, now_ms)
            elif response.request.api_key == ApiKey.PUSH_TELEMETRY:
                telemetry.handle_push(response.body, now_ms)
            else:
                telemetry.handle_subscription(response.body, now_ms)
        except Exception as bug:
            self._end_after(bug)

    def _end_after(self, bug: Exception) -> None:
        fields = {"client_id": self.telemetry.client_id}
        _log.info(
            "Unexpected error in the telemetry of %s, which ends",
            self.telemetry.client_id,
            exc_info=bug,
            extra=fields,
        )
        self.telemetry.end()
