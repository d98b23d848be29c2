"""SendManyInput: the columns of one ``send_many`` call, checked and split into chunks of equal length.

Lists and tuples are sliced, everything else is read as an iterator, a chunk at a time. The chunks are new
lists, because another thread may change the caller's lists meanwhile.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import count, cycle, islice, repeat
from typing import Any, Final, NamedTuple

from kproducer._core.runtime.clock import Clock
from kproducer.errors import InvalidArgumentError, Outcome

#: Rows at a time: enough to make the work per chunk negligible, few enough to let other threads and Ctrl-C
#: in.
CHUNK_ROWS: Final = 2048

#: If an iterator takes longer than this for a chunk, the next one is smaller: it may be reading from
#: something slow, and the rows that it has yielded should be sent soon.
SLOW_CHUNK_MS: Final = 2

_FIRST_CHUNK_ROWS: Final = 16


class Chunk(NamedTuple):
    """Some rows of a call.

    Attributes:
        values: one for each row.
        keys, headers, partitions, timestamps_ms: of the same length, or ``None`` where none were given.
        error: raised after these rows: by the caller's iterator, or because lengths differ; ``None``: no
            error.
        is_last: no rows come after these.
    """

    values: list[Any]
    keys: list[Any] | None
    headers: list[Any] | None
    partitions: list[Any] | None
    timestamps_ms: list[Any] | None
    error: BaseException | None
    is_last: bool

    def cut(self, row_count: int, error: BaseException) -> Chunk:
        """Only the first rows, and the error that comes after them."""
        for column in (self.values, self.keys, self.headers, self.partitions, self.timestamps_ms):
            if column is not None:
                del column[row_count:]
        return self._replace(error=error, is_last=False)


class _Column:
    """One argument of the call. ``size``: its number of rows; ``None``: unknown until its end."""

    def __init__(self, name: str, rows: Any) -> None:
        _check_column(name, rows)
        self.name = name
        self.size: int | None = None
        self._position = 0
        self.sequence: list[Any] | tuple[Any, ...] | None = None
        self.is_endless = _is_endless(rows)
        if isinstance(rows, (list, tuple)):
            self.sequence = rows
            self.size = len(rows)
        elif isinstance(rows, Sized) and not self.is_endless:
            self.size = len(rows)
        self._iterator: Iterator[Any] = iter(rows)

    def read(self, row_count: int, into: list[Any]) -> BaseException | None:
        """Append up to ``row_count`` rows, fewer at the end. Returns what the iterator raised."""
        if self.sequence is not None:
            into += self.sequence[self._position : self._position + row_count]
            self._position += len(into)
            return None
        try:
            # When the iterator raises, what it had yielded before is in the list.
            into.extend(islice(self._iterator, row_count))
        except BaseException as error:
            return error
        return None

    def has_more(self) -> bool:
        """Whether there is a row left. Consumes it, so this comes last."""
        if self.is_endless:
            return False
        if self.sequence is not None:
            return self._position < len(self.sequence)
        for _ in self._iterator:
            return True
        return False


class SendManyInput:
    """Reads the columns. For one thread.

    Args:
        values, keys, headers, partitions, timestamps_ms: as given to ``send_many``.
        clock: to notice slow iterators.

    Attributes:
        size: number of rows, if any column has a length; else ``None``.

    Raises:
        InvalidArgumentError: an argument is not a column, or two have different lengths.
    """

    def __init__(
        self,
        values: Any,
        keys: Any,
        headers: Any,
        partitions: Any,
        timestamps_ms: Any,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._values = _Column("values", values)
        if self._values.is_endless:
            raise _bad(f"values never ends ({type(values).__name__}): the call could never return")
        #: In the order of a chunk's fields; ``None`` where nothing was given.
        self._fields = [
            self._values,
            *(
                None if rows is None else _Column(name, rows)
                for name, rows in (
                    ("keys", keys),
                    ("headers", headers),
                    ("partitions", _numbers(partitions)),
                    ("timestamps_ms", _numbers(timestamps_ms)),
                )
            ),
        ]
        self._columns = [column for column in self._fields if column is not None]
        sized = [column for column in self._columns if column.size is not None]
        for column in sized[1:]:
            if column.size != sized[0].size:
                raise _bad(
                    f"{sized[0].name} has {sized[0].size} entries and {column.name} has {column.size}: "
                    "each record needs one of each"
                )
        self.size = sized[0].size if sized else None
        # Reading an iterator may run the caller's code, which may be slow.
        is_fast = all(column.sequence is not None or column.is_endless for column in self._columns)
        self._chunk_rows = CHUNK_ROWS if is_fast else _FIRST_CHUNK_ROWS
        self._rows_read = 0

    def next_chunk(self) -> Chunk:
        """Read the next rows. Not after a chunk that was the last one or has an error."""
        started_ms = self._clock.monotonic_ms()
        chunk = self._read(self._chunk_rows)
        if self._clock.monotonic_ms() - started_ms > SLOW_CHUNK_MS:
            self._chunk_rows = max(self._chunk_rows // 2, 1)
        else:
            self._chunk_rows = min(self._chunk_rows * 2, CHUNK_ROWS)
        return chunk

    def _read(self, wanted: int) -> Chunk:
        if self.size is not None:
            wanted = min(wanted, self.size - self._rows_read)
        lists: list[Any] = []
        count = wanted
        error: BaseException | None = None
        for column in self._fields:
            if column is None:
                lists.append(None)
                continue
            read: list[Any] = []
            raised = column.read(count, read)
            lists.append(read)
            if len(read) < count:
                count = len(read)
                error = raised
                if raised is None and column is not self._values:
                    error = self._too_short(column, self._rows_read + count)
        for read in filter(None, lists):
            del read[count:]
        self._rows_read += count
        is_last = error is None and (count < wanted or self._rows_read == self.size or not wanted)
        if is_last:
            error = self._check_end()
        values, keys, headers, partitions, timestamps_ms = lists
        return Chunk(values, keys, headers, partitions, timestamps_ms, error, is_last)

    def _too_short(self, column: _Column, length: int) -> InvalidArgumentError:
        values = self._values
        known = f"{values.size}" if values.size is not None else f"more than {length}"
        return _bad(f"values has {known} entries and {column.name} ended after {length}", sent=True)

    def _check_end(self) -> BaseException | None:
        """The values have ended: check that the other columns have too."""
        total = self._rows_read
        if self.size is not None and total != self.size:
            sized = next(column for column in self._columns if column.size is not None)
            if sized is self._values:
                return _bad(f"values had {self.size} entries and ended after {total}", sent=True)
            return _bad(f"values ended after {total} entries and {sized.name} has {self.size}", sent=True)
        for column in self._columns:
            try:
                if column.has_more():
                    return _bad(
                        f"values has {total} entries and {column.name} has more than {total}", sent=True
                    )
            except BaseException as error:
                return error
        return None


def _is_endless(rows: Any) -> bool:
    kind = type(rows)
    if kind is repeat:
        return operator.length_hint(rows, -1) == -1
    return kind is cycle or kind is count


def _check_column(name: str, rows: Any) -> None:
    """Refuse iterables that are hardly meant as one entry per record, like text."""
    if isinstance(rows, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(rows, Iterable):
        advice = "put them into a list"
        if name in ("keys", "headers"):
            advice = f"for the same {name} on all records pass itertools.repeat({name})"
        raise _bad(
            f"{name} must be a list or iterable with one entry for each record, not "
            f"{type(rows).__name__}; {advice}"
        )


def _numbers(rows: Any) -> Any:
    """Repeat a single number for all records; turn arrays (NumPy, pandas) into lists of integers."""
    if rows is None:
        return None
    if not isinstance(rows, Iterable):
        try:
            return repeat(operator.index(rows))
        except TypeError:
            return rows
    if getattr(getattr(rows, "dtype", None), "kind", "") in ("i", "u"):
        return rows.tolist()  # type: ignore[attr-defined]
    return rows


def _bad(text: str, *, sent: bool = False) -> InvalidArgumentError:
    error = InvalidArgumentError(f"send_many: {text}")
    if not sent:
        error.outcome = Outcome.NOT_SENT
    return error
