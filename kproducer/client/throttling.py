"""Which throttle times a client has to honour itself.

From KIP-219 on a broker that throttles answers at once and expects the client to stay away for the time it
names; before, it held the answer back, and waiting again would be waiting twice. The version from which on a
broker answers at once differs from API to API. Source: KIP-219; Kafka's ``shouldClientThrottle``.
"""

from __future__ import annotations

from kproducer.protocol.registry import ApiKey

#: API key to the first version whose throttle time the client waits out. APIs not listed: every version.
_FIRST_CLIENT_SIDE_VERSION: dict[int, int] = {
    ApiKey.PRODUCE: 6,
    ApiKey.METADATA: 6,
    ApiKey.API_VERSIONS: 2,
}


def throttle_to_honour_ms(api_key: int, version: int, body: object) -> int:
    """How long the client must not send to the node that sent this response; 0: not at all."""
    throttle_ms: int = getattr(body, "throttle_time_ms", 0)
    if throttle_ms <= 0 or version < _FIRST_CLIENT_SIDE_VERSION.get(api_key, 0):
        return 0
    return throttle_ms
