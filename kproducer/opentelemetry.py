"""Traces and metrics for OpenTelemetry, by its semantic conventions for messaging and for Kafka.

``instrument`` returns a producer whose ``send``, ``send_many`` and ``send_arrow`` make one PRODUCER span per
call, from the call to the outcome, and count messages and durations. The spans' context goes into the headers
of the records. Everything else is passed on to the producer, which knows nothing of this, and records that
are sent through the producer itself cost nothing more. Needs the extra ``opentelemetry``.
Source: OpenTelemetry's semantic conventions, "Messaging spans", "Messaging metrics", "Kafka".
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any

try:
    from opentelemetry import context as otel_context
    from opentelemetry import metrics, propagate, trace
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ImportError as error:
    raise ImportError(
        "kproducer.opentelemetry needs the package opentelemetry-api: pip install 'kproducer[opentelemetry]'"
    ) from error

from kproducer._core.runtime.arguments import check_callback
from kproducer.errors import BrokerError, InvalidArgumentError, KafkaError, Outcome
from kproducer.kafka_producer import KafkaProducer
from kproducer.types import VERSION

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from typing_extensions import Self

    from kproducer._core.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
    from kproducer._core.bulk.send_many_result import SendManyResult
    from kproducer._core.runtime.arguments import HeadersInput
    from kproducer.types import RecordMetadata

#: The boundaries that the conventions recommend, in seconds.
_DURATION_BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

#: Headers as (name, value) pairs.
_Pairs = list[tuple[str, Any]]


def instrument(
    producer: KafkaProducer,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    propagator: TextMapPropagator | None = None,
    with_keys: bool = True,
) -> InstrumentedProducer:
    """Make an instrumented producer around a producer.

    Args:
        producer: sends the records. Records that are sent with it directly are not traced.
        tracer_provider, meter_provider: ``None``: the global ones of OpenTelemetry.
        propagator: writes the context of a span into headers; ``None``: the global one, by default
            ``traceparent``, ``tracestate`` and ``baggage``.
        with_keys: whether spans have the keys of records, which may be personal data.

    Raises:
        InvalidArgumentError: ``producer`` is something else, such as an ``AsyncKafkaProducer``.
    """
    if not isinstance(producer, KafkaProducer):
        raise InvalidArgumentError(
            f"instrument: expected a KafkaProducer, got {type(producer).__name__}: for records that are "
            "traced, use a KafkaProducer, whose futures can be awaited"
        )
    return InstrumentedProducer(producer, tracer_provider, meter_provider, propagator, with_keys)


class InstrumentedProducer:
    """A producer that is traced and counted; see ``instrument``, which makes it. Thread-safe.

    Methods and attributes that are not listed here are those of the producer.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        propagator: TextMapPropagator | None,
        with_keys: bool,
    ) -> None:
        self._producer = producer
        self._tracer = trace.get_tracer("kproducer", VERSION, tracer_provider)
        meter = metrics.get_meter("kproducer", VERSION, meter_provider)
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Number of messages that the producer attempted to send to the broker.",
        )
        self._durations = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of messaging operations, from the call to the outcome.",
            explicit_bucket_boundaries_advisory=_DURATION_BOUNDARIES,
        )
        self._headers = _Injector(propagator or propagate.get_global_textmap())
        self._with_keys = with_keys
        #: As in ``RecordRules``.
        self._accepted_code: Any = None
        config = producer.config
        self._attributes: dict[str, Any] = {
            "messaging.system": "kafka",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
        }
        if len(config.bootstrap_servers) == 1:
            # Of several servers, none is the one that this client talks to.
            host, _, port = config.bootstrap_servers[0].rpartition(":")
            self._attributes |= {"server.address": host.strip("[]"), "server.port": int(port)}
        self._client = {"messaging.client.id": config.client_id}

    # -- records ---------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: HeadersInput | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> FutureRecordMetadata:
        """``KafkaProducer.send`` in a span that ends with the record's outcome.

        The record gets the span's context as headers. Headers with such a context of its own are replaced,
        and the span has a link to it. ``on_delivery`` is called after the end of the span.
        """
        if on_delivery is not None:
            self._check(on_delivery)
        pairs = _as_pairs(headers)
        operation = self._begin(topic, [] if pairs is None else self._headers.links(pairs))
        span = operation.span
        if span.is_recording():
            if self._with_keys:
                text = _key_text(key)
                if text is not None:
                    span.set_attribute("messaging.kafka.message.key", text)
            if value is None:
                span.set_attribute("messaging.kafka.message.tombstone", True)

        def acknowledge(metadata: RecordMetadata, error: KafkaError | None) -> None:
            try:
                operation.end_record(metadata, error)
            finally:
                if on_delivery is not None:
                    on_delivery(metadata, error)

        try:
            # Headers that are not pairs are refused by the producer.
            given = headers if pairs is None else self._headers.with_context(pairs, span)
            return self._producer.send(topic, value, key, given, partition, timestamp_ms, acknowledge)
        except BaseException as error:
            operation.end(error, {})
            raise

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None = None,
        headers: Iterable[HeadersInput | None] | None = None,
        partitions: Iterable[int | None] | int | None = None,
        timestamps_ms: Iterable[int | None] | int | None = None,
    ) -> SendManyResult:
        """``KafkaProducer.send_many`` in one span until all outcomes are known.

        All records get the context of this span, in place of one in their headers.
        """
        operation = self._begin(topic, [])
        return operation.run(
            lambda: self._producer.send_many(
                topic,
                values,
                keys,
                self._headers.of_all(headers, operation.span),
                partitions,
                timestamps_ms,
            )
        )

    def send_arrow(self, topic: str | None, data: Any, **columns: Any) -> SendManyResult:
        """``KafkaProducer.send_arrow`` in one span, until all outcomes are known.

        The rows do not get its context: they are written without looking at them. For that, add a column of
        headers to the data.
        """
        operation = self._begin(topic, [])
        return operation.run(lambda: self._producer.send_arrow(topic, data, **columns))

    def _check(self, on_delivery: Any) -> None:
        """Refuse what the producer would refuse: it sees another callback."""
        code = getattr(on_delivery, "__code__", None)
        if code is None or code is not self._accepted_code:
            check_callback(on_delivery)
            self._accepted_code = code

    def _begin(self, topic: str | None, links: list[Link]) -> _Operation:
        attributes = self._attributes
        name = "send"
        if isinstance(topic, str):
            attributes = {**attributes, "messaging.destination.name": topic}
            name = f"send {topic}"
        span = self._tracer.start_span(
            name, kind=SpanKind.PRODUCER, attributes={**attributes, **self._client}, links=links
        )
        return _Operation(span, attributes, self._sent, self._durations)

    # -- everything else -------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name == "_producer":  # not set yet, as in copy.copy
            raise AttributeError(name)
        return getattr(self._producer, name)

    def __enter__(self) -> Self:
        self._producer.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._producer.__exit__(*raised)

    def __repr__(self) -> str:
        return f"<InstrumentedProducer {self._producer!r}>"


