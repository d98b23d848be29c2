"""Arrow data that contradict themselves: an error, never a read outside of them. Invariant: no crash."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.bulk.column_format import ColumnsToEncode
from kproducer._core.columns.encoder_plan import ArrowField
from kproducer.columnar import Protobuf
from tests.unit.columnar.protobuf_kit import compiled, message_class
from tests.unit.columns.hostile_arrow import Exported, array, schema
from tests.unit.columns.test_arrow_hostile import ints

_arrow_reader = pytest.importorskip("kproducer._core.columns.native._arrow_reader", exc_type=ImportError)
_row_encoder = pytest.importorskip("kproducer._core.columns.native._row_encoder", exc_type=ImportError)

MESSAGE = message_class(
    """
    message M {
        repeated int32 packed = 1
        repeated string texts = 2
        map<string, int32> map = 3
        M message = 4
        string text = 5
        oneof pick {
            int32 i = 6
            string s = 7
        }
        google.protobuf.Int32Value wrapped = 8
        Color color = 9
        google.protobuf.Struct json = 10
    }
    enum Color {
        NONE = 0
        RED = 1
    }
    """
)


def encode(name: str, column_schema: Any, column_array: Any, rows: int = 1) -> list[Any]:
    column_schema.name = name.encode()
    source = _arrow_reader.ArrowSource(Exported([(column_schema, column_array)], length=rows))
    fields = tuple(map(ArrowField.of, source.fields()))
    plan = Protobuf(MESSAGE).compile_columns(ColumnsToEncode(fields, frozenset(), "t", "value")).plan
    source.next_chunk()
    encoded: list[Any] = _row_encoder.RowEncoder(plan).encode_rows(source, 0, rows)
    return encoded


@pytest.mark.parametrize("offsets", [(0, 4), (-1, 1), (2, 1), (0, 2**31 - 1), (2**31 - 1, 2**31 - 1)])
@pytest.mark.parametrize("name", ["packed", "texts"])
def test_a_list_outside_of_its_elements(name, offsets):
    element = schema(b"i" if name == "packed" else b"u", b"item")
    values = array(3, [None, ints(0, 1, 2, 3), *([b"abc"] if name == "texts" else [])])
    with pytest.raises(ValueError, match="row 0 of the chunk refers to bytes outside of its data"):
        encode(name, schema(b"+l", children=[element]), array(1, [None, ints(*offsets)], [values]))


@pytest.mark.parametrize(("start", "size"), [(0, 4), (3, 1), (-1, 1), (1, -1), (2**31 - 1, 2**31 - 1)])
def test_a_list_view_outside_of_its_elements(start, size):
    values = array(3, [None, ints(0, 1, 2)])
    with pytest.raises(ValueError, match="outside of its data"):
        encode(
            "packed",
            schema(b"+vl", children=[schema(b"i", b"item")]),
            array(1, [None, ints(start), ints(size)], [values]),
        )


def test_a_list_of_fixed_size_with_too_few_elements():
    with pytest.raises(ValueError, match="outside of its data"):
        encode(
            "packed",
            schema(b"+w:4", children=[schema(b"i")]),
            array(1, [None], [array(3, [None, ints(0, 1, 2)])]),
        )


def test_a_text_outside_of_its_data():
    for offsets in ((-1, 1), (2, 1)):
        with pytest.raises(ValueError, match="outside of its data"):
            encode("text", schema(b"u"), array(1, [None, ints(*offsets), b"abc"]))
        with pytest.raises(ValueError, match="outside of its data"):
            encode("color", schema(b"u"), array(1, [None, ints(*offsets), b"abc"]))


def test_empty_texts_without_a_buffer():
    column = array(2, [None, ints(0, 0, 0), None])
    assert encode(
        "texts", schema(b"+l", children=[schema(b"u")]), array(1, [None, ints(0, 2)], [column])
    ) == [b"\x12\x00\x12\x00"]
    assert encode("s", schema(b"u"), array(1, [None, ints(0, 0), None])) == [b"\x3a\x00"]


@pytest.mark.parametrize("index", [-1, 2, 127])
@pytest.mark.parametrize("name", ["text", "wrapped", "json"])
def test_an_index_outside_of_the_dictionary(name, index):
    kinds = {
        "text": (schema(b"u"), array(2, [None, ints(0, 1, 2), b"ab"])),
        "wrapped": (schema(b"i"), array(2, [None, ints(0, 1)])),
        "json": (
            schema(b"+s", children=[schema(b"i", b"k")]),
            array(2, [None], [array(2, [None, ints(0, 1)])]),
        ),
    }
    values, data = kinds[name]
    with pytest.raises(ValueError, match="outside of its data"):
        encode(
            name, schema(b"c", dictionary=values), array(1, [None, struct.pack("b", index)], dictionary=data)
        )


@pytest.mark.parametrize(("text", "buffers"), [
    (b"+us:0,1", [b"\x02"]), (b"+us:0,1", [b"\xff"]), (b"+ud:0,1", [b"\x02", ints(0)]),
    (b"+ud:0,1", [b"\x00", ints(2)]), (b"+ud:0,1", [b"\x01", ints(-1)]),
])  # fmt: skip
def test_a_union_that_points_nowhere(text, buffers):
    children = [schema(b"i", b"i"), schema(b"u", b"s")]
    arrays = [array(1, [None, ints(5)]), array(1, [None, ints(0, 1), b"a"])]
    with pytest.raises(ValueError, match="outside of its data"):
        encode("pick", schema(text, children=children), array(1, buffers, arrays))


def test_children_that_are_missing_or_too_short():
    text = schema(b"+s", children=[schema(b"u", b"text")])
    with pytest.raises(ValueError, match="a child is missing"):
        encode("message", text, array(1, [None]))
    with pytest.raises(ValueError, match="a child is missing"):
        encode("message", text, array(1, [None], [None]))
    with pytest.raises(ValueError, match="its parent needs 2"):
        encode("message", text, array(2, [None], [array(1, [None, ints(0, 1), b"a"])]), rows=2)


def test_a_chunk_whose_types_are_not_those_of_the_plan():
    plan = compiled(Protobuf(MESSAGE), pa.table({"packed": [[1]], "wrapped": [1], "json": [{"a": 1}]})).plan
    for other in ([1], ["a"], [1.5], [[1]], [{"a": 1}], [True]):
        for number in range(3):
            columns: list[Any] = [[[1]], [1], [{"a": 1}]]
            columns[number] = other
            source = _arrow_reader.ArrowSource(
                pa.table({name: columns[at] for at, name in enumerate(("packed", "wrapped", "json"))})
            )
            source.next_chunk()
            with suppress(ValueError):
                _row_encoder.RowEncoder(plan).encode_rows(source, 0, 1)


@given(
    st.lists(st.integers(-4, 8), min_size=4, max_size=4),
    st.lists(st.integers(-4, 8), min_size=4, max_size=4),
    st.integers(0, 3),
    st.sampled_from([b"+l", b"+vl", b"+m"]),
)
def test_any_offsets(outer: list[int], inner: list[int], rows: int, kind: bytes) -> None:
    """A map, or a list of lists in a struct, with offsets that may point anywhere."""
    if kind == b"+m":
        keys = array(3, [None, ints(*inner), b"abcdefgh"])
        entries = array(3, [None], [keys, array(3, [None, ints(1, 2, 3)])])
        name = "map"
        given_schema = schema(
            kind, children=[schema(b"+s", b"e", [schema(b"u", b"key"), schema(b"i", b"value")])]
        )
        data = array(rows, [None, ints(*outer)], [entries])
    else:
        name = "texts"
        given_schema = schema(kind, children=[schema(b"u", b"item")])
        buffers = [None, ints(*outer), *([ints(*inner)] if kind == b"+vl" else [])]
        data = array(rows, buffers, [array(3, [None, ints(*inner), b"abcdefgh"])])
    encoded, refusal = [], ""
    try:
        encoded = encode(name, given_schema, data, rows)
    except ValueError as error:
        refusal = str(error)
    assert "outside of its data" in refusal or len(encoded) == rows
    for each in encoded:
        if isinstance(each, bytes):
            MESSAGE.FromString(each)
