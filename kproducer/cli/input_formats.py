"""The formats of input: from lines, JSON lines, CSV rows, Parquet and Arrow batches to records."""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, Final

from attrs import define

from kproducer._core.bulk.dead_letters import JsonRow, readable_cell
from kproducer.cli.deliveries import Origin
from kproducer.cli.input_bytes import (
    LONGEST_LINE,
    BrokenInputError,
    InputBytes,
    InterruptedInputError,
    StopSignals,
)
from kproducer.cli.rows import Fields, RowError, RowMapping
from kproducer.cli.sending import CALL_BYTES, CALL_ROWS, Sending

STDIN: Final = "-"


@define
class Input:
    """One input, and how records are made from it."""

    name: str
    file: BinaryIO
    sending: Sending
    signals: StopSignals
    mapping: RowMapping
    key_separator: bytes | None = None

    def bytes(self) -> InputBytes:
        """The bytes of the input. All lines that were read are sent before a read waits for more."""
        return InputBytes(self.file, self.signals, self.before_read)

    def before_read(self) -> None:
        """Send what was read.

        Raises:
            InterruptedInputError: there is no use in reading more.
        """
        self.sending.flush()
        if self.sending.stopped_by is not None or self.signals.received:
            raise InterruptedInputError


def _send_lines(source: Input) -> None:
    headers, separator = source.mapping.fixed_headers, source.key_separator
    for number, line in enumerate(source.bytes().lines(source.name), start=1):
        key, value = None, line
        if separator is not None and separator in line:
            key, _, value = line.partition(separator)
        source.sending.add(number, line, Fields(value, key, headers))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a value of JSON")


#: Python's parser accepts NaN and infinities unless it is told not to.
_parse_json: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


_NOT_UTF_8: Final = "the input is not UTF-8; convert the file, for example with iconv -f ISO-8859-1 -t UTF-8"


def _send_json(source: Input) -> None:
    mapping, needs_columns = source.mapping, source.mapping.needs_columns
    for number, line in enumerate(source.bytes().lines(source.name), start=1):
        # JSON has no byte order mark: as a part of the value, readers would refuse it.
        text = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip()
        if not text:
            continue
        if text == b"[" and number == 1:
            reason = "this is one array, not a value per line; convert it, for example with jq -c '.[]'"
            raise BrokenInputError(source.name, number, reason)
        try:
            row = _parse_json(text.decode())
            if needs_columns and not isinstance(row, dict):
                raise RowError("the line is not a JSON object")
            record = mapping.fields(row, text)
        except UnicodeDecodeError:
            source.sending.refuse(number, line, _NOT_UTF_8)
        except (ValueError, RecursionError) as error:
            refusal = error if isinstance(error, RowError) else f"the line is not JSON: {error}"
            source.sending.refuse(number, line, refusal)
        else:
            source.sending.add(number, line, record)


def _send_csv(source: Input) -> None:
    csv.field_size_limit(LONGEST_LINE)
    pending: list[bytes] = []
    number = length = 0

    def texts() -> Iterator[str]:
        nonlocal length
        for line in source.bytes().lines(source.name):
            pending.append(line)
            length += len(line)
            if length > LONGEST_LINE:
                raise csv.Error(f"the row is longer than {LONGEST_LINE} bytes; is a quotation mark missing?")
            # Bytes that are not UTF-8 are passed on here, and refused when the record is made.
            yield line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape") + "\n"

    rows = csv.reader(texts(), strict=True)
    header: list[str] = []
    try:
        while True:
            number, length = rows.line_num + 1, 0
            row = next(rows)
            original = b"\n".join(pending)
            pending.clear()
            if not row:
                continue
            if not header:
                header = row
                _check_columns(source, number, row)
                continue
            try:
                if len(row) != len(header):
                    raise RowError(f"fields in the row: {len(row)}; in the header: {len(header)}")
                record = source.mapping.fields(dict(zip(header, row, strict=True)))
            except RowError as error:
                source.sending.refuse(number, original, error if _is_utf_8(original) else _NOT_UTF_8)
            else:
                source.sending.add(number, original, record)
    except StopIteration:
        return
    except csv.Error as error:
        raise BrokenInputError(source.name, number, error) from None
    except InterruptedInputError as interruption:
        interruption.line = number  # the line in which the row begins
        raise


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_columns(source: Input, number: int, columns: list[str]) -> None:
    mapping = source.mapping
    for name in (mapping.value, mapping.key, mapping.headers, mapping.timestamp):
        if name is not None and name not in columns:
            found = ", ".join(map(repr, columns))
            hint = ""
            if len(columns) == 1 and set(columns[0]) & set(";\t|"):
                hint = "; only commas separate the fields of CSV"
            raise BrokenInputError(source.name, number, f"there is no column {name!r}, but {found}{hint}")
    if len(set(columns)) != len(columns):
        raise BrokenInputError(source.name, number, "two columns have the same name")


