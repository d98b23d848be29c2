"""Spans, context in headers and metrics, as the SDK of OpenTelemetry exports them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from kproducer import (
    AsyncKafkaProducer,
    InvalidArgumentError,
    KafkaProducer,
    RecordTooLargeError,
    SendManyError,
)
from kproducer.opentelemetry import InstrumentedProducer, instrument
from kproducer.testing.fakebroker import FakeCluster, faults

PATIENCE_S = 20
OTHER_TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Telemetry:
    """An SDK that keeps what it gets."""

    def __init__(self, **options: Any) -> None:
        self._spans = InMemorySpanExporter()
        self.tracer_provider = TracerProvider(shutdown_on_exit=False, **options)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self._reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def instrument(self, producer: KafkaProducer, **options: Any) -> InstrumentedProducer:
        return instrument(
            producer, tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, **options
        )

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    @property
    def span(self) -> ReadableSpan:
        (span,) = self.spans
        return span

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def sent(self) -> dict[str | None, int]:
        """Messages by error type."""
        counts: dict[str | None, int] = {}
        for point in self.points("messaging.client.sent.messages"):
            kind = point.attributes.get("error.type")
            counts[kind] = counts.get(kind, 0) + point.value
        return counts


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        cluster.create_topic("orders", 1)
        yield cluster


@pytest.fixture
def producer(cluster: FakeCluster) -> Iterator[KafkaProducer]:
    with KafkaProducer(cluster.bootstrap_servers, client_id="shop", linger_ms=0) as producer:
        yield producer


def headers_of(cluster: FakeCluster) -> list[list[tuple[str, bytes | None]]]:
    return [list(record.headers) for record in cluster.records("orders", 0)]


def traceparent(span: ReadableSpan) -> bytes:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}".encode()


def test_other_producers_are_refused(cluster: FakeCluster) -> None:
    """They would send, but untraced or with errors that do not say why."""
    producer = AsyncKafkaProducer(cluster.bootstrap_servers)
    try:
        with pytest.raises(
            InvalidArgumentError, match="expected a KafkaProducer, got AsyncKafkaProducer: for"
        ):
            instrument(producer)  # type: ignore[arg-type]
    finally:
        asyncio.run(producer.aclose())


def test_a_record_has_a_span_from_the_call_to_the_outcome(
    cluster: FakeCluster, producer: KafkaProducer, telemetry: Telemetry
) -> None:
    traced = telemetry.instrument(producer)
    told: list[Any] = []
    with telemetry.tracer_provider.get_tracer("test").start_as_current_span("order") as parent:
        future = traced.send(
            "orders", None, "key", [("a", b"1")], on_delivery=lambda m, e: told.append((m, e))
        )
    future.result(PATIENCE_S)
    traced.flush(PATIENCE_S)
    span = next(each for each in telemetry.spans if each.name == "send orders")
    assert span.kind is SpanKind.PRODUCER
    assert span.parent == parent.get_span_context()
    assert dict(span.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.client.id": "shop",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.message.key": "key",
        "messaging.kafka.message.tombstone": True,
        "messaging.kafka.offset": 0,
        "server.address": cluster.bootstrap_servers[0].rpartition(":")[0],
        "server.port": int(cluster.bootstrap_servers[0].rpartition(":")[2]),
    }
    assert span.status.status_code is StatusCode.UNSET
    assert headers_of(cluster) == [[("a", b"1"), ("traceparent", traceparent(span))]]
    ((metadata, error),) = told
    assert (metadata.offset, error) == (0, None)
    assert telemetry.sent() == {None: 1}
    (duration,) = telemetry.points("messaging.client.operation.duration")
    assert duration.count == 1
    assert duration.attributes["messaging.destination.name"] == "orders"
    assert duration.attributes["messaging.destination.partition.id"] == "0"
    assert "messaging.client.id" not in duration.attributes


@pytest.mark.parametrize("form", [dict, list, tuple, lambda pairs: ([*pair] for pair in pairs)])
def test_an_existing_context_is_replaced_and_linked(
    form: Any, cluster: FakeCluster, producer: KafkaProducer, telemetry: Telemetry
) -> None:
    headers = form([("traceparent", OTHER_TRACE), ("b", "2")])
    telemetry.instrument(producer).send("orders", b"v", headers=headers).result(PATIENCE_S)
    producer.flush(PATIENCE_S)
    span = telemetry.span
    assert headers_of(cluster) == [[("b", b"2"), ("traceparent", traceparent(span))]]
    (link,) = span.links
    assert f"{link.context.trace_id:032x}" in OTHER_TRACE


def test_baggage_of_the_caller_stays(
    cluster: FakeCluster, producer: KafkaProducer, telemetry: Telemetry
) -> None:
    traced = telemetry.instrument(producer)
    headers = [("baggage", b"user=1"), ("tracestate", b"a=1")]
    traced.send("orders", b"v", headers=headers).result(PATIENCE_S)
    with_baggage = baggage.set_baggage("user", "2")
    token = otel_context.attach(with_baggage)
    try:
        traced.send("orders", b"v", headers=headers).result(PATIENCE_S)
    finally:
        otel_context.detach(token)
    kept, replaced = (dict(each) for each in headers_of(cluster))
    assert kept["baggage"] == b"user=1"
    assert replaced["baggage"] == b"user=2"
    assert "tracestate" not in kept


def test_an_interrupted_send_ends_its_operation_once(
    cluster: FakeCluster, producer: KafkaProducer, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C may come after the record was accepted."""
    send = producer.send

    def interrupted(*arguments: Any) -> Any:
        send(*arguments).result(PATIENCE_S)
        producer.flush(PATIENCE_S)
        raise KeyboardInterrupt

    monkeypatch.setattr(producer, "send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        telemetry.instrument(producer).send("orders", b"v")
    assert telemetry.span.status.status_code is StatusCode.UNSET
    assert telemetry.sent() == {None: 1}
    (duration,) = telemetry.points("messaging.client.operation.duration")
    assert duration.count == 1


def test_a_failed_record(cluster: FakeCluster, producer: KafkaProducer, telemetry: Telemetry) -> None:
    cluster.control(0, faults.refuse_produce(29))
    future = telemetry.instrument(producer).send("orders", b"v")
    assert future.exception(PATIENCE_S) is not None
    producer.flush(PATIENCE_S)
    span = telemetry.span
    assert span.attributes["error.type"] == "TOPIC_AUTHORIZATION_FAILED"
    assert "messaging.kafka.offset" not in span.attributes
    assert span.status.status_code is StatusCode.ERROR
    assert "TOPIC_AUTHORIZATION_FAILED" in span.status.description
    assert telemetry.sent() == {"TOPIC_AUTHORIZATION_FAILED": 1}
    (duration,) = telemetry.points("messaging.client.operation.duration")
    assert duration.attributes["error.type"] == "TOPIC_AUTHORIZATION_FAILED"


def test_a_record_that_is_refused_by_the_call_was_not_sent(
    producer: KafkaProducer, telemetry: Telemetry
) -> None:
    traced = telemetry.instrument(producer)
    with pytest.raises(RecordTooLargeError):
        traced.send("orders", bytes(2_000_000))
    with pytest.raises(InvalidArgumentError):
        traced.send("orders", b"v", on_delivery=lambda err, msg: None)
    span = telemetry.span
    assert span.attributes["error.type"] == "RecordTooLargeError"
    assert telemetry.sent() == {}
    assert len(telemetry.points("messaging.client.operation.duration")) == 1


HEADER_COLUMNS = {
    "none": lambda: None,
    "list": lambda: [None, {"n": b"1"}, [("traceparent", OTHER_TRACE), ("n", b"2")]],
    "generator": lambda: (each for each in [None, {"n": b"1"}, [("n", b"2")]]),
    "repeated": lambda: itertools.repeat([("n", b"0")]),
}


@pytest.mark.parametrize("column", HEADER_COLUMNS)
def test_send_many_has_one_span_whose_context_all_records_get(
    column: str, cluster: FakeCluster, producer: KafkaProducer, telemetry: Telemetry
) -> None:
    traced = telemetry.instrument(producer)
    result = traced.send_many("orders", [b"a", b"b", b"c"], headers=HEADER_COLUMNS[column]())
    result.result(PATIENCE_S)
    producer.flush(PATIENCE_S)
    span = telemetry.span
    assert span.attributes["messaging.batch.message_count"] == 3
    contexts = [[value for name, value in each if name == "traceparent"] for each in headers_of(cluster)]
    assert contexts == [[traceparent(span)]] * 3
    others = [[value for name, value in each if name == "n"] for each in headers_of(cluster)]
    assert others == {
        "none": [[], [], []],
        "repeated": [[b"0"]] * 3,
    }.get(column, [[], [b"1"], [b"2"]])
    assert telemetry.sent() == {None: 3}
    assert [point.count for point in telemetry.points("messaging.client.operation.duration")] == [1]


def test_send_many_with_records_that_fail(
    cluster: FakeCluster, producer: KafkaProducer, telemetry: Telemetry
) -> None:
    result = telemetry.instrument(producer).send_many("orders", [b"a", bytes(2_000_000), b"c"])
    with pytest.raises(SendManyError):
        result.result(PATIENCE_S)
    producer.flush(PATIENCE_S)
    span = telemetry.span
    assert span.attributes["error.type"] == "RecordTooLargeError"
    assert span.status.description.startswith("1 of 3 records failed")
    assert telemetry.sent() == {None: 2}  # the third one was not sent


def test_send_many_whose_iterator_raises(
    cluster: FakeCluster, producer: KafkaProducer, telemetry: Telemetry
) -> None:
    def values() -> Iterator[bytes]:
        yield b"a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        telemetry.instrument(producer).send_many("orders", values())
    caught.value.partial_result.result(PATIENCE_S)  # type: ignore[attr-defined]
    producer.flush(PATIENCE_S)
    assert telemetry.span.attributes["error.type"] == "ZeroDivisionError"
    assert telemetry.sent() == {None: 1}


def test_send_arrow_has_a_span_and_leaves_the_rows_alone(
    cluster: FakeCluster, producer: KafkaProducer, telemetry: Telemetry
) -> None:
    traced = telemetry.instrument(producer)
    traced.send_arrow("orders", pa.table({"value": [b"a", b"b"]})).result(PATIENCE_S)
    producer.flush(PATIENCE_S)
    assert telemetry.span.attributes["messaging.batch.message_count"] == 2
    assert headers_of(cluster) == [[], []]
    assert telemetry.sent() == {None: 2}


def test_a_trace_that_is_not_sampled_is_propagated_as_such(
    cluster: FakeCluster, producer: KafkaProducer
) -> None:
    telemetry = Telemetry(sampler=ALWAYS_OFF)
    telemetry.instrument(producer).send("orders", b"v").result(PATIENCE_S)
    producer.flush(PATIENCE_S)
    ((name, value),) = headers_of(cluster)[0]
    assert name == "traceparent"
    assert value is not None
    assert int(value.rpartition(b"-")[2], 16) & 1 == 0
    assert telemetry.spans == []
    assert telemetry.sent() == {None: 1}


def test_without_an_sdk_nothing_is_added(cluster: FakeCluster, producer: KafkaProducer) -> None:
    with instrument(producer) as traced:
        assert traced.config is producer.config
        traced.send("orders", b"v", headers={"a": b"1"}).result(PATIENCE_S)
    assert headers_of(cluster) == [[("a", b"1")]]
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert producer.health().is_closed


@pytest.mark.parametrize(("key", "text"), [(b"\xff", None), (b"k", "k"), (7, "7"), (None, None)])
def test_keys_are_text_or_left_out(
    key: Any, text: str | None, cluster: FakeCluster, telemetry: Telemetry
) -> None:
    def serializer(key: Any) -> bytes:
        return repr(key).encode()

    with KafkaProducer(cluster.bootstrap_servers, key_serializer=serializer) as producer:
        telemetry.instrument(producer).send("orders", b"v", key).result(PATIENCE_S)
        telemetry.instrument(producer, with_keys=False).send("orders", b"v", key).result(PATIENCE_S)
    with_key, without_key = telemetry.spans
    assert with_key.attributes.get("messaging.kafka.message.key") == text
    assert "messaging.kafka.message.key" not in without_key.attributes
