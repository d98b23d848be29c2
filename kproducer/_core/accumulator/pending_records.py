"""PendingRecords: the records that a flush waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kproducer.types import FlushResult

if TYPE_CHECKING:
    from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
    from kproducer._core.accumulator.producer_batch import ProducerBatch


class PendingRecords:
    """The records that a flush waits for: a snapshot. Not thread-safe.

    An iteration gives the results of the batches; wait for each one before the next one is asked for.
    """

    def __init__(self, batches: list[ProducerBatch]) -> None:
        # While a batch is given to a lane or taken back, it is found twice.
        by_result = {batch.result: batch for batch in batches}
        self._batches = list(by_result.values())
        self._results = list(by_result)

    def __iter__(self) -> Iterator[ProduceRequestResult]:
        for result in self._results:
            yield result
            if result.parts is not None:
                # The batch was split: wait for its parts as well.
                self._results.extend(result.parts[1])

    def include(self, later: PendingRecords) -> None:
        """Add the batches that are not among these yet. Not during or after the iteration."""
        known = set(self._results)
        added = [batch for batch in later._batches if batch.result not in known]
        self._batches += added
        self._results += [batch.result for batch in added]

    def outcome(self) -> FlushResult:
        """How many were delivered and have failed, after the iteration."""
        # While a batch is being split, it may be found beside its parts.
        parts = {part for result in self._results if result.parts is not None for part in result.parts[1]}
        delivered = failed = 0
        for batch in self._batches:
            if batch.result not in parts:
                failed_here = batch.result.failed_count(batch.record_count)
                failed += failed_here
                delivered += batch.record_count - failed_here
        return FlushResult(delivered, failed)
