"""What a task tells the driver: it had no rows, rows of it are committed already, or what is to be committed.

Small and picklable: Spark carries one from each task to the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from kproducer.spark.exactly_once.identity import TaskPlace
from kproducer.spark.exactly_once.marker import Marker
from kproducer.spark.write_summary import WriteSummary
from kproducer.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction


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
        checksum: of these rows; 0 where nothing is remembered.
        decision: the driver's last decision, as Kafka had it before that; ``None``: there was none.
        marker: the task's marker after that, of whatever number; ``None``: there was none.
    """

    rows: int
    checksum: int
    decision: OffsetAndMetadata | None
    marker: Marker | None


@dataclass
class RepeatedTask(InitializedTask):
    """Rows of this number are committed for it already; nothing was written.

    Its marker says which. Where they are others than the task has now, the driver compares all tasks.
    """

    @property
    def has_same_rows(self) -> bool:
        """Whether the rows that are committed are those that it has now."""
        return self.marker is not None and self.marker.is_of(self.rows, self.checksum)


@dataclass
class PreparedTask(InitializedTask):
    """Its rows are written, and wait for the driver to commit them.

    Attributes:
        transaction: what the driver needs for that.
    """

    transaction: PreparedTransaction
