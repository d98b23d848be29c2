"""``send_arrow``, the sink of the Spark connector, and a checksum: Arrow data to records.

The kernel writes rows into open batches, a block at a time. The other rows (a new batch, no free memory, an
unknown partition, a partitioner of the application) take the general path. For the calling thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult, batch_result_of
from kproducer._core.bulk.arrow_columns import ArrowColumns
from kproducer._core.bulk.column_format import CompiledColumns
from kproducer._core.bulk.general_path import GeneralPath
from kproducer._core.bulk.record_locations import NO_RESULT, RecordLocations
from kproducer._core.bulk.send_many_result import SendManyResult
from kproducer._core.columns.arrow import REFUSALS, ArrowRows, ArrowSource, RowChecksum, RowEncoder
from kproducer._core.columns.encoder_plan import ArrowField
from kproducer._core.kernel import record_size_upper_bound
from kproducer.errors import (
    InvalidArgumentError,
    KafkaError,
    Outcome,
    ProducerClosedError,
    RecordTooLargeError,
    SerializationError,
)
from kproducer.types import INT32_MAX, NO_TIMESTAMP, UNKNOWN_PARTITION

if TYPE_CHECKING:
    from kproducer._core.bulk.bulk_context import BulkContext, SendFunction

#: What a record adds to key, value and headers, at most.
_RECORD_OVERHEAD_BYTES = record_size_upper_bound(None, None, None)


class _ArrowCall:
    """Sends the rows of Arrow data. A refused row is noted, or without locations it stops the call.

    Args:
        producer: sends.
        columns: which columns records are made of.
        topic: of all rows; ``None``: ``columns.topic`` is the column of topics.
        locations: filled with all rows; ``None``: rows are only counted.
        send: for the general path; ``None``: that of the producer.

    Attributes:
        rows_by_result: without locations, how many rows each batch's result has got.
        general_path: sends single rows; knows why the call ends early.
        causes: why rows were refused, by location, if something in the row is the cause; ``None``: not noted.
    """

    def __init__(
        self,
        producer: BulkContext,
        columns: ArrowColumns,
        topic: str | None,
        locations: RecordLocations | None,
        send: SendFunction | None = None,
    ) -> None:
        self._producer, self._columns = producer, columns
        self._topic, self._locations = topic, locations
        self.rows_by_result: dict[ProduceRequestResult, int] = {}
        self.causes: dict[int, RefusalCause] | None = None
        self.general_path = GeneralPath(producer, send or producer.send, topics_vary=topic is None)
        self._formats = _CallFormats(columns, topic)
        #: Names as they are in the data, of the topics that the kernel knows.
        self._topics: dict[bytes, str] = {}
        #: -1: the topic is in ``_topic_errors``.
        self._partition_counts: dict[str, int] = {}
        self._topic_errors: dict[str, KafkaError] = {}
        #: What the partition counts were read from: the same object means that nothing has changed.
        self._snapshot: object = None
        #: Rows of all chunks before the current one, and their first location.
        self._rows_before = self._first_location = 0

    def fill(self, locations: RecordLocations) -> None:
        """Note the rows of the next sources, and why some are refused, in other locations."""
        self._locations, self.causes = locations, {}

    def send(self, source: ArrowSource, *, is_last: bool) -> int:
        """Send the rows of a source and close it. Returns the bytes of keys and values.

        Args:
            is_last: there is nothing behind its first chunk.

        Raises:
            KafkaError: the call has to end early, and there may be more rows than those that were noted.
            RowRefusedError: there are no locations, and a row was refused.
        """
        try:
            with _arrow_errors():
                rows = self._open(source)
                while (count := source.next_chunk()) >= 0:
                    self._send_chunk(rows, count)
                    if self.general_path.ending is not None and not is_last:
                        raise self.general_path.ending
                return rows.content_bytes
        finally:
            source.close()

    def _open(self, source: ArrowSource) -> ArrowRows:
        producer, partition = self._producer, self._columns.partition
        numbers = self._columns.find(source.names, source.formats)
        if self._topic is not None and not self._partition_counts:
            self._partition_counts[self._topic] = producer.await_partition_count(
                self._topic, partition if isinstance(partition, int) else None
            )
        rows = ArrowRows(
            source,
            numbers,
            producer.rules.size_limit - _RECORD_OVERHEAD_BYTES,
            producer.rules.has_fast_path and not producer.rules.ignores_keys,
        )
        self._formats.compile(source)
        rows.encode_columns(*self._formats.encoders())
        self._topics = {}
        self._snapshot = None
        if self._topic is not None:
            self._add_topic(rows, self._topic.encode())
        return rows

    def _send_chunk(self, rows: ArrowRows, count: int) -> None:
        general_path, locations = self.general_path, self._locations
        try:
            self._producer.check_send()
        except KafkaError as error:
            general_path.ending = error.with_outcome(Outcome.NOT_SENT)
        transaction = self._producer.transaction
        if locations is None:
            rows.start_chunk(0, self.rows_by_result, transaction=transaction)
        else:
            self._first_location = locations.grow(count)
            columns = (locations.runs, *locations.kernel_columns())
            rows.start_chunk(self._first_location, locations.batch_results, *columns, transaction=transaction)
        try:
            row = 0
            while row < count and general_path.ending is None:
                row = self._send_block(rows, row)
        finally:
            rows.end_chunk()
        if general_path.ending is not None:
            if locations is None:
                raise RowRefusedError(
                    self._rows_before, self._topic or "", UNKNOWN_PARTITION, general_path.ending, ""
                )
            locations.refuse_all_open(self._first_location, general_path.ending)
        self._rows_before += count

    def _send_block(self, rows: ArrowRows, first_row: int) -> int:
        """Send a block of rows; return the row behind it."""
        self._update_partition_counts(rows)
        timestamp, partition = self._columns.timestamp, self._columns.partition
        timestamp_ms = timestamp if isinstance(timestamp, int) else self._producer.clock.wall_ms()
        # Larger numbers are no partitions either, and do not fit.
        number = min(partition, INT32_MAX) if isinstance(partition, int) else UNKNOWN_PARTITION
        end = rows.plan(first_row, timestamp_ms, number)
        if self._locations is not None:
            self._locations.stamp(self._first_location + first_row, timestamp_ms)
        while self.general_path.ending is None and (row := rows.append_planned()) >= 0:
            self._send_row(rows, row)
        if rows.unknown_topic is not None and self.general_path.ending is None:
            self._add_topic(rows, rows.unknown_topic)
        return end

    def _update_partition_counts(self, rows: ArrowRows) -> None:
        """The number of partitions of a topic may change while a long stream is sent."""
        producer = self._producer
        snapshot = producer.snapshot
        if snapshot is self._snapshot:
            return
        self._snapshot = snapshot
        for name, topic in self._topics.items():
            count = snapshot.partition_count(topic) or 0
            if 0 < count != self._partition_counts[topic] > 0:
                self._partition_counts[topic] = count
                rows.add_topic(name, count, producer.slots_of(topic))

    def _add_topic(self, rows: ArrowRows, name: bytes) -> None:
        producer = self._producer
        topic = name.decode("utf-8", "replace")
        count = self._partition_counts.get(topic)
        if count is None:
            try:
                count = producer.await_partition_count(topic)
            except ProducerClosedError as error:
                self.general_path.ending = error
                return
            except KafkaError as error:
                self._topic_errors[topic] = error.with_traceback(None)
                count = -1
            self._partition_counts[topic] = count
        rows.add_topic(name, count, producer.slots_of(topic) if count > 0 else None)
        self._topics[name] = topic

    # -- single rows -----------------------------------------------------------------------------------

    def _send_row(self, rows: ArrowRows, row: int) -> None:
        """Send one record as ``send`` does, and note its location, or why it was refused."""
        code, detail = rows.refusal(row)
        if code:
            reason, error = REFUSALS[code], self._refusal(code, detail)
            self._refuse(row, self._topic or "", UNKNOWN_PARTITION, error, reason)
            self._note_cause(row, reason, self._formats.place(reason, detail))
            return
        name, value, key, headers, partition, timestamp_ms = rows.record(row)
        topic = self._topic or ""
        if name is not None:
            if name not in self._topics:
                self._add_topic(rows, name)
            topic = self._topics.get(name, "")
        if partition is None and isinstance(self._columns.partition, int):
            partition = self._columns.partition
        if self.general_path.ending is not None:
            return
        sent = self._topic_errors.get(topic) or self.general_path.send(
            self._rows_before + row, topic, value, key, headers, partition, timestamp_ms
        )
        if isinstance(sent, KafkaError):
            if self.general_path.ending is None:
                self._refuse(row, topic, UNKNOWN_PARTITION if partition is None else partition, sent)
                if topic in self._topic_errors:
                    self._note_cause(row, "topic")
                elif isinstance(sent, InvalidArgumentError) and partition is not None:
                    self._note_cause(row, "partition")
        elif self._locations is None:
            batch_result = batch_result_of(sent)
            self.rows_by_result[batch_result] = self.rows_by_result.get(batch_result, 0) + 1
        else:
            self._locations.put(self._first_location + row, sent)

    def _refuse(self, row: int, topic: str, partition: int, error: KafkaError, reason: str = "") -> None:
        error.outcome = error.outcome or Outcome.NOT_SENT
        if self._locations is None:
            raise RowRefusedError(self._rows_before + row, topic, partition, error, reason)
        self._locations.refuse(self._first_location + row, error, partition, topic)

    def _note_cause(self, row: int, reason: str, place: str = "") -> None:
        if self.causes is not None:
            self.causes[self._first_location + row] = RefusalCause(reason, place)

    def _refusal(self, code: int, size: int) -> KafkaError:
        reason = REFUSALS[code]
        if reason == "size":
            topic = f" for topic {self._topic!r}" if self._topic else ""
            rules = self._producer.rules
            return RecordTooLargeError(
                f"a record{topic} takes up to {size + _RECORD_OVERHEAD_BYTES} bytes, more than "
                f"{rules.size_setting}={rules.size_limit}"
            )
        if reason == "timestamp":
            return InvalidArgumentError(
                "the timestamp is before 1970, or too large for 64 bits of milliseconds"
            )
        if reason in ("value", "key"):
            return SerializationError(f"the {reason} cannot be written: {self._formats.misfit(reason, size)}")
        if reason == "header is null":
            return SerializationError("a header is null: Kafka's headers need a name")
        if reason == "header name":
            return SerializationError("a header's name is null or not UTF-8: Kafka's headers need a name")
        return InvalidArgumentError(f"the {reason}")


class _CallFormats:
    """What makes the keys and values of a call, if they are not columns.

    Args:
        columns, topic: of the call.
    """

    def __init__(self, columns: ArrowColumns, topic: str | None) -> None:
        self._columns, self._topic = columns, topic
        self._is_used = not all(
            each is None or isinstance(each, str) for each in (columns.value, columns.key)
        )
        self._fields: tuple[Any, ...] | None = None
        self._compiled: dict[str, CompiledColumns | None] = {"value": None, "key": None}

    def compile(self, source: ArrowSource) -> None:
        """Make plans for the columns of a source, unless they are those of the last one.

        Raises:
            KafkaError: see ``ColumnFormat.compile_columns``.
        """
        if self._is_used and (fields := source.fields()) != self._fields:
            described = tuple(map(ArrowField.of, fields))
            self._compiled = {
                role: self._columns.compile_format(role, described, self._topic) for role in self._compiled
            }
            self._fields = fields

    def encoders(self) -> tuple[RowEncoder | None, RowEncoder | None, list[tuple[str, bytes]]]:
        """Encoders of values and keys, ``None`` where a column has them, and the headers that they need."""
        made = [None if each is None else RowEncoder(each.plan) for each in self._compiled.values()]
        headers = [
            each.header for each in self._compiled.values() if each is not None and each.header is not None
        ]
        return made[0], made[1], headers

    def misfit(self, role: str, detail: int) -> str:
        """What is wrong with the value or key of a row."""
        compiled = self._compiled[role]
        assert compiled is not None
        return compiled.misfit(detail)

    def place(self, reason: str, detail: int) -> str:
        """The field that does not fit; empty: it is not one of a format, or the format has only one."""
        compiled = self._compiled.get(reason)
        return "" if compiled is None else compiled.place(detail)


def send_arrow(producer: BulkContext, topic: str | None, data: Any, columns: ArrowColumns) -> SendManyResult:
    """See ``KafkaProducer.send_arrow``."""
    try:
        columns = columns.checked(topic)
        producer.check_needs_no_objects("send_arrow()")
    except KafkaError as error:
        error.outcome = Outcome.NOT_SENT
        raise
    return producer.in_transaction(lambda: _send_all(producer, columns, topic, data))


def _send_all(producer: BulkContext, columns: ArrowColumns, topic: str | None, data: Any) -> SendManyResult:
    locations = _new_locations(columns, topic)
    call = _ArrowCall(producer, columns, topic, locations)
    is_one_array = hasattr(data, "__arrow_c_array__")
    try:
        for source in _sources(data):
            call.send(source, is_last=is_one_array)
    except BaseException as error:
        if len(locations):
            # Some rows were accepted: the caller needs their outcomes.
            locations.finish(locations.count_located())
            if NO_RESULT in locations.result_numbers:
                # Rows of the current block, which is sent by partition and not in the order of the call.
                locations.refuse_all_open(
                    0, KafkaError("the call was interrupted").with_outcome(Outcome.NOT_SENT)
                )
            error.partial_result = _result(producer, locations)  # type: ignore[attr-defined]
        elif isinstance(error, KafkaError) and error.outcome is None:
            error.outcome = Outcome.NOT_SENT
        raise
    return _result(producer, locations)


def _new_locations(columns: ArrowColumns, topic: str | None) -> RecordLocations:
    return RecordLocations(
        topic if topic is not None else f"(column {columns.topic!r})",
        has_keys=columns.key is not None,
        has_timestamps=isinstance(columns.timestamp, str),
        # Rows that name neither key, partition nor topic are written in their order.
        has_runs=columns.key is None and not isinstance(columns.partition, str) and columns.topic is None,
    )


def _result(producer: BulkContext, locations: RecordLocations) -> SendManyResult:
    locations.finish(len(locations))
    return SendManyResult(locations.topic, locations, producer.clock)


class ArrowSink:
    """Sends batch after batch and only counts the rows of each result: its memory does not grow with rows.

    Args:
        producer: sends.
        columns: which columns records are made of.
        topic: of all rows; ``None``: ``columns.topic`` is the column of topics.

    Attributes:
        rows_by_result: number of rows by the result of their batch; the caller removes those that are done.
    """

    def __init__(self, producer: BulkContext, columns: ArrowColumns, topic: str | None) -> None:
        producer.check_needs_no_objects("arrow_sink()")
        self._producer = producer
        self._call = _ArrowCall(producer, columns, topic, None)
        self.rows_by_result = self._call.rows_by_result

    def send(self, data: Any) -> int:
        """Send all rows. Returns the bytes of their keys and values.

        Raises:
            RowRefusedError: a row cannot be sent; some of the others are.
            InvalidArgumentError: as for ``send_arrow``.
        """
        try:
            return sum(self._call.send(source, is_last=False) for source in _sources(data))
        except BaseException as error:
            self._producer.note_refusal(KafkaError(f"rows of Arrow data were refused: {error!r}"))
            raise


class RefusalCause(NamedTuple):
    """What in a row made it impossible to send.

    Attributes:
        reason: one of ``REFUSALS``, or ``"topic"`` or ``"partition"``: the cluster does not have it.
        place: for ``"value"`` and ``"key"``, the field that does not fit the schema; empty: not known.
    """

    reason: str
    place: str


class SentBatch(NamedTuple):
    """What became of the rows of an Arrow batch.

    Attributes:
        result: of each row.
        causes: of rows that were refused because of their content, by row.
        content_bytes: of keys and values.
    """

    result: SendManyResult
    causes: dict[int, RefusalCause]
    content_bytes: int


class TolerantArrowSink:
    """Sends batch after batch; a row that cannot be sent is refused, and the others are sent.

    A refused row does not fail a transaction, because the caller decides about it. A partition that the topic
    does not have is waited for only briefly.

    Args:
        producer, columns, topic: as for ``ArrowSink``.
    """

    def __init__(self, producer: BulkContext, columns: ArrowColumns, topic: str | None) -> None:
        producer.check_needs_no_objects("tolerant_arrow_sink()")
        self._producer, self._columns, self._topic = producer, columns, topic
        self._call = _ArrowCall(producer, columns, topic, None, producer.send_tolerantly)

    def send(self, data: Any) -> SentBatch:
        """Send all rows.

        Raises:
            KafkaError: the producer accepts no further row; some of these are sent.
            InvalidArgumentError: as for ``send_arrow``.
        """
        locations = _new_locations(self._columns, self._topic)
        self._call.fill(locations)
        try:
            content_bytes = sum(self._call.send(source, is_last=False) for source in _sources(data))
        except BaseException as error:
            self._producer.note_refusal(KafkaError(f"rows of Arrow data were refused: {error!r}"))
            raise
        return SentBatch(_result(self._producer, locations), self._call.causes or {}, content_bytes)


class RowRefusedError(Exception):
    """A row that an ``ArrowSink`` could not send.

    Attributes:
        row: counted from the sink's first one.
        topic, partition: if known; else empty and -1.
        error, reason: why; the reason is one of ``REFUSALS``.
    """

    def __init__(self, row: int, topic: str, partition: int, error: KafkaError, reason: str) -> None:
        super().__init__(row, topic, partition, error, reason)
        self.row, self.topic, self.partition, self.error, self.reason = row, topic, partition, error, reason


class ArrowChecksum:
    """One number for the records that an ``ArrowSink`` would send, in any order and any batches.

    A program that has to send the same rows again compares it; see
    ``kproducer._core.columns.pure.arrow_checksum``. For one thread.

    Args:
        columns, topic: as for ``ArrowSink``.
    """

    def __init__(self, columns: ArrowColumns, topic: str | None) -> None:
        self._columns = columns
        partition = columns.partition if isinstance(columns.partition, int) else UNKNOWN_PARTITION
        timestamp_ms = columns.timestamp if isinstance(columns.timestamp, int) else NO_TIMESTAMP
        self._checksum = RowChecksum(topic, partition, timestamp_ms)
        self._formats = _CallFormats(columns, topic)

    @property
    def rows(self) -> int:
        """Number of rows added."""
        return self._checksum.rows

    @property
    def value(self) -> int:
        """The sum over all rows, 0 to 2**64 - 1; 0 if there are none."""
        return self._checksum.value

    def update(self, data: Any) -> None:
        """Add all rows of ``data``, as ``ArrowSink.send`` takes them.

        Raises:
            InvalidArgumentError: as there; the chunks before the invalid one were added.
        """
        for source in _sources(data):
            try:
                with _arrow_errors():
                    numbers = self._columns.find(source.names, source.formats)
                    self._formats.compile(source)
                    encoders = self._formats.encoders()
                    while source.next_chunk() >= 0:
                        self._checksum.add_chunk(source, numbers, *encoders)
            finally:
                source.close()


def _sources(data: Any) -> Iterator[ArrowSource]:
    """Open what ``send_arrow`` takes; each source has to be read before the next one is requested.

    Raises:
        InvalidArgumentError: it is neither Arrow data nor an iterable of such.
    """
    parts = data
    if hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__"):
        parts = (data,)
    elif not isinstance(data, Iterable) or isinstance(data, (str, bytes, dict)):
        raise InvalidArgumentError(
            "data must be Arrow data (with __arrow_c_stream__ or __arrow_c_array__, as tables and batches of "
            "pyarrow, polars, pandas 2.2 and DuckDB have), or an iterable of such, not "
            f"{type(data).__name__}"
        )
    for part in parts:
        with _arrow_errors():
            source = ArrowSource(part)
        yield source


@contextmanager
def _arrow_errors() -> Iterator[None]:
    """The kernel raises ``ValueError`` for invalid Arrow data."""
    try:
        yield
    except KafkaError:
        raise
    except ValueError as error:
        # pandas adds the column to what pyarrow says, as another argument.
        raise InvalidArgumentError(": ".join(map(str, error.args))) from error
