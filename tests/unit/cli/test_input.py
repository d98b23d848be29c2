"""Lines of files and pipes, and records of formats, with a recording ``Sending``."""

from __future__ import annotations

import errno
import io
import os
import signal
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from kproducer.cli import input_bytes, input_formats
from kproducer.cli.input_bytes import BrokenInputError, InputBytes, InterruptedInputError, StopSignals
from kproducer.cli.input_formats import FORMATS, Input
from kproducer.cli.rows import Fields, RowMapping


class RecordingSending:
    """Stands for ``Sending``; ``events`` has what was called."""

    stopped_by = None

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def add(self, line: int, original: bytes, record: Fields) -> None:
        self.events.append((line, record.key, record.value))

    def refuse(self, line: int, original: bytes, reason: object) -> None:
        self.events.append((line, original, str(reason)))

    def flush(self) -> None:
        self.events.append(("flush",))

    def sent(self) -> list[tuple[Any, ...]]:
        return [event for event in self.events if event != ("flush",)]


@pytest.fixture
def signals() -> Iterator[StopSignals]:
    with StopSignals(lambda: None, lambda: None) as signals:
        yield signals


def lines_of(file: BinaryIO, signals: StopSignals) -> Iterator[bytes]:
    return InputBytes(file, signals, lambda: None).lines("name")


def sent_by(input_format: str, data: bytes, signals: StopSignals, mapping: RowMapping, **options: Any) -> Any:
    sending = RecordingSending()
    FORMATS[input_format](Input("name", io.BytesIO(data), sending, signals, mapping, **options))  # type: ignore[arg-type]
    return sending.sent()


@pytest.mark.parametrize(
    ("data", "lines"),
    [(b"", []), (b"a", [b"a"]), (b"a\n", [b"a"]), (b"\n\n", [b"", b""]), (b"a\r\nb", [b"a\r", b"b"])],
)
def test_lines_end_with_line_feeds(data, lines, signals):
    assert list(lines_of(io.BytesIO(data), signals)) == lines


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_lines_do_not_depend_on_the_size_of_reads(monkeypatch, signals, size):
    monkeypatch.setattr(input_bytes, "_READ_BYTES", size)
    assert list(lines_of(io.BytesIO(b"one\n\nthree\nfour"), signals)) == [b"one", b"", b"three", b"four"]


def test_a_line_without_end_is_broken_input(monkeypatch, signals):
    monkeypatch.setattr(input_bytes, "LONGEST_LINE", 10)
    monkeypatch.setattr(input_bytes, "_READ_BYTES", 4)
    lines = lines_of(io.BytesIO(b"a\n" + b"b" * 100), signals)
    assert next(lines) == b"a"
    with pytest.raises(BrokenInputError, match="name, line 2: the line is longer than 10 bytes"):
        next(lines)


def test_complete_lines_are_sent_before_a_read_that_waits(signals):
    reading, writing = os.pipe()
    sending = RecordingSending()
    os.write(writing, b"one\ntw")
    with open(reading, "rb", buffering=0) as file:
        original_flush = sending.flush

        def flush() -> None:
            original_flush()
            if sending.sent():  # the first line was read: end the input
                os.close(writing)
                sending.flush = original_flush  # type: ignore[method-assign]

        sending.flush = flush  # type: ignore[method-assign]
        FORMATS["lines"](Input("name", file, sending, signals, RowMapping()))  # type: ignore[arg-type]
    assert sending.events[:3] == [("flush",), (1, None, b"one"), ("flush",)]
    assert sending.sent()[-1] == (2, None, b"tw")


def test_a_signal_ends_a_read_and_names_the_incomplete_line(signals):
    reading, writing = os.pipe()
    os.write(writing, b"one\ntw")
    with open(reading, "rb", buffering=0) as file, open(writing, "wb", buffering=0):
        lines = lines_of(file, signals)
        assert next(lines) == b"one"
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(InterruptedInputError) as raised:
            next(lines)
    assert raised.value.line == 2
    assert signals.received == signal.SIGINT


def test_the_key_is_what_comes_before_the_first_separator(signals):
    sent = sent_by("lines", b"k:v:w\nno key\n:\n", signals, RowMapping(), key_separator=b":")
    assert sent == [(1, b"k", b"v:w"), (2, None, b"no key"), (3, b"", b"")]


def test_json_lines_that_are_not_json_are_refused(signals):
    data = b'{"a": "x"}\n\n[1]\n{\n{"a": "\\ud800"}\n\xff\n{"b": 1}\n'
    sent = sent_by("json", data, signals, RowMapping(key="a"))
    assert sent[0] == (1, b"x", b'{"a": "x"}')
    assert [(line, original) for line, original, _ in sent[1:]] == [
        (3, b"[1]"),
        (4, b"{"),
        (5, b'{"a": "\\ud800"}'),
        (6, b"\xff"),
        (7, b'{"b": 1}'),
    ]


def test_a_json_array_over_several_lines_is_broken_input(signals):
    # Otherwise its last element, which no comma follows, would be sent.
    with pytest.raises(BrokenInputError, match="name, line 1: this is one array, not a value per line"):
        sent_by("json", b'[\n{"a": 1},\n{"a": 2}\n]\n', signals, RowMapping())


