"""ArrowCall: from the first row of Arrow data to the batches of a producer.

What ``send_arrow`` and the Spark sink share. The kernel writes rows into open batches, a block at a time;
whatever is rare (a new batch, memory to wait for, a partition nobody knows, a partitioner of the application)
goes record by record through ``send`` itself, so that both mean the same. Knows nothing of requests. For the
calling thread.

A full buffer ends a call as it ends a ``send_many``: a record may wait for memory for ``max_block_ms``; when
one has waited in vain, it and all after it are refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from kproducer.accumulator.future_record_metadata import FutureRecordMetadata, ProduceRequestResult
from kproducer.bulk.arrow_columns import ArrowColumns
from kproducer.bulk.arrow_places import ArrowPlaces
from kproducer.bulk.record_places import NO_OWNER
from kproducer.bulk.send_many import TRANSACTION_ERRORS
from kproducer.bulk.send_many_result import SendManyResult
from kproducer.errors import (
    BrokerError,
    BufferExhaustedError,
    InvalidArgumentError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
    RecordTooLargeError,
    SerializationError,
)
from kproducer.kernel.arrow import ArrowRows, ArrowSource
from kproducer.sending.topic_wait import MetadataSource, await_topic
from kproducer.types import INT32_MAX

if TYPE_CHECKING:
    from kproducer.client.metadata_snapshot import MetadataSnapshot

_NO_PARTITION = -1


@attrs.frozen
class ArrowProducer:
    """The parts of a producer that are needed here.

    Attributes:
        send_one: ``KafkaProducer.send``.
        check_send: raises where records are not taken, as between two transactions.
        note_refusal: told of what forbids to commit the transaction, if there is one.
        source: the metadata of the running engine.
        lanes_of: the ``TopicSlots`` of a topic.
        max_block_ms: how long to wait for a topic.
        size_limit, size_setting: bytes that a record may take, and the setting that says so.
        uses_lanes: ``False``: a partitioner of the application wants to see each record.
        hashes_keys: keys choose partitions as Java's default does.
        wall_ms: the time, for rows without a timestamp.
    """

    send_one: Callable[..., FutureRecordMetadata]
    check_send: Callable[[], None]
    note_refusal: Callable[[KafkaError], None]
    source: MetadataSource
    lanes_of: Callable[[str], object]
    max_block_ms: int
    size_limit: int
    size_setting: str
    uses_lanes: bool
    hashes_keys: bool
    wall_ms: Callable[[], int]

    def partition_count(self, topic: str, partition: int | None = None) -> int:
        """How many partitions a topic has; waits until it, and the partition, are known."""
        source = self.source
        try:
            snapshot = await_topic(source, topic, partition, self.max_block_ms, source.clock.monotonic_ms())
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise
        return snapshot.partition_count(topic) or 0


def sources(data: Any) -> Iterator[ArrowSource]:
    """Open what ``send_arrow`` takes; each source is to be read before the next is asked for.

    Raises:
        InvalidArgumentError: it is neither Arrow data nor an iterable of such.
    """
    if hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__"):
        yield ArrowSource(data)
        return
    if not isinstance(data, Iterable) or isinstance(data, (str, bytes, dict)):
        raise InvalidArgumentError(
            "data must be Arrow data (with __arrow_c_stream__ or __arrow_c_array__, as tables and batches of "
            "pyarrow, polars, pandas 2.2 and DuckDB have), or an iterable of such, not "
            f"{type(data).__name__}"
        )
    for part in data:
        yield ArrowSource(part)


class ArrowCall(ABC):
    """Sends Arrow data. A subclass keeps what becomes of the rows.

    Args:
        producer: sends.
        columns: which columns are what.
        topic: where to; ``None``: ``columns.topic`` says.
    """

    def __init__(self, producer: ArrowProducer, columns: ArrowColumns, topic: str | None) -> None:
        self._producer = producer
        self._columns = columns
        self._topic = topic
        #: Names by number, and why the rows of some are refused.
        self._topics: list[str] = []
        self._topic_errors: dict[int, KafkaError] = {}
        self._partition_counts: dict[str, int] = {}
        self._snapshot: MetadataSnapshot | None = None
        #: Rows of all chunks before the one at hand.
        self._rows_before = 0
        #: Why no further record is accepted.
        self._ending: KafkaError | None = None
        #: For metadata, and for max_block_ms; it is not done again in this call.
        self._waited_in_vain = False

    # -- what a subclass keeps -------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, rows: ArrowRows, count: int) -> None:
        """Start a chunk of so many rows."""

    @abstractmethod
    def _planned(self, row: int, timestamp_ms: int) -> None:
        """A block of rows from ``row`` on is sent next; ``timestamp_ms``: of those without one."""

    @abstractmethod
    def _accepted(self, row: int, future: FutureRecordMetadata) -> None:
        """A row of the chunk was sent by ``send``."""

    @abstractmethod
    def _refused(self, row: int, topic: str, partition: int, error: KafkaError, reason: str = "") -> None:
        """A row of the chunk cannot be sent; ``reason``: one of the kernel's."""

    @abstractmethod
    def _ended(self, row: int, error: KafkaError) -> None:
        """No row from ``row`` on that is not sent yet will be."""

    # -- reading ---------------------------------------------------------------------------------------

    def _open(self, source: ArrowSource) -> ArrowRows:
        producer = self._producer
        numbers = self._columns.find(source.names, source.formats)
        if self._topic is not None and not self._partition_counts:
            partition = self._columns.partition
            self._partition_counts[self._topic] = producer.partition_count(
                self._topic, partition if isinstance(partition, int) else None
            )
        rows = ArrowRows(source, numbers, producer.size_limit, producer.hashes_keys)
        self._topics = []
        self._topic_errors = {}
        self._snapshot = None
        if self._topic is not None:
            self._add_topic(rows, self._topic)
        return rows

    def _send_chunk(self, rows: ArrowRows, count: int) -> None:
        try:
            self._producer.check_send()
        except KafkaError as error:
            self._ending = error
        self._begin(rows, count)
        try:
            row = 0
            while row < count and self._ending is None:
                row = self._send_block(rows, row)
            if self._ending is not None:
                self._ended(0, self._ending)
        finally:
            rows.end_chunk()
        self._rows_before += count

    def _send_block(self, rows: ArrowRows, first_row: int) -> int:
        """Send a block of rows; return the row behind it."""
        self._count_partitions_again(rows)
        columns = self._columns
        time = columns.timestamp if isinstance(columns.timestamp, int) else self._producer.wall_ms()
        partition = columns.partition if isinstance(columns.partition, int) else _NO_PARTITION
        # No topic has more, and the kernel counts no further.
        partition = min(partition, INT32_MAX)
        end = rows.plan(first_row, time, partition)
        self._planned(first_row, time)
        for refusal in rows.refusals:
            self._refuse(rows, *refusal)
        snapshot = self._producer.source.metadata.snapshot
        while self._ending is None:
            row = rows.append_planned(snapshot)
            if row < 0:
                break
            number, partition = rows.destination(row)
            topic = self._topics[number]
            if columns.partition is None and partition >= self._known_partitions(topic):
                # The key's partition has vanished since the block was planned.
                partition = _NO_PARTITION
            self._send_row(rows, row, topic, None if partition < 0 else partition)
        if rows.unknown_topic is not None and self._ending is None:
            self._add_topic(rows, rows.unknown_topic)
        return end

    def _known_partitions(self, topic: str) -> int:
        """How many partitions a topic has by now; if it is unknown, how many it had."""
        known = self._producer.source.metadata.snapshot.partition_count(topic)
        return known or self._partition_counts[topic]

    def _count_partitions_again(self, rows: ArrowRows) -> None:
        """A long stream outlives the number of partitions that a topic had when it began."""
        snapshot = self._producer.source.metadata.snapshot
        if snapshot is self._snapshot:
            return
        self._snapshot = snapshot
        for topic in self._topics:
            count = self._partition_counts[topic]
            if count > 0 and self._known_partitions(topic) != count:
                self._partition_counts[topic] = self._known_partitions(topic)
                lanes = self._producer.lanes_of(topic) if self._producer.uses_lanes else None
                rows.add_topic(topic, self._partition_counts[topic], lanes)

    def _add_topic(self, rows: ArrowRows, topic: str) -> None:
        count = self._partition_counts.get(topic, 0)
        error: KafkaError | None = None
        if not count:
            try:
                count = self._producer.partition_count(topic)
            except ProducerClosedError as closed:
                self._ending = closed
                return
            except KafkaError as unknown:
                error = unknown.with_traceback(None)
                count = -1
            self._partition_counts[topic] = count
        lanes = self._producer.lanes_of(topic) if count > 0 and self._producer.uses_lanes else None
        number = rows.add_topic(topic, count, lanes)
        self._topics.append(topic)
        if count < 0:
            self._topic_errors[number] = error or KafkaError(f"topic {topic!r} is not known")

    # -- rows by themselves ----------------------------------------------------------------------------

    def _send_row(self, rows: ArrowRows, row: int, topic: str, partition: int | None) -> None:
        """Send one record as ``send`` does."""
        timestamp_ms, key, value, headers = rows.record(row)
        known = _NO_PARTITION if partition is None else partition
        try:
            future = self._producer.send_one(topic, value, key, headers, partition, timestamp_ms)
        except KafkaError as error:
            # Its frames would keep the rows alive.
            error.__traceback__ = None
            if isinstance(error, MetadataTimeoutError):
                self._waited_in_vain = True
            if self._ends_call(error):
                self._ending = error
            else:
                self._refused(row, topic, known, error)
        except MemoryError:
            raise
        except Exception as error:
            # A partitioner of the application, for one: it concerns this record.
            refusal = KafkaError(f"row {self._rows_before + row} could not be sent: {error!r}")
            refusal.__cause__ = error
            self._refused(row, topic, known, refusal.with_outcome(Outcome.NOT_SENT))
        else:
            self._accepted(row, future)

    def _ends_call(self, error: KafkaError) -> bool:
        """Whether the records to come would fail alike, most of them after another wait."""
        if isinstance(error, (BufferExhaustedError, ProducerClosedError, *TRANSACTION_ERRORS)):
            return True
        # The topic is gone, or closed to us; rows of other topics may go on.
        return isinstance(error, BrokerError) and self._topic is not None

    def _refuse(self, rows: ArrowRows, row: int, reason: str, number: int, detail: int) -> None:
        """Say why a row that the kernel did not take cannot be sent."""
        topic = self._topics[number] if number >= 0 else ""
        if reason == "partition" and isinstance(self._columns.partition, int):
            # One for all rows is not the row's, and the kernel does not repeat it.
            detail = self._columns.partition
        if reason == "partition" and not self._waited_in_vain:
            # It may be a new one: send() waits for it, or says what is wrong with it.
            self._send_row(rows, row, topic, detail)
            return
        error = self._refusal(reason, topic, number, detail)
        error.outcome = error.outcome or Outcome.NOT_SENT
        self._refused(row, topic, detail if reason == "partition" else _NO_PARTITION, error, reason)

    def _refusal(self, reason: str, topic: str, number: int, detail: int) -> KafkaError:
        if reason == "topic failed":
            return self._topic_errors[number]
        if reason == "size":
            return RecordTooLargeError(
                f"a record{f' for topic {topic!r}' if topic else ''} takes up to {detail} bytes, more than "
                f"{self._producer.size_setting}={self._producer.size_limit}"
            )
        if reason == "partition":
            count = self._partition_counts[topic]
            return MetadataTimeoutError(
                f"topic {topic!r} has partitions 0 to {count - 1}, and partition {detail} is none of them; "
                "it was not waited for, because this call has waited in vain before"
            )
        if reason == "timestamp":
            return InvalidArgumentError("its timestamp is before 1970, or beyond what milliseconds can count")
        if reason in ("header is null", "header name"):
            what = (
                "a header is null" if reason == "header is null" else "a header's name is null or not UTF-8"
            )
            return SerializationError(f"{what}: Kafka's headers need a name")
        return InvalidArgumentError(f"the {reason}")


