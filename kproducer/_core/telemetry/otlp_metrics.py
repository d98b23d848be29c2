"""OpenTelemetry's MetricsData message, version 1, as protobuf: the few messages and fields that a push needs.

Written by hand, because the feature is on by default and protobuf's runtime would be the largest dependency.
The tests compare the bytes with what the package opentelemetry-proto reads.
Source: opentelemetry/proto/metrics/v1/metrics.proto, common.proto and resource.proto; KIP-714.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

#: Values of AggregationTemporality.
_DELTA, _CUMULATIVE = 1, 2

#: Wire types of protobuf; that of varints is 0.
_FIXED64_TYPE, _BYTES_TYPE = 1, 2
#: A tag and the value. All tags here are one byte.
_DOUBLE_FIELD = struct.Struct("<Bd")
_FIXED64_FIELD = struct.Struct("<BQ")
#: The tag of NumberDataPoint's field as_double.
_AS_DOUBLE = 4 << 3 | _FIXED64_TYPE


class Point(NamedTuple):
    """One value of a metric.

    Attributes:
        attributes: what distinguishes it from the metric's other values; see ``encode_attributes``.
        value: of the gauge or counter.
        since_ns: when counting began, in nanoseconds since the Unix epoch; 0 for gauges.
    """

    attributes: bytes
    value: float
    since_ns: int = 0


def encode_attributes(attributes: Mapping[str, str]) -> bytes:
    """The attributes of points, which are the same for all metrics of a topic or node."""
    return b"".join(_attribute(7, key, value) for key, value in attributes.items())


def encode_metrics_data(
    gauges: Mapping[str, Iterable[Point]],
    counters: Mapping[str, Iterable[Point]],
    resource: Mapping[str, str],
    now_ns: int,
    *,
    is_delta: bool,
) -> bytes:
    """Encode the metrics of one client.

    Args:
        gauges: name to values that may go up and down.
        counters: name to values that only grow.
        resource: what all metrics have in common.
        now_ns: the time of the values, in nanoseconds since the Unix epoch.
        is_delta: ``counters`` are changes since the last message, and not sums since the client's start.

    Returns:
        The message; empty without any metric.
    """
    time = _fixed64(3, now_ns)
    # aggregation_temporality and is_monotonic
    kind = bytes((2 << 3, _DELTA if is_delta else _CUMULATIVE, 3 << 3, True))
    metrics = [_metric(name, 5, _points(points, time)) for name, points in gauges.items()]
    metrics += [_metric(name, 7, _points(points, time) + kind) for name, points in counters.items()]
    if not metrics:
        return b""
    scope_metrics = b"".join(_bytes(2, metric) for metric in metrics)
    described = b"".join(_attribute(1, key, value) for key, value in resource.items())
    return _bytes(1, _bytes(1, described) + _bytes(2, scope_metrics))


def _metric(name: str, field_of_kind: int, data: bytes) -> bytes:
    return _bytes(1, name.encode()) + _bytes(field_of_kind, data)


def _points(points: Iterable[Point], time: bytes) -> bytes:
    return b"".join(
        _bytes(
            1,
            (_fixed64(2, point.since_ns) if point.since_ns else b"")
            + time
            + _DOUBLE_FIELD.pack(_AS_DOUBLE, point.value)
            + point.attributes,
        )
        for point in points
    )


def _attribute(number: int, key: str, value: str) -> bytes:
    return _bytes(number, _bytes(1, key.encode()) + _bytes(2, _bytes(1, value.encode())))


def _bytes(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | _BYTES_TYPE,)) + _uvarint(len(content)) + content


def _fixed64(number: int, value: int) -> bytes:
    return _FIXED64_FIELD.pack(number << 3 | _FIXED64_TYPE, value)


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
