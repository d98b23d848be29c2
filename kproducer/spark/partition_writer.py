"""Writing one partition of a DataFrame: what a Spark task does in its Python worker.

``write_partition`` takes a producer from the worker's cache when the first row arrives, sends every
RecordBatch, and returns when each record is acknowledged. After a failure the producer is discarded, so that
nothing of a failed task is sent later. Exactly-once writes use the same senders. Rows never become Python
objects, unless they are bad, and futures are not kept (docs/decisions/0017-spark-counts.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import TaskContext

from kproducer._core.bulk.arrow_columns import ArrowColumns
from kproducer._core.bulk.send_arrow import RowRefusedError
from kproducer.errors import ConfigError, KafkaError
from kproducer.kafka_producer import KafkaProducer
from kproducer.spark.errors import SparkOptionError, SparkWriteError
from kproducer.spark.flushing import flush_and_look
from kproducer.spark.option_names import config_mistake
from kproducer.spark.producer_cache import ProducerCache, SettingsKey
from kproducer.spark.tolerant_row_sender import TolerantRowSender
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.spark.write_summary import WriteSummary

if TYPE_CHECKING:
    import pyarrow as pa

#: The cache of this process. A global, because writers are pickled and caches cannot be.
PRODUCERS: ProducerCache[KafkaProducer] = ProducerCache(KafkaProducer.from_config)


class SparkTask(NamedTuple):
    """The running task; -1 and empty text for what Spark does not provide."""

    partition: int = -1
    attempt: int = -1
    query_id: str = ""
    batch_id: str = ""

    @classmethod
    def current(cls) -> SparkTask:
        """The identity of the running task."""
        context = TaskContext.get()
        if context is None:
            return cls()
        return cls(
            context.partitionId(),
            context.attemptNumber(),
            local_property("sql.streaming.queryId"),
            local_property("streaming.sql.batchId"),
        )

    def __str__(self) -> str:
        text = f"task {self.partition} (attempt {self.attempt})"
        return f"micro-batch {self.batch_id}, {text}" if self.batch_id else text


def local_property(name: str) -> str:
    """A property of the Spark job that the running task belongs to; empty if it is not set."""
    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty(name) or ""


def write_partition(
    batches: Iterator[pa.RecordBatch],
    columns: WriteColumns,
    options: WriteOptions,
    cache: ProducerCache[KafkaProducer] = PRODUCERS,
) -> WriteSummary:
    """Write all rows of a task and wait until each is acknowledged. A task without rows does not connect.

    Raises:
        SparkOptionError: this machine cannot read certificates or keys.
        SparkWriteError: a record could not be written; other records of the task may have been written.
    """
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return WriteSummary()
    try:
        lease = cache.acquire(options.producer_settings, options.producer_idle_timeout_ms)
    except ConfigError as error:
        raise SparkOptionError(config_mistake(error)) from None
    with lease as producer:
        rows = new_row_sender(producer, columns, options)
        rows.send(first)
        del first  # it may have megabytes, and the task may take long
        for batch in filled:
            rows.send(batch)
        rows.deliver_all()
        return rows.summary


def new_row_sender(
    producer: KafkaProducer, columns: WriteColumns, options: WriteOptions
) -> TaskRowSender | TolerantRowSender:
    """The sender for the rows of the running task, as the option ``onBadRow`` says."""
    if options.on_bad_row == "fail":
        return TaskRowSender(producer, columns, options.producer_settings)
    task = SparkTask.current().partition
    return TolerantRowSender(producer, columns, arrow_columns(columns), options, task)


class TaskRowSender:
    """Sends the rows of one task and waits until they are delivered. Used on the task's thread only.

    A partition of a DataFrame has no maximum size, so the sender does not keep a future per row, but only the
    batches that are not delivered yet, with the number of the task's rows in each; the producer's memory
    limits their number.

    Args:
        producer: of the task.
        columns: of the write.
        settings: of the producer; errors name the options that are behind them.

    Attributes:
        summary: rows and bytes sent so far; requests after ``deliver_all``.
    """

    def __init__(self, producer: KafkaProducer, columns: WriteColumns, settings: SettingsKey = ()) -> None:
        self.summary = WriteSummary()
        self._producer = producer
        self._topic = columns.topic
        self._settings = settings
        self._sink = producer.arrow_sink(columns.topic, arrow_columns(columns))
        self._pending = self._sink.rows_by_result
        self._acknowledged = 0
        # Nothing was sent since the task before, which has read the totals at its end.
        self._totals_before = producer.sent_totals(is_current=False)

    def send(self, batch: pa.RecordBatch) -> None:
        """Send every row; blocks while the producer's memory is full.

        Raises:
            SparkWriteError: a row cannot be sent, or an earlier one has failed.
        """
        self._raise_if_failed()
        try:
            self.summary.content_bytes += self._sink.send(batch)
        except RowRefusedError as refused:
            if refused.reason == "topic is null":
                raise SparkWriteError(
                    f"column 'topic' is null in row {refused.row} of the task (counted from 0): "
                    "filter such rows out, or set the option 'topic'"
                ) from refused.error
            raise self._failure(
                refused.error, refused.topic, refused.partition, f" (row {refused.row} of the task, from 0)"
            ) from refused.error
        except KafkaError as error:
            raise self._failure(error, self._topic) from error
        self.summary.rows += batch.num_rows

    def deliver_all(self) -> None:
        """Send the last batches without lingering, and wait; a failed record ends the wait early.

        Raises:
            SparkWriteError: not every row was acknowledged.
        """
        flush_and_look(self._producer, self._raise_if_failed)
        if missing := self.summary.rows - self._acknowledged:
            raise SparkWriteError(
                f"{missing} of {self.summary.rows} records have no result after a flush; they may have been "
                "written. This is a bug in kproducer"
            )
        self.summary.set_requests(self._totals_before, self._producer.sent_totals(is_current=True))

    def _raise_if_failed(self) -> None:
        """Count the rows of acknowledged batches. Raises ``SparkWriteError`` if a record has failed."""
        ended = []
        # Called per ten thousand rows, with hundreds of batches in flight: a batch that is still in flight
        # costs no call.
        for owner, rows in self._pending.items():
            if owner.parts is None and not owner.done:
                continue
            parts = owner.leaves()
            for part in parts:
                if part.done and part.error is not None:
                    raise self._failure(part.error, *part.topic_partition) from part.error
            if all(part.done for part in parts):
                ended.append(owner)
                self._acknowledged += rows
        for owner in ended:
            del self._pending[owner]

    def _failure(
        self, error: BaseException, topic: str | None, partition: int = -1, row: str = ""
    ) -> SparkWriteError:
        return SparkWriteError.for_record(error, topic, partition, self._settings, row)


def arrow_columns(columns: WriteColumns) -> ArrowColumns:
    """The columns as the producer takes them."""
    roles: dict[str, Any] = {name: name for name in columns.names}
    formats = {"value": columns.value, "key": columns.key}
    roles |= {role: each for role, each in formats.items() if each is not None}
    return ArrowColumns(**roles, takes_seconds=True)
