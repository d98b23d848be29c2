"""Writing one partition of a DataFrame: what a Spark task does in its Python worker.

Takes a producer from the worker's cache when there is something to write, sends every RecordBatch, and
returns only when each record is acknowledged. A failure discards the producer, so that nothing of a failed
task is sent later. Knows Spark by its ``TaskContext`` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import attrs
import pyarrow as pa

from kproducer.errors import KafkaTimeoutError
from kproducer.runtime.clock import Clock, SystemClock
from kproducer.spark.delivery_tracker import DeliveryTracker
from kproducer.spark.producer_cache import PRODUCERS, Lease, Producer, ProducerCache
from kproducer.spark.record_batch_sender import RecordBatchSender
from kproducer.spark.worker_collector import spare_what_stays
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.spark.write_summary import WriteSummary, counters, report

#: After a flush every record has its result.
_AFTER_FLUSH_S = 30.0

#: How soon a failed record ends the waiting for the others.
_FLUSH_SLICE_S = 1.0


class TaskIdentity(NamedTuple):
    """Which task this is; -1 and empty text where Spark does not say."""

    partition: int = -1
    attempt: int = -1
    query_id: str = ""
    batch_id: str = ""

    @classmethod
    def current(cls) -> TaskIdentity:
        """That of the running task."""
        from pyspark import TaskContext

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


@attrs.define
class PartitionWriter:
    """Writes partitions with given columns and options. Made for one task; for the task's thread."""

    columns: WriteColumns
    options: WriteOptions
    cache: ProducerCache[Producer] = PRODUCERS
    clock: Clock = attrs.field(factory=SystemClock)

    def write(self, batches: Iterator[pa.RecordBatch], task: TaskIdentity) -> WriteSummary:
        """Write all rows and wait until each is acknowledged.

        Raises:
            SparkWriteError: a record could not be written; the others of the task may be written or not.
        """
        started_ms = self.clock.monotonic_ms()
        lease: Lease[Producer] | None = None
        try:
            for batch in batches:
                if batch.num_rows:
                    lease = self.cache.acquire(
                        self.options.producer_settings, self.options.producer_idle_timeout_ms
                    )
                    summary = self._write_rows(lease.producer, batch, batches)
                    break
            else:
                # No rows, no producer: an empty partition does not connect to anything.
                summary = WriteSummary()
        except BaseException:
            # BaseException: a killed task arrives as KeyboardInterrupt or SystemExit.
            if lease is not None:
                lease.release(discard=True)
            raise
        if lease is not None:
            lease.release()
        end_task(task, summary, self.clock.monotonic_ms() - started_ms, self.options)
        return summary

    def _write_rows(
        self, producer: Producer, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]
    ) -> WriteSummary:
        tracker = DeliveryTracker(self.clock)
        sender = RecordBatchSender(producer, self.columns, tracker)
        before = counters(producer.metrics())
        summary = WriteSummary(content_bytes=sender.send(first), rows=first.num_rows)
        for batch in others:
            summary.content_bytes += sender.send(batch)
            summary.rows += batch.num_rows
        deliver_all(producer, tracker, summary.rows)
        # A producer may serve several tasks at a time (Spark's own workers run one): then their requests are
        # in here as well.
        summary.note_requests(before, counters(producer.metrics()))
        return summary


def end_task(task: TaskIdentity, summary: WriteSummary, elapsed_ms: int, options: WriteOptions) -> None:
    """Complete the summary of a task that succeeded, and tell it where it is wanted."""
    summary.tasks = 1
    summary.elapsed_ms = elapsed_ms
    if options.summary != "off":
        report(str(task), summary, is_printed=options.summary == "task", **task._asdict())


def deliver_all(producer: Producer, tracker: DeliveryTracker, rows: int) -> None:
    """Let the last batches go without lingering, and wait; a failure ends the waiting early.

    Raises:
        SparkWriteError: not each of the task's ``rows`` was acknowledged.
    """
    while True:
        tracker.raise_if_failed()
        try:
            producer.flush(_FLUSH_SLICE_S)
        except KafkaTimeoutError:
            # Not over yet. The delivery timeout of each record ends this at the latest.
            continue
        break
    tracker.await_all(rows, _AFTER_FLUSH_S)
    spare_what_stays()
