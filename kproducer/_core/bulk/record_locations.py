"""RecordLocations: for each record of a bulk call, its batch, its index in the batch, and its sizes.

Columns of numbers, which compiled code fills without an object per record. Fresh memory costs more than
writing into it (touching a new page takes as long as ten or twenty rows), so a call keeps only the columns
that it needs: 24 bytes per record for ``send_many``, down to 4 for Arrow rows without keys and timestamps.
Written by the calling thread until the call ends; not changed after that.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Any, Final

from kproducer._core.accumulator.future_record_metadata import (
    FutureRecordMetadata,
    ProduceRequestResult,
    kept_of,
)
from kproducer.errors import KafkaError
from kproducer.types import NO_OFFSET, NO_TIMESTAMP, UNKNOWN_PARTITION, TopicPartition

#: The result number of a row that has no batch yet.
NO_RESULT: Final = -1

#: The size of a null key or value.
NULL_SIZE: Final = -1

#: The most rows that are reserved in advance, even if a call announces more.
_RESERVED_ROWS: Final = 1 << 20


class RecordLocations:
    """Rows in the order of the call. Not thread-safe while it is being filled.

    The columns may have reserved rows behind the last one until ``finish``: growing an array in small steps
    copies it again and again.

    Args:
        topic: named in the metadata of records that were refused.
        expected_rows: how many there will be, as far as is known.
        has_keys: ``False``: all keys are null.
        has_timestamps: ``False``: rows have the timestamps of ``stamp``.
        has_runs: rows are noted as ``runs``; ``False``: in ``result_numbers`` and ``indexes``.

    Attributes:
        batch_results: the results of the batches with their numbers, 0 for the first one.
        runs: (first row, number of rows, result number, index of the first record) of rows that follow each
            other in their batch; ``None``: see ``result_numbers`` and ``indexes``.
        timestamps_ms: ``array('q')``: as sent; ``None``: there is no such column.
        key_sizes: ``array('i')``: bytes; ``NULL_SIZE`` for null; ``None``: there is no such column.
        value_sizes: the same for values; always there.
        first_refusal: why the first record was refused that was; ``None``: none was.
    """

    def __init__(
        self,
        topic: str,
        expected_rows: int = 0,
        *,
        has_keys: bool = True,
        has_timestamps: bool = True,
        has_runs: bool = False,
    ) -> None:
        self.topic = topic
        self.batch_results: dict[ProduceRequestResult, int] = {}
        self.runs: list[tuple[int, int, int, int]] | None = [] if has_runs else None
        self.first_refusal: KafkaError | None = None
        self._row_count = 0
        #: First rows, and the timestamp from there on.
        self._stamps: tuple[list[int], list[int]] = ([], [])
        self._result_numbers = array("i")
        self._indexes = array("i")
        self.timestamps_ms = array("q") if has_timestamps else None
        self.key_sizes = array("i") if has_keys else None
        self.value_sizes = array("i")
        #: Name, type code and first content of the columns that are kept. The last one tells how long they
        #: are: an interruption cannot leave another column shorter than that.
        self._columns: list[tuple[str, str, int]] = []
        if not has_runs:
            self._columns += [("_result_numbers", "i", NO_RESULT), ("_indexes", "i", 0)]
        if has_timestamps:
            self._columns.append(("timestamps_ms", "q", NO_TIMESTAMP))
        if has_keys:
            self._columns.append(("key_sizes", "i", NULL_SIZE))
        self._columns.append(("value_sizes", "i", NULL_SIZE))
        self._add_rows(min(expected_rows, _RESERVED_ROWS))

    def __len__(self) -> int:
        return self._row_count

    @property
    def result_numbers(self) -> array[int]:
        """``array('i')``: each row's number in ``batch_results``; ``NO_RESULT``: it has no batch yet."""
        self._expand_runs()
        return self._result_numbers

    @property
    def indexes(self) -> array[int]:
        """``array('i')``: each record's index in its batch, before any split."""
        self._expand_runs()
        return self._indexes

    def _expand_runs(self) -> None:
        """Replace the runs by columns. Not while the kernel writes."""
        runs = self.runs
        if runs is None:
            return
        # As long as the other columns, including their reserved rows.
        result_numbers = array("i", [NO_RESULT]) * len(self.value_sizes)
        indexes = array("i", [0]) * len(self.value_sizes)
        for first, count, number, index in runs:
            result_numbers[first : first + count] = array("i", [number]) * count
            indexes[first : first + count] = array("i", range(index, index + count))
        self._result_numbers = result_numbers
        self._indexes = indexes
        self._columns[:0] = [("_result_numbers", "i", NO_RESULT), ("_indexes", "i", 0)]
        self.runs = None

    # -- filling ---------------------------------------------------------------------------------------

    def kernel_columns(self) -> tuple[Any, ...]:
        """Result numbers, indexes, timestamps, key sizes and value sizes, for the kernel to fill."""
        numbers = (None, None) if self.runs is not None else (self._result_numbers, self._indexes)
        return (*numbers, self.timestamps_ms, self.key_sizes, self.value_sizes)

    def grow(self, row_count: int) -> int:
        """Add rows without a batch, to be filled in place. Returns the number of the first one."""
        first = self._row_count
        missing = first + row_count - len(self.value_sizes)
        if missing > 0:
            self._add_rows(max(missing, first // 2))
        self._row_count = first + row_count
        return first

    def _add_rows(self, count: int) -> None:
        for name, code, content in self._columns:
            more = array(code, [content]) * count
            column = getattr(self, name)
            if column:
                column.extend(more)
            else:  # saves a copy
                setattr(self, name, more)

    def finish(self, row_count: int) -> None:
        """Keep the first ``row_count`` rows, and no reserved ones."""
        if row_count < self._row_count:
            self._expand_runs()
        self._row_count = row_count
        for name, _, _ in self._columns:
            column = getattr(self, name)
            if len(column) != row_count:
                setattr(self, name, column[:row_count])

    def count_located(self) -> int:
        """The number of rows up to the last one that has a batch."""
        count = len(self)
        result_numbers = self.result_numbers
        while count and result_numbers[count - 1] == NO_RESULT:
            count -= 1
        return count

    def number_of(self, batch_result: ProduceRequestResult) -> int:
        """The number of a batch's result; a new result gets the next number."""
        return self.batch_results.setdefault(batch_result, len(self.batch_results))

    def stamp(self, first_row: int, timestamp_ms: int) -> None:
        """Set the timestamp of the rows from ``first_row`` on, which comes after all earlier stamps."""
        first_rows, timestamps = self._stamps
        if self.timestamps_ms is None and (not timestamps or timestamps[-1] != timestamp_ms):
            # In this order: there is a timestamp for each first row.
            timestamps.append(timestamp_ms)
            first_rows.append(first_row)

    def put(self, row: int, future: FutureRecordMetadata) -> None:
        """Note where ``send`` has put the record of a row."""
        batch_result, index, timestamp_ms, key_size, value_size = kept_of(future)
        if self.timestamps_ms is not None:
            self.timestamps_ms[row] = timestamp_ms
        if self.key_sizes is not None:
            self.key_sizes[row] = key_size
        self.value_sizes[row] = value_size
        self._set_result(row, batch_result, index)

    def refuse(
        self, row: int, error: KafkaError, partition: int = UNKNOWN_PARTITION, topic: str = ""
    ) -> None:
        """Note that the record of a row was not accepted, because of ``error``."""
        self._set_result(row, self._failed(TopicPartition(topic or self.topic, partition), error), 0)

    def _set_result(self, row: int, batch_result: ProduceRequestResult, index: int) -> None:
        number = self.number_of(batch_result)
        if self.runs is not None:
            self.runs.append((row, 1, number, index))
            return
        self._indexes[row] = index
        # Last: a row that has a batch is complete, also after an interruption.
        self._result_numbers[row] = number

    def refuse_all_open(self, first_row: int, error: KafkaError) -> None:
        """Refuse all rows from ``first_row`` on that have no batch, for one reason."""
        number = self.number_of(self._failed(TopicPartition(self.topic, UNKNOWN_PARTITION), error))
        result_numbers = self.result_numbers
        for row in range(first_row, self._row_count):
            if result_numbers[row] == NO_RESULT:
                result_numbers[row] = number

    def _failed(self, topic_partition: TopicPartition, error: KafkaError) -> ProduceRequestResult:
        self.first_refusal = self.first_refusal or error
        result = ProduceRequestResult(topic_partition)
        result.settle(NO_OFFSET, NO_TIMESTAMP, error, None)
        result.release()
        return result

    # -- reading ---------------------------------------------------------------------------------------

    def future(self, row: int, batch_results: list[ProduceRequestResult]) -> FutureRecordMetadata:
        """A new future for one record, as ``send`` would return it.

        Args:
            batch_results: ``list(self.batch_results)``, which the caller keeps.
        """
        return batch_results[self.result_numbers[row]].future(
            self.indexes[row],
            self._timestamp(row),
            NULL_SIZE if self.key_sizes is None else self.key_sizes[row],
            self.value_sizes[row],
        )

    def _timestamp(self, row: int) -> int:
        if self.timestamps_ms is not None:
            return self.timestamps_ms[row]
        first_rows, timestamps = self._stamps
        place = bisect_right(first_rows, row) - 1
        return timestamps[place] if place >= 0 else NO_TIMESTAMP
