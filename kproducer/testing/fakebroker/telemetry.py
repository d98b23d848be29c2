"""What the cluster wants and knows of clients' metrics (KIP-714)."""

from __future__ import annotations

import math
import time
import uuid

import attrs

#: Clients measure intervals with another clock, from the response on, and round them.
CLOCK_TOLERANCE_S = 0.005


@attrs.define
class Subscription:
    """What the cluster wants, as an operator has set it. Change it with ``Telemetry.subscribe``."""

    id: int = 1
    metrics: tuple[str, ...] = ()
    push_interval_ms: int = 300_000
    compression: tuple[int, ...] = (4, 3, 1, 2)
    max_bytes: int = 1024 * 1024
    is_delta: bool = True


@attrs.define
class TelemetryClient:
    """What a broker remembers of one client.

    Attributes:
        asked_s, pushed_s: when its last requests were accepted (monotonic).
        may_ask_at_once: its last push had an outdated subscription.
        has_ended: it has sent its terminating push.
    """

    asked_s: float = -math.inf
    pushed_s: float = -math.inf
    may_ask_at_once: bool = False
    has_ended: bool = False


@attrs.frozen
class Pushed:
    """An accepted push; ``data`` is decompressed."""

    client_instance_id: uuid.UUID
    terminating: bool
    compression_type: int
    data: bytes


@attrs.define
class Telemetry:
    """The subscription, the clients and their pushes. Guarded by the cluster's lock."""

    subscription: Subscription = attrs.field(factory=Subscription)
    clients: dict[uuid.UUID, TelemetryClient] = attrs.field(factory=dict)
    pushes: list[Pushed] = attrs.field(factory=list)

    def subscribe(self, *metrics: str, **options: object) -> None:
        """Replace the subscription: clients learn of it when their next push is refused."""
        self.subscription = Subscription(self.subscription.id + 1, metrics, **options)  # type: ignore[arg-type]

    def has_passed(self, since_s: float) -> bool:
        """Whether the push interval has passed since then."""
        interval_s = self.subscription.push_interval_ms / 1000
        return time.monotonic() >= since_s + interval_s - CLOCK_TOLERANCE_S
