"""Arrow data that contradict themselves, in the layouts that only plans read: an error, never a crash."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.bulk.column_format import ColumnsToEncode
from kproducer._core.columns.encoder_plan import ROW, ArrowField, AvroOperation, EncoderPlan, Format, PlanNode
from kproducer.columnar import Avro
from tests.support.columnar.encoders import Encoders
from tests.unit.columns.arrow_kit import Twin
from tests.unit.columns.hostile_arrow import Exported, array, schema
from tests.unit.columns.test_arrow_hostile import ints, longs, texts

INT = PlanNode(AvroOperation.INTEGER, 0, b=32)
SECOND = PlanNode(AvroOperation.INTEGER, 1, b=32)
LIST = PlanNode(AvroOperation.ARRAY, 0, children=(INT,))
STRUCT = PlanNode(AvroOperation.RECORD, 0, children=(INT, SECOND))
UNION = PlanNode(
    AvroOperation.UNION,
    0,
    children=(INT, SECOND),
    symbols=((b"\x05", b"\0"), (b"\x07", b"\1"), (b"\x09", b"\2")),
)
LIMIT = ((b"", (10**5).to_bytes(32, "little")),)
DECIMAL = PlanNode(AvroOperation.DECIMAL, 0, symbols=LIMIT)
ENTRY = PlanNode(AvroOperation.RECORD, 0, children=(PlanNode(AvroOperation.BYTES, 0), SECOND))
MAP = PlanNode(AvroOperation.ARRAY, 0, children=(ENTRY,))

NUMBERS = (schema(b"i", b"n"), array(3, [None, ints(1, 2, 3)]))


def listed(text: bytes, buffers: list[Any], child: Any = NUMBERS, **fields: Any) -> Any:
    return schema(text, children=[child[0]]), array(2, buffers, [child[1]], **fields)


def struct_of(*children: Any, **fields: Any) -> Any:
    return schema(b"+s", children=[each[0] for each in children]), array(
        fields.pop("length", 2), [None], [each[1] for each in children], **fields
    )


def union_of(text: bytes, types: bytes | None, offsets: bytes | None = None, **fields: Any) -> Any:
    buffers = [types] if text.startswith(b"+us") else [types, offsets]
    children = fields.pop("children", [NUMBERS, NUMBERS])
    return schema(text, children=[each[0] for each in children]), array(
        2, fields.pop("buffers", buffers), [each[1] for each in children], **fields
    )


def in_dictionary(values: Any, indexes: bytes = b"\0\1") -> Any:
    return schema(b"c", dictionary=values[0]), array(2, [None, indexes], dictionary=values[1])


SHORT = (schema(b"i", b"n"), array(1, [None, ints(1)]))
GOOD = {
    "a list": (LIST, listed(b"+l", [None, ints(0, 1, 3)]), [b"\2\2\0", b"\4\4\6\0"]),
    "a list of 64 bits": (LIST, listed(b"+L", [None, longs(0, 0, 1)]), [b"\0", b"\2\2\0"]),
    "a list view": (LIST, listed(b"+vl", [None, ints(2, 0), ints(1, 2)]), [b"\2\6\0", b"\4\2\4\0"]),
    "a list of one": (LIST, listed(b"+w:1", [None]), [b"\2\2\0", b"\2\4\0"]),
    "a struct": (STRUCT, struct_of(NUMBERS, NUMBERS), [b"\2\2", b"\4\4"]),
    "a sparse union": (UNION, union_of(b"+us:5,7", b"\5\7"), [b"\2", b"\4"]),
    "a dense union": (UNION, union_of(b"+ud:5,7", b"\5\7", ints(2, 0)), [b"\6", b"\2"]),
    "a dictionary of structs": (
        STRUCT,
        in_dictionary(struct_of(NUMBERS, NUMBERS), b"\1\0"),
        [b"\4\4", b"\2\2"],
    ),
    "a decimal of 32 bits": (
        DECIMAL,
        (schema(b"d:5,2,32"), array(2, [None, ints(1, -1)])),
        [b"\2\1", b"\2\xff"],
    ),
}
WRONG = {
    "a list behind its child": (LIST, listed(b"+l", [None, ints(0, 1, 4)])),
    "a list that goes back": (LIST, listed(b"+l", [None, ints(0, 2, 1)])),
    "a list below zero": (LIST, listed(b"+L", [None, longs(-1, 1, 2)])),
    "a list far behind its child": (LIST, listed(b"+L", [None, longs(0, 2**62, 2**63 - 1)])),
    "a list without offsets": (LIST, listed(b"+l", [None, None])),
    "a list whose child is missing": (
        LIST,
        (schema(b"+l", children=[None]), array(2, [None, ints(0, 0, 0)], [None])),
    ),
    "a list whose child's array is missing": (
        LIST,
        (schema(b"+l", children=[NUMBERS[0]]), array(2, [None, ints(0, 0, 0)])),
    ),
    "a list of a child of a negative length": (
        LIST,
        listed(b"+l", [None, ints(0, 0, 0)], (NUMBERS[0], array(-1, [None, ints(1)]))),
    ),
    "a list of a child whose offset overflows": (
        LIST,
        listed(b"+l", [None, ints(0, 1, 2)], (NUMBERS[0], array(3, [None, ints(1)], offset=2**63 - 1))),
    ),
    "a view behind its child": (LIST, listed(b"+vl", [None, ints(2, 0), ints(2, 0)])),
    "a view below zero": (LIST, listed(b"+vL", [None, longs(-1, 0), longs(2, 0)])),
    "a view that overflows": (LIST, listed(b"+vL", [None, longs(2**62, 0), longs(2**62 + 2**61, 0)])),
    "a view without sizes": (LIST, listed(b"+vl", [None, ints(0, 0), None])),
    "fixed lists behind their child": (LIST, listed(b"+w:2", [None])),
    "fixed lists whose offset is behind their child": (LIST, listed(b"+w:1", [None], offset=2)),
    "fixed lists whose size overflows": (LIST, listed(b"+w:2147483647", [None], offset=2**40)),
    "fixed lists of a negative size": (LIST, listed(b"+w:-1", [None])),
    "fixed lists of a size of 33 bits": (LIST, listed(b"+w:4294967297", [None])),
    "a struct with a short child": (STRUCT, struct_of(NUMBERS, SHORT)),
    "a struct with an offset that its children do not have": (STRUCT, struct_of(NUMBERS, NUMBERS, offset=2)),
    "a struct with too few children": (STRUCT, struct_of(NUMBERS)),
    "a struct in a list with an offset": (
        MAP,
        listed(b"+l", [None, ints(0, 1, 2)], struct_of((schema(b"u"), texts(0, 1, 2)), NUMBERS, offset=1)),
    ),
    "a type that a union does not have": (UNION, union_of(b"+us:5,7", b"\5\6")),
    "a type below zero": (UNION, union_of(b"+us:5,7", b"\5\xff")),
    "a type whose child is not in the plan": (UNION, union_of(b"+us:5,9", b"\5\x09")),
    "a union without types": (UNION, union_of(b"+us:5,7", None)),
    "a union with nulls of its own": (UNION, union_of(b"+us:5,7", None, buffers=[None, b"\5\7"])),
    "a dense union without offsets": (UNION, union_of(b"+ud:5,7", b"\5\7", None)),
    "a dense union behind its child": (UNION, union_of(b"+ud:5,7", b"\5\7", ints(3, 0))),
    "a dense union before its child": (UNION, union_of(b"+ud:5,7", b"\5\7", ints(-1, 0))),
    "a sparse union with a short child": (UNION, union_of(b"+us:5,7", b"\5\7", children=[NUMBERS, SHORT])),
    "an index behind a dictionary of structs": (STRUCT, in_dictionary(struct_of(NUMBERS, NUMBERS), b"\0\2")),
    "an index before a dictionary of structs": (
        STRUCT,
        in_dictionary(struct_of(NUMBERS, NUMBERS), b"\xff\0"),
    ),
    "a dictionary of structs with a short child": (STRUCT, in_dictionary(struct_of(NUMBERS, SHORT))),
    "a decimal of no known size": (DECIMAL, (schema(b"d:5,2,77"), array(2, [None, bytes(99)]))),
    "a decimal without values": (DECIMAL, (schema(b"d:5,2"), array(2, [None, None]))),
    "a decimal with too few buffers": (DECIMAL, (schema(b"d:5,2"), array(2, [None]))),
    "a decimal whose offset overflows": (
        DECIMAL,
        (schema(b"d:5,2"), array(2, [None, bytes(64)], offset=2**63 - 1)),
    ),
    "booleans without values": (
        PlanNode(AvroOperation.BOOLEAN, 0),
        (schema(b"b"), array(2, [None, None])),
    ),
    "numbers for booleans": (PlanNode(AvroOperation.BOOLEAN, 0), NUMBERS),
    "numbers for a list": (LIST, NUMBERS),
    "numbers for a union": (UNION, NUMBERS),
    "numbers for a struct": (STRUCT, NUMBERS),
    "text behind its data in a map": (
        MAP,
        listed(b"+m", [None, ints(0, 1, 2)], struct_of((schema(b"u"), texts(0, 3, 1)), NUMBERS)),
    ),
}


def encode(column: Any, *nodes: PlanNode) -> list[Any]:
    plan = EncoderPlan(Format.AVRO, PlanNode(AvroOperation.RECORD, ROW, children=nodes))
    data = Exported([column])
    try:
        return Encoders.of("native").encode(data, plan)
    finally:
        assert data.releases.count == 2


@pytest.mark.parametrize("what", GOOD)
def test_what_is_right_is_read(native: Twin, what: str) -> None:
    node, column, expected = GOOD[what]
    assert encode(column, node) == expected


@pytest.mark.parametrize("what", WRONG)
def test_what_contradicts_itself_is_an_error(native: Twin, what: str) -> None:
    node, column = WRONG[what]
    with pytest.raises(ValueError, match=r"Arrow|plan"):
        encode(column, node)


WRONG_SCHEMAS = {
    "a child that is missing": schema(b"+s", children=[None]),
    "children that are missing": schema(b"+s", n_children=3, children=()),
    "a negative number of children": schema(b"+s", n_children=-1),
    "a list without values": schema(b"+l"),
    "a map without entries": schema(b"+m"),
    "a map of numbers": schema(b"+m", children=[schema(b"i")]),
    "a map whose entries have one field": schema(b"+m", children=[schema(b"+s", children=[schema(b"u")])]),
    "a list of two": schema(b"+w:2", children=[schema(b"i"), schema(b"i")]),
    "a union with fewer children than types": schema(b"+us:1,2", children=[schema(b"i")]),
    "a union with more children than types": schema(b"+ud:", children=[schema(b"i")]),
}


@pytest.mark.parametrize("what", WRONG_SCHEMAS)
def test_fields_that_contradict_themselves_are_an_error(native: Twin, what: str) -> None:
    wrong = WRONG_SCHEMAS[what]
    if what == "children that are missing":
        wrong.children = type(wrong.children)()
    data = Exported([(wrong, NUMBERS[1])])
    source = native.source(data)
    with pytest.raises(ValueError, match="invalid Arrow data"):
        source.fields()


def test_strange_formats_are_refused_or_described(native: Twin) -> None:
    """What is described can be compiled; what cannot be read is an error then, or with the first chunk."""
    decimals = b"d: d:x,y d:5 d:5,2,3,4 d:5,2,3".split()
    strange = [*decimals, *b"+us: +us:x +us:300 +us:5,7,6000 +w: +w w:x w: ts tsx tt tDx t + +r x".split()]
    for text in (*strange, b""):
        number = (
            len(text[4:].split(b",")) if text.startswith(b"+u") and text[4:] else 1 if text == b"+w:" else 0
        )
        data = Exported([(schema(text, children=[schema(b"i")] * number), NUMBERS[1])])
        source = native.source(data)
        with pytest.raises(ValueError, match=r"."):
            _encode_with_a_derived_schema(source)


def _encode_with_a_derived_schema(source: Any) -> None:
    fields = tuple(map(ArrowField.of, source.fields()))
    plan = Avro().compile_columns(ColumnsToEncode(fields, frozenset(), "t", "value")).plan
    Encoders.of("native").encoder(plan).encode_rows(source, 0, source.next_chunk())


_any = (
    st.integers(-(2**63), 2**63 - 1)
    | st.integers(-1, 4)
    | st.sampled_from([2**48, 2**48 + 1, 2**62, 2**63 - 1])
)


@given(
    length=_any,
    offset=_any,
    child_length=_any,
    child_offset=_any,
    numbers=st.lists(_any, min_size=4, max_size=4),
)
def test_numbers_near_the_ends_of_64_bits_never_lead_outside(
    native: Twin, length: int, offset: int, child_length: int, child_offset: int, numbers: list[int]
) -> None:
    """Only what memory could have is believed, so offsets within it are left out: here it has three rows."""
    if 0 <= child_offset <= 2**48 and child_offset + max(child_length, 0) > 3:
        child_offset = 0
        child_length = min(child_length, 3) if child_length <= 2**48 else child_length
    child = (NUMBERS[0], array(child_length, [None, ints(1, 2, 3)], offset=child_offset))
    if 0 <= offset <= 2**48:
        offset = 0
    starts, sizes = struct.pack("<4q", *numbers), struct.pack("<4q", *numbers[::-1])
    for text, buffers in ((b"+L", [None, starts]), (b"+vL", [None, starts, sizes]), (b"+w:2", [None])):
        column = listed(text, buffers, child)
        column[1].length, column[1].offset = length, offset
        try:
            for row in encode(column, LIST):
                assert isinstance(row, bytes)
                assert len(row) <= 5
        except ValueError:
            pass
