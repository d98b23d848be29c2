"""SendManyResult: the outcome of the records of one bulk call, of all together and of each one.

Keeps numbers per record and a reference per batch; futures are made on demand. Waits batch by batch, and
follows a batch that is split, as futures do.

The condition of ``future_record_metadata`` also guards the callbacks here. Only threads that wait or add a
callback take it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, overload

from kproducer._core.accumulator.future_record_metadata import (
    FutureRecordMetadata,
    ProduceRequestResult,
    lock_of_futures,
    metadata_of,
    place_of,
)
from kproducer._core.bulk.record_locations import RecordLocations
from kproducer._core.runtime.arguments import checked_timeout_s
from kproducer._core.runtime.clock import Clock
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.runtime.public_names import public
from kproducer._core.runtime.threads import is_io_thread
from kproducer.errors import IllegalStateError, KafkaError, ResultTimeoutError, SendManyError
from kproducer.errors.suggestions import SEND_MANY_RESULT_METHODS, no_such_attribute
from kproducer.types import INT32_MAX, NO_OFFSET

_log = GuardedLogger(__name__)

#: The state of a batch's records.
_PENDING, _SUCCEEDED, _FAILED, _SPLIT = range(4)
#: Rows that are counted in one step, which takes some milliseconds.
_COUNTED_AT_ONCE: Final = 1 << 16


@public
class SendManyResult:
    """The outcome of every record of one ``send_many`` or ``send_arrow``. Thread-safe.

    A sequence of futures, in the order of the call: ``result[i]`` is that of record ``i``, made on demand,
    with its ``RecordMetadata`` or error. For all records together there are ``wait``, ``result``,
    ``failures``, the counts, ``add_done_callback`` and ``await``. Takes up to 24 bytes per record.
    """

    __slots__ = ("__weakref__", "_batch_results", "_callbacks", "_clock", "_locations", "_open_end", "_topic")

    def __init__(self, topic: str, locations: RecordLocations, clock: Clock) -> None:
        """Called by the producer.

        Args:
            topic: named in ``repr``.
            locations: of the records; complete, and not changed any more.
            clock: for timeouts that span several batches.
        """
        # Fixed after construction.
        self._topic = topic
        self._locations = locations
        self._clock = clock
        #: The results of the batches, by number.
        self._batch_results = list(locations.batch_results)
        #: Results from this number on are done. Never grows; threads that race at worst look twice.
        self._open_end = len(self._batch_results)
        # Guarded by lock_of_futures(). If not empty, a listener is registered with one of the
        # batches.
        self._callbacks: list[Callable[[SendManyResult], object]] = []

    # -- each record -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._locations)

    @overload
    def __getitem__(self, index: int) -> FutureRecordMetadata: ...

    @overload
    def __getitem__(self, index: slice) -> list[FutureRecordMetadata]: ...

    def __getitem__(self, index: int | slice) -> FutureRecordMetadata | list[FutureRecordMetadata]:
        rows = range(len(self._locations))[index]
        if isinstance(rows, range):
            return [self._future(row) for row in rows]
        return self._future(rows)

    def __iter__(self) -> Iterator[FutureRecordMetadata]:
        return map(self._future, range(len(self._locations)))

    def _future(self, row: int) -> FutureRecordMetadata:
        return self._locations.future(row, self._batch_results)

    # -- all together ----------------------------------------------------------------------------------

    def done(self) -> bool:
        """Whether the outcome of every record is known."""
        return self._next_open() is None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the outcome of every record is known. Does not raise the errors of records.

        Args:
            timeout: seconds; ``None`` waits for as long as ``delivery_timeout_ms`` lets it.

        Returns:
            ``False`` if not within ``timeout``; the records may still be delivered.

        Raises:
            IllegalStateError: not known yet, and called without ``timeout`` on the I/O thread, as in a
                callback: this would deadlock, since that thread completes the records.
            InvalidArgumentError: ``timeout`` is not a number.
        """
        timeout_s = checked_timeout_s("wait", timeout)
        deadline_ms = None if timeout_s is None else self._clock.monotonic_ms() + timeout_s * 1000
        while True:
            batch = self._next_open()
            if batch is None:
                return True
            left_s = None
            if deadline_ms is not None:
                left_s = max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000
                if not left_s:
                    return False
            elif is_io_thread():
                raise IllegalStateError(
                    "wait() without a timeout was called in a delivery callback: this would deadlock: "
                    "it waits for the thread it runs on; use add_done_callback()"
                )
            # Returns when the batch is completed or split; both need another look.
            batch.wait(left_s)

    def result(self, timeout: float | None = None) -> SendManyResult:
        """Wait, and return this object if every record was delivered.

        Raises:
            SendManyError: records failed; has their number and the first error. ``failures`` has all.
            ResultTimeoutError: not all outcomes known within ``timeout``; the records may still be delivered.
            IllegalStateError, InvalidArgumentError: as for ``wait``.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self

    get = result

    def exception(self, timeout: float | None = None) -> SendManyError | None:
        """Like ``result``, but return the error, or ``None`` if every record was delivered."""
        failures = self.failures(timeout)
        if not failures:
            return None
        index, first = failures[0]
        error = SendManyError(
            f"{len(failures)} of {len(self)} records for topic {self._topic!r} were not delivered; the first"
            f" is number {index}: {type(first).__name__}: {first}"
        )
        error.failures = failures
        outcomes = {failure.outcome for _, failure in failures}
        error.outcome = outcomes.pop() if len(outcomes) == 1 else None
        error.__cause__ = first
        return error

    def failures(self, timeout: float | None = None) -> list[tuple[int, KafkaError]]:
        """Wait, and return (index, error) of each record that was not delivered, in order; often ``[]``.

        ``error.outcome`` says what is known of the record. Records of one batch share an error.

        Raises:
            ResultTimeoutError, IllegalStateError, InvalidArgumentError: as for ``result``.
        """
        self._await_all(timeout)
        failed = {
            number for number, batch in enumerate(self._batch_results) if _state(batch) in (_FAILED, _SPLIT)
        }
        if not failed:
            return []
        failures: list[tuple[int, KafkaError]] = []
        for row, number in enumerate(self._locations.result_numbers):
            if number in failed:
                batch_result, index = place_of(self._future(row))
                error = batch_result.error_for(index)
                if error is not None:
                    failures.append((row, error))
        return failures

    def offsets(self, timeout: float | None = None) -> array[int]:
        """Wait, and return each record's offset in its partition; -1: it failed, or the offset is not known
        (acks=0).

        Raises:
            ResultTimeoutError, IllegalStateError, InvalidArgumentError: as for ``result``.
        """
        self._await_all(timeout)
        locations = self._locations
        # None for a batch that was split: its records are looked up one by one.
        bases = [_base_offset(batch_result) for batch_result in self._batch_results]
        offsets = array("q", bytes(8 * len(locations)))
        rows = zip(locations.result_numbers, locations.indexes, strict=True)
        for row, (number, index) in enumerate(rows):
            base = bases[number]
            if base is None:
                offsets[row] = metadata_of(self._future(row)).offset
            else:
                offsets[row] = base + index if base >= 0 else NO_OFFSET
        return offsets

    def partitions(self) -> array[int]:
        """Each record's partition, without waiting; -1 for a record that was refused before it had one.

        Also -1 for a record that was refused because its partition number was out of range.
        """
        wanted = [batch_result.topic_partition.partition for batch_result in self._batch_results]
        numbers = array("i", [number if 0 <= number <= INT32_MAX else -1 for number in wanted])
        return array("i", [numbers[number] for number in self._locations.result_numbers])

    @property
    def succeeded_count(self) -> int:
        """Records known to be delivered. Does not wait."""
        return self._counts()[0]

    @property
    def failed_count(self) -> int:
        """Records known to have failed, those that were never sent among them. Does not wait."""
        return self._counts()[1]

    def _counts(self) -> tuple[int, int]:
        """Records that succeeded, and that failed, so far."""
        locations = self._locations
        states = [_state(batch_result) for batch_result in self._batch_results]
        kinds = set(states)
        if len(kinds) <= 1 and _SPLIT not in kinds:
            # Usually all batches have the same state: no need to look at each record.
            count = len(locations)
            return count if kinds == {_SUCCEEDED} else 0, count if kinds == {_FAILED} else 0
        rows: Counter[int] = Counter()
        for start in range(0, len(locations), _COUNTED_AT_ONCE):
            # In steps, because other threads cannot run meanwhile.
            rows.update(locations.result_numbers[start : start + _COUNTED_AT_ONCE])
        succeeded = sum(rows[number] for number, state in enumerate(states) if state == _SUCCEEDED)
        failed = sum(rows[number] for number, state in enumerate(states) if state == _FAILED)
        if _SPLIT in kinds:
            for row, number in enumerate(locations.result_numbers):
                if states[number] == _SPLIT:
                    batch_result, index = place_of(self._future(row))
                    if batch_result.done:
                        has_failed = batch_result.error_for(index) is not None
                        failed += has_failed
                        succeeded += not has_failed
        return succeeded, failed

    # -- callbacks and asyncio -------------------------------------------------------------------------

    def add_done_callback(self, fn: Callable[[SendManyResult], object]) -> None:
        """Call ``fn(result)`` when all outcomes are known: on the I/O thread, or at once if they are known
        already.

        ``fn`` must not block. What it raises is logged.
        """
        with lock_of_futures():
            batch = self._next_open()
            if batch is not None:
                self._callbacks.append(fn)
                if len(self._callbacks) == 1:
                    # The lock is held, so the batch is still open.
                    batch.add_listener(self._look_again)
                return
        self._run_callback(fn)

    def _look_again(self) -> None:
        """A batch was completed or split: wait for the next one, or run the callbacks."""
        with lock_of_futures():
            batch = self._next_open()
            if batch is not None:
                batch.add_listener(self._look_again)
                return
            callbacks, self._callbacks = self._callbacks, []
        for fn in callbacks:
            self._run_callback(fn)

    def _run_callback(self, fn: Callable[[SendManyResult], object]) -> None:
        try:
            fn(self)
        except BaseException:  # SystemExit too: the I/O thread has to go on
            _log.exception("A done-callback of %r raised", self)

    def __await__(self) -> Generator[Any, None, SendManyResult]:
        if not self.done():
            import asyncio  # slow to import; users of asyncio have it loaded already

            loop = asyncio.get_running_loop()
            all_known = asyncio.Event()

            def wake(_: SendManyResult) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(all_known.set)

            self.add_done_callback(wake)
            yield from all_known.wait().__await__()
        return self.result()

    # -- the batches -----------------------------------------------------------------------------------

    def _await_all(self, timeout: float | None) -> None:
        if not self.wait(timeout):
            succeeded, failed = self._counts()
            pending = len(self) - succeeded - failed
            raise ResultTimeoutError(
                f"{pending} of {len(self)} records for topic {self._topic!r} were neither acknowledged"
                f" nor failed within {timeout} s; they may still be delivered"
            )

    def _next_open(self) -> ProduceRequestResult | None:
        """A batch, or a part of one, whose outcome is not known; ``None``: all are known.

        From the last to the first: when the last one is completed, most others are too, so there are few
        waits.
        """
        batch_results = self._batch_results
        count = self._open_end
        while count:
            batch_result = batch_results[count - 1]
            if batch_result.parts is not None:
                for leaf in batch_result.leaves():
                    if not leaf.done:
                        return leaf
            elif not batch_result.done:
                # If it is split meanwhile, its listeners and waiting threads are notified and look again.
                return batch_result
            count -= 1
            self._open_end = count
        return None

    # -- other -----------------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        raise TypeError("the result of send_many cannot be pickled; send what was read from it")

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(self, name):
            raise no_such_attribute(self, name, SEND_MANY_RESULT_METHODS)

    def __repr__(self) -> str:
        succeeded, failed = self._counts()
        pending = len(self) - succeeded - failed
        return (
            f"<SendManyResult {self._topic}: {len(self)} records, {succeeded} delivered, {failed} failed, "
            f"{pending} pending>"
        )


def _state(batch_result: ProduceRequestResult) -> int:
    if batch_result.parts is not None:
        return _SPLIT
    if not batch_result.done:
        return _PENDING
    return _SUCCEEDED if batch_result.error is None else _FAILED


def _base_offset(batch_result: ProduceRequestResult) -> int | None:
    """The offset of the batch's first record; -1: failed or not known; ``None``: the batch was split."""
    if batch_result.parts is not None:
        return None
    return NO_OFFSET if batch_result.error is not None else batch_result.outcome.base_offset