class _Injector:
    """Writes the context of a span into headers."""

    def __init__(self, propagator: TextMapPropagator) -> None:
        self._propagator = propagator
        self._fields = frozenset(propagator.fields)

    def links(self, pairs: _Pairs) -> list[Link]:
        """A link to the context that the headers have already."""
        texts: dict[str, list[str]] = {}
        for pair in pairs:
            if (name := _name(pair)) in self._fields and isinstance(value := pair[1], (str, bytes)):
                text = value if isinstance(value, str) else value.decode("utf-8", "replace")
                texts.setdefault(name, []).append(text)
        if not texts:
            return []
        extracted = self._propagator.extract(texts, otel_context.Context())
        found = trace.get_current_span(extracted).get_span_context()
        return [Link(found)] if found.is_valid else []

    def with_context(self, pairs: _Pairs, span: Span) -> _Pairs:
        """The headers with the context of the span, in place of another."""
        return self._merged(pairs, self._fields_of(span))

    def of_all(
        self, headers: Iterable[HeadersInput | None] | None, span: Span
    ) -> Iterable[HeadersInput | None]:
        """A column of headers with the context of the span in each row."""
        fields = self._fields_of(span)
        if headers is None:
            return itertools.repeat(fields)
        if isinstance(headers, itertools.repeat):
            return itertools.repeat(self._row(next(headers), fields))
        if isinstance(headers, (str, bytes, Mapping)) or not isinstance(headers, Iterable):
            return headers  # refused by the producer
        rows = (self._row(row, fields) for row in headers)
        return list(rows) if isinstance(headers, Sized) else rows

    def _row(self, row: HeadersInput | None, fields: _Pairs) -> Any:
        pairs = _as_pairs(row)
        return row if pairs is None else self._merged(pairs, fields)

    def _fields_of(self, span: Span) -> _Pairs:
        texts: dict[str, str] = {}
        self._propagator.inject(texts, trace.set_span_in_context(span))
        return [(name, text.encode()) for name, text in texts.items()]

    def _merged(self, pairs: _Pairs, fields: _Pairs) -> _Pairs:
        if not fields:
            return pairs
        # The caller's baggage stays unless there is another: it does not belong to the span.
        replaced = (self._fields - {"baggage"}) | {name for name, _ in fields}
        return [pair for pair in pairs if _name(pair) not in replaced] + fields