class SendArrowCall(ArrowCall):
    """One ``send_arrow``. Use once."""

    def __init__(self, producer: ArrowProducer, columns: ArrowColumns, topic: str | None) -> None:
        super().__init__(producer, columns, topic)
        self._shown_topic = topic if topic is not None else f"(column {columns.topic!r})"
        has_timestamps = isinstance(columns.timestamp, str)
        self._places = ArrowPlaces(self._shown_topic, columns.key is not None, has_timestamps)
        self._first_place = 0

    def run(self, data: Any) -> SendManyResult:
        """Send everything. See ``KafkaProducer.send_arrow``."""
        try:
            self._send_all(data)
        except BaseException as error:
            if len(self._places):
                # What was accepted is on its way: whoever catches this has to learn of it.
                self._refuse_the_rest()
                error.partial_result = self._result()  # type: ignore[attr-defined]
            elif isinstance(error, KafkaError) and error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise
        return self._result()

    def _send_all(self, data: Any) -> None:
        is_one_array = hasattr(data, "__arrow_c_array__")
        for source in sources(data):
            try:
                rows = self._open(source)
                while True:
                    count = source.next_chunk()
                    if count < 0:
                        break
                    self._send_chunk(rows, count)
                    if self._ending is not None and not is_one_array:
                        # Nobody knows how many rows are left; they stay in the caller's stream.
                        raise self._ending
            finally:
                source.close()

    def _refuse_the_rest(self) -> None:
        """Leave no row open after an interruption: those nobody came to are cut off, the others refused."""
        places = self._places
        count = len(places)
        while count and places.owner_numbers[count - 1] == NO_OWNER:
            count -= 1
        places.cut(count)
        if NO_OWNER in places.owner_numbers:
            # Rows of the block that was under way: by destination, and not in the order of the call.
            places.refuse_all_open(0, KafkaError("the call was interrupted").with_outcome(Outcome.NOT_SENT))

    def _result(self) -> SendManyResult:
        places = self._places
        places.cut(len(places))
        return SendManyResult(self._shown_topic, places, self._producer.source.clock)

    def _begin(self, rows: ArrowRows, count: int) -> None:
        self._first_place = self._places.grow(count)
        rows.start_chunk(self._places, self._first_place)

    def _planned(self, row: int, timestamp_ms: int) -> None:
        self._places.stamp(self._first_place + row, timestamp_ms)

    def _accepted(self, row: int, future: FutureRecordMetadata) -> None:
        self._places.put(self._first_place + row, future)

    def _refused(self, row: int, topic: str, partition: int, error: KafkaError, reason: str = "") -> None:
        self._places.topic = topic or self._shown_topic
        self._places.refuse(self._first_place + row, error, partition)

    def _ended(self, row: int, error: KafkaError) -> None:
        self._places.topic = self._shown_topic
        self._places.refuse_all_open(self._first_place + row, error)


