"""SendManyResult: what became of the records of one bulk call, all together and each one.

Keeps numbers for each record and a reference for each batch; futures are made when somebody asks for one.
Waits batch by batch, and follows a batch that is split as futures do. Knows nothing of how records are sent.

Locking: that of ``future_record_metadata``: its one condition guards the callbacks here too, and is taken
only by those who wait or attach something.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, overload

from kproducer.accumulator.future_record_metadata import (
    FutureRecordMetadata,
    ProduceRequestResult,
    ResultTimeoutError,
)
from kproducer.bulk.record_places import RecordPlaces
from kproducer.errors import IllegalStateError, KafkaError, SendManyError
from kproducer.errors.suggestions import SEND_MANY_RESULT_METHODS, no_such_attribute
from kproducer.runtime.arguments import checked_timeout_s
from kproducer.runtime.clock import Clock
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.runtime.threads import is_io_thread
from kproducer.types import INT32_MAX, NO_OFFSET

_log = GuardedLogger(__name__)

#: What is known of an owner's records.
_PENDING, _SUCCEEDED, _FAILED, _SPLIT = range(4)
#: Rows counted in one go, which takes some milliseconds.
_COUNTED_AT_ONCE: Final = 1 << 16


class SendManyResult:
    """The outcome of every record of one ``send_many``. Thread-safe.

    A sequence of futures, in the order of the call: ``result[i]`` is that of record ``i``, made on demand,
    with its ``RecordMetadata`` or error. For all records together there are ``wait``, ``result``,
    ``failures``, the counts, ``add_done_callback`` and ``await``. Takes up to 24 bytes a record.

    Args:
        topic: named in ``repr``.
        places: where the records are; complete, and not changed any more.
        clock: for timeouts that span several batches.
    """

    __slots__ = ("__weakref__", "_callbacks", "_clock", "_open_owners", "_places", "_topic")

    def __init__(self, topic: str, places: RecordPlaces, clock: Clock) -> None:
        # Fixed after construction.
        self._topic = topic
        self._places = places
        self._clock = clock
        #: Owners behind this many are done. Only ever falls; threads that race at worst look twice.
        self._open_owners = len(places.owners)
        # Guarded by FutureRecordMetadata._condition. Not empty: a listener waits at one of the batches.
        self._callbacks: list[Callable[[SendManyResult], object]] = []

    # -- each record -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> FutureRecordMetadata: ...

    @overload
    def __getitem__(self, index: slice) -> list[FutureRecordMetadata]: ...

    def __getitem__(self, index: int | slice) -> FutureRecordMetadata | list[FutureRecordMetadata]:
        rows = range(len(self._places))[index]
        if isinstance(rows, range):
            return [self._places.future(row) for row in rows]
        return self._places.future(rows)

    def __iter__(self) -> Iterator[FutureRecordMetadata]:
        return map(self._places.future, range(len(self._places)))

    # -- all together ----------------------------------------------------------------------------------

    def done(self) -> bool:
        """Whether the fate of every record is known."""
        return self._next_open() is None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the fate of every record is known. Raises nothing for failed records.

        Args:
            timeout: seconds; ``None`` waits for as long as ``delivery_timeout_ms`` lets it.

        Returns:
            ``False``: not within ``timeout``; the records are still on their way.

        Raises:
            IllegalStateError: not known yet, and called without ``timeout`` on the I/O thread, as in a
                callback: the thread that completes records would wait for itself.
            InvalidArgumentError: ``timeout`` is no number.
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
                    "waiting without a timeout in a delivery callback would wait for itself; "
                    "use add_done_callback()"
                )
            # Woken when the batch ends or is split; in both cases there is another look.
            batch.wait(left_s)

    def result(self, timeout: float | None = None) -> SendManyResult:
        """Wait, and return this object if every record was delivered.

        Raises:
            SendManyError: records failed; says how many, and the first one's error. ``failures`` has all.
            TimeoutError: not all known within ``timeout``; the records are still on their way.
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
            TimeoutError, IllegalStateError, InvalidArgumentError: as for ``result``.
        """
        self._await_all(timeout)
        failed = {number for number, owner in enumerate(self._places.owners) if _has_failures(owner)}
        if not failed:
            return []
        failures: list[tuple[int, KafkaError]] = []
        for row, number in enumerate(self._places.owner_numbers):
            if number in failed:
                error = self._places.future(row)._error()
                if error is not None:
                    failures.append((row, error))
        return failures

    def offsets(self, timeout: float | None = None) -> array[int]:
        """Wait, and return each record's offset in its partition; -1: it failed, or is not known (acks=0).

        Raises:
            TimeoutError, IllegalStateError, InvalidArgumentError: as for ``result``.
        """
        self._await_all(timeout)
        places = self._places
        # An owner without one base offset for all has None: its records are asked one by one.
        bases = [_base_offset(owner) for owner in places.owners]
        offsets = array("q", bytes(8 * len(places)))
        rows = zip(places.owner_numbers, places.indexes, strict=True)
        for row, (number, index) in enumerate(rows):
            base = bases[number]
            if base is None:
                offsets[row] = places.future(row)._metadata().offset
            else:
                offsets[row] = base + index if base >= 0 else NO_OFFSET
        return offsets

    def partitions(self) -> array[int]:
        """Each record's partition, known at once; -1 for a record that was refused before it had one.

        Likewise for one that was refused because it was to go to a partition beyond what Kafka can number.
        """
        wanted = [owner.topic_partition.partition for owner in self._places.owners]
        numbers = array("i", [number if 0 <= number <= INT32_MAX else -1 for number in wanted])
        return array("i", [numbers[number] for number in self._places.owner_numbers])

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
        places = self._places
        states = [_state(owner) for owner in places.owners]
        kinds = set(states)
        if len(kinds) <= 1 and _SPLIT not in kinds:
            # Of most calls all batches end alike: no look at each record.
            count = len(places)
            return count if kinds == {_SUCCEEDED} else 0, count if kinds == {_FAILED} else 0
        rows: Counter[int] = Counter()
        for start in range(0, len(places), _COUNTED_AT_ONCE):
            # In pieces, as other threads cannot run meanwhile.
            rows.update(places.owner_numbers[start : start + _COUNTED_AT_ONCE])
        succeeded = sum(rows[number] for number, state in enumerate(states) if state == _SUCCEEDED)
        failed = sum(rows[number] for number, state in enumerate(states) if state == _FAILED)
        if _SPLIT in kinds:
            for row, number in enumerate(places.owner_numbers):
                if states[number] == _SPLIT:
                    owner, index = places.future(row)._locate()
                    if owner.done:
                        has_failed = owner.error_for(index) is not None
                        failed += has_failed
                        succeeded += not has_failed
        return succeeded, failed

    # -- callbacks and asyncio -------------------------------------------------------------------------

    def add_done_callback(self, fn: Callable[[SendManyResult], object]) -> None:
        """Call ``fn(result)`` once all is known: on the I/O thread, or at once if it is known already.

        It must not block. What ``fn`` raises is logged.
        """
        with FutureRecordMetadata._condition:
            batch = self._next_open()
            if batch is not None:
                self._callbacks.append(fn)
                if len(self._callbacks) == 1:
                    # Nothing can come between the look and this: the lock is held.
                    batch.add_listener(self._look_again)
                return
        self._run_callback(fn)

    def _look_again(self) -> None:
        """One batch has ended or was split: wait for the next, or tell that all have ended."""
        with FutureRecordMetadata._condition:
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
        except BaseException:  # SystemExit too: the I/O thread serves everybody else
            _log.exception("A done-callback of %r raised", self)

    def __await__(self) -> Generator[Any, None, SendManyResult]:
        if not self.done():
            import asyncio  # costs start-up time that only asyncio's users, who have it loaded, should pay

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
        """A batch, or the part of one, whose fate is open; ``None``: all are known.

        From the last to the first: once the last has ended most others have too, so few are waited for.
        """
        owners = self._places.owners
        count = self._open_owners
        while count:
            owner = owners[count - 1]
            if owner.parts is not None:
                for leaf in owner.leaves():
                    if not leaf.done:
                        return leaf
            elif not owner.done:
                # It may be split right now: whoever waits for it is told and looks again.
                return owner
            count -= 1
            self._open_owners = count
        return None

    # -- what it is not --------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        raise TypeError("the result of send_many cannot be pickled; send what was read from it")

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name):
            raise no_such_attribute(self, name, SEND_MANY_RESULT_METHODS)

    def __repr__(self) -> str:
        succeeded, failed = self._counts()
        pending = len(self) - succeeded - failed
        return (
            f"<SendManyResult {self._topic}: {len(self)} records, {succeeded} delivered, {failed} failed, "
            f"{pending} pending>"
        )


def _state(owner: ProduceRequestResult) -> int:
    if owner.parts is not None:
        return _SPLIT
    if not owner.done:
        return _PENDING
    return _SUCCEEDED if owner.error is None else _FAILED


def _has_failures(owner: ProduceRequestResult) -> bool:
    return any(leaf.error is not None for leaf in owner.leaves())


def _base_offset(owner: ProduceRequestResult) -> int | None:
    """The offset of the batch's first record, -1 if it failed or is not known; ``None``: it was split."""
    if owner.parts is not None:
        return None
    return NO_OFFSET if owner.error is not None else owner.outcome.base_offset
