"""WriteSummary: what one task wrote, or all tasks of a job; and how it is reported.

The Data Source API gives a Python sink no way to add numbers to a query's progress or metrics. What it offers
is a task's commit message, which carries the summary to the driver, and Spark's collected worker logs
(``spark.sql.pyspark.worker.logging.enabled``, Spark 4.1), which get the numbers as ``context``. Lines on
standard error, which end up in the log of the executor or the driver, are optional: a streaming query would
fill these logs.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

from pyspark.sql.datasource import WriterCommitMessage

logger = logging.getLogger("kproducer.spark")

#: Attributes of ``WriteSummary`` that come from the producer, and the metrics that count them.
_METRICS = {
    "wire_bytes": "byte-total",
    "requests": "produce-request-total",
    "retried_records": "record-retry-total",
    "latency_ms": "produce-latency-ms-total",
}

#: Instead of a topic's name, if each row has its own. No topic can have this name.
TOPIC_COLUMN = "column topic"


@dataclass
class WriteSummary(WriterCommitMessage):
    """Numbers of one task, or the sums over the tasks of a job.

    Attributes:
        tasks: number of tasks.
        rows: records, all acknowledged; without dead letters.
        content_bytes: keys and values.
        wire_bytes: record batches as sent: compressed, retries included.
        requests: produce requests.
        retried_records: records that were sent again.
        elapsed_ms: duration of the task; for a job, the sum over its tasks.
        repeated_rows: rows that an earlier attempt had committed, so they were not written again; not
            included in ``rows``.
        latency_ms: time from each produce request to its response, added up over the requests.
        bad_rows: rows that could not be written, with ``onBadRow``; not included in ``rows``.
        commit_ms: how long the driver took to commit the transactions of an exactly-once write, rounded up;
            0 for tasks and with at-least-once, which has no commit.
        query_id: of the streaming query, also of a write in ``foreachBatch``; otherwise empty.
        batch_id: of the micro-batch, likewise.
    """

    tasks: int = 0
    rows: int = 0
    content_bytes: int = 0
    wire_bytes: int = 0
    requests: int = 0
    retried_records: int = 0
    elapsed_ms: int = 0
    repeated_rows: int = 0
    latency_ms: int = 0
    bad_rows: int = 0
    commit_ms: int = 0
    query_id: str = ""
    batch_id: str = ""

    def set_requests(self, before: Mapping[str, float], after: Mapping[str, float]) -> None:
        """Set what a producer sent between two readings of its ``sent_totals``."""
        for attribute, metric in _METRICS.items():
            setattr(self, attribute, int(after.get(metric, 0)) - int(before.get(metric, 0)))

    @classmethod
    def total(cls, messages: Iterable[object]) -> WriteSummary:
        """The sum over commit messages. Failed tasks have ``None`` and are not counted."""
        # The messages of exactly-once writes have the summary as an attribute.
        found = [getattr(message, "summary", message) for message in messages]
        total = cls()
        for each in found:
            if not isinstance(each, WriteSummary):
                continue
            for name in _NUMBERS:
                setattr(total, name, getattr(total, name) + getattr(each, name))
            # All tasks of a write belong to the same micro-batch.
            total.query_id, total.batch_id = each.query_id, each.batch_id
        return total

    @property
    def is_repetition(self) -> bool:
        """Whether nothing was written because all rows were already committed."""
        return self.repeated_rows > 0 and self.rows == self.bad_rows == 0

    @property
    def subject(self) -> str:
        """What was written, for messages."""
        return f"micro-batch {self.batch_id}" if self.batch_id else "DataFrame"

    def text(self) -> str:
        """One line for a log. The rate is that of one task, on average."""
        if self.is_repetition:
            return f"nothing was written because all {self.repeated_rows} rows were already committed"
        latency = self.latency_ms / self.requests if self.requests else 0.0
        rate = 1000 * self.rows / self.elapsed_ms if self.elapsed_ms else 0.0
        return (
            f"{self.rows} rows, {self.content_bytes} bytes of keys and values, {self.wire_bytes} bytes sent, "
            f"{self.requests} requests of {latency:.0f} ms, {self.retried_records} records retried, "
            f"{self.elapsed_ms} ms, {rate:.0f} rows/s"
            + (f", {self.bad_rows} bad rows were not written" if self.bad_rows else "")
            + (f", {self.repeated_rows} more rows were already committed" if self.repeated_rows else "")
            + (f", committed in {self.commit_ms} ms" if self.commit_ms else "")
        )


_NUMBERS = [field.name for field in fields(WriteSummary) if field.default == 0]


def report(
    subject: str,
    summary: WriteSummary,
    *,
    topic: str,
    query_name: str = "",
    is_printed: bool,
    **context: object,
) -> None:
    """Log a summary for Spark's collected logs, and optionally print it to standard error.

    Spark shows the collected logs of a DataFrame's write to its user, but stores those of a micro-batch under
    a copy of the session that nobody can query: for streams, the printed line is the only report.

    Args:
        subject: what was written: ``"task 3 (attempt 0)"``, ``"micro-batch 7"``.
        summary: the numbers, which also go into the ``context`` of the log record.
        topic: of the rows, or ``"column topic"``.
        query_name: of the streaming query, if it has a name.
        is_printed: whether to print the line.
        context: more values for the ``context``.
    """
    query = query_name or summary.query_id
    written = topic if topic == TOPIC_COLUMN else f"topic {topic}"
    line = f"kproducer: {f'query {query}, ' if query else ''}{written}: {subject}: {summary.text()}"
    if is_printed:
        # The original stream: Spark may have replaced sys.stderr, and would collect the line a second time.
        print(line, file=sys.__stderr__, flush=True)
    if not logger.hasHandlers():
        return
    details = {**asdict(summary), "topic": topic, "query_name": query_name, **context}
    if logger.level == logging.NOTSET:
        # The root logger of a Python worker has the level WARNING, and users cannot configure it.
        logger.setLevel(logging.INFO)
    logger.info(line, extra={"context": {name: str(value) for name, value in details.items()}})
