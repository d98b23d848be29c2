"""Connects Spark's writers with the protocols of exactly-once writes.

In a task: finds out which write, which number and which part of it the task is. On the driver: commits and
aborts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from kproducer.bulk.send_arrow import ArrowChecksum
from kproducer.runtime.clock import Clock, SystemClock
from kproducer.spark.errors import ExactlyOnceError, SparkOptionError
from kproducer.spark.exactly_once.driver_protocol import DriverProtocol
from kproducer.spark.exactly_once.kafka_ports import KafkaDriver, KafkaTask
from kproducer.spark.exactly_once.ports import DriverKafka, OnStep, TaskKafka, no_hook
from kproducer.spark.exactly_once.task_protocol import TaskProtocol
from kproducer.spark.exactly_once.write_state import (
    RepeatedTask,
    TaskMessage,
    TaskPlace,
    WriteIdentity,
    WriteKind,
)
from kproducer.spark.partition_writer import TaskIdentity, arrow_columns, end_task
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions

#: Spark Connect puts it into the tags of every job that it starts.
_CONNECT_TAG = "SparkConnect_OperationTag"

#: A streaming query sets these to false in the session of its micro-batches (Spark 4.0 to 4.3). Nothing else
#: does, because both are off by default. Unlike the micro-batch's id, a task sees them whichever thread
#: writes.
_SET_FOR_MICRO_BATCHES = ("spark.sql.cbo.enabled", "spark.sql.requireAllClusterKeysForDistribution")


@attrs.define
class SparkWrite:
    """One write, in a task or on the driver.

    Attributes:
        columns, options: checked.
        unnamed: the name of a batch without ``writeId``; ``None``: a streaming query.
        on_step, task_kafka, driver_kafka: for tests; see the writers.
    """

    columns: WriteColumns
    options: WriteOptions
    unnamed: str | None
    on_step: OnStep = no_hook
    task_kafka: Callable[[TaskKafka], TaskKafka] = lambda port: port
    driver_kafka: Callable[[DriverKafka], DriverKafka] = lambda port: port
    clock: Clock = attrs.field(factory=SystemClock)

    def write(self, batches: Iterator[Any]) -> TaskMessage:
        """See ``TaskProtocol.write``."""
        started_ms = self.clock.monotonic_ms()
        task = TaskIdentity.current()
        place = task_place(
            self.options,
            self.unnamed,
            task,
            _local_property("spark.jobGroup.id"),
            is_connect=_CONNECT_TAG in _local_property("spark.job.tags"),
            is_of_micro_batch=all(_local_property(name) == "false" for name in _SET_FOR_MICRO_BATCHES),
        )
        port = KafkaTask(self.columns, self.options, clock=self.clock)
        protocol = TaskProtocol(self.task_kafka(port), self._new_checksum, self.on_step)
        try:
            message = protocol.write(place, batches)
        except BaseException:
            port.discard()
            raise
        port.release()
        message.summary = port.summary
        if isinstance(message, RepeatedTask) and message.has_same_rows:
            message.summary.repeated_rows = message.rows
        end_task(task, message.summary, self.clock.monotonic_ms() - started_ms, self.options)
        return message

    def commit(self, messages: Sequence[object], number: int | None) -> None:
        """See ``DriverProtocol.commit``."""
        port = KafkaDriver(self.options)
        try:
            self._driver(port).commit(messages, number)
        except BaseException:
            port.release(discard=True)
            raise
        port.release()

    def abort(self, messages: Sequence[object]) -> None:
        """See ``DriverProtocol.abort``."""
        port = KafkaDriver(self.options)
        try:
            # A batch within foreachBatch has its number from its tasks alone, which may have sent none.
            self._driver(port).abort(messages, self._batch_identity(), self.options.write_version or 0)
        finally:
            port.release(discard=True)

    def _batch_identity(self) -> WriteIdentity | None:
        """Of a batch; what a streaming query is called only its tasks know."""
        return None if self.unnamed is None else batch_identity(self.options, self.unnamed)

    def _driver(self, port: KafkaDriver) -> DriverProtocol:
        return DriverProtocol(
            self.driver_kafka(port),
            write_when_uncertain=self.options.on_uncertain_replay == "write",
            on_step=self.on_step,
        )

    def _new_checksum(self) -> ArrowChecksum:
        return ArrowChecksum(arrow_columns(self.columns), self.columns.topic_option)


def batch_identity(options: WriteOptions, unnamed: str) -> WriteIdentity:
    """What a batch is known by: its ``writeId``, or else ``unnamed``, a name of the moment."""
    if options.write_id is not None:
        return WriteIdentity(WriteKind.NAMED, options.write_id, options.transactional_id_prefix)
    return WriteIdentity(WriteKind.UNNAMED, unnamed, options.transactional_id_prefix)


def task_place(
    options: WriteOptions,
    unnamed: str | None,
    task: TaskIdentity,
    job_group: str,
    *,
    is_connect: bool = False,
    is_of_micro_batch: bool = False,
) -> TaskPlace:
    """Which write the running task belongs to.

    Args:
        options, unnamed: see ``SparkWrite``.
        task: as Spark tells it.
        job_group: as Spark tells it; of a streaming query the id of the run.
        is_connect: whether it was asked for through Spark Connect.
        is_of_micro_batch: whether the DataFrame is one of ``foreachBatch``; the thread that writes it may not
            know which.

    Raises:
        SparkOptionError: a batch within ``foreachBatch`` that could not be recognised in a replay.
        ExactlyOnceError: Spark does not say what it has to.
    """
    if task.partition < 0:
        raise ExactlyOnceError("this is no task of Spark")
    if unnamed is None:
        if not task.query_id or not task.batch_id:
            raise ExactlyOnceError("Spark does not tell the query's id and the micro-batch")
        identity = WriteIdentity(WriteKind.STREAM, task.query_id, options.transactional_id_prefix)
        return TaskPlace(identity, int(task.batch_id), job_group, task.partition)
    identity = batch_identity(options, unnamed)
    if identity.is_remembered:
        version = _version(options, task, is_connect, is_of_micro_batch)
        return TaskPlace(identity, version, job_group, task.partition)
    if task.batch_id or is_of_micro_batch:
        raise SparkOptionError(
            "a batch written with delivery=exactly-once within foreachBatch needs the option 'writeId': "
            "without, a replay of the micro-batch could not be recognised and would write it again. Any name "
            "that stays the same will do, another one for each sink; the micro-batch's id is its version"
        )
    return TaskPlace(identity, 0, job_group, task.partition)


def _version(options: WriteOptions, task: TaskIdentity, is_connect: bool, is_of_micro_batch: bool) -> int:
    if options.write_version is not None:
        return options.write_version
    if task.batch_id:
        return int(task.batch_id)
    # Within foreachBatch each micro-batch would be version 0; one with the rows of the last is left out.
    if is_of_micro_batch:
        raise SparkOptionError(
            "option 'writeId' needs the option 'writeVersion' as well in this thread, which does not know "
            "the micro-batch that it writes: give the id that foreachBatch is called with, or make the "
            "thread a pyspark.InheritableThread"
        )
    if is_connect:
        raise SparkOptionError(
            "option 'writeId' needs the option 'writeVersion' as well in Spark Connect, where a task cannot "
            "see whether it runs within foreachBatch: the micro-batch's id there, 0 for a write of its own"
        )
    return 0


def _local_property(name: str) -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty(name) or ""
