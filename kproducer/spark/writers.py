"""The objects that Spark pickles and calls: ``write`` in a task, ``commit`` and ``abort`` on the driver.

There are four, for batch and streaming queries, with Arrow and without. They hold checked options and
columns only, so making one is cheap and has no side effects (a streaming query makes two per micro-batch).
Arrow writers exist since Spark 4.0 for batches and since 4.1 for streams; otherwise rows are converted to
RecordBatches, so that there is one path to the producer.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource as spark_datasource
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from kproducer.spark.write_columns import COLUMN_NAMES, WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.spark.write_summary import WriteSummary, report

if TYPE_CHECKING:
    import pyarrow as pa

    from kproducer.spark.exactly_once.ports import DriverKafka, TaskKafka
    from kproducer.spark.exactly_once.spark_write import SparkWrite

#: Rows per RecordBatch, if Spark passes rows.
_CHUNK_ROWS = 4096


class _Writing:
    """The common part of the four writers. Picklable; ``repr`` shows no producer settings."""

    def __init__(self, schema: StructType, columns: WriteColumns, options: WriteOptions) -> None:
        self._schema = schema
        self._columns = columns
        self._options = options
        # The name of a batch without ``writeId``. Made here, because tasks and driver get copies of this
        # object. (Those of a streaming query get different objects, but a query has a name.)
        self._unnamed = uuid.uuid4().hex

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._columns}, {self._options})"

    # -- hooks of exactly-once writes, for tests -------------------------------------------------------

    def on_step(self, name: str) -> None:
        """Called before each step of the protocols."""

    def task_kafka(self, port: TaskKafka) -> TaskKafka:
        """Wrap the port of a task."""
        return port

    def driver_kafka(self, port: DriverKafka) -> DriverKafka:
        """Wrap the port of the driver."""
        return port

    # -- common methods --------------------------------------------------------------------------------

    def _write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._options.is_exactly_once:
            return self._exactly_once().write(batches)
        # Imported here, because a driver that only plans needs neither pyarrow nor a producer.
        from kproducer.spark.partition_writer import TaskIdentity, write_partition

        return write_partition(batches, self._columns, self._options, TaskIdentity.current())

    def _commit(self, subject: str, messages: list[WriterCommitMessage | None], batch_id: int | None) -> None:
        if self._options.is_exactly_once:
            self._exactly_once().commit(messages, batch_id)
        if self._options.summary == "off":
            return
        total = WriteSummary.total(messages)
        context = {} if batch_id is None else {"batch_id": batch_id}
        done = "committed" if self._options.is_exactly_once else "written"
        if total.is_repetition:
            done = "repeated"
        subject = f"{subject} {done} by {total.tasks} tasks"
        report(subject, total, is_printed=self._options.prints_jobs, **context)

    def _abort(self, subject: str, messages: list[WriterCommitMessage | None]) -> None:
        stays, is_printed = "stay in the topic, and a retry writes them again", True
        if self._options.is_exactly_once:
            self._exactly_once().abort(messages)
            stays, is_printed = "stay invisible where they are not committed", self._options.prints_jobs
        total = WriteSummary.total(messages)
        # Spark also aborts a micro-batch that a query's stop() interrupts, without telling so.
        if total.rows and self._options.summary != "off":
            ended = f"{subject} did not finish (it failed or was stopped)"
            report(
                f"{ended}; the rows of its {total.tasks} finished tasks {stays}", total, is_printed=is_printed
            )

    def _exactly_once(self) -> SparkWrite:
        from kproducer.spark.exactly_once.spark_write import SparkWrite

        return SparkWrite(
            self._columns,
            self._options,
            None if isinstance(self, DataSourceStreamWriter) else self._unnamed,
            self.on_step,
            self.task_kafka,
            self.driver_kafka,
        )


class _BatchWriting(_Writing):
    """Commit and abort of a DataFrame."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Exactly once: commit the tasks' transactions. At least once: all records are written already."""
        self._commit("DataFrame", messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Exactly once: abort the tasks' transactions. At least once: report what stays in the topics."""
        self._abort("DataFrame", messages)


class _StreamWriting(_Writing):
    """Commit and abort of a micro-batch."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """As for a DataFrame."""
        self._commit(f"micro-batch {batchId}", messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """As for a DataFrame."""
        self._abort(f"micro-batch {batchId}", messages)


class BatchArrowWriter(_BatchWriting, spark_datasource.DataSourceArrowWriter):
    """Writes a DataFrame whose partitions are passed as RecordBatches."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition; returns when each record is acknowledged."""
        return self._write_batches(iterator)


class BatchRowWriter(_BatchWriting, DataSourceWriter):
    """Writes a DataFrame whose partitions are passed as rows."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write one partition; returns when each record is acknowledged."""
        return self._write_batches(record_batches(iterator, self._schema))


class StreamRowWriter(_StreamWriting, DataSourceStreamWriter):
    """Writes micro-batches whose partitions are passed as rows."""

    write = BatchRowWriter.write


def _stream_arrow_writer() -> type[_Writing] | None:
    base: Any = getattr(spark_datasource, "DataSourceStreamArrowWriter", None)
    if base is None:
        return None

    class StreamArrowWriter(_StreamWriting, base):  # type: ignore[misc, unused-ignore]
        """Writes micro-batches whose partitions are passed as RecordBatches."""

        write = BatchArrowWriter.write

    # Pickle looks classes up by this name.
    StreamArrowWriter.__qualname__ = "StreamArrowWriter"
    return StreamArrowWriter


#: ``None`` if Spark has no Arrow writer for streams (4.0).
StreamArrowWriter = _stream_arrow_writer()


def batch_writer_class() -> type[Any]:
    """The best writer of DataFrames that this Spark has."""
    return BatchArrowWriter if hasattr(spark_datasource, "DataSourceArrowWriter") else BatchRowWriter


def stream_writer_class() -> type[Any]:
    """The best writer of micro-batches that this Spark has."""
    return StreamRowWriter if StreamArrowWriter is None else StreamArrowWriter


def record_batches(rows: Iterable[Any], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Convert rows to RecordBatches of ``schema``; columns that are not written become nulls."""
    import pyarrow as pa

    types = [_arrow_type(field.dataType) if field.name in COLUMN_NAMES else None for field in schema.fields]
    names = [field.name for field in schema.fields]
    remaining = iter(rows)
    while chunk := list(islice(remaining, _CHUNK_ROWS)):
        arrays = [
            pa.nulls(len(chunk)) if kind is None else pa.array([row[position] for row in chunk], type=kind)
            for position, kind in enumerate(types)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _arrow_type(data_type: DataType) -> pa.DataType:
    import pyarrow as pa

    if isinstance(data_type, ArrayType):
        assert isinstance(data_type.elementType, StructType)
        return pa.list_(
            pa.struct([(each.name, _arrow_type(each.dataType)) for each in data_type.elementType.fields])
        )
    if isinstance(data_type, StringType):
        return pa.string()
    simple: dict[type[DataType], Any] = {
        BinaryType: pa.binary(),
        IntegerType: pa.int32(),
        DoubleType: pa.float64(),
        TimestampType: pa.timestamp("us", tz="UTC"),
    }
    # Columns of other types are not written (a topic that the option overrides), so their type does not
    # matter.
    return simple.get(type(data_type), pa.null())
