"""SendManyCall: one ``send_many`` from its first row to its result.

Plain rows go to the loop of the kernel, a chunk at a time, after the serializers if there are any; whatever
is rare (a new batch, a partition nobody knows, memory to wait for) goes record by record through ``send``
itself, so that both mean the same. Knows nothing of requests. For the calling thread.

How a full buffer ends a call: a record may wait for memory for ``max_block_ms``, as in ``send``. When one has
waited in vain, it and all after it are refused: a million records would otherwise wait in vain one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from kproducer.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer.bulk.record_places import NO_OWNER, RecordPlaces
from kproducer.bulk.send_many_input import Chunk, SendManyInput
from kproducer.bulk.send_many_result import SendManyResult
from kproducer.errors import (
    AbortTransactionError,
    BrokerError,
    BufferExhaustedError,
    FatalProducerError,
    IllegalStateError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
)
from kproducer.kernel import RowSender, SendPath
from kproducer.sending.topic_wait import MetadataSource, await_topic
from kproducer.serializers import SerializeFunction

#: No record is taken until a transaction is aborted, or begun, or at all.
TRANSACTION_ERRORS = (AbortTransactionError, FatalProducerError, IllegalStateError)

#: (topic, value, key, headers, partition, timestamp_ms) to the record's future.
SendOne = Callable[[str, Any, Any, Any, Any, Any], FutureRecordMetadata]


@attrs.frozen
class _Refusal:
    """Stands where a serializer has refused a row."""

    error: KafkaError


@attrs.frozen
class SendManyProducer:
    """The parts of a producer that are needed here.

    Attributes:
        path: the producer itself, for the rows that are plain; ``None``: every row needs all of ``send``,
            because of interceptors, a partitioner, or serializers that look at more than their datum.
        send_one: ``KafkaProducer.send``.
        send_serialized: likewise, for keys and values that have been through the serializers.
        key_bytes, value_bytes: the serializers; ``None`` where none was configured.
        source: the metadata of the running engine.
        max_block_ms: how long to wait for the topic.
        may_change_topics: interceptors see the records, and may send them elsewhere.
    """

    path: SendPath | None
    send_one: SendOne
    send_serialized: SendOne
    key_bytes: SerializeFunction | None
    value_bytes: SerializeFunction | None
    source: MetadataSource
    max_block_ms: int
    may_change_topics: bool

    def await_topic(self, topic: str) -> None:
        """Wait until the topic is known; raises as ``send`` does."""
        try:
            await_topic(self.source, topic, None, self.max_block_ms, self.source.clock.monotonic_ms())
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise

    def partition_count(self, topic: str) -> int:
        """How many partitions are known now; 0: the topic is not known."""
        return self.source.metadata.snapshot.partition_count(topic) or 0


class SendManyCall:
    """Makes one call. Use once.

    Args:
        producer: sends.
        topic: where to.
        rows: what.
    """

    __slots__ = (
        "_ending",
        "_places",
        "_producer",
        "_row_sender",
        "_rows",
        "_send_one",
        "_serializes",
        "_topic",
        "_waited_in_vain",
    )

    def __init__(self, producer: SendManyProducer, topic: str, rows: SendManyInput) -> None:
        self._producer = producer
        self._topic = topic
        self._rows = rows
        self._places = RecordPlaces(topic, rows.size or 0)
        self._row_sender: RowSender | None = None
        self._send_one = producer.send_one
        self._serializes = False
        if producer.path is not None and type(topic) is str:
            self._row_sender = RowSender(producer.path, topic, self._places, True)
            self._send_one = producer.send_serialized
            self._serializes = producer.key_bytes is not None or producer.value_bytes is not None
        #: Why no further record is accepted.
        self._ending: KafkaError | None = None
        #: For metadata, and for max_block_ms; it is not done again in this call.
        self._waited_in_vain = False

    def run(self) -> SendManyResult:
        """Send everything. See ``KafkaProducer.send_many``."""
        if self._rows.size != 0 and not self._producer.may_change_topics:
            self._producer.await_topic(self._topic)
        try:
            self._send_all()
        except BaseException as error:
            # What was accepted is on its way: whoever catches this has to learn of it.
            error.partial_result = self._result()  # type: ignore[attr-defined]
            raise
        return self._result()

    def _result(self) -> SendManyResult:
        places = self._places
        count = len(places)
        while count and places.owner_numbers[count - 1] == NO_OWNER:
            count -= 1
        places.cut(count)
        return SendManyResult(self._topic, places, self._producer.source.clock)

    def _send_all(self) -> None:
        rows = self._rows
        places = self._places
        while True:
            chunk = rows.next_chunk()
            if self._serializes:
                chunk = self._serialized(chunk)
            first = places.grow(len(chunk.values))
            self._send_chunk(chunk, first)
            if chunk.trouble is not None:
                raise chunk.trouble
            if chunk.is_last:
                return
            if self._ending is not None:
                if rows.size is None:
                    # Nobody knows how many rows are left; they stay in the caller's iterator.
                    raise self._ending
                places.refuse_all_open(places.grow(rows.size - len(places)), self._ending)
                return

    def _serialized(self, chunk: Chunk) -> Chunk:
        """The rows with keys and values as bytes; they are ours to change."""
        topic, values, keys = self._topic, chunk.values, chunk.keys
        key_bytes, value_bytes = self._producer.key_bytes, self._producer.value_bytes
        row = 0
        try:
            for row in range(len(values)):
                try:
                    if key_bytes is not None and keys is not None and keys[row] is not None:
                        keys[row] = key_bytes(topic, [], keys[row])
                    value = values[row]
                    if value_bytes is not None and value is not None:
                        values[row] = value_bytes(topic, [], value)
                except KafkaError as error:
                    error.outcome = Outcome.NOT_SENT
                    # Its frames would keep the rows alive.
                    error.__traceback__ = None
                    values[row] = _Refusal(error)
        except BaseException as error:
            # Ctrl-C: what comes before is sent, as with an iterator that raises.
            return chunk.cut(row, error)
        return chunk

    def _send_chunk(self, chunk: Chunk, first: int) -> None:
        sender = self._row_sender
        wall_ms = self._producer.source.clock.wall_ms
        count = len(chunk.values)
        row = 0
        while row < count:
            if sender is not None:
                row = sender.send(
                    chunk.values,
                    chunk.keys,
                    chunk.headers,
                    chunk.partitions,
                    chunk.timestamps_ms,
                    row,
                    first,
                    wall_ms(),
                )
                if row == count:
                    return
            self._send_row(chunk, row, first)
            if self._ending is not None:
                self._places.refuse_all_open(first + row, self._ending)
                return
            row += 1

    def _send_row(self, chunk: Chunk, row: int, first: int) -> None:
        """Send one record as ``send`` does, and note its place, or why it has none."""
        value = chunk.values[row]
        if value.__class__ is _Refusal:
            self._places.refuse(first + row, value.error)
            return
        partition: Any = None if chunk.partitions is None else chunk.partitions[row]
        if self._waited_in_vain and self._is_missing(partition):
            self._places.refuse(first + row, self._missing(partition), partition)
            return
        try:
            future = self._send_one(
                self._topic,
                value,
                None if chunk.keys is None else chunk.keys[row],
                None if chunk.headers is None else chunk.headers[row],
                partition,
                None if chunk.timestamps_ms is None else chunk.timestamps_ms[row],
            )
        except KafkaError as error:
            # Its frames would keep the rows alive.
            error.__traceback__ = None
            if self._ends_call(error, partition):
                self._ending = error
            else:
                self._places.refuse(first + row, error, partition if isinstance(partition, int) else -1)
        except MemoryError:
            raise
        except Exception as error:
            # A partitioner of the application, for one: it concerns this record.
            refusal = KafkaError(f"record {first + row} could not be sent: {error!r}")
            refusal.outcome = Outcome.NOT_SENT
            refusal.__cause__ = error
            self._places.refuse(first + row, refusal)
        else:
            self._places.put(first + row, future)

    def _ends_call(self, error: KafkaError, partition: Any) -> bool:
        """Whether the records to come would fail alike, most of them after another wait."""
        if isinstance(error, (BufferExhaustedError, ProducerClosedError, *TRANSACTION_ERRORS)):
            return True
        rows_may_differ = self._producer.may_change_topics
        if isinstance(error, MetadataTimeoutError):
            waited_before, self._waited_in_vain = self._waited_in_vain, True
            return waited_before or not (rows_may_differ or self._is_missing(partition))
        # The topic is gone, or closed to us.
        return isinstance(error, BrokerError) and not rows_may_differ

    def _is_missing(self, partition: Any) -> bool:
        """Whether the topic is known, and without this partition."""
        if not isinstance(partition, int) or self._producer.may_change_topics:
            return False
        return 0 < self._producer.partition_count(self._topic) <= partition

    def _missing(self, partition: int) -> KafkaError:
        count = self._producer.partition_count(self._topic)
        return MetadataTimeoutError(
            f"topic {self._topic!r} has partitions 0 to {count - 1}, and partition {partition} is none of"
            " them; it was not waited for, because this call has waited in vain for another one"
        ).with_outcome(Outcome.NOT_SENT)
