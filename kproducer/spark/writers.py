"""The objects that Spark pickles and calls: ``write`` in a task, ``commit`` and ``abort`` on the driver.

They hold checked options and columns only, so creating one is cheap and has no side effects (a streaming
query creates two per micro-batch). Options and columns are pickled by themselves: importing the settings
takes several times longer than committing an at-least-once write, which does not need them. Spark 4.0 has no
Arrow writer for streams: there, rows are converted to RecordBatches, so that there is one path to the
producer.
"""

from __future__ import annotations

import logging
import math
import pickle
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import datasource as spark_datasource
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from kproducer.spark.bad_row_limit import BadRowLimit
from kproducer.spark.errors import SparkWriteError
from kproducer.spark.metrics_file import MetricsFile
from kproducer.spark.python_worker import acknowledge_at_once, freeze_gc_if_modules_were_imported
from kproducer.spark.write_summary import TOPIC_COLUMN, WriteSummary, report

if TYPE_CHECKING:
    import pyarrow as pa

    from kproducer.spark.write_columns import WriteColumns
    from kproducer.spark.write_options import WriteOptions


logger = logging.getLogger("kproducer.spark")


class CommitOptions(NamedTuple):
    """What the commit of an at-least-once write needs of ``WriteOptions``."""

    summary: str
    is_exactly_once: bool
    max_bad_rows: BadRowLimit | None = None
    topic: str | None = None
    query_name: str = ""
    metrics_file: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> CommitOptions:
        """Read options that another process has checked."""
        given = {name.lower(): str(value).strip() for name, value in options.items()}
        return cls(
            given.get("summary", "log").lower(),
            given.get("delivery", "").lower() == "exactly-once",
            BadRowLimit.parse(given.get("maxbadrows", "")),
            given.get("topic"),
            given.get("queryname", ""),
            given.get("metricsfile"),
        )


