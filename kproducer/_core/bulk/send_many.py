"""``send_many``: from its first row to its result.

The kernel writes plain rows into open batches, a chunk at a time, after the serializers if there are any. The
other rows (a new batch, an unknown partition, no free memory) take the general path. For the calling thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kproducer._core.bulk.general_path import GeneralPath
from kproducer._core.bulk.record_locations import RecordLocations
from kproducer._core.bulk.send_many_input import Chunk, SendManyInput
from kproducer._core.bulk.send_many_result import SendManyResult
from kproducer._core.kernel import RowSender
from kproducer.errors import KafkaError, Outcome
from kproducer.types import UNKNOWN_PARTITION

if TYPE_CHECKING:
    from kproducer._core.bulk.bulk_context import BulkContext


def send_many(producer: BulkContext, topic: str, rows: SendManyInput) -> SendManyResult:
    """See ``KafkaProducer.send_many``."""
    return producer.in_transaction(_SendManyCall(producer, topic, rows).run)


class _SendManyCall:
    """Makes one call. Use once.

    Args:
        producer: sends.
        topic: the records' topic.
        rows: the records.
    """

    def __init__(self, producer: BulkContext, topic: str, rows: SendManyInput) -> None:
        self._producer = producer
        self._topic = topic
        self._rows = rows
        self._locations = RecordLocations(topic, rows.size or 0)
        self._row_sender: RowSender | None = None
        send = producer.send
        self._serializes = False
        rules = producer.rules
        if rules.has_fast_path and type(topic) is str:
            self._row_sender = RowSender(self._locations.batch_results, rules.ignores_keys, rules.small_size)
            send = producer.send_serialized
            self._serializes = rules.serializes_key or rules.serializes_value
        self._general_path = GeneralPath(producer, send, topics_vary=producer.may_change_topics)

    def run(self) -> SendManyResult:
        """Send everything. See ``KafkaProducer.send_many``."""
        if self._rows.size != 0 and not self._producer.may_change_topics:
            self._producer.await_partition_count(self._topic)
        try:
            self._send_all()
        except BaseException as error:
            # Some records were accepted: the caller needs their outcomes.
            error.partial_result = self._result()  # type: ignore[attr-defined]
            raise
        return self._result()

    def _result(self) -> SendManyResult:
        self._locations.finish(self._locations.count_located())
        return SendManyResult(self._topic, self._locations, self._producer.clock)

    def _send_all(self) -> None:
        rows, locations = self._rows, self._locations
        while True:
            chunk = rows.next_chunk()
            if self._serializes:
                chunk = self._serialized(chunk)
            first = locations.grow(len(chunk.values))
            self._send_chunk(chunk, first)
            if chunk.error is not None:
                raise chunk.error
            if chunk.is_last:
                return
            if self._general_path.ending is not None:
                if rows.size is None:
                    # The number of unread rows is unknown; they stay in the caller's iterator.
                    raise self._general_path.ending
                locations.refuse_all_open(
                    locations.grow(rows.size - len(locations)), self._general_path.ending
                )
                return

    def _serialized(self, chunk: Chunk) -> Chunk:
        """Replace keys and values by bytes, in place, or a value by the error of a serializer."""
        topic, values, keys = self._topic, chunk.values, chunk.keys
        rules = self._producer.rules
        row = 0
        try:
            for row in range(len(values)):
                try:
                    if rules.serializes_key and keys is not None and keys[row] is not None:
                        keys[row] = rules.key_bytes(topic, [], keys[row])
                    if rules.serializes_value and values[row] is not None:
                        values[row] = rules.value_bytes(topic, [], values[row])
                except KafkaError as error:
                    error.outcome = Outcome.NOT_SENT
                    # Its frames would keep the rows alive.
                    error.__traceback__ = None
                    values[row] = error
        except BaseException as error:
            # Ctrl-C: the rows before this one are sent, as with an iterator that raises.
            return chunk.cut(row, error)
        return chunk

    def _send_chunk(self, chunk: Chunk, first: int) -> None:
        sender, locations = self._row_sender, self._locations
        wall_ms = self._producer.clock.wall_ms
        # Once per chunk: with small batches this loop runs every few rows.
        lists = (chunk.values, chunk.keys, chunk.headers, chunk.partitions, chunk.timestamps_ms)
        columns = locations.kernel_columns()
        count = len(chunk.values)
        row = 0
        while row < count:
            # Asked again after each record of the general path: a fork, a close or the end of a transaction
            # closes the fast path.
            if sender is not None and (slots := self._producer.fast_slots_of(self._topic)) is not None:
                row = sender.send(slots, lists, row, wall_ms(), self._producer.transaction, first, *columns)
                if row == count:
                    return
            self._send_row(chunk, row, first + row)
            if self._general_path.ending is not None:
                locations.refuse_all_open(first + row, self._general_path.ending)
                return
            row += 1

    def _send_row(self, chunk: Chunk, row: int, location: int) -> None:
        """Send one record as ``send`` does, and note its location, or why it was refused."""
        value = chunk.values[row]
        if self._serializes and isinstance(value, KafkaError):
            self._locations.refuse(location, value)
            return
        partition: Any = None if chunk.partitions is None else chunk.partitions[row]
        sent = self._general_path.send(
            location,
            self._topic,
            value,
            None if chunk.keys is None else chunk.keys[row],
            None if chunk.headers is None else chunk.headers[row],
            partition,
            None if chunk.timestamps_ms is None else chunk.timestamps_ms[row],
        )
        if not isinstance(sent, KafkaError):
            self._locations.put(location, sent)
        elif self._general_path.ending is None:
            self._locations.refuse(
                location, sent, partition if isinstance(partition, int) else UNKNOWN_PARTITION
            )
