"""TaskProtocol: what a task does, step by step, so that its rows become visible once, or not at all.

The task reads the driver's last decision and refuses a number that is behind it, before it fences anybody:
a copy of a query that is behind must not stop the one that is ahead. Then it fences all earlier attempts of
this task, reads whether the rows are committed already, and otherwise writes them, with the marker that says
so, in a transaction that the driver ends. Knows neither Spark nor Kafka; a crash may come after any step.
Argument: docs/exactly-once.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from kproducer.spark.errors import StaleReplayError
from kproducer.spark.exactly_once.identity import TaskPlace, numbered
from kproducer.spark.exactly_once.marker import Decision, Marker
from kproducer.spark.exactly_once.ports import OnStep, RowBatch, RowChecksum, TaskKafka, unobserved
from kproducer.spark.exactly_once.task_messages import EmptyTask, PreparedTask, RepeatedTask, TaskMessage
from kproducer.transactions.transaction_arguments import PreparedTransaction

_Batch = TypeVar("_Batch", bound=RowBatch)


class TaskProtocol:
    """Writes one task. Made for one attempt; for the task's thread.

    Args:
        port: Kafka.
        new_checksum: a checksum over nothing yet.
        on_step: see ``OnStep``.
    """

    def __init__(
        self, port: TaskKafka, new_checksum: Callable[[], RowChecksum], on_step: OnStep = unobserved
    ) -> None:
        self._port = port
        self._new_checksum = new_checksum
        self._on_step = on_step

    def write(self, place: TaskPlace, batches: Iterable[_Batch]) -> TaskMessage:
        """Write the rows, unless rows of the same number are committed for this task already.

        Raises:
            StaleReplayError: a later number is.
            KafkaError: what the port raises. Whatever was written is aborted, at the latest by the next
                attempt.
        """
        remaining = iter(batches)
        first = next((batch for batch in remaining if batch.num_rows), None)
        if first is None:
            return EmptyTask(place)
        rows = chain([first], remaining)
        try:
            if not place.identity.is_remembered:
                return self._write_once(place, rows)
            return self._write_remembered(place, rows)
        except BaseException:
            # BaseException: a killed task arrives as KeyboardInterrupt or SystemExit.
            self._port.discard()
            raise

    def _write_once(self, place: TaskPlace, batches: Iterator[_Batch]) -> TaskMessage:
        self._initialize(place)
        count = 0
        self._step("begin")
        self._port.begin()
        with self._aborted_on_failure():
            for batch in batches:
                self._send(batch)
                count += batch.num_rows
            self._flush()
            return PreparedTask(place, count, 0, None, None, self._prepare())

    def _write_remembered(self, place: TaskPlace, batches: Iterator[_Batch]) -> TaskMessage:
        driver = place.identity.driver
        # Before the fence, and compared by the driver with what it finds: if they are equal, all that earlier
        # decisions may still commit was initialized before this look, and is fenced or settled by what comes.
        self._step("decision")
        decision = self._port.decision(driver)
        _refuse_later(place, Decision.from_offset(driver, decision))
        self._initialize(place)
        self._step("marker")
        marker = Marker.from_offset(place.name, self._port.marker(place.name))
        _refuse_later(place, marker)
        checksum = self._new_checksum()
        if marker is not None and marker.number == place.number:
            for batch in batches:
                checksum.update(batch)
            return RepeatedTask(place, checksum.rows, checksum.value, decision, marker)
        self._step("begin")
        self._port.begin()
        with self._aborted_on_failure():
            for batch in batches:
                checksum.update(batch)
                self._send(batch)
            self._flush()
            self._step("add_marker")
            self._port.add_marker(place.name, Marker(place.number, checksum.rows, checksum.value).to_offset())
            return PreparedTask(place, checksum.rows, checksum.value, decision, marker, self._prepare())

    def _prepare(self) -> PreparedTransaction:
        self._step("prepare")
        transaction = self._port.prepare()
        self._step("prepared")
        return transaction

    def _initialize(self, place: TaskPlace) -> None:
        self._step("initialize")
        self._port.initialize(place.name)

    def _send(self, batch: RowBatch) -> None:
        if batch.num_rows:
            self._step("send")
            self._port.send(batch)

    def _flush(self) -> None:
        self._step("flush")
        self._port.flush()

    @contextlib.contextmanager
    def _aborted_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # A courtesy to readers, who wait for open transactions. The next attempt does it anyway.
            with contextlib.suppress(Exception):
                self._port.abort()
            raise

    def _step(self, name: str) -> None:
        self._on_step(name)


def _refuse_later(place: TaskPlace, found: Marker | Decision | None) -> None:
    if found is not None and found.number > place.number:
        raise StaleReplayError.of(numbered(place.identity, place.number), found.number)
