"""Writing one partition of a DataFrame: what a Spark task does in its Python worker.

``write_partition`` takes a producer from the worker's cache when the first row arrives, sends every
RecordBatch, and returns when each record is acknowledged. A failure discards the producer, so that nothing
of a failed task is sent later. Exactly-once writes use the same ``RowSender``. No row becomes a Python
object.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from kproducer.accumulator.future_record_metadata import ProduceRequestResult
from kproducer.bulk.arrow_columns import ArrowColumns
from kproducer.bulk.send_arrow import RowRefusedError
from kproducer.errors import KafkaError, KafkaTimeoutError
from kproducer.runtime.clock import Clock, SystemClock
from kproducer.spark.errors import SparkWriteError
from kproducer.spark.producer_cache import PRODUCERS, Producer, ProducerCache
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions, with_option_names
from kproducer.spark.write_summary import WriteSummary, counters, report
from kproducer.types import TopicPartition

#: After a flush every record has its result.
_AFTER_FLUSH_S = 30.0

#: How often a flush is interrupted to check whether a record has failed.
_FLUSH_SLICE_S = 1.0

_is_gc_frozen = False


class TaskIdentity(NamedTuple):
    """The running task; -1 and empty text for what Spark does not tell."""

    partition: int = -1
    attempt: int = -1
    query_id: str = ""
    batch_id: str = ""

    @classmethod
    def current(cls) -> TaskIdentity:
        """The identity of the running task."""
        context = TaskContext.get()
        if context is None:
            return cls()
        return cls(
            context.partitionId(),
            context.attemptNumber(),
            context.getLocalProperty("sql.streaming.queryId") or "",
            context.getLocalProperty("streaming.sql.batchId") or "",
        )

    def __str__(self) -> str:
        text = f"task {self.partition} (attempt {self.attempt})"
        return f"micro-batch {self.batch_id}, {text}" if self.batch_id else text


def write_partition(
    batches: Iterator[pa.RecordBatch],
    columns: WriteColumns,
    options: WriteOptions,
    task: TaskIdentity,
    cache: ProducerCache[Producer] = PRODUCERS,
) -> WriteSummary:
    """Write all rows of a task and wait until each is acknowledged. A task without rows does not connect.

    Raises:
        SparkWriteError: a record could not be written; the other records of the task may be written or not.
    """
    clock = SystemClock()
    started_ms = clock.monotonic_ms()
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    summary = WriteSummary()
    if first is not None:
        with cache.acquire(options.producer_settings, options.producer_idle_timeout_ms) as producer:
            rows = RowSender(producer, columns, clock)
            for batch in chain([first], filled):
                rows.send(batch)
            rows.deliver_all()
            summary = rows.summary
    end_task(task, summary, clock.monotonic_ms() - started_ms, options)
    return summary


def end_task(task: TaskIdentity, summary: WriteSummary, elapsed_ms: int, options: WriteOptions) -> None:
    """Complete the summary of a task that succeeded, and report it if the options ask for it."""
    summary.tasks = 1
    summary.elapsed_ms = elapsed_ms
    if options.summary != "off":
        report(str(task), summary, is_printed=options.summary == "task", **task._asdict())


class RowSender:
    """Sends the rows of one task and waits until they are delivered. Used on the task's thread only.

    Attributes:
        summary: rows and bytes sent so far; requests as of ``note_requests``.
    """

    __slots__ = ("_before", "_columns", "_producer", "_sink", "_tracker", "summary")

    def __init__(self, producer: Producer, columns: WriteColumns, clock: Clock) -> None:
        self.summary = WriteSummary()
        self._producer = producer
        self._columns = columns
        self._sink = producer.arrow_sink(columns.topic_option, arrow_columns(columns))
        self._tracker = DeliveryTracker(clock)
        self._before = counters(producer.metrics())

    def send(self, batch: pa.RecordBatch) -> None:
        """Send every row; blocks while the producer's memory is full.

        Raises:
            SparkWriteError: a row cannot be sent, or an earlier one has failed.
        """
        self._tracker.raise_if_failed()
        try:
            self.summary.content_bytes += self._sink.send(batch)
        except RowRefusedError as refused:
            raise _refusal(refused) from refused.error
        except KafkaError as error:
            raise _failure(f"topic '{self._columns.topic_option or '?'}'", error) from error
        finally:
            self._tracker.watch(self._sink.rows_by_owner)
        self.summary.rows += batch.num_rows

    def deliver_all(self) -> None:
        """Send the last batches without lingering, and wait; a failed record ends the wait early.

        Raises:
            SparkWriteError: not every row was acknowledged.
        """
        while True:
            self._tracker.raise_if_failed()
            try:
                self._producer.flush(_FLUSH_SLICE_S)
            except KafkaTimeoutError:
                continue  # the delivery timeout of the records ends this at the latest
            break
        self._tracker.await_all(self.summary.rows, _AFTER_FLUSH_S)
        self.note_requests()
        freeze_gc_after_first_task()

    def note_requests(self) -> None:
        """Add the requests since the start to the summary.

        If a producer serves several tasks at a time (Spark's own workers run one), theirs are included.
        """
        self.summary.note_requests(self._before, counters(self._producer.metrics()))


class DeliveryTracker:
    """Counts the acknowledged rows of one task, in memory that does not grow with them.

    A list of futures would grow: a partition of a DataFrame has no maximum size. The tracker keeps only the
    batches that are not yet delivered, with the number of the task's rows in each; the producer's memory
    limits them. Used on the task's thread only.

    Attributes:
        acknowledged: rows in acknowledged batches, as of the last ``raise_if_failed``.
    """

    __slots__ = ("_clock", "_pending", "acknowledged")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[ProduceRequestResult, int] = {}
        self.acknowledged = 0

    def watch(self, rows_by_owner: dict[ProduceRequestResult, int]) -> None:
        """Take over the results of batches with the number of new rows in each; empties the dict."""
        pending = self._pending
        for owner, rows in rows_by_owner.items():
            pending[owner] = pending.get(owner, 0) + rows
        rows_by_owner.clear()

    def raise_if_failed(self) -> None:
        """Check the batches. Raises ``SparkWriteError`` if a record has failed."""
        ended = []
        # Called per ten thousand rows, with hundreds of batches in flight: the usual case makes no call per
        # batch.
        for owner, rows in self._pending.items():
            if owner.parts is None:
                if not owner.done:
                    continue
                if owner.error is not None:
                    raise _failure(_place(owner.topic_partition), owner.error) from owner.error
            elif not _parts_ended(owner):
                continue
            ended.append(owner)
            self.acknowledged += rows
        for owner in ended:
            del self._pending[owner]

    def await_all(self, expected: int, timeout_s: float) -> None:
        """Wait until ``expected`` records are acknowledged or one has failed.

        Raises:
            SparkWriteError: a record has failed, or the time is over.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_s * 1000
        while True:
            self.raise_if_failed()
            left_s = (deadline_ms - self._clock.monotonic_ms()) / 1000
            if not self._pending or left_s <= 0:
                break
            part = next(part for part in next(iter(self._pending)).leaves() if not part.done)
            part.wait(left_s)
        if self.acknowledged < expected:
            raise SparkWriteError(
                f"{expected - self.acknowledged} of {expected} records were neither acknowledged nor refused "
                f"within {timeout_s:.0f} s; they may have been written"
            )


def _parts_ended(owner: ProduceRequestResult) -> bool:
    """Whether all parts of a split batch have ended. Raises ``SparkWriteError`` if one has failed."""
    parts = owner.leaves()
    for part in parts:
        if part.done and part.error is not None:
            raise _failure(_place(part.topic_partition), part.error) from part.error
    return all(part.done for part in parts)


def _place(topic_partition: TopicPartition) -> str:
    topic, partition = topic_partition
    return f"topic '{topic}', " + (f"partition {partition}" if partition >= 0 else "no partition chosen yet")


def _refusal(refused: RowRefusedError) -> SparkWriteError:
    if refused.reason == "topic is null":
        return SparkWriteError(
            f"column 'topic' is null in row {refused.row} of the task (counted from 0): "
            "filter such rows out, or set the option 'topic'"
        )
    partition = "no partition given" if refused.partition < 0 else f"partition {refused.partition}"
    return _failure(
        f"topic '{refused.topic}', {partition} (row {refused.row} of the task, counted from 0)", refused.error
    )


def _failure(place: str, error: BaseException) -> SparkWriteError:
    """The error of a task, with the topic, the reason and what is known about the record."""
    outcome = getattr(error, "outcome", None)
    known = {
        "not_sent": " (it was not sent)",
        "rejected": " (it was not written)",
        "unknown": " (it may have been written)",
    }.get(getattr(outcome, "value", ""), "")
    reason = with_option_names(f"{type(error).__name__}: {error}")
    failure = SparkWriteError(f"a record could not be written to {place}: {reason}{known}")
    if outcome is not None:
        failure.outcome = outcome
    return failure


def arrow_columns(columns: WriteColumns) -> ArrowColumns:
    """The columns that exist; their names are always the same."""

    def name(column: str) -> str | None:
        return None if getattr(columns, column) is None else column

    return ArrowColumns(
        value="value",
        key=name("key"),
        headers=name("headers"),
        partition=name("partition"),
        timestamp=name("timestamp"),
        topic=name("topic"),
        takes_seconds=True,
    )


def freeze_gc_after_first_task() -> None:
    """Exclude all present objects from garbage collection: once per Python worker, and only in one.

    Spark's daemon collects all garbage after each task, and the worker's next task waits for it: tens of
    milliseconds, spent on modules and their functions. Objects that exist when the first task has delivered
    its rows live until the worker ends. Source: ``pyspark.daemon``; ``gc.freeze``.
    """
    global _is_gc_frozen
    if not _is_gc_frozen and TaskContext.get() is not None:
        _is_gc_frozen = True
        gc.freeze()
