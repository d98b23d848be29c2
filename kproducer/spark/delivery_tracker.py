"""DeliveryTracker: whether each record of one task was acknowledged, in memory that does not grow with it.

A list of futures would grow (a partition of a DataFrame has no upper size). Here the batches that are still
on their way are kept, with how many of the task's rows each has; the producer's memory bounds them.
One tracker serves one task and one producer. Knows nothing of Spark.
"""

from __future__ import annotations

from kproducer.accumulator.future_record_metadata import ProduceRequestResult
from kproducer.runtime.clock import Clock, SystemClock
from kproducer.spark.errors import SparkWriteError
from kproducer.spark.write_options import with_option_names
from kproducer.types import TopicPartition


class DeliveryTracker:
    """Counts deliveries. For the task's thread.

    Attributes:
        acknowledged: rows in batches that were acknowledged, as of the last look.
    """

    __slots__ = ("_clock", "_pending", "acknowledged")

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._pending: dict[ProduceRequestResult, int] = {}
        self.acknowledged = 0

    def watch(self, rows_by_owner: dict[ProduceRequestResult, int]) -> None:
        """Take over the results of batches, and how many rows each has more; the dict is empty afterwards."""
        pending = self._pending
        for owner, rows in rows_by_owner.items():
            pending[owner] = pending.get(owner, 0) + rows
        rows_by_owner.clear()

    def raise_if_failed(self) -> None:
        """Look at the batches. Raise ``SparkWriteError`` when a record is known to have failed."""
        ended = []
        # Hundreds of batches are on their way, and this is done for each ten thousand rows: no call for one.
        for owner, rows in self._pending.items():
            if owner.parts is None:
                if not owner.done:
                    continue
                if owner.error is not None:
                    raise failure(_place(owner.topic_partition), owner.error) from owner.error
            elif not _parts_ended(owner):
                continue
            ended.append(owner)
            self.acknowledged += rows
        for owner in ended:
            del self._pending[owner]

    def await_all(self, expected: int, timeout_s: float) -> None:
        """Wait until ``expected`` records are acknowledged or one has failed.

        Raises:
            SparkWriteError: one has failed, or the time is over.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_s * 1000
        while True:
            self.raise_if_failed()
            left_s = (deadline_ms - self._clock.monotonic_ms()) / 1000
            if not self._pending or left_s <= 0:
                break
            part = next(part for part in next(iter(self._pending)).leaves() if not part.done)
            part.wait(left_s)
        if self.acknowledged < expected:
            raise SparkWriteError(
                f"{expected - self.acknowledged} of {expected} records were neither acknowledged nor refused "
                f"within {timeout_s:.0f} s; they may have been written"
            )


def _parts_ended(owner: ProduceRequestResult) -> bool:
    """Whether all parts of a split batch have ended; raises ``SparkWriteError`` when one has failed."""
    parts = owner.leaves()
    for part in parts:
        if part.done and part.error is not None:
            raise failure(_place(part.topic_partition), part.error) from part.error
    return all(part.done for part in parts)


def _place(topic_partition: TopicPartition) -> str:
    topic, partition = topic_partition
    return f"topic '{topic}', " + (f"partition {partition}" if partition >= 0 else "no partition chosen yet")


def failure(place: str, error: BaseException) -> SparkWriteError:
    """The error of a task, with the place, the reason and what is known about the record."""
    outcome = getattr(error, "outcome", None)
    known = {
        "not_sent": "it was not sent",
        "rejected": "it was not written",
        "unknown": "it may have been written",
    }.get(getattr(outcome, "value", ""), "")
    ending = f" ({known})" if known else ""
    reason = with_option_names(f"{type(error).__name__}: {error}")
    text = SparkWriteError(f"a record could not be written to {place}: {reason}{ending}")
    if outcome is not None:
        text.outcome = outcome
    return text