def test_a_byte_order_mark_is_no_part_of_a_json_value(signals):
    sent = sent_by("json", b'\xef\xbb\xbf{"a": 1}\n\xef\xbb\xbf{"a": 2}\n', signals, RowMapping())
    assert sent[0] == (1, None, b'{"a": 1}')
    assert sent[1][:2] == (2, b'\xef\xbb\xbf{"a": 2}')


@pytest.mark.parametrize("line", [b"NaN", b'{"a": -Infinity}', '{"a": 1}'.encode("utf-16-le"), b"1\0"])
def test_what_only_pythons_parser_accepts_is_not_json(line, signals):
    ((number, original, reason),) = sent_by("json", line, signals, RowMapping())
    assert (number, original) == (1, line)
    assert reason.startswith("the line is not JSON: ")


def test_an_arrow_file_on_stdin_is_told_from_a_stream(signals):
    sink = io.BytesIO()
    table = pa.table({"a": ["x"]})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    source = Input("-", io.BytesIO(sink.getvalue()), RecordingSending(), signals, RowMapping())  # type: ignore[arg-type]
    with pytest.raises(BrokenInputError, match=r"^-: this is an Arrow IPC file, not a stream: pass the file"):
        FORMATS["arrow"](source)


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise OSError(errno.ESPIPE, "Illegal seek")


def test_an_arrow_stream_is_read_from_a_named_pipe(signals):
    sink = io.BytesIO()
    table = pa.table({"a": ["x"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    sending = RecordingSending()
    FORMATS["arrow"](Input("pipe", Pipe(sink.getvalue()), sending, signals, RowMapping()))  # type: ignore[arg-type]
    assert sending.sent() == [(1, None, b'{"a":"x"}')]
    with pytest.raises(BrokenInputError, match="pass the file itself, not a pipe"):
        FORMATS["parquet"](Input("pipe", Pipe(), sending, signals, RowMapping()))  # type: ignore[arg-type]


def test_csv_rows_may_contain_line_feeds_and_a_byte_order_mark(signals):
    data = b'\xef\xbb\xbfid,text\r\n1,"two\nlines"\r\n\r\n2,\xff\n3\n4,"a ""quote"""\n'
    sent = sent_by("csv", data, signals, RowMapping(key="id", value="text"))
    assert sent[0] == (2, b"1", b"two\nlines")
    assert sent[1][:2] == (5, b"2,\xff")
    assert sent[1][2].startswith("the input is not UTF-8; convert the file")
    assert sent[2] == (6, b"3", "fields in the row: 1; in the header: 2")
    assert sent[3] == (7, b"4", b'a "quote"')


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\n1,2\n", "name, line 1: there is no column 'id', but 'a', 'b'"),
        (b"ID;b\n1;2\n", "there is no column 'id', but 'ID;b'; only commas separate the fields of CSV"),
        (b"id,id\n", "name, line 1: two columns have the same name"),
        (b'id,b\n1,2\n"3,4\n5,6\n', "name, line 3: "),
    ],
)
def test_broken_csv_names_file_and_line(data, message, signals):
    with pytest.raises(BrokenInputError, match=message):
        sent_by("csv", data, signals, RowMapping(key="id"))


def test_input_that_ends_within_a_csv_row_names_the_line_where_the_row_begins(monkeypatch, signals):
    class Damaged(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            if not data:
                raise OSError(errno.EIO, "Input/output error")
            return data

    source = Input("name", Damaged(b'id\n1\n"a\nb\nc'), RecordingSending(), signals, RowMapping())  # type: ignore[arg-type]
    with pytest.raises(BrokenInputError, match="Input/output error") as raised:
        FORMATS["csv"](source)
    assert raised.value.line == 3


def test_a_row_with_a_cell_for_which_python_has_no_value_is_refused_alone(signals):
    offsets = struct.pack("4i", 0, 1, 2, 3)
    texts = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"a\xffb")])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([("v", pa.string())])) as writer:
        writer.write_batch(pa.record_batch([texts], ["v"]))
    sent = sent_by("arrow", sink.getvalue(), signals, RowMapping())
    assert [event[0] for event in sent] == [1, 2, 3]
    assert (sent[0][2], sent[2][2]) == (b'{"v":"a"}', b'{"v":"b"}')
    assert sent[1][2].startswith("a cell cannot be read: UnicodeDecodeError: ")
    # Also if a broker rejects it.
    original = input_formats._arrow_original(pa.record_batch([texts], ["v"]), 1)
    assert "\N{REPLACEMENT CHARACTER}" in original.decode()


def test_a_row_of_a_binary_file_is_shown_as_it_is_sent(signals):
    batch = pa.record_batch({"v": pa.array([b"\xff"]), "n": pa.array([1])})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    ((_, _, sent, *_),) = sent_by("arrow", sink.getvalue(), signals, RowMapping())
    assert input_formats._arrow_original(batch, 0) == sent == b'{"v":"/w==","n":1}'


def test_an_endless_csv_row_is_broken_input(monkeypatch, signals):
    monkeypatch.setattr(input_formats, "LONGEST_LINE", 10)
    with pytest.raises(BrokenInputError, match="is a quotation mark missing"):
        sent_by("csv", b'id\n"' + b"1234\n" * 10, signals, RowMapping())
