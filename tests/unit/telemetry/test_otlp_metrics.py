"""The protobuf encoder: OpenTelemetry's own classes read what was written."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from kproducer._core.telemetry.otlp_metrics import Point, encode_attributes, encode_metrics_data

_TIMES = st.integers(1, 2**64 - 1)
# Lone surrogates have no UTF-8.
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)
#: protobuf's own encoder leaves out empty ones.
_NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)
#: Attributes, value and time.
_POINTS = st.lists(
    st.tuples(st.dictionaries(_NAMES, _TEXTS, max_size=3), st.floats(), st.one_of(st.just(0), _TIMES)),
    max_size=4,
)
_METRICS = st.dictionaries(_NAMES, _POINTS, max_size=4)


def encoded(metrics):
    return {
        name: [Point(encode_attributes(attributes), *rest) for attributes, *rest in points]
        for name, points in metrics.items()
    }


def attributes(message):
    return {each.key: each.value.string_value for each in message.attributes}


def bits(value):
    """NaN is not equal to itself."""
    return struct.pack("<d", value)


@given(_METRICS, _METRICS, st.dictionaries(_NAMES, _TEXTS, max_size=3), _TIMES, st.booleans())
def test_everything_that_is_encoded_is_read(gauges, counters, resource, now_ns, is_delta):
    data = encode_metrics_data(encoded(gauges), encoded(counters), resource, now_ns, is_delta=is_delta)
    message = MetricsData.FromString(data)
    if not gauges and not counters:
        assert data == b""
        return
    (of_client,) = message.resource_metrics
    (scope,) = of_client.scope_metrics
    assert attributes(of_client.resource) == resource
    temporality = AggregationTemporality.Name(2 - is_delta)
    assert temporality == f"AGGREGATION_TEMPORALITY_{'DELTA' if is_delta else 'CUMULATIVE'}"
    found = {"gauge": {}, "sum": {}}
    for metric in scope.metrics:
        kind = metric.WhichOneof("data")
        if kind == "sum":
            assert metric.sum.aggregation_temporality == 2 - is_delta
            assert metric.sum.is_monotonic
        points = list(getattr(metric, kind).data_points)
        assert all(point.time_unix_nano == now_ns for point in points)
        found[kind][metric.name] = [
            (attributes(point), bits(point.as_double), point.start_time_unix_nano) for point in points
        ]
    for kind, metrics in (("gauge", gauges), ("sum", counters)):
        assert found[kind] == {
            name: [(attributes, bits(value), since_ns) for attributes, value, since_ns in points]
            for name, points in metrics.items()
        }


@given(_METRICS)
def test_nothing_is_written_that_opentelemetry_does_not_know(gauges):
    data = encode_metrics_data(encoded(gauges), {}, {"a": "b"}, 1, is_delta=True)
    message = MetricsData.FromString(data)
    message.DiscardUnknownFields()
    assert message.ByteSize() == len(data)
