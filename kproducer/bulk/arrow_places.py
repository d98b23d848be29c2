"""ArrowPlaces: a ``RecordPlaces`` for Arrow rows, which keeps once what many rows share.

Fresh memory costs more than what is written into it: a page of it takes as long as ten or twenty rows. Rows
that were written one behind the other into a batch are one run of four numbers; rows without a timestamp have
that of their block; where there are no keys they have no sizes. That leaves 4 bytes a row, 16 with keys,
instead of 24. Columns of single rows are made when somebody asks for them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from kproducer.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer.bulk.record_places import NO_OWNER, NULL_SIZE, RecordPlaces
from kproducer.types import NO_TIMESTAMP


class ArrowPlaces(RecordPlaces):
    """Rows in the order of the call; see ``RecordPlaces``. Sizes and timestamps are the kernel's to fill in.

    Args:
        topic: named in the metadata of records that were refused.
        has_keys: ``False``: all keys are null.
        has_timestamps: ``False``: the rows have those of ``stamp``.

    Attributes:
        runs: (first row, rows, owner number, index of the first record) of rows that lie one behind the other
            in their batch; ``None``: the columns ``owner_numbers`` and ``indexes`` say it for each row.
        timestamps_ms, key_sizes: ``None`` where there is no such column.
    """

    __slots__ = ("_has_keys", "_has_timestamps", "_stamps", "runs")

    timestamps_ms: array[int] | None  # type: ignore[assignment]
    key_sizes: array[int] | None  # type: ignore[assignment]

    def __init__(self, topic: str, has_keys: bool, has_timestamps: bool) -> None:
        self._has_keys = has_keys
        self._has_timestamps = has_timestamps
        self.runs: list[tuple[int, int, int, int]] | None = []
        #: First rows, and the timestamp from there on.
        self._stamps: tuple[list[int], list[int]] = ([], [])
        super().__init__(topic)

    @property
    def owner_numbers(self) -> array[int]:
        self._note_each_row()
        return self._owner_numbers

    @property
    def indexes(self) -> array[int]:
        self._note_each_row()
        return self._indexes

    def _note_each_row(self) -> None:
        """From here on there are columns instead of runs."""
        runs = self.runs
        if runs is None:
            return
        # As long as the other columns, what they have in reserve included.
        owner_numbers = array("i", [NO_OWNER]) * len(self.value_sizes)
        indexes = array("i", [0]) * len(self.value_sizes)
        for first, count, number, index in runs:
            owner_numbers[first : first + count] = array("i", [number]) * count
            indexes[first : first + count] = array("i", range(index, index + count))
        self._owner_numbers = owner_numbers
        self._indexes = indexes
        self.runs = None

    # -- filling ---------------------------------------------------------------------------------------

    def _make_columns(self, rows: int) -> None:
        self._owner_numbers = self._indexes = array("i")
        if self.runs is None:
            self._owner_numbers = array("i", [NO_OWNER]) * rows
            self._indexes = array("i", [0]) * rows
        self.timestamps_ms = array("q", [NO_TIMESTAMP]) * rows if self._has_timestamps else None
        self.key_sizes = array("i", [NULL_SIZE]) * rows if self._has_keys else None
        # Last: what interrupts this leaves no column that is thought to be longer than it is.
        self.value_sizes = array("i", [NULL_SIZE]) * rows

    def _extend_columns(self, missing: int) -> None:
        if self.runs is None:
            self._owner_numbers.extend(array("i", [NO_OWNER]) * missing)
            self._indexes.extend(array("i", [0]) * missing)
        if self.timestamps_ms is not None:
            self.timestamps_ms.extend(array("q", [NO_TIMESTAMP]) * missing)
        if self.key_sizes is not None:
            self.key_sizes.extend(array("i", [NULL_SIZE]) * missing)
        # Last: what interrupts this leaves no column that is thought to be longer than it is.
        self.value_sizes.extend(array("i", [NULL_SIZE]) * missing)

    def stamp(self, first_row: int, timestamp_ms: int) -> None:
        """Say the timestamp of the rows from ``first_row`` on; it is behind all that were stamped before."""
        first_rows, timestamps = self._stamps
        if not self._has_timestamps and (not timestamps or timestamps[-1] != timestamp_ms):
            # In this order: a look finds a timestamp for each first row.
            timestamps.append(timestamp_ms)
            first_rows.append(first_row)

    def cut(self, row_count: int) -> None:
        """Keep the first ``row_count`` rows, and nothing in reserve."""
        if row_count < self._row_count:
            self._note_each_row()
        self._row_count = row_count
        if self.runs is None and len(self._owner_numbers) != row_count:
            self._owner_numbers = self._owner_numbers[:row_count]
            self._indexes = self._indexes[:row_count]
        if len(self.value_sizes) != row_count:
            self.value_sizes = self.value_sizes[:row_count]
            self.timestamps_ms = None if self.timestamps_ms is None else self.timestamps_ms[:row_count]
            self.key_sizes = None if self.key_sizes is None else self.key_sizes[:row_count]

    def put(self, row: int, future: FutureRecordMetadata) -> None:
        """Note where a single ``send`` has put the record of a row."""
        number = self.number_of(future._batch_result)
        if self.runs is not None:
            self.runs.append((row, 1, number, future._index))
            return
        self._indexes[row] = future._index
        # Last: a row with an owner is a whole one, whatever interrupts this.
        self._owner_numbers[row] = number

    # -- reading, when it is full ----------------------------------------------------------------------

    def future(self, row: int) -> FutureRecordMetadata:
        """A future for one record, as ``send`` would have returned it; a new object each time."""
        return self.owners[self.owner_numbers[row]].future(
            self.indexes[row],
            self._timestamp(row),
            NULL_SIZE if self.key_sizes is None else self.key_sizes[row],
            self.value_sizes[row],
        )

    def _timestamp(self, row: int) -> int:
        if self.timestamps_ms is not None:
            return self.timestamps_ms[row]
        first_rows, timestamps = self._stamps
        at = bisect_right(first_rows, row) - 1
        return timestamps[at] if at >= 0 else NO_TIMESTAMP
