"""DeliveryTracker: whether each record of one task was acknowledged, in constant memory.

A list of futures would grow with the task (a partition of a DataFrame has no upper size); here the producer's
delivery callback counts, and the first failure is kept. One tracker serves one task and one producer.
Knows nothing of Spark.
"""

from __future__ import annotations

import threading

from kproducer.errors import KafkaError
from kproducer.spark.errors import SparkWriteError
from kproducer.types import RecordMetadata


class DeliveryTracker:
    """Counts deliveries. ``on_delivery`` runs in the producer's I/O thread, everything else in the task's."""

    __slots__ = ("_complete", "_expected", "acknowledged", "failed", "first_error", "first_failure")

    def __init__(self) -> None:
        # I/O thread only (the task reads). No lock: there is one writer, and a failure that send() itself
        # reports from the task's thread only has to be seen, not counted exactly.
        self.acknowledged = 0
        self.failed = 0
        self.first_error: KafkaError | None = None
        self.first_failure: RecordMetadata | None = None
        # Task's thread only (the I/O thread reads); -1: not all records are handed over yet.
        self._expected = -1
        self._complete = threading.Event()

    def on_delivery(self, metadata: RecordMetadata, error: KafkaError | None) -> None:
        """Note what became of one record."""
        if error is None:
            self.acknowledged += 1
            # The task sets _expected and then looks at the counts; this thread counts and then looks at
            # _expected. Whoever is last sees both.
            if self.acknowledged == self._expected:
                self._complete.set()
            return
        if self.first_error is None:
            self.first_failure = metadata
            self.first_error = error
        self.failed += 1
        self._complete.set()

    def raise_if_failed(self) -> None:
        """Raise ``SparkWriteError`` when a record is known to have failed."""
        error = self.first_error
        if error is None:
            return
        where = self.first_failure
        place = "an unknown partition"
        if where is not None:
            place = f"topic '{where.topic}', " + (
                f"partition {where.partition}" if where.partition >= 0 else "no partition chosen yet"
            )
        raise failure(place, error) from error

    def await_all(self, expected: int, timeout_s: float) -> None:
        """Wait until ``expected`` records are acknowledged or one has failed.

        Raises:
            SparkWriteError: one has failed, or the time is over.
        """
        self._expected = expected
        if self.acknowledged < expected and self.first_error is None:
            self._complete.wait(timeout_s)
        self.raise_if_failed()
        if self.acknowledged < expected:
            raise SparkWriteError(
                f"{expected - self.acknowledged} of {expected} records were neither acknowledged nor refused "
                f"within {timeout_s:.0f} s; they may have been written"
            )


def failure(place: str, error: BaseException) -> SparkWriteError:
    """The error of a task, with the place, the reason and what is known about the record."""
    outcome = getattr(error, "outcome", None)
    known = {
        "not_sent": "it was not sent",
        "rejected": "it was not written",
        "unknown": "it may have been written",
    }.get(getattr(outcome, "value", ""), "")
    ending = f" ({known})" if known else ""
    text = SparkWriteError(
        f"a record could not be written to {place}: {type(error).__name__}: {error}{ending}"
    )
    if outcome is not None:
        text.outcome = outcome
    return text
