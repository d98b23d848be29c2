"""TaskProtocol: the steps of a task, so that its rows become visible once or not at all.

The task reads the driver's last decision and refuses an older number before it fences anything: an outdated
copy of a query must not stop the current one. Then it fences all earlier attempts of this task and reads
whether its rows are already committed. If not, it writes them, with its marker, in a transaction that the
driver ends. The protocol is independent of Spark and Kafka, and a crash may follow any step.
docs/exactly-once.md explains why the steps are sufficient.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata
from kproducer.spark.exactly_once.ports import TaskPort
from kproducer.spark.exactly_once.write_state import (
    Decision,
    EmptyTask,
    Marker,
    PreparedTask,
    RepeatedTask,
    TaskMessage,
    WriteTask,
    refuse_later,
)

if TYPE_CHECKING:
    from kproducer._core.bulk.send_arrow import ArrowChecksum


class TaskProtocol:
    """Writes one task. For one attempt, on the task's thread only.

    Args:
        port: Kafka. After an error the caller must not give its producer to another task.
        checksum: of no rows.
    """

    def __init__(self, port: TaskPort, checksum: ArrowChecksum) -> None:
        self._port, self._checksum = port, checksum

    def write(self, task: WriteTask, batches: Iterable[Any]) -> TaskMessage:
        """Write the rows, unless rows of the same number are already committed for this task.

        Args:
            task: the task to write.
            batches: Arrow RecordBatches; everything but ``num_rows`` is left to checksum and port.

        Raises:
            StaleReplayError: rows of a later number are committed.
            KafkaError: from the port. What was written is aborted, at the latest by the next attempt.
        """
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return EmptyTask(task)
        # An iterator forgets the batch that it has passed on, which may have megabytes.
        rows = chain(iter([first]), filled)
        del first
        if not task.write.identity.is_remembered:
            self._port.initialize(task.name)
            return self._write_rows(task, rows, None, None)
        # Read before the fence. The driver compares this decision with the one that it finds. If they are
        # equal, every older attempt that a decision may still commit began before this read, so it is fenced
        # or ended below.
        driver = task.write.identity.driver
        decision = self._port.current_offset(driver)
        refuse_later(task.write, Decision.from_offset(driver, decision))
        self._port.initialize(task.name)
        marker = Marker.from_offset(task.name, self._port.stable_offset(task.name))
        refuse_later(task.write, marker)
        if marker is None or marker.number != task.write.number:
            return self._write_rows(task, rows, decision, marker)
        for batch in rows:
            self._checksum.update(batch)
        return RepeatedTask(task, self._checksum.rows, self._checksum.value, decision, marker)

    def _write_rows(
        self,
        task: WriteTask,
        batches: Iterator[Any],
        decision: OffsetAndMetadata | None,
        marker: Marker | None,
    ) -> PreparedTask:
        self._port.begin()
        count = 0
        try:
            for batch in batches:
                count += batch.num_rows
                if task.write.identity.is_remembered:
                    self._checksum.update(batch)
                self._port.send(batch)
            self._port.flush()
            if task.write.identity.is_remembered:
                written = Marker(task.write.number, count, self._checksum.value)
                self._port.add_marker(task.name, written.to_offset())
            transaction = self._port.prepare()
            return PreparedTask(task, count, self._checksum.value, decision, marker, transaction)
        except BaseException:
            # BaseException: Spark kills a task with KeyboardInterrupt or SystemExit. Without this abort, the
            # next attempt would abort the transaction, and readers would wait until then.
            with contextlib.suppress(Exception):
                self._port.abort()
            raise