class _Operation:
    """One call: its span, and what is counted when its outcome is known."""

    def __init__(self, span: Span, attributes: Mapping[str, Any], sent: Any, durations: Any) -> None:
        self.span = span
        self._attributes = attributes
        self._sent, self._durations = sent, durations
        self._began_s = time.monotonic()
        #: An interrupted call may end it, and then the record's outcome, or the other way round.
        self._has_ended = False

    def run(self, call: Callable[[], SendManyResult]) -> SendManyResult:
        """Make a bulk call; the operation ends when all outcomes are known."""
        try:
            # Also the current span while the caller's iterators run.
            with trace.use_span(self.span, record_exception=False, set_status_on_exception=False):
                result = call()
        except BaseException as error:
            partial: SendManyResult | None = getattr(error, "partial_result", None)
            if partial is None:
                self.end(error, {})
            else:
                self._end_with(partial, error)
            raise
        self._end_with(result, None)
        return result

    def _end_with(self, result: SendManyResult, error: BaseException | None) -> None:
        self.span.set_attribute("messaging.batch.message_count", len(result))

        def ended(result: SendManyResult) -> None:
            failures = [failure for _, failure in result.failures(0)]
            counts: dict[str | None, int] = {None: len(result) - len(failures)}
            for failure in failures:
                if failure.outcome is not Outcome.NOT_SENT:
                    kind = _error_type(failure)
                    counts[kind] = counts.get(kind, 0) + 1
            first = error or (failures[0] if failures else None)
            text = None
            if first is not None and failures:
                text = f"{len(failures)} of {len(result)} records failed; the first: {first}"
            self.end(first, counts, text)

        result.add_done_callback(ended)

    def end_record(self, metadata: RecordMetadata, error: KafkaError | None) -> None:
        """End it with the outcome of a single record."""
        if self._has_ended:
            return
        partition = {}
        if metadata.partition >= 0:
            partition = {"messaging.destination.partition.id": str(metadata.partition)}
            self.span.set_attributes(partition)
        if metadata.offset >= 0:
            self.span.set_attribute("messaging.kafka.offset", metadata.offset)
        kind = None if error is None else _error_type(error)
        count = 0 if error is not None and error.outcome is Outcome.NOT_SENT else 1
        self.end(error, {kind: count}, None, partition)

    def end(
        self,
        error: BaseException | None,
        counts: Mapping[str | None, int],
        text: str | None = None,
        partition: Mapping[str, str] | None = None,
    ) -> None:
        """End the span and count, unless that was done before.

        Args:
            error: why it failed; ``None``: it succeeded.
            counts: messages that were sent, by error type.
            text: describes the failure; ``None``: the error's own text.
            partition: attributes of the metrics of a single record.
        """
        if self._has_ended:
            return
        self._has_ended = True
        attributes = {**self._attributes, **(partition or {})}
        duration = attributes
        if error is not None:
            duration = {**attributes, "error.type": _error_type(error)}
            self.span.set_attribute("error.type", duration["error.type"])
            self.span.set_status(Status(StatusCode.ERROR, text or str(error)))
        self.span.end()
        for kind, count in counts.items():
            if count:
                self._sent.add(count, attributes if kind is None else {**attributes, "error.type": kind})
        self._durations.record(time.monotonic() - self._began_s, duration)


def _error_type(error: BaseException) -> str:
    """Kafka's name of an error code, or the class of the error: few different values."""
    return error.name if isinstance(error, BrokerError) else type(error).__name__


def _as_pairs(headers: Any) -> _Pairs | None:
    """The headers as a list, unchecked; ``None``: they are not headers."""
    if headers is None:
        return []
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes)):
        return None
    return list(pairs)


def _name(pair: Any) -> str | None:
    """The name of a header; ``None``: it is not a header."""
    is_header = isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)
    return pair[0] if is_header else None


def _key_text(key: Any) -> str | None:
    """The key as text, if it has an unambiguous one."""
    if isinstance(key, str):
        return key
    if isinstance(key, (bytes, bytearray)):
        try:
            return key.decode()
        except UnicodeDecodeError:
            return None
    return str(key) if isinstance(key, (int, float)) and not isinstance(key, bool) else None
