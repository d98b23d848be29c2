"""Which throttle times a client has to honour itself, up to what length, and how.

From KIP-219 on a broker that throttles answers at once and expects the client to stay away for the time it
names; before, it held the answer back, and waiting again would be waiting twice. The version from which on a
broker answers at once differs from API to API. Source: KIP-219; Kafka's ``shouldClientThrottle``.
The upper bound is ours: Kafka's client believes anything, up to 24 days.
"""

from __future__ import annotations

from kproducer.client.cluster_connection_states import ClusterConnectionStates
from kproducer.client.in_flight_requests import InFlightRequests
from kproducer.protocol.registry import ApiKey, api_name
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.runtime.log_repeats import LogRepeats

_log = GuardedLogger(__name__)

#: The longest pause that is believed, five minutes, and the most that pauses add to one request's time. A
#: broker's quota windows span 11 s by default and a big burst over a small quota may cost minutes; what is
#: longer comes from a broken broker, which would otherwise be shut out for days by one answer.
LONGEST_THROTTLE_MS = 300_000

_QUIET_MS = 60_000

#: API key to the first version whose throttle time the client waits out. APIs not listed: every version.
_FIRST_CLIENT_SIDE_VERSION: dict[int, int] = {
    ApiKey.PRODUCE: 6,
    ApiKey.METADATA: 6,
    ApiKey.API_VERSIONS: 2,
}


def throttle_to_honour_ms(api_key: int, version: int, body: object) -> int:
    """The pause this response asks of the client, as the broker says it; 0: none."""
    throttle_ms: int = getattr(body, "throttle_time_ms", 0)
    if throttle_ms <= 0 or version < _FIRST_CLIENT_SIDE_VERSION.get(api_key, 0):
        return 0
    return throttle_ms


class Throttling:
    """Keeps away from nodes that asked for a pause. I/O thread only.

    Args:
        states: where the node is marked.
        in_flight: requests that the broker holds back meanwhile get more time.
    """

    __slots__ = ("_in_flight", "_repeats", "_states")

    def __init__(self, states: ClusterConnectionStates, in_flight: InFlightRequests) -> None:
        self._states = states
        self._in_flight = in_flight
        self._repeats = LogRepeats(_QUIET_MS)

    def honour(
        self, node_id: str, broker: str, api_key: int, version: int, body: object, now_ms: int
    ) -> None:
        """Do as the response asks, but never for longer than ``LONGEST_THROTTLE_MS``."""
        throttle_ms = throttle_to_honour_ms(api_key, version, body)
        if throttle_ms <= 0:
            return
        if throttle_ms > LONGEST_THROTTLE_MS:
            suffix = self._repeats.suffix(broker, now_ms)
            if suffix is not None:
                _log.warning(
                    "%s asks in its %s response for a pause of %d ms; it gets %d%s",
                    broker,
                    api_name(api_key),
                    throttle_ms,
                    LONGEST_THROTTLE_MS,
                    suffix,
                )
            throttle_ms = LONGEST_THROTTLE_MS
        self._states.throttle(node_id, now_ms + throttle_ms)
        self._in_flight.delay_expiry(node_id, throttle_ms, LONGEST_THROTTLE_MS)