class ArrowSink(ArrowCall):
    """Sends batch after batch and keeps for each owner how many rows it has: memory does not grow with rows.

    Attributes:
        rows_by_owner: of the rows sent; the caller takes owners out when they are done.
    """

    def __init__(self, producer: ArrowProducer, columns: ArrowColumns, topic: str | None) -> None:
        super().__init__(producer, columns, topic)
        self.rows_by_owner: dict[ProduceRequestResult, int] = {}

    def send(self, data: Any) -> int:
        """Send all rows. Returns the bytes of their keys and values.

        Raises:
            RowRefusedError: a row cannot be sent; those before it are, and some behind it may be.
            InvalidArgumentError: as for ``send_arrow``.
        """
        try:
            return self._send_sources(data)
        except BaseException as error:
            self._producer.note_refusal(KafkaError(f"rows of Arrow data were refused: {error!r}"))
            raise

    def _send_sources(self, data: Any) -> int:
        content_bytes = 0
        for source in sources(data):
            rows: ArrowRows | None = None
            try:
                rows = self._open(source)
                while True:
                    count = source.next_chunk()
                    if count < 0:
                        break
                    self._send_chunk(rows, count)
            finally:
                source.close()
                if rows is not None:
                    self._take_counts(rows)
                    content_bytes += rows.content_bytes
        return content_bytes

    def _take_counts(self, rows: ArrowRows) -> None:
        for owner, count in rows.owner_counts.items():
            assert isinstance(owner, ProduceRequestResult)
            self._count(owner, count)

    def _count(self, owner: ProduceRequestResult, count: int) -> None:
        self.rows_by_owner[owner] = self.rows_by_owner.get(owner, 0) + count

    def _begin(self, rows: ArrowRows, count: int) -> None:
        rows.start_chunk()

    def _planned(self, row: int, timestamp_ms: int) -> None:
        """Times are not kept."""

    def _accepted(self, row: int, future: FutureRecordMetadata) -> None:
        self._count(future._batch_result, 1)

    def _refused(self, row: int, topic: str, partition: int, error: KafkaError, reason: str = "") -> None:
        raise RowRefusedError(self._rows_before + row, topic, partition, error, reason)

    def _ended(self, row: int, error: KafkaError) -> None:
        raise RowRefusedError(self._rows_before + row, self._topic or "", _NO_PARTITION, error, "")


class RowRefusedError(Exception):
    """A row that an ``ArrowSink`` could not send.

    Attributes:
        row: counted from the sink's first one.
        topic, partition: as far as they are known; empty, -1.
        error, reason: why; the reason is one of the kernel's, or empty.
    """

    def __init__(self, row: int, topic: str, partition: int, error: KafkaError, reason: str) -> None:
        super().__init__(row, topic, partition, error, reason)
        self.row = row
        self.topic = topic
        self.partition = partition
        self.error = error
        self.reason = reason