class Writer:
    """The common part of all writers. Picklable; ``repr`` shows no producer settings.

    Args:
        schema: of the DataFrame.
        columns, options: checked. For the commit of an at-least-once write, ``None`` and ``CommitOptions``.

    Attributes:
        schema, columns, options: as given.
        summary, is_exactly_once, max_bad_rows, query_name: of the options.
        topic: of the options, or ``TOPIC_COLUMN``.
        metrics_file: of the option ``metricsFile``.
        batch_name: identifies a batch without ``writeId``; ``None`` for a streaming query, which has an id.
    """

    def __init__(
        self, schema: t.StructType, columns: WriteColumns | None, options: WriteOptions | CommitOptions
    ) -> None:
        self.schema = schema
        self.summary, self.is_exactly_once = options.summary, options.is_exactly_once
        self.max_bad_rows, self.query_name = options.max_bad_rows, options.query_name
        self.topic = options.topic or TOPIC_COLUMN
        self.metrics_file = MetricsFile.of(options.metrics_file, self.query_name, options.topic)
        self._columns, self._options = pickle.dumps(columns), pickle.dumps(options)
        # Chosen here, because tasks and driver get copies of this object.
        self.batch_name = None if isinstance(self, DataSourceStreamWriter) else uuid.uuid4().hex

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.columns}, {self.options})"

    @cached_property
    def columns(self) -> WriteColumns:
        """The columns to write."""
        return pickle.loads(self._columns)  # type: ignore[no-any-return]

    @cached_property
    def options(self) -> WriteOptions:
        """The options of the write."""
        return pickle.loads(self._options)  # type: ignore[no-any-return]

    def _write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        # Imported here, because a driver that only plans needs neither pyarrow nor a producer.
        from kproducer.spark.partition_writer import SparkTask, write_partition

        started_s = time.monotonic()
        acknowledge_at_once()
        task = SparkTask.current()
        message: WriterCommitMessage
        if self.is_exactly_once:
            from kproducer.spark.exactly_once import spark_write

            message = prepared = spark_write.write(self.options, self.columns, self.batch_name, task, batches)
            summary = prepared.summary
        else:
            message = summary = write_partition(batches, self.columns, self.options)
        summary.tasks = 1
        summary.elapsed_ms = int(1000 * (time.monotonic() - started_s))
        summary.query_id, summary.batch_id = task.query_id, task.batch_id
        self._report(str(task), summary, is_printed=self.summary == "task", **task._asdict())
        freeze_gc_if_modules_were_imported()
        return message

    def _report(self, subject: str, summary: WriteSummary, *, is_printed: bool, **context: object) -> None:
        if self.summary != "off":
            report(
                subject,
                summary,
                topic=self.topic,
                query_name=self.query_name,
                is_printed=is_printed,
                **context,
            )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:  # noqa: N803
        """Exactly once: commit the tasks' transactions. At least once: all records are written already.

        Raises:
            SparkWriteError: the query uses continuous processing, or too many rows are bad.
        """
        freeze_gc_if_modules_were_imported()
        if batchId is not None:
            _check_micro_batch(messages, batchId)
        total = _total(messages, batchId)
        done = "written"
        if not self.is_exactly_once:
            self._check_bad_rows(total, "The other rows, and dead letters, are in their topics already")
        else:
            from kproducer.spark.exactly_once import spark_write

            # What is partly committed was within the limit, and has to be completed.
            if not spark_write.is_replay(messages):
                self._check_bad_rows(total, "Nothing was committed")
            started_s = time.monotonic()
            spark_write.commit(self.options, messages, batchId)
            total.commit_ms = math.ceil(1000 * (time.monotonic() - started_s))
            done = "committed"
        # A stream without tasks: perhaps continuous processing, see above.
        if self.metrics_file is not None and (batchId is None or total.tasks):
            self.metrics_file.add(total)
        if total.is_repetition:
            done = "repeated"
        # Rows are missing in the topic, and Spark has no other place to say so.
        is_printed = self.summary in ("job", "task") or total.bad_rows > 0
        self._report(f"{total.subject} {done} by {total.tasks} tasks", total, is_printed=is_printed)

    def _check_bad_rows(self, total: WriteSummary, result: str) -> None:
        limit = self.max_bad_rows
        if limit is not None and limit.is_exceeded(total):
            if self.metrics_file is not None:
                self.metrics_file.add_bad_rows(total)
            raise SparkWriteError(
                f"{total.subject}: {total.bad_rows} of {total.rows + total.bad_rows} rows could not be "
                f"written, more than maxBadRows={limit} allows. {result}. Fix the rows, or raise the limit"
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:  # noqa: N803
        """Exactly once: abort the tasks' transactions. At least once: report what stays in the topics."""
        result, is_printed = "stay in the topic, and a retry writes them again", True
        if self.is_exactly_once:
            from kproducer.spark.exactly_once import spark_write

            spark_write.abort(self.options, self.batch_name, messages)
            result = "stay invisible unless they are committed"
            is_printed = self.summary in ("job", "task")
        total = _total(messages, batchId)
        # Spark also aborts a micro-batch that query.stop() interrupts, and does not say which it was.
        if total.rows:
            subject = f"{total.subject} did not finish (it failed or was stopped)"
            subject = f"{subject}; the rows of its {total.tasks} finished tasks {result}"
            self._report(subject, total, is_printed=is_printed)


def _total(messages: list[WriterCommitMessage | None], batch_id: int | None) -> WriteSummary:
    total = WriteSummary.total(messages)
    if batch_id is not None:
        total.batch_id = str(batch_id)
    return total


def _check_micro_batch(messages: list[WriterCommitMessage | None], batch_id: int) -> None:
    """Notice continuous processing: it calls ``commit`` for each epoch, but passes no rows to Python.

    The driver cannot see the trigger when it creates the writer. In a micro-batch each partition has a
    message, also an empty one; without partitions, Spark starts one task that does not call Python.

    Raises:
        SparkWriteError: several partitions, and no message. It keeps Spark from committing the epoch.
    """
    if any(message is not None for message in messages):
        return
    explanation = (
        "If the query has trigger(continuous=...), its rows are not written, because Spark's continuous "
        "processing passes none to a sink in Python: use micro-batches, for example "
        "trigger(processingTime='1 second')"
    )
    if len(messages) > 1:
        raise SparkWriteError(f"micro-batch {batch_id}: no task has called this sink. {explanation}")
    logger.warning("No task has called this sink for micro-batch %d. %s", batch_id, explanation)


class BatchWriter(Writer, DataSourceArrowWriter):
    """Writes a DataFrame whose partitions are passed as RecordBatches."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition; returns when each record is acknowledged."""
        return self._write_batches(iterator)


class StreamRowWriter(Writer, DataSourceStreamWriter):
    """Writes micro-batches whose partitions are passed as rows."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write one partition; returns when each record is acknowledged."""
        from kproducer.spark.arrow_types import record_batches

        return self._write_batches(record_batches(iterator, self.schema, self.columns.reads))


#: Streams have an Arrow writer since Spark 4.1.
if hasattr(spark_datasource, "DataSourceStreamArrowWriter"):

    class StreamWriter(StreamRowWriter, spark_datasource.DataSourceStreamArrowWriter):
        """Writes micro-batches whose partitions are passed as RecordBatches."""

        write = BatchWriter.write

else:
    StreamWriter = StreamRowWriter  # type: ignore[misc, assignment, unused-ignore]
