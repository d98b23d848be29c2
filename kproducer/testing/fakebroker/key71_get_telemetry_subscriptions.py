"""GetTelemetrySubscriptions, version 0; and what the cluster knows of clients that push metrics (KIP-714).

Behaviour: an instance id is assigned to a client that sends zeros; an id that is not known is accepted, as by
a broker that was restarted. The response has the present subscription. A client that asks again before the
interval since its last request has passed gets THROTTLING_QUOTA_EXCEEDED (89), and is a violation, unless its
last push was refused because the subscription has changed.
"""

from __future__ import annotations

import math
import time
import uuid
from typing import TYPE_CHECKING

import attrs
from kproducer_messages import ZERO_UUID, GetTelemetrySubscriptionsResponse

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext

THROTTLING_QUOTA_EXCEEDED = 89
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


def handle(context: RequestContext) -> GetTelemetrySubscriptionsResponse:
    telemetry = context.cluster.telemetry
    subscription = telemetry.subscription
    response = GetTelemetrySubscriptionsResponse(throttle_time_ms=context.broker.throttle_time_ms)
    client_id = context.message.client_instance_id
    if client_id == ZERO_UUID:
        client_id = uuid.uuid4()
    client = telemetry.clients.setdefault(client_id, TelemetryClient())
    if not (client.may_ask_at_once or telemetry.has_passed(max(client.asked_s, client.pushed_s))):
        context.cluster.note_violation(f"{context.logged}: before the interval has passed")
        response.error_code = THROTTLING_QUOTA_EXCEEDED
        return response
    client.asked_s = time.monotonic()
    client.may_ask_at_once = False
    response.client_instance_id = client_id
    response.subscription_id = subscription.id
    response.accepted_compression_types = list(subscription.compression)
    response.push_interval_ms = subscription.push_interval_ms
    response.telemetry_max_bytes = subscription.max_bytes
    response.delta_temporality = subscription.is_delta
    response.requested_metrics = list(subscription.metrics)
    return response
