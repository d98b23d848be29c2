"""DeliveryReports: the messages of one producer from ``produce`` to their callbacks, which ``poll`` runs.

The engine completes records batch by batch, so messages are kept by batch, and the I/O thread only notes that
a batch is done: it does nothing per message. Callbacks run on the thread that polls, in the order in which
batches were completed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from kproducer._core.accumulator.future_record_metadata import (
    FutureRecordMetadata,
    ProduceRequestResult,
    batch_result_of,
)
from kproducer._core.accumulator.owned_lock import ReentrantLock
from kproducer.compat.confluent_kafka.errors import KafkaException, converted, new_error
from kproducer.compat.confluent_kafka.message import Delivery, Message

#: What a message's report needs: (delivery, callback, value, key, time of ``produce`` in seconds).
Report = tuple[Delivery, "Callable[[Any, Any], object] | None", Any, Any, float]

#: How many messages are taken from a batch at once. In a callback that raises or produces, the length of the
#: queue may be wrong by less than this.
_CHUNK = 64


class DeliveryReports:
    """Messages that are not reported yet. Thread-safe.

    Args:
        only_errors: no callback for delivered messages.

    Attributes:
        count: messages that are in the engine, wait for it, or wait for ``serve``.
        lock: guards this. A signal handler can find out that its own thread holds it.
    """

    def __init__(self, only_errors: bool) -> None:
        self._only_errors = only_errors
        self.lock = ReentrantLock()
        # Guarded by lock.
        self.count = 0
        self._open: dict[ProduceRequestResult, list[Report]] = {}
        self._chunks: deque[tuple[list[Report], float]] = deque()
        # By thread: how many messages it runs the callbacks of now. ``count`` does not include them.
        self._serving: dict[int, int] = {}
        # Batches that are done: the I/O thread appends them, under _changed.
        self._changed = threading.Condition()
        self._done: deque[tuple[ProduceRequestResult | list[Report], float]] = deque()

    def check_not_interrupted(self, call: str) -> None:
        """Raise where waiting for the lock would deadlock: in a signal handler that has interrupted a call.

        Raises:
            KafkaException: ``_STATE``.
        """
        if self.lock.is_mine:
            text = (
                f"{call}() was called by a signal handler that interrupted another call of this producer;"
                " set a flag there"
            )
            raise KafkaException(new_error("_STATE", text))

    def add(
        self,
        future: FutureRecordMetadata,
        callback: Callable[[Any, Any], object] | None,
        value: Any,
        key: Any,
        started_s: float,
        is_counted: bool = False,
    ) -> None:
        """Add a message that the engine has accepted.

        Args:
            future: of the record.
            callback: of the message, if it has one.
            value, key: for the callback.
            started_s: monotonic time of ``produce``.
            is_counted: it has waited for its topic, and ``count`` includes it.
        """
        result = batch_result_of(future)
        report = (future, callback, value, key, started_s)
        with self.lock:
            if not is_counted:
                self.count += 1
            reports = self._open.get(result)
            if reports is not None:
                reports.append(report)
                return
            self._open[result] = [report]
            # Called after the batch was added to the dict, because it may be done at once, or may have been
            # done before.
            if not result.add_listener(partial(self._batch_done, result)):
                self._batch_done(result)

    def count_waiting(self, change: int) -> None:
        """Count messages that wait for their topic."""
        with self.lock:
            self.count += change

    def add_undelivered(self, reports: list[Report]) -> None:
        """Report messages, which are counted, that the engine did not get."""
        with self._changed:
            self._done.append((reports, time.monotonic()))
            self._changed.notify_all()

    def _batch_done(self, result: ProduceRequestResult) -> None:
        """On the I/O thread; must not raise. A split batch is done when its parts are."""
        if result.parts is not None:
            waiting = [leaf for leaf in result.leaves() if not leaf.done]
            if waiting and waiting[0].add_listener(partial(self._batch_done, result)):
                return
            if waiting:
                self._batch_done(result)
                return
        with self._changed:
            self._done.append((result, time.monotonic()))
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is something to serve; ``False``: not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._done or self._chunks), timeout_s)

    def wait_all(self, timeout_s: float) -> bool:
        """Wait until there is something to serve or all is reported; ``False``: not in time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: bool(self._done or self._chunks) or not self._unreported(), timeout_s
            )

    def unreported(self) -> int:
        """Messages whose callbacks have not run to their end.

        In a callback: only those that no thread has begun with, because two callbacks that waited for each
        other would wait for ever.
        """
        with self.lock:
            return self._unreported()

    def _unreported(self) -> int:
        """As ``unreported``, read without the lock, which comes before ``_changed``: it is a moment late."""
        serving = self._serving
        return self.count if threading.get_ident() in serving else self.count + sum(list(serving.values()))

    def serve(self) -> int:
        """Run the callbacks of everything that is done, on this thread; returns the number of messages.

        Raises:
            Exception: of a callback; the messages after it stay for the next call.
        """
        served = 0
        while (taken := self._take()) is not None:
            chunk, done_s = taken
            remaining = len(chunk)
            try:
                for delivery, callback, value, key, started_s in reversed(chunk):
                    remaining -= 1
                    if callback is None:
                        continue
                    error = delivery.exception()
                    if error is None:
                        if not self._only_errors:
                            callback(None, Message(delivery, key, value, None, done_s - started_s))
                        continue
                    its_error = converted(error)
                    callback(its_error, Message(delivery, key, value, its_error, done_s - started_s))
            finally:
                served += len(chunk) - remaining
                with self.lock:
                    if remaining:
                        self.count += remaining
                        self._chunks.appendleft((chunk[:remaining], done_s))
                    self._end_serving(len(chunk))
                with self._changed:
                    self._changed.notify_all()  # other threads may wait in flush for these messages
        return served

    def _take(self) -> tuple[list[Report], float] | None:
        """Up to ``_CHUNK`` messages that are done, the first one last; they are not counted any more."""
        with self.lock:
            if not self._chunks and not self._move_batch():
                return None
            reports, done_s = self._chunks[0]
            chunk = reports[-_CHUNK:]
            del reports[-_CHUNK:]
            if not reports:
                self._chunks.popleft()
            me = threading.get_ident()
            self._serving[me] = self._serving.get(me, 0) + len(chunk)
            self.count -= len(chunk)
            return chunk, done_s

    def _end_serving(self, count: int) -> None:
        me = threading.get_ident()
        self._serving[me] -= count
        if not self._serving[me]:
            del self._serving[me]

    def _move_batch(self) -> bool:
        """Move the reports of the next done batch to ``_chunks``, the first one last."""
        while self._done:
            done, done_s = self._done.popleft()
            reports = done if isinstance(done, list) else self._open.pop(done, [])
            if reports:
                reports.reverse()
                self._chunks.append((reports, done_s))
                return True
        return False

    def forget_after_fork(self) -> None:
        """In a forked child: the parent reports the messages. Threads that are gone may hold the locks."""
        self.__init__(self._only_errors)  # type: ignore[misc]
