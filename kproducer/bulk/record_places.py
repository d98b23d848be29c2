"""RecordPlaces: for each record of one bulk call, which batch it is in, where in it, and its sizes.

Columns of plain numbers, 24 bytes a record, which a compiled loop fills without an object for each record.
Written by the calling thread until the call ends; not changed after that. Knows nothing of waiting.
"""

from __future__ import annotations

from array import array
from typing import Final

from kproducer.accumulator.future_record_metadata import FutureRecordMetadata, ProduceRequestResult
from kproducer.errors import KafkaError
from kproducer.types import NO_OFFSET, NO_TIMESTAMP, UNKNOWN_PARTITION, TopicPartition

#: The owner number of a row that nobody has filled in yet.
NO_OWNER: Final = -1

#: The size of a null key or value.
NULL_SIZE: Final = -1

#: Rows that are made in advance at most, whatever a call's arguments say of their length.
_RESERVED_ROWS: Final = 1 << 20


class RecordPlaces:
    """Rows in the order of the call. Not thread-safe while it is being filled.

    The columns may have rows in reserve, behind the last one, until ``cut``: growing an array a little at a
    time copies it again and again, which took a third of the time of a bulk call.

    Args:
        topic: named in the metadata of records that were refused.
        expected_rows: how many there will be, as far as is known.

    Attributes:
        owners: results of the batches, each once or more often, in the order in which they were met.
        timestamps_ms: ``array('q')``: as sent.
        key_sizes, value_sizes: ``array('i')``: bytes; ``NULL_SIZE`` for null.
    """

    __slots__ = (
        "_indexes",
        "_numbers",
        "_owner_numbers",
        "_row_count",
        "key_sizes",
        "owners",
        "timestamps_ms",
        "topic",
        "value_sizes",
    )

    def __init__(self, topic: str, expected_rows: int = 0) -> None:
        self.topic = topic
        self._row_count = 0
        self.owners: list[ProduceRequestResult] = []
        self._make_columns(min(expected_rows, _RESERVED_ROWS))
        #: The number of each owner by ``id``; ``owners`` keeps them alive, so that no id is used twice.
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return self._row_count

    @property
    def owner_numbers(self) -> array[int]:
        """``array('i')``: for each row its place in ``owners``; ``NO_OWNER`` until it is known."""
        return self._owner_numbers

    @property
    def indexes(self) -> array[int]:
        """``array('i')``: for each row the record's index in its batch, before any split."""
        return self._indexes

    def _make_columns(self, rows: int) -> None:
        self._owner_numbers = array("i", [NO_OWNER]) * rows
        self._indexes = array("i", [0]) * rows
        self.timestamps_ms = array("q", [NO_TIMESTAMP]) * rows
        self.key_sizes = array("i", [NULL_SIZE]) * rows
        # Last: what interrupts this leaves no column that is thought to be longer than it is.
        self.value_sizes = array("i", [NULL_SIZE]) * rows

    # -- filling ---------------------------------------------------------------------------------------

    def grow(self, row_count: int) -> int:
        """Add rows without owner, for a loop to fill in place. Returns the number of the first one."""
        first = self._row_count
        missing = first + row_count - len(self.value_sizes)
        if missing > 0 and not first:
            # Made anew: extending copies each column once more.
            self._make_columns(row_count)
        elif missing > 0:
            self._extend_columns(max(missing, first // 2))
        self._row_count = first + row_count
        return first

    def _extend_columns(self, missing: int) -> None:
        self._owner_numbers.extend(array("i", [NO_OWNER]) * missing)
        self._indexes.extend(array("i", [0]) * missing)
        self.timestamps_ms.extend(array("q", [NO_TIMESTAMP]) * missing)
        self.key_sizes.extend(array("i", [NULL_SIZE]) * missing)
        # Last: what interrupts this leaves no column that is thought to be longer than it is.
        self.value_sizes.extend(array("i", [NULL_SIZE]) * missing)

    def cut(self, row_count: int) -> None:
        """Keep the first ``row_count`` rows, and nothing in reserve."""
        self._row_count = row_count
        if len(self._owner_numbers) != row_count:
            self._owner_numbers = self._owner_numbers[:row_count]
            self._indexes = self._indexes[:row_count]
            self.timestamps_ms = self.timestamps_ms[:row_count]
            self.key_sizes = self.key_sizes[:row_count]
            self.value_sizes = self.value_sizes[:row_count]

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
        self.owner_numbers[row] = self.number_of(future._batch_result)

    def refuse(self, row: int, error: KafkaError, partition: int = UNKNOWN_PARTITION) -> None:
        """Note that the record of a row was not accepted. ``error`` says why, and its outcome."""
        self.owner_numbers[row] = self.number_of(_failed(TopicPartition(self.topic, partition), error))

    def refuse_all_open(self, first_row: int, error: KafkaError) -> None:
        """Note that no row from ``first_row`` on that has no owner yet was accepted, all for one reason."""
        number = self.number_of(_failed(TopicPartition(self.topic, UNKNOWN_PARTITION), error))
        owner_numbers = self.owner_numbers
        for row in range(first_row, self._row_count):
            if owner_numbers[row] == NO_OWNER:
                owner_numbers[row] = number

    # -- reading, when it is full ----------------------------------------------------------------------

    def future(self, row: int) -> FutureRecordMetadata:
        """A future for one record, as ``send`` would have returned it; a new object each time."""
        return self.owners[self.owner_numbers[row]].future(
            self.indexes[row],
            self.timestamps_ms[row],
            self.key_sizes[row],
            self.value_sizes[row],
        )


def _failed(topic_partition: TopicPartition, error: KafkaError) -> ProduceRequestResult:
    result = ProduceRequestResult(topic_partition)
    result.settle(NO_OFFSET, NO_TIMESTAMP, error, None)
    result.release()
    return result
