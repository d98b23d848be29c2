"""PushTelemetry, version 0.

Behaviour: checks as Kafka's ``ClientMetricsManager``: an id of zeros, and any request after the terminating
push, is INVALID_REQUEST (42); another subscription than the present one is UNKNOWN_SUBSCRIPTION_ID (117); a
codec that was not offered is UNSUPPORTED_COMPRESSION_TYPE (76); a payload above the limit is
TELEMETRY_TOO_LARGE (118); a push before the interval since the last one has passed, unless it is the
terminating one, is THROTTLING_QUOTA_EXCEEDED (89); what is not compressed as the request says is
INVALID_RECORD (87). All but the change of the subscription are violations.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kproducer_messages import ZERO_UUID, PushTelemetryResponse

from kproducer._core.records.compression import Compression, CompressionType
from kproducer.testing.fakebroker.key71_get_telemetry_subscriptions import (
    THROTTLING_QUOTA_EXCEEDED,
    Pushed,
)

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext

INVALID_REQUEST = 42
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87
UNKNOWN_SUBSCRIPTION_ID = 117
TELEMETRY_TOO_LARGE = 118


def handle(context: RequestContext) -> PushTelemetryResponse:
    response = PushTelemetryResponse(throttle_time_ms=context.broker.throttle_time_ms)
    response.error_code, complaint = _take(context)
    if complaint:
        context.cluster.note_violation(f"{context.logged}: {complaint}")
    return response


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
