"""RecordPlaces: for each record of one bulk call, which batch it is in, where in it, and its sizes.

Columns of plain numbers, 24 bytes a record, which a compiled loop fills without an object for each record.
Written by the calling thread until the call ends; not changed after that. Knows nothing of waiting.
"""

from __future__ import annotations

from array import array
from typing import Final

from kproducer.errors import KafkaError
from kproducer.producer.future_record_metadata import FutureRecordMetadata, ProduceRequestResult
from kproducer.types import NO_OFFSET, NO_TIMESTAMP, TopicPartition

#: The owner number of a row that nobody has filled in yet.
NO_OWNER: Final = -1

#: The size of a null key or value.
NULL_SIZE: Final = -1

_UNKNOWN_PARTITION: Final = -1


class RecordPlaces:
    """Rows in the order of the call. Not thread-safe while it is being filled.

    Args:
        topic: named in the metadata of records that were refused.

    Attributes:
        owners: results of the batches, each once or more often, in the order in which they were met.
        owner_numbers: ``array('i')``: for each row its place in ``owners``; ``NO_OWNER`` until it is known.
        indexes: ``array('i')``: the record's index in its batch, before any split.
        timestamps_ms: ``array('q')``: as sent.
        key_sizes, value_sizes: ``array('i')``: bytes; ``NULL_SIZE`` for null.
    """

    __slots__ = (
        "_numbers",
        "indexes",
        "key_sizes",
        "owner_numbers",
        "owners",
        "timestamps_ms",
        "topic",
        "value_sizes",
    )

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.owners: list[ProduceRequestResult] = []
        self.owner_numbers = array("i")
        self.indexes = array("i")
        self.timestamps_ms = array("q")
        self.key_sizes = array("i")
        self.value_sizes = array("i")
        #: The number of each owner by ``id``; ``owners`` keeps them alive, so that no id is used twice.
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.owner_numbers)

    # -- filling ---------------------------------------------------------------------------------------

    def grow(self, row_count: int) -> int:
        """Add rows without owner, for a loop to fill in place. Returns the number of the first one."""
        first = len(self.owner_numbers)
        self.owner_numbers.frombytes(b"\xff" * (4 * row_count))
        self.indexes.frombytes(bytes(4 * row_count))
        self.timestamps_ms.frombytes(b"\xff" * (8 * row_count))
        self.key_sizes.frombytes(b"\xff" * (4 * row_count))
        self.value_sizes.frombytes(b"\xff" * (4 * row_count))
        return first

    def cut(self, row_count: int) -> None:
        """Forget all rows but the first ``row_count``."""
        for column in (self.owner_numbers, self.indexes, self.key_sizes, self.value_sizes):
            del column[row_count:]
        del self.timestamps_ms[row_count:]

    def number_of(self, owner: ProduceRequestResult) -> int:
        """The owner's number, given now if it has none."""
        number = self._numbers.get(id(owner))
        if number is None:
            number = self._numbers[id(owner)] = len(self.owners)
            self.owners.append(owner)
        return number

    def put(self, row: int, future: FutureRecordMetadata) -> None:
        """Note where a single ``send`` has put the record of a row."""
        self.indexes[row] = future._index
        self.timestamps_ms[row] = future._timestamp_ms
        self.key_sizes[row] = future._key_size
        self.value_sizes[row] = future._value_size
        # Last: a row with an owner is a whole one, whatever interrupts this.
        self.owner_numbers[row] = self.number_of(future._owner)

    def refuse(self, row: int, error: KafkaError, partition: int = _UNKNOWN_PARTITION) -> None:
        """Note that the record of a row was not accepted. ``error`` says why, and its outcome."""
        self.owner_numbers[row] = self.number_of(_failed(TopicPartition(self.topic, partition), error))

    def refuse_all_open(self, first_row: int, error: KafkaError) -> None:
        """Note that no row from ``first_row`` on that has no owner yet was accepted, all for one reason."""
        number = self.number_of(_failed(TopicPartition(self.topic, _UNKNOWN_PARTITION), error))
        owner_numbers = self.owner_numbers
        for row in range(first_row, len(owner_numbers)):
            if owner_numbers[row] == NO_OWNER:
                owner_numbers[row] = number

    # -- reading, when it is full ----------------------------------------------------------------------

    def future(self, row: int) -> FutureRecordMetadata:
        """A future for one record, as ``send`` would have returned it; a new object each time."""
        return FutureRecordMetadata(
            self.owners[self.owner_numbers[row]],
            self.indexes[row],
            self.timestamps_ms[row],
            self.key_sizes[row],
            self.value_sizes[row],
        )


def _failed(topic_partition: TopicPartition, error: KafkaError) -> ProduceRequestResult:
    result = ProduceRequestResult(topic_partition)
    result.settle(NO_OFFSET, NO_TIMESTAMP, error, None)
    result.release([])
    return result
