"""What Spark's writers call for exactly-once writes: connects options and columns with the two protocols.

``write`` runs in a task, and determines the write, its number and the task's partition. A stream is known by
its query id, and its number is Spark's micro-batch id; a batch write has ``writeId`` and ``writeVersion``.
``commit`` and ``abort`` run on the driver, in a process per micro-batch, which does not import what only
tasks need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kproducer.spark.errors import ExactlyOnceError, SparkOptionError
from kproducer.spark.exactly_once.driver_protocol import DriverProtocol
from kproducer.spark.exactly_once.kafka_ports import KafkaDriverPort, KafkaTaskPort
from kproducer.spark.exactly_once.task_protocol import TaskProtocol
from kproducer.spark.exactly_once.write_state import (
    RepeatedTask,
    TaskMessage,
    WriteIdentity,
    WriteKind,
    WriteRun,
    WriteTask,
)
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions

if TYPE_CHECKING:
    from kproducer._core.bulk.send_arrow import ArrowChecksum
    from kproducer.spark.partition_writer import SparkTask

#: Spark Connect puts it into the tags of every job that it starts.
_CONNECT_TAG = "SparkConnect_OperationTag"

#: A streaming query sets these to false in the session of its micro-batches (Spark 4.0 to 4.3). Nothing else
#: does, because both are off by default. Unlike the micro-batch's id, tasks see them whichever thread writes.
_SET_FOR_MICRO_BATCHES = ("spark.sql.cbo.enabled", "spark.sql.requireAllClusterKeysForDistribution")


def write(
    options: WriteOptions,
    columns: WriteColumns,
    batch_name: str | None,
    spark_task: SparkTask,
    batches: Iterator[Any],
) -> TaskMessage:
    """Write one task. See ``TaskProtocol.write``."""
    from kproducer.spark.partition_writer import local_property

    task = write_task(options, batch_name, spark_task, local_property)
    with KafkaTaskPort(columns, options) as port:
        message = TaskProtocol(port, new_checksum(columns)).write(task, batches)
    message.summary = port.summary
    if isinstance(message, RepeatedTask) and message.has_same_rows:
        message.summary.repeated_rows = message.rows
    return message


def is_replay(messages: Sequence[object]) -> bool:
    """Whether rows of the write are committed already."""
    return any(isinstance(each, RepeatedTask) for each in messages)


def commit(options: WriteOptions, messages: Sequence[object], batch_id: int | None) -> None:
    """Commit the tasks. See ``DriverProtocol.commit``."""
    with KafkaDriverPort(options) as port:
        is_forced = options.on_uncertain_replay == "write"
        DriverProtocol(port, is_forced).commit(messages, batch_id)


def abort(options: WriteOptions, batch_name: str | None, messages: Sequence[object]) -> None:
    """Abort the tasks. See ``DriverProtocol.abort``."""
    # Only the tasks know the id of a streaming query.
    identity = None if batch_name is None else batch_identity(options, batch_name)
    with KafkaDriverPort(options) as port:
        # Within foreachBatch, only the tasks know the batch's number, and they may not have sent it.
        DriverProtocol(port).abort(messages, identity, options.write_version or 0)
        port.release(discard=True)


def new_checksum(columns: WriteColumns) -> ArrowChecksum:
    """A checksum of no rows: one number for the records, in any order and any batches."""
    from kproducer._core.bulk.send_arrow import ArrowChecksum
    from kproducer.spark.partition_writer import arrow_columns

    return ArrowChecksum(arrow_columns(columns), columns.topic)


def batch_identity(options: WriteOptions, batch_name: str) -> WriteIdentity:
    """The identity of a batch: its ``writeId``, otherwise ``batch_name``, which no replay shares."""
    if options.write_id is not None:
        return WriteIdentity(WriteKind.NAMED, options.write_id, options.transactional_id_prefix)
    return WriteIdentity(WriteKind.UNNAMED, batch_name, options.transactional_id_prefix)


def write_task(
    options: WriteOptions,
    batch_name: str | None,
    spark_task: SparkTask,
    job_property: Callable[[str], str],
) -> WriteTask:
    """The write that the running task belongs to, and its partition.

    Args:
        options: of the write.
        batch_name: see ``Writer``; ``None``: a streaming query.
        spark_task: the running task, as Spark identifies it.
        job_property: returns a property of the task's job; empty if it is not set.

    Raises:
        SparkOptionError: a batch within ``foreachBatch`` that could not be recognised in a replay.
        ExactlyOnceError: Spark does not provide what is needed.
    """
    if spark_task.partition < 0:
        raise ExactlyOnceError("exactly-once writes must be called from a Spark task")
    if batch_name is None:
        if not spark_task.query_id or not spark_task.batch_id:
            raise ExactlyOnceError("Spark did not set the query id and the micro-batch id for this task")
        identity = WriteIdentity(WriteKind.STREAM, spark_task.query_id, options.transactional_id_prefix)
        number = int(spark_task.batch_id)
    else:
        identity = batch_identity(options, batch_name)
        number = _version(options, spark_task, job_property)
    # The job group of a streaming query is the id of its run.
    run = job_property("spark.jobGroup.id")
    return WriteTask(WriteRun(identity, number, run), spark_task.partition)


def _version(options: WriteOptions, task: SparkTask, job_property: Callable[[str], str]) -> int:
    if options.write_version is not None:
        return options.write_version
    # The thread that writes a DataFrame of ``foreachBatch`` may not know the micro-batch.
    is_of_micro_batch = all(job_property(name) == "false" for name in _SET_FOR_MICRO_BATCHES)
    if options.write_id is None:
        if task.batch_id or is_of_micro_batch:
            raise SparkOptionError(
                "within foreachBatch, delivery=exactly-once needs the option 'writeId': without it a replay "
                "of the micro-batch cannot be recognised and is written again. Use a stable name, different "
                "for each sink; the micro-batch id is its version"
            )
        return 0
    if task.batch_id:
        return int(task.batch_id)
    # The version must differ between micro-batches: otherwise one with the same rows as the previous one
    # would be skipped.
    if is_of_micro_batch:
        raise SparkOptionError(
            "in this thread, option 'writeId' needs the option 'writeVersion' as well: pass the id of the "
            "micro-batch, which the thread does not know unless it is a pyspark.InheritableThread"
        )
    if _CONNECT_TAG in job_property("spark.job.tags"):
        raise SparkOptionError(
            "in Spark Connect, option 'writeId' needs the option 'writeVersion' as well, because a task "
            "cannot see whether it runs within foreachBatch: pass the micro-batch's id there, otherwise 0"
        )
    return 0
