"""TolerantRowSender: sends the rows of a task, and passes over those that cannot be written.

Good rows take the same path as in ``TaskRowSender``. Which row was refused, and why, is only looked at in
batches where some were. Dead letters are sent by the same producer, so with ``delivery=exactly-once`` they
are in the transaction of the task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from kproducer._core.accumulator.future_record_metadata import place_of
from kproducer._core.bulk.dead_letters import (
    CONTENT_ERRORS,
    REJECTED_CONTENT_ERRORS,
    DeadLetterCause,
    JsonRow,
    longest_cell,
    readable_cell,
)
from kproducer._core.bulk.send_arrow import RefusalCause
from kproducer._core.kernel import record_size_upper_bound
from kproducer.errors import (
    BatchRejectedError,
    KafkaError,
    Outcome,
    RecordTooLargeError,
)
from kproducer.errors.broker_errors import InvalidTimestampError, MessageTooLargeError
from kproducer.spark.errors import SparkWriteError
from kproducer.spark.flushing import LOOK_INTERVAL_S, flush_and_look, flush_for_a_while
from kproducer.spark.option_names import explained
from kproducer.spark.write_summary import WriteSummary

if TYPE_CHECKING:
    import pyarrow as pa

    from kproducer._core.bulk.arrow_columns import ArrowColumns
    from kproducer._core.bulk.send_many_result import SendManyResult
    from kproducer.kafka_producer import KafkaProducer
    from kproducer.spark.write_columns import WriteColumns
    from kproducer.spark.write_options import WriteOptions

#: How often valid rows are sent again because of others in their batch.
_MOST_ATTEMPTS = 10
#: Rows that are made into dead letters at a time: Python objects take more memory than Arrow data.
_LETTERS_AT_ONCE = 500
#: Room for what a record has besides key, value and headers.
_SPARE_BYTES = 64

#: The smallest limit for the size of a dead letter: the headers alone take more.
_SMALLEST_LETTER = 256


class _BadRow(NamedTuple):
    row: int
    error: KafkaError
    partition: int
    cause: RefusalCause


class _Pending(NamedTuple):
    """Rows, or dead letters, whose outcome is not known yet.

    Attributes:
        result: of each.
        batch: the rows, also those of dead letters.
        causes: see ``SentBatch``.
        size: of the batch, in bytes.
        attempt: how often its rows were sent before.
        bad: the rows of the batch for which the dead letters are; empty: these are rows.
        limit: of the size of each dead letter.
    """

    result: SendManyResult
    batch: pa.RecordBatch
    causes: Mapping[int, RefusalCause] = MappingProxyType({})
    size: int = 0
    attempt: int = 0
    bad: Sequence[_BadRow] = ()
    limit: int = 0


class TolerantRowSender:
    """Sends the rows of one task, as ``TaskRowSender`` does, for ``onBadRow`` other than ``fail``.

    Keeps the Arrow data of rows without an outcome, because any of them may have to become a dead letter; of
    those at most as much as the producer buffers, or one batch.

    Args:
        producer: of the task.
        columns: of the write.
        arrow_columns: the same, as the producer takes them.
        options: of the write.
        task: the number of the task; -1: not known.

    Attributes:
        summary: as that of ``TaskRowSender``; ``rows`` counts those that are acknowledged.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        columns: WriteColumns,
        arrow_columns: ArrowColumns,
        options: WriteOptions,
        task: int = -1,
    ) -> None:
        self.summary = WriteSummary()
        self._producer, self._columns, self._options = producer, columns, options
        self._letters = _DeadLetters(columns, options, task)
        self._room = producer.config.buffer_memory
        self._sink = producer.tolerant_arrow_sink(columns.topic, arrow_columns)
        #: In the order of sending. Only the first one is looked at: most end in this order.
        self._pending: deque[_Pending] = deque()
        self._pending_bytes = 0
        # Nothing was sent since the task before, which has read the totals at its end.
        self._totals_before = producer.sent_totals(is_current=False)

    def send(self, batch: pa.RecordBatch) -> None:
        """Send every row; blocks while the producer's memory is full.

        Raises:
            SparkWriteError: there are too many bad rows, or a failure that is not that of a row.
        """
        self._settle()
        while self._pending and self._pending_bytes + batch.nbytes > self._room:
            if not self._pending[0].result.wait(LOOK_INTERVAL_S):
                flush_for_a_while(self._producer)  # raises if there will be no outcome
            self._settle()
        self._send_rows(batch)

    def deliver_all(self) -> None:
        """Send the last batches without lingering, and wait; also for the dead letters of their rows.

        Raises:
            SparkWriteError: as ``send``.
        """
        while self._pending:
            first = self._pending[0]
            flush_and_look(self._producer, self._settle)
            if self._pending and self._pending[0] is first:
                raise SparkWriteError(
                    f"{len(self._pending)} parts of the task have no result after a flush; they may have "
                    "been written. This is a bug in kproducer"
                )
        self.summary.set_requests(self._totals_before, self._producer.sent_totals(is_current=True))

    # -- outcomes --------------------------------------------------------------------------------------

    def _send_rows(self, batch: pa.RecordBatch, attempt: int = 0) -> None:
        try:
            sent = self._sink.send(batch)
        except KafkaError as error:
            raise self._failure(error, self._columns.topic) from error
        if not attempt:
            self.summary.content_bytes += sent.content_bytes
        size = batch.nbytes
        self._pending_bytes += size
        self._pending.append(_Pending(sent.result, batch, sent.causes, size, attempt))

    def _settle(self) -> None:
        """Count what has an outcome, and deal with the rows that were not written."""
        while self._pending and self._pending[0].result.done():
            ended = self._pending.popleft()
            self._pending_bytes -= ended.size
            failures = ended.result.failures()
            if ended.bad:
                self._settle_letters(ended, failures)
                continue
            self.summary.rows += len(ended.result) - len(failures)
            if failures:
                self._settle_failures(ended, failures)

    def _settle_letters(self, sent: _Pending, failures: list[tuple[int, KafkaError]]) -> None:
        """Send dead letters again, with less of their rows, if the topic does not take records so large."""
        limit = sent.limit // 2
        for _, error in failures:
            is_fatal = limit < _SMALLEST_LETTER or self._options.is_exactly_once
            if is_fatal or not isinstance(error, MessageTooLargeError):
                raise self._failure(error, self._options.dead_letter_topic, what="a dead letter") from error
        if failures:
            indexes = [index for index, _ in failures]
            self._send_letters(sent.batch.take(indexes), [sent.bad[index] for index in indexes], limit)

    def _settle_failures(self, sent: _Pending, failures: list[tuple[int, KafkaError]]) -> None:
        partitions, batch = sent.result.partitions(), sent.batch
        bad: list[_BadRow] = []
        again: list[int] = []
        for row, error in failures:
            cause = sent.causes.get(row, RefusalCause("", ""))
            if error.outcome is Outcome.NOT_SENT and row in sent.causes and isinstance(error, CONTENT_ERRORS):
                bad.append(_BadRow(row, error, -1, cause))
            elif error.outcome is not Outcome.REJECTED or self._options.is_exactly_once:
                raise self._row_failure(batch, row, error, partitions[row])
            elif isinstance(error, BatchRejectedError) and sent.attempt < _MOST_ATTEMPTS:
                again.append(row)
            elif isinstance(error, REJECTED_CONTENT_ERRORS) and _is_own(sent.result, row, error):
                bad.append(_BadRow(row, error, partitions[row], cause))
            else:
                raise self._row_failure(batch, row, error, partitions[row])
        self._settle_bad(batch, bad)
        if again:
            self._send_rows(batch.take(again), sent.attempt + 1)

    def _settle_bad(self, batch: pa.RecordBatch, bad: list[_BadRow]) -> None:
        self.summary.bad_rows += len(bad)
        limit = self._options.max_bad_rows
        if bad and limit is not None and limit.is_exceeded_in_task(self.summary):
            first = self._failure(bad[0].error, self._letters.topic_of(batch, bad[0].row))
            raise SparkWriteError(
                f"this task alone has more bad rows than maxBadRows={limit} allows. The first of the last "
                f"ones: {first}"
            ) from bad[0].error
        if self._options.dead_letter_topic is not None:
            for start in range(0, len(bad), _LETTERS_AT_ONCE):
                some = bad[start : start + _LETTERS_AT_ONCE]
                # Not the whole batch, which would stay in memory.
                rows = batch.take([each.row for each in some])
                self._send_letters(rows, some, self._producer.config.max_request_size)

    def _send_letters(self, rows: pa.RecordBatch, bad: list[_BadRow], limit: int) -> None:
        """Send a dead letter of at most ``limit`` bytes for each of the rows."""
        topic = self._options.dead_letter_topic
        assert topic is not None
        values, keys, headers = map(list, zip(*self._letters.of(rows, bad, limit), strict=True))
        try:
            result = self._producer.send_many(topic, values, keys, headers)
        except KafkaError as error:
            raise self._failure(error, topic, what="a dead letter") from error
        self._pending_bytes += rows.nbytes
        self._pending.append(_Pending(result, rows, size=rows.nbytes, bad=bad, limit=limit))

    def _row_failure(
        self, batch: pa.RecordBatch, row: int, error: KafkaError, partition: int
    ) -> SparkWriteError:
        failure = self._failure(error, self._letters.topic_of(batch, row), partition)
        if self._options.is_exactly_once and error.outcome is Outcome.REJECTED:
            failure.args = (
                f"{failure}. With delivery=exactly-once, a record that a broker rejects fails its "
                "transaction: onBadRow applies only to rows that are refused before they are sent",
            )
        return failure

    def _failure(
        self, error: KafkaError, topic: str | None, partition: int = -1, what: str = "a record"
    ) -> SparkWriteError:
        return SparkWriteError.for_record(error, topic, partition, self._options.producer_settings, what=what)