def _arrow_original(batch: Any, index: int) -> bytes:
    row = {name: readable_cell(batch.column(name), index) for name in batch.schema.names}
    return JsonRow.of(row, sys.maxsize).value


def _rows(batch: Any) -> Iterator[dict[str, Any] | RowError]:
    """The rows, or why Python has no value for a cell: texts that are not UTF-8, the year 10000."""
    try:
        rows = batch.to_pylist()
    except Exception as error:  # pyarrow raises errors of many types here
        if batch.num_rows == 1:
            yield RowError(f"a cell cannot be read: {type(error).__name__}: {error}")
        else:
            for index in range(batch.num_rows):
                yield from _rows(batch.slice(index, 1))
    else:
        yield from rows


def _send_arrow(source: Input, batches: Iterator[Any]) -> None:
    """Send batches; one whose values are the whole rows goes through the rows of Python."""
    import pyarrow as pa

    row = 1
    while True:
        try:
            source.before_read()
            batch = next(batches)
        except StopIteration:
            return
        except InterruptedInputError:
            raise InterruptedInputError(row) from None
        except (pa.ArrowException, OSError) as error:
            raise BrokenInputError(source.name, row, error) from None
        _check_columns(source, row, batch.schema.names)
        rows_per_call = max(1, min(CALL_ROWS, batch.num_rows * 4 * CALL_BYTES // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, rows_per_call):
            part = batch.slice(start, rows_per_call)
            lines = range(row, row + part.num_rows)
            origin = Origin(source.name, lines, partial(_arrow_original, part))
            if source.mapping.value is not None and source.sending.sends_columns:
                source.sending.send_arrow(origin, part, source.mapping)
            else:
                for index, columns in enumerate(_rows(part)):
                    try:
                        if isinstance(columns, RowError):
                            raise columns
                        record = source.mapping.fields(columns)
                    except RowError as error:
                        source.sending.refuse(row + index, origin.original(index), error)
                    else:
                        source.sending.add(row + index, record.value or b"", record)
            row += part.num_rows


def _send_parquet(source: Input) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not source.file.seekable():
        error = "Parquet files are not read from beginning to end; pass the file itself, not a pipe"
        raise BrokenInputError(source.name, 0, error)
    try:
        file = pq.ParquetFile(source.file)
    except (pa.ArrowException, OSError) as error:
        raise BrokenInputError(source.name, 0, error) from None
    _send_arrow(source, file.iter_batches(CALL_ROWS))


def _send_arrow_ipc(source: Input) -> None:
    import pyarrow as pa

    try:
        is_file = source.name != STDIN and source.file.seekable()
        if is_file and source.file.read(6) == b"ARROW1":
            file = pa.ipc.open_file(source.file)
            batches = (file.get_batch(number) for number in range(file.num_record_batches))
        else:
            if is_file:
                source.file.seek(0)
            # pyarrow takes a short read for the end of the file.
            stream = io.BufferedReader(source.bytes(), CALL_BYTES)
            if stream.peek(6).startswith(b"ARROW1"):
                error = "this is an Arrow IPC file, not a stream: pass the file itself, not a pipe"
                raise BrokenInputError(source.name, 0, error)
            batches = iter(pa.ipc.open_stream(pa.PythonFile(stream, "r")))
    except (pa.ArrowException, OSError) as error:
        raise BrokenInputError(source.name, 0, f"no data in Arrow's IPC format: {error}") from None
    _send_arrow(source, batches)


FORMATS = {
    "lines": _send_lines,
    "json": _send_json,
    "csv": _send_csv,
    "parquet": _send_parquet,
    "arrow": _send_arrow_ipc,
}
