"""Every mistake in a capsule is an error, never a crash, and everything is released once.

The structs are made by hand: no library would write them.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.unit.columns.arrow_kit import Twin, parts
from tests.unit.columns.hostile_arrow import FAILURE, Exported, Streamed, array, capsule, schema


def ints(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


def longs(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


def texts(*offsets: int, data: bytes | None = b"abcd", **fields: Any) -> Any:
    return array(fields.pop("length", len(offsets) - 1), [None, ints(*offsets), data], **fields)


def views(*cells: bytes, buffers: tuple[bytes, ...] = (b"0123456789abcdef",), sizes: Any = None) -> Any:
    lengths = longs(*(len(each) for each in buffers)) if sizes is None else sizes
    return array(len(cells), [None, b"".join(cells), *buffers, lengths])


def view(size: int, buffer: int, offset: int) -> bytes:
    return struct.pack("<i4sii", size, b"0123", buffer, offset)


def read(native: Twin, data: Any, role: int = 0, value: int = 0) -> list[Any]:
    """All records of two partitions, or what is raised on the way."""
    source = native.source(data)
    columns = [value, -1, -1, -1, -1, -1]
    columns[role] = value if role == 0 else 1
    rows = native.arrow(source, tuple(columns), 903, True)
    if role != 5:
        rows.add_topic(b"t", 2, None)
    records = []
    while (count := source.next_chunk()) >= 0:
        rows.start_chunk(0, {})
        row = 0
        while row < count:
            end = rows.plan(row, 7, -1)
            while (alone := rows.append_planned()) >= 0:
                records.append(parts(rows.record(alone)))
            if rows.unknown_topic is not None:
                rows.add_topic(rows.unknown_topic, 2, None)
            row = end
    return records


TEXT = schema(b"u")
GOOD = (TEXT, texts(0, 1, 3))


def encoded(indexes: bytes, text: bytes = b"c", values: Any = None, **fields: Any) -> Any:
    dictionary = schema(b"u")
    return (
        schema(text, dictionary=fields.pop("of", dictionary)),
        array(2, [None, indexes], dictionary=values, **fields),
    )


WRONG = {
    "unknown format": (schema(b"q"), texts(0, 1, 3)),
    "empty format": (schema(b""), texts(0, 1, 3)),
    "no format": (schema(None), texts(0, 1, 3)),
    "negative width": (schema(b"w:-5"), array(2, [None, b"abcdef"])),
    "a width of 33 bits": (schema(b"w:4294967297"), array(2, [None, b"abcdef"])),
    "a width of more than 64 bits": (schema(b"w:18446744073709551617"), array(2, [None, b"abcdef"])),
    "a width that overflows": (schema(b"w:2147483647"), array(2, [None, b"abcdef"], offset=2**40)),
    "a float": (schema(b"g"), array(2, [None, bytes(16)])),
    "a schema that is missing": (None, texts(0, 1, 3)),
    "an array that is missing": (TEXT, None),
    "a negative length": (TEXT, texts(0, 1, 3, length=-1)),
    "a length below the parent's": (TEXT, texts(0, 1, length=1)),
    "a length that overflows": (TEXT, texts(0, 1, 3, length=2**63 - 1)),
    "a negative offset": (TEXT, texts(0, 1, 3, offset=-1)),
    "an offset that overflows": (TEXT, texts(0, 1, 3, offset=2**63 - 1)),
    "too few buffers": (TEXT, array(2, [None, ints(0, 1, 3)])),
    "too many buffers": (TEXT, array(2, [None, ints(0, 1, 3), b"abcd", b""])),
    "no buffers": (TEXT, array(2, None, n_buffers=3)),
    "a negative number of buffers": (TEXT, array(2, [None, ints(0), b"a"], n_buffers=-3)),
    "no offsets": (TEXT, array(2, [None, None, b"abcd"])),
    "no data": (TEXT, texts(0, 1, 3, data=None)),
    "nulls without a bitmap": (TEXT, texts(0, 1, 3, null_count=1)),
    "offsets that go back": (TEXT, texts(0, 3, 1)),
    "an offset below zero": (TEXT, texts(-4, 0, 1)),
    "large offsets that go back": (schema(b"U"), array(2, [None, longs(0, 2**62, 1), b"abcd"])),
    "large offsets behind all memory": (schema(b"U"), array(2, [None, longs(0, 2**63 - 1, 2**63 - 1), b""])),
    "a large value behind all memory": (schema(b"Z"), array(2, [None, longs(0, 1, 2**48 + 1), b"abcd"])),
    "a large offset far below zero": (schema(b"Z"), array(2, [None, longs(-(2**63), 1, 2), b"abcd"])),
    "a view of a buffer that is not there": (schema(b"vu"), views(view(13, 1, 0), view(13, 0, 0))),
    "a view of a buffer below zero": (schema(b"vu"), views(view(13, -1, 0), view(13, 0, 0))),
    "a view behind its buffer": (schema(b"vu"), views(view(13, 0, 4), view(13, 0, 0))),
    "a view before its buffer": (schema(b"vz"), views(view(13, 0, -1), view(13, 0, 0))),
    "a view of a negative size": (schema(b"vz"), views(view(-13, 0, 0), view(13, 0, 0))),
    "views without sizes": (schema(b"vu"), array(2, [None, view(13, 0, 0) * 2, b"0123456789abcdef", None])),
    "more buffers than views can name": (
        schema(b"vu"),
        array(2, [None, view(13, 0, 0) * 2, b"0123456789abcdef", longs(16)], n_buffers=2**63 - 1),
    ),
    "views without enough buffers": (schema(b"vu"), array(2, [None, view(13, 0, 0) * 2])),
    "an index behind the dictionary": encoded(b"\0\2", values=texts(0, 1, 2)),
    "an index before the dictionary": encoded(b"\0\xff", values=texts(0, 1, 2)),
    "a huge unsigned index": encoded(longs(0, -1), b"L", values=texts(0, 1, 2)),
    "a dictionary that is missing": encoded(b"\0\0"),
    "a dictionary of wrong offsets": encoded(b"\0\1", values=texts(0, 2, 1)),
    "indexes that are text": encoded(b"\0\1", b"u", values=texts(0, 1, 2)),
    "a dictionary of a dictionary": encoded(
        b"\0\1", values=texts(0, 1, 2), of=schema(b"c", dictionary=schema(b"u"))
    ),
    "a dictionary behind all memory": (
        schema(b"c", dictionary=schema(b"U")),
        array(2, [None, b"\0\0"], dictionary=array(1, [None, longs(0, 2**62), b"abcd"])),
    ),
    "a dictionary whose length overflows": encoded(b"\0\1", values=texts(0, 1, 2, length=2**63 - 1)),
    "a dictionary whose offset overflows": encoded(b"\0\1", values=texts(0, 1, 2, offset=2**63 - 1)),
    "no indexes": (schema(b"c", dictionary=schema(b"u")), array(2, [None, None], dictionary=texts(0, 1, 2))),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_column_that_contradicts_itself_is_an_error(native: Twin, what: str) -> None:
    data = Exported([WRONG[what]])
    with pytest.raises(ValueError, match=r"Arrow|column|cannot be"):
        read(native, data)
    assert data.releases.count == 2


def test_a_column_that_is_right_is_read(native: Twin) -> None:
    data = Exported([GOOD])
    assert [record[2] for record in read(native, data)] == [b"a", b"bc"]
    assert data.releases.count == 2


HEADERS = schema(b"+l", b"h", [schema(b"+s", b"item", [schema(b"u", b"key"), schema(b"z", b"value")])])


def large_headers(names: Any, values: Any) -> Any:
    """A header in each of two rows; names and values with offsets of 64 bits."""
    item = schema(b"+s", b"item", [schema(b"U", b"key"), schema(b"Z", b"value")])
    pairs = [array(2, [None, longs(*offsets), b"abcd"]) for offsets in (names, values)]
    return schema(b"+L", b"h", [item]), array(2, [None, longs(0, 1, 2)], [array(2, [None], pairs)])


def header_list(*offsets: int, children: Any = None, **fields: Any) -> Any:
    pairs = array(2, [None], [texts(0, 1, 3), texts(0, 1, 3)], **fields) if children is None else children
    return array(2, [None, ints(*offsets)], [pairs])


WRONG_HEADERS = {
    "behind the last": (HEADERS, header_list(0, 1, 3)),
    "going back": (HEADERS, header_list(0, 2, 1)),
    "below zero": (HEADERS, header_list(-1, 1, 2)),
    "names that are too few": (
        HEADERS,
        header_list(0, 1, 2, children=array(2, [None], [texts(0, 1), texts(0, 1, 3)])),
    ),
    "an offset of the struct": (HEADERS, header_list(0, 1, 2, offset=1)),
    "wrong names": (
        HEADERS,
        header_list(0, 1, 2, children=array(2, [None], [texts(0, 3, 1), texts(0, 1, 3)])),
    ),
    "no struct": (
        schema(b"+l", b"h", [schema(b"u", b"item")]),
        header_list(0, 1, 2, children=texts(0, 1, 2)),
    ),
    "no values": (schema(b"+l", b"h"), array(2, [None, ints(0, 1, 2)])),
    "values that are missing": (schema(b"+l", b"h", [None]), array(2, [None, ints(0, 1, 2)], [None])),
    "one field": (
        schema(b"+l", b"h", [schema(b"+s", b"item", [schema(b"u", b"key")])]),
        header_list(0, 1, 2, children=array(2, [None], [texts(0, 1, 3)])),
    ),
    "a list of views behind the last": (
        schema(b"+vl", b"h", [HEADERS.children[0].contents]),
        array(2, [None, ints(0, 1), ints(1, 9)], [array(2, [None], [texts(0, 1, 3), texts(0, 1, 3)])]),
    ),
    "a list of large views that overflows": (
        schema(b"+vL", b"h", [HEADERS.children[0].contents]),
        array(
            2, [None, longs(0, 1), longs(1, 2**63 - 1)], [array(2, [None], [texts(0, 1, 3), texts(0, 1, 3)])]
        ),
    ),
    "large names behind all memory": large_headers((0, 2**63 - 1, 2**63 - 1), (0, 1, 2)),
    "large values behind all memory": large_headers((0, 1, 2), (0, 2**63 - 1, 2**63 - 1)),
    "both behind all memory": large_headers((0, 2**62, 2**63 - 1), (0, 2**62, 2**63 - 1)),
    "the second behind all memory": large_headers((0, 1, 2), (0, 1, 2**63 - 1)),
    "a large value below zero": large_headers((0, 1, 2), (-(2**63), 0, 1)),
    "an offset of the struct that overflows": (HEADERS, header_list(0, 1, 2, offset=2**63 - 1)),
    "a length of the struct that overflows": (
        HEADERS,
        header_list(0, 1, 2, children=array(2**63 - 1, [None], [texts(0, 1, 3), texts(0, 1, 3)])),
    ),
}


@pytest.mark.parametrize("what", WRONG_HEADERS)
def test_headers_that_contradict_themselves_are_an_error(native: Twin, what: str) -> None:
    data = Exported([GOOD, WRONG_HEADERS[what]])
    with pytest.raises(ValueError, match=r"Arrow|column|header"):
        read(native, data, role=2)
    assert data.releases.count == 2


def test_headers_that_are_right_are_read(native: Twin) -> None:
    data = Exported([GOOD, (HEADERS, header_list(0, 1, 2))])
    assert [record[3] for record in read(native, data, role=2)] == [[("a", b"a")], [("bc", b"bc")]]


STRUCTS = {
    "a negative length": {"length": -1},
    "a negative offset": {"offset": -1},
    "an offset that its columns do not have": {"offset": 1},
    "a length that overflows": {"length": 2**63 - 1},
    "an offset that overflows": {"offset": 2**63 - 1},
    "both just where they overflow": {"length": 2**62, "offset": 2**62},
    "more rows than any memory has": {"length": 2**48 + 1},
    "fewer columns than the schema has": {"n_children": 0},
    "a negative number of columns": {"n_children": -1},
    "too many buffers": {"buffers": [None, None]},
}


@pytest.mark.parametrize("what", STRUCTS)
def test_a_struct_that_contradicts_itself_is_an_error(native: Twin, what: str) -> None:
    data = Exported([GOOD], **STRUCTS[what])
    with pytest.raises(ValueError, match=r"Arrow|column|header"):
        read(native, data)
    assert data.releases.count == 2


def test_topics_and_numbers_are_checked_like_values(native: Twin) -> None:
    for role, column in (
        (5, (TEXT, texts(0, 3, 1))),
        (3, (TEXT, texts(0, 1, 3))),
        (4, (TEXT, texts(0, 1, 3))),
    ):
        with pytest.raises(ValueError, match=r"Arrow|column|header"):
            read(native, Exported([GOOD, column]), role=role)


class Gives:
    def __init__(self, given: Any) -> None:
        self._given = given

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._given


def test_capsules_that_are_none_are_refused(native: Twin) -> None:
    good = Exported([GOOD])
    wrong_name = (capsule(good.schema, b"arrow_schema"), capsule(good.array, b"something"))
    for given in (None, (), (1, 2), wrong_name, (capsule(good.array, b"arrow_array"),) * 2):
        with pytest.raises(ValueError, match="capsule"):
            native.source(Gives(given))
    with pytest.raises(ValueError, match="no Arrow interface"):
        native.source(object())


def test_what_was_read_before_is_refused(native: Twin) -> None:
    data = Exported([GOOD])
    read(native, data)
    with pytest.raises(ValueError, match="released before"):
        read(native, data)
    stream = Streamed(Exported([GOOD]))
    read(native, stream)
    with pytest.raises(ValueError, match="read before"):
        read(native, stream)


def test_a_stream_is_released_once_and_its_chunks_too(native: Twin) -> None:
    exported = Exported([GOOD])
    stream = Streamed(exported, chunks=3)
    assert len(read(native, stream)) == 6
    assert stream.releases.count == 1
    # Three chunks and the schema: copies of one struct, whose callback counts each.
    assert exported.releases.count == 4


def test_a_source_that_is_dropped_half_read_is_released(native: Twin) -> None:
    exported = Exported([GOOD])
    stream = Streamed(exported, chunks=3)
    source = native.source(stream)
    assert source.next_chunk() == 2
    source.close()
    source.close()
    assert source.next_chunk() == -1
    assert (stream.releases.count, exported.releases.count) == (1, 2)
    other = Exported([GOOD])
    native.source(other)
    assert other.releases.count == 2


def test_a_stream_that_fails_says_why_in_its_own_words(native: Twin) -> None:
    stream = Streamed(Exported([GOOD]), schema_error=FAILURE)
    with pytest.raises(ValueError, match="failed: out of luck"):
        native.source(stream)
    assert stream.releases.count == 1
    stream = Streamed(Exported([GOOD]), chunk_error=FAILURE)
    with pytest.raises(ValueError, match="failed: out of luck"):
        read(native, stream)
    with pytest.raises(ValueError, match="Input/output error"):
        read(native, Streamed(Exported([GOOD]), chunk_error=FAILURE, text=None))
    assert stream.releases.count == 1


def test_a_chunk_that_is_not_what_the_schema_says_is_an_error(native: Twin) -> None:
    def spoil(chunk: Any) -> None:
        chunk.n_children = 7

    with pytest.raises(ValueError, match="7 columns"):
        read(native, Streamed(Exported([GOOD]), on_chunk=spoil))