class _DeadLetters:
    """Makes dead letters of rows.

    Args:
        columns, options: of the write.
        task: the number of the task.
    """

    def __init__(self, columns: WriteColumns, options: WriteOptions, task: int) -> None:
        self._columns, self._options, self._task = columns, options, task
        self._writer = dict(options.producer_settings).get("client.id", "")

    def topic_of(self, batch: pa.RecordBatch, row: int) -> str:
        """The topic of a row; empty: it has none."""
        if self._columns.topic is not None:
            return self._columns.topic
        return str(readable_cell(batch.column("topic"), row) or "")

    def of(
        self, rows: pa.RecordBatch, bad: list[_BadRow], limit: int
    ) -> Iterator[tuple[bytes, bytes | None, list[tuple[str, bytes]]]]:
        """Value, key and headers for each of the rows, in ``limit`` bytes if the headers leave room."""
        for row, each in zip(_rows(rows), bad, strict=True):
            # The driver makes a role's column bytes or text, unless a format writes it.
            key = row.get("key") if "key" in self._columns.names and self._columns.key is None else None
            key = key.encode() if isinstance(key, str) else key
            if key is not None and len(key) > limit // 2:
                key = None  # its beginning is in the value
            column = self._column(each, row)
            partition = row["partition"] if "partition" in self._columns.names else None
            cause = DeadLetterCause(
                each.error,
                explained(each.error, self._options.producer_settings),
                self._columns.topic or str(row.get("topic") or ""),
                each.partition if partition is None else partition,
                each.cause.reason,
                column,
            )
            headers = cause.headers(self._writer, self._task)
            room = limit - record_size_upper_bound(key, None, headers) - _SPARE_BYTES
            content = JsonRow.of(row, room)
            if content.cut:
                # With room for the names of all columns, because less room may cut more of them.
                content = JsonRow.of(row, room - len(",".join(row).encode()) - _SPARE_BYTES)
                headers = cause.headers(self._writer, self._task, cut=",".join(content.cut))
            yield content.value, key, headers

    def _column(self, bad: _BadRow, row: Mapping[str, Any]) -> str:
        reason, place = bad.cause
        if reason in ("value", "key"):
            formatted = self._columns.value if reason == "value" else self._columns.key
            # A format of one column names the fields in it.
            column = formatted.resolved.columns if formatted is not None else reason
            parts = [each for each in (column, place) if isinstance(each, str) and each]
            return ".".join(parts) or reason
        if reason.startswith("header"):
            return "headers"
        if isinstance(bad.error, RecordTooLargeError):
            return longest_cell({name: cell for name, cell in row.items() if self._columns.reads(name)})
        if isinstance(bad.error, InvalidTimestampError):
            return "timestamp" if "timestamp" in self._columns.names else ""
        return {"topic is null": "topic", "row is null": ""}.get(reason, reason)


def _is_own(result: SendManyResult, row: int, error: KafkaError) -> bool:
    """Whether a broker rejected this very record.

    Brokers before 2.4 reject a batch and do not say because of which record. A batch that is too large has
    been split until its record is alone.
    """
    return isinstance(error, RecordTooLargeError) or error is not place_of(result[row])[0].error


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows as Python objects."""
    cells = []
    for column in batch.columns:
        try:
            cells.append(column.to_pylist())
        except Exception:  # pyarrow raises errors of many types here
            cells.append([readable_cell(column, index) for index in range(len(column))])
    for row in zip(*cells, strict=True):
        yield dict(zip(batch.schema.names, row, strict=True))
