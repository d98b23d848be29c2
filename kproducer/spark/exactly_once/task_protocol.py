"""TaskProtocol: the steps of a task, so that its rows become visible once or not at all.

The task reads the driver's last decision and refuses a number that is older, before it fences anything: an
outdated copy of a query must not stop the current one. Then it fences all earlier attempts of this task and
reads whether its rows are already committed. If not, it writes them, with its marker, in a transaction that
the driver ends. The protocol is independent of Spark and Kafka, and a crash may come after any step.
docs/exactly-once.md explains why the steps are sufficient.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from kproducer.spark.errors import StaleReplayError
from kproducer.spark.exactly_once.ports import OnStep, RowBatch, RowChecksum, TaskKafka, no_hook
from kproducer.spark.exactly_once.write_state import (
    Decision,
    EmptyTask,
    Marker,
    PreparedTask,
    RepeatedTask,
    TaskMessage,
    TaskPlace,
)
from kproducer.transactions.transaction_arguments import PreparedTransaction

_Batch = TypeVar("_Batch", bound=RowBatch)


class TaskProtocol:
    """Writes one task. Made for one attempt; used on the task's thread only.

    Args:
        port: Kafka.
        new_checksum: makes a checksum without rows.
        on_step: see ``OnStep``.
    """

    def __init__(
        self, port: TaskKafka, new_checksum: Callable[[], RowChecksum], on_step: OnStep = no_hook
    ) -> None:
        self._port = port
        self._new_checksum = new_checksum
        self._on_step = on_step

    def write(self, place: TaskPlace, batches: Iterable[_Batch]) -> TaskMessage:
        """Write the rows, unless rows of the same number are already committed for this task.

        Raises:
            StaleReplayError: rows of a later number are committed.
            KafkaError: from the port. What was written is aborted, at the latest by the next attempt.
        """
        remaining = iter(batches)
        first = next((batch for batch in remaining if batch.num_rows), None)
        if first is None:
            return EmptyTask(place)
        rows = chain([first], remaining)
        try:
            if place.identity.is_remembered:
                return self._write_remembered(place, rows)
            return self._write_once(place, rows)
        except BaseException:
            # BaseException: Spark kills a task with KeyboardInterrupt or SystemExit.
            self._port.discard()
            raise

    def _write_once(self, place: TaskPlace, batches: Iterator[_Batch]) -> TaskMessage:
        self._initialize(place)
        count = 0
        self._on_step("begin")
        self._port.begin()
        with self._aborted_on_failure():
            for batch in batches:
                self._send(batch)
                count += batch.num_rows
            self._flush()
            return PreparedTask(place, count, 0, None, None, self._prepare())

    def _write_remembered(self, place: TaskPlace, batches: Iterator[_Batch]) -> TaskMessage:
        driver = place.identity.driver
        # Read before the fence. The driver compares it with what it finds: if they are equal, everything that
        # earlier decisions may still commit was initialized before this read, and is fenced or ended below.
        self._on_step("decision")
        decision = self._port.decision(driver)
        _refuse_later(place, Decision.from_offset(driver, decision))
        self._initialize(place)
        self._on_step("marker")
        marker = Marker.from_offset(place.name, self._port.marker(place.name))
        _refuse_later(place, marker)
        checksum = self._new_checksum()
        if marker is not None and marker.number == place.number:
            for batch in batches:
                checksum.update(batch)
            return RepeatedTask(place, checksum.rows, checksum.value, decision, marker)
        self._on_step("begin")
        self._port.begin()
        with self._aborted_on_failure():
            for batch in batches:
                checksum.update(batch)
                self._send(batch)
            self._flush()
            self._on_step("add_marker")
            self._port.add_marker(place.name, Marker(place.number, checksum.rows, checksum.value).to_offset())
            return PreparedTask(place, checksum.rows, checksum.value, decision, marker, self._prepare())

    def _initialize(self, place: TaskPlace) -> None:
        self._on_step("initialize")
        self._port.initialize(place.name)

    def _send(self, batch: RowBatch) -> None:
        if batch.num_rows:
            self._on_step("send")
            self._port.send(batch)

    def _flush(self) -> None:
        self._on_step("flush")
        self._port.flush()

    def _prepare(self) -> PreparedTransaction:
        self._on_step("prepare")
        transaction = self._port.prepare()
        self._on_step("prepared")
        return transaction

    @contextlib.contextmanager
    def _aborted_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # So that readers need not wait for the open transaction; otherwise the next attempt would abort
            # it.
            with contextlib.suppress(Exception):
                self._port.abort()
            raise


def _refuse_later(place: TaskPlace, found: Marker | Decision | None) -> None:
    if found is not None and found.number > place.number:
        raise StaleReplayError.of(place.write, found.number)
