"""What a task tells the driver: it had no rows, they are in Kafka already, or what is to be committed.

Small and picklable: Spark carries one from each task to the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from kproducer.producer.transactions.consumer_offsets import OffsetAndMetadata
from kproducer.producer.transactions.open_transaction import PreparedTransaction
from kproducer.spark.exactly_once.identity import TaskPlace
from kproducer.spark.write_summary import WriteSummary


@dataclass
class TaskMessage(WriterCommitMessage):
    """What all have in common.

    Attributes:
        place: which task.
        summary: what was written.
    """

    place: TaskPlace
    summary: WriteSummary = field(default_factory=WriteSummary, kw_only=True)


@dataclass
class EmptyTask(TaskMessage):
    """It had no rows, and asked no broker anything: earlier attempts are not fenced."""


@dataclass
class InitializedTask(TaskMessage):
    """It fenced all earlier attempts.

    Attributes:
        rows: how many it had.
        decision: the driver's last decision, as Kafka had it before that; ``None``: there was none.
        had_marker: whether the task had a marker after that, of whatever number.
    """

    rows: int
    decision: OffsetAndMetadata | None
    had_marker: bool


@dataclass
class RepeatedTask(InitializedTask):
    """Its rows are committed already; nothing was written."""


@dataclass
class PreparedTask(InitializedTask):
    """Its rows are written, and wait for the driver to commit them.

    Attributes:
        transaction: what the driver needs for that.
    """

    transaction: PreparedTransaction
