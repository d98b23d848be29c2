"""GetTelemetrySubscriptions and PushTelemetry, version 0 (KIP-714)."""

from __future__ import annotations

import time
import uuid

from kproducer_messages import ZERO_UUID, GetTelemetrySubscriptionsResponse, PushTelemetryResponse

from kproducer._core.records.compression import Compression, CompressionType
from kproducer.testing.fakebroker.actions import RequestContext
from kproducer.testing.fakebroker.telemetry import Pushed, TelemetryClient

INVALID_REQUEST = 42
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87
THROTTLING_QUOTA_EXCEEDED = 89
UNKNOWN_SUBSCRIPTION_ID = 117
TELEMETRY_TOO_LARGE = 118


def get_subscriptions(context: RequestContext) -> GetTelemetrySubscriptionsResponse:
    """An instance id for a client that sends zeros, and the present subscription.

    An id that is not known is accepted, as by a broker that was restarted. A client that asks again before
    the interval since its last request has passed gets THROTTLING_QUOTA_EXCEEDED (89), and is a violation,
    unless its last push was refused because the subscription has changed.
    """
    telemetry = context.cluster.telemetry
    client_id = context.message.client_instance_id
    if client_id == ZERO_UUID:
        client_id = uuid.uuid4()
    client = telemetry.clients.setdefault(client_id, TelemetryClient())
    if not (client.may_ask_at_once or telemetry.has_passed(max(client.asked_s, client.pushed_s))):
        context.cluster.note_violation(f"{context.logged}: before the interval has passed")
        return GetTelemetrySubscriptionsResponse(error_code=THROTTLING_QUOTA_EXCEEDED)
    client.asked_s = time.monotonic()
    client.may_ask_at_once = False
    subscription = telemetry.subscription
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_id,
        subscription_id=subscription.id,
        accepted_compression_types=list(subscription.compression),
        push_interval_ms=subscription.push_interval_ms,
        telemetry_max_bytes=subscription.max_bytes,
        delta_temporality=subscription.is_delta,
        requested_metrics=list(subscription.metrics),
    )


def push(context: RequestContext) -> PushTelemetryResponse:
    """Keep a client's metrics. Checks as Kafka's ``ClientMetricsManager``.

    An id of zeros, and any request after the terminating push, is INVALID_REQUEST (42); another subscription
    than the present one is UNKNOWN_SUBSCRIPTION_ID (117); a codec that was not offered is
    UNSUPPORTED_COMPRESSION_TYPE (76); a payload above the limit is TELEMETRY_TOO_LARGE (118); a push before
    the interval since the last one has passed, unless it is the terminating one, is THROTTLING_QUOTA_EXCEEDED
    (89); what is not compressed as the request says is INVALID_RECORD (87). All but the change of the
    subscription are violations.
    """
    code, complaint = _take(context)
    if complaint:
        context.cluster.note_violation(f"{context.logged}: {complaint}")
    return PushTelemetryResponse(error_code=code)


def _take(context: RequestContext) -> tuple[int, str]:
    """The error code, and what a correct client would not have done."""
    message, telemetry = context.message, context.cluster.telemetry
    subscription = telemetry.subscription
    client = telemetry.clients.get(message.client_instance_id)
    if message.client_instance_id == ZERO_UUID:
        return INVALID_REQUEST, "no instance id"
    if client is None or message.subscription_id != subscription.id:
        if client is not None:
            client.may_ask_at_once = True
        return UNKNOWN_SUBSCRIPTION_ID, ""
    if client.has_ended:
        return INVALID_REQUEST, "after the terminating push"
    if message.compression_type not in (0, *subscription.compression):
        return UNSUPPORTED_COMPRESSION_TYPE, f"codec {message.compression_type} was not offered"
    if len(message.metrics) > subscription.max_bytes:
        return TELEMETRY_TOO_LARGE, f"{len(message.metrics)} bytes"
    is_first = client.asked_s > client.pushed_s
    if not (is_first or message.terminating or telemetry.has_passed(client.pushed_s)):
        return THROTTLING_QUOTA_EXCEEDED, "before the interval has passed"
    try:
        data = Compression(CompressionType(message.compression_type)).decompress(message.metrics)
    except Exception as error:
        return INVALID_RECORD, f"{error!r}"
    client.pushed_s = time.monotonic()
    client.has_ended = message.terminating
    pushed = Pushed(message.client_instance_id, message.terminating, message.compression_type, data)
    telemetry.pushes.append(pushed)
    return 0, ""
