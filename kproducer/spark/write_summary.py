"""WriteSummary: what one task wrote, and the sum of a job; how both are told to the user.

The Data Source API has no way for a Python sink to put numbers into a query's progress or metrics. What it
has: a task's commit message, which carries the summary to the driver, and Spark's collected worker logs
(``spark.sql.pyspark.worker.logging.enabled``, Spark 4.1), into which both are logged with their numbers as
``context``. Lines on the standard error of the process, and so in the executor's or driver's log, have to be
asked for: a streaming query would fill these logs.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

logger = logging.getLogger("kproducer.spark")


@dataclass
class WriteSummary(WriterCommitMessage):
    """Numbers of one task; added up, of a job.

    Attributes:
        tasks: how many tasks are in it (one, or as many as were added).
        rows: records, all acknowledged.
        content_bytes: keys and values.
        wire_bytes: record batches as sent, compressed, retries included.
        requests: produce requests.
        retried_records: records that were sent again.
        elapsed_ms: time of the task; of a job the sum of its tasks' times.
        repeated_rows: rows of a repetition that were committed before and not written again; not in ``rows``.
    """

    tasks: int = 0
    rows: int = 0
    content_bytes: int = 0
    wire_bytes: int = 0
    requests: int = 0
    retried_records: int = 0
    elapsed_ms: int = 0
    repeated_rows: int = 0

    def note_requests(self, before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
        """Set what was sent between two looks at a producer's ``counters``."""
        self.wire_bytes, self.requests, self.retried_records = (
            late - early for late, early in zip(after, before, strict=True)
        )

    def plus(self, other: WriteSummary) -> WriteSummary:
        """Both together."""
        return WriteSummary(
            **{
                each.name: getattr(self, each.name) + getattr(other, each.name)
                for each in fields(WriteSummary)
            }
        )

    @classmethod
    def total(cls, messages: Iterable[object]) -> WriteSummary:
        """The sum over commit messages; those of failed tasks are ``None`` and count nothing."""
        result = cls()
        for message in messages:
            # Messages of exactly-once writes have theirs with them.
            summary = getattr(message, "summary", message)
            if isinstance(summary, WriteSummary):
                result = result.plus(summary)
        return result

    @property
    def is_repetition(self) -> bool:
        """Whether there was nothing to write, since all rows were committed before."""
        return self.repeated_rows > 0 and self.rows == 0

    @property
    def rows_per_second(self) -> float:
        """Rows by the time that tasks took (for a job: the mean rate of a task)."""
        return 1000 * self.rows / self.elapsed_ms if self.elapsed_ms else 0.0

    def text(self) -> str:
        """One line for a log."""
        if self.is_repetition:
            return f"nothing was written, as all {self.repeated_rows} rows were committed before"
        return (
            f"{self.rows} rows, {self.content_bytes} bytes of keys and values, {self.wire_bytes} bytes sent, "
            f"{self.requests} requests, {self.retried_records} records retried, {self.elapsed_ms} ms, "
            f"{self.rows_per_second:.0f} rows/s"
            + (f", {self.repeated_rows} more rows were committed before" if self.repeated_rows else "")
        )


def counters(metrics: Mapping[str, Any]) -> tuple[int, int, int]:
    """(bytes sent, requests, retried records) out of a producer's metrics."""
    return (
        int(metrics.get("byte_total", 0)),
        int(metrics.get("request_total", 0)),
        int(metrics.get("record_retry_total", 0)),
    )


def report(subject: str, summary: WriteSummary, *, is_printed: bool, **context: object) -> None:
    """Tell a summary: a log record for Spark's collected logs, and perhaps a line on standard error.

    Spark collects the logs of a DataFrame's tasks and commit where its user can ask for them, and those of a
    micro-batch under a copy of the session, where nobody can: then the line is all there is.

    Args:
        subject: what was written: ``"task 3 (attempt 0)"``, ``"micro-batch 7"``.
        summary: the numbers; they are in the record's ``context`` as well.
        is_printed: whether the line is wanted.
        context: more of it.
    """
    line = f"kproducer: {subject}: {summary.text()}"
    if is_printed:
        # The original stream: sys.stderr may be Spark's, which would collect the line a second time.
        print(line, file=sys.__stderr__, flush=True)
    if not logger.hasHandlers():
        return
    details = {**asdict(summary), **context}
    if logger.level == logging.NOTSET:
        # The root logger of a Python worker stands at WARNING, and nobody else has a say there.
        logger.setLevel(logging.INFO)
    logger.info(line, extra={"context": {name: str(value) for name, value in details.items()}})
