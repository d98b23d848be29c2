"""Arrow data that contradict themselves never make the JSON writer read outside of them.

The structs are made by hand: no library would write them. The pure kernel leaves such data to pyarrow.
"""

from __future__ import annotations

from typing import Any

import pytest

from kproducer._core.columns.encoder_plan import EncoderPlan, Format, JsonOperation, Misfit, PlanNode
from tests.unit.columns.hostile_arrow import Exported, array, schema
from tests.unit.columns.test_arrow_hostile import ints, longs

_arrow_reader: Any = pytest.importorskip("kproducer._core.columns.native._arrow_reader", exc_type=ImportError)
_row_encoder: Any = pytest.importorskip("kproducer._core.columns.native._row_encoder", exc_type=ImportError)

TEXT = PlanNode(JsonOperation.TEXT, 0)
INTEGER = PlanNode(JsonOperation.INTEGER, 0)


def written(node: PlanNode, column: Any, rows: int = 2) -> list[Any]:
    source = _arrow_reader.ArrowSource(Exported([column], length=rows))
    source.next_chunk()
    encoded: list[Any] = _row_encoder.RowEncoder(EncoderPlan(Format.JSON, node)).encode_rows(source, 0, rows)
    source.close()
    return encoded


def texts(*offsets: int, **fields: Any) -> Any:
    return array(len(offsets) - 1, [None, ints(*offsets), b"abcd"], **fields)


ELEMENTS = PlanNode(JsonOperation.ARRAY, 0, children=(INTEGER._replace(prefix=b",", null=b",null"),))
BYTES = (schema(b"c", b"item"), array(4, [None, b"\1\2\3\4"]))
PAIR = PlanNode(
    JsonOperation.ENTRY, 0, children=(TEXT._replace(prefix=b","), INTEGER._replace(column=1, prefix=b":"))
)
MAP = PlanNode(JsonOperation.MAP, 0, children=(PAIR,))
ENTRIES = schema(b"+s", b"entries", [schema(b"u", b"key"), schema(b"c", b"value")])
UNION = PlanNode(
    JsonOperation.UNION, 0, children=(INTEGER, INTEGER._replace(column=1)),
    symbols=((b"\x00", b"\x00"), (b"\x05", b"\x01")),
)  # fmt: skip
CHILDREN = [schema(b"c", b"a"), schema(b"c", b"b")]


def lists(text: bytes, *buffers: bytes | None, children: Any = None) -> Any:
    element, values = BYTES if children is None else children
    return schema(text, children=[element]), array(2, [None, *buffers], [values])


def unions(type_ids: bytes, offsets: bytes | None = None, lengths: int = 2) -> Any:
    buffers = [type_ids] if offsets is None else [type_ids, offsets]
    text = b"+us:0,5" if offsets is None else b"+ud:0,5"
    children = [array(lengths, [None, b"\1\2\3\4"]) for _ in CHILDREN]
    return schema(text, children=CHILDREN), array(2, buffers, children)


WRONG = {
    "strings whose offsets go back": (TEXT, (schema(b"u"), texts(0, 3, 1))),
    "a string below zero": (TEXT, (schema(b"u"), texts(-1, 1, 2))),
    "binary behind all memory": (
        PlanNode(JsonOperation.BINARY, 0), (schema(b"Z"), array(2, [None, longs(0, 1, 2**62), b"abcd"])),
    ),
    "a list behind its elements": (ELEMENTS, lists(b"+l", ints(0, 2, 5))),
    "a list that goes back": (ELEMENTS, lists(b"+l", ints(2, 1, 3))),
    "a large list below zero": (ELEMENTS, lists(b"+L", longs(-1, 1, 2))),
    "a list view behind its elements": (ELEMENTS, lists(b"+vl", ints(0, 3), ints(1, 2))),
    "a list view that overflows": (ELEMENTS, lists(b"+vL", longs(0, 2**63 - 1), longs(1, 2**63 - 1))),
    "a list of a fixed size that is too short": (
        ELEMENTS, (schema(b"+w:3", children=[BYTES[0]]), array(2, [None], [BYTES[1]])),
    ),
    "a map behind its entries": (
        MAP, lists(b"+m", ints(0, 1, 9), children=(ENTRIES, array(2, [None], [texts(0, 1, 2), BYTES[1]]))),
    ),
    "entries that are too few": (
        MAP, lists(b"+m", ints(0, 1, 3), children=(ENTRIES, array(3, [None], [texts(0, 1, 2), BYTES[1]]))),
    ),
    "an index behind the dictionary": (
        TEXT, (schema(b"c", dictionary=schema(b"u")), array(2, [None, b"\0\2"], dictionary=texts(0, 1, 2))),
    ),
    "a type id that no alternative has": (UNION, unions(b"\0\1")),
    "a negative type id": (UNION, unions(b"\xff\0")),
    "a place behind an alternative": (UNION, unions(b"\0\5", ints(0, 2))),
    "a place before an alternative": (UNION, unions(b"\0\5", ints(-1, 0))),
    "an alternative that is too short": (UNION, unions(b"\0\5", None, lengths=1)),
    "text where the plan reads numbers": (INTEGER, (schema(b"u"), texts(0, 1, 2))),
    "numbers where the plan reads text": (TEXT, BYTES),
    "floats of another width": (
        PlanNode(JsonOperation.FLOAT, 0, a=8), (schema(b"f"), array(2, [None, bytes(8)])),
    ),
    "a scale that no decimal has": (
        PlanNode(JsonOperation.DECIMAL, 0, a=10_000), (schema(b"d:5,2"), array(2, [None, bytes(32)])),
    ),
    "no ticks per second": (
        PlanNode(JsonOperation.TIMESTAMP, 0, a=0), (schema(b"tsu:"), array(2, [None, bytes(16)])),
    ),
    "a plan without elements": (
        PlanNode(JsonOperation.ARRAY, 0), lists(b"+l", ints(0, 1, 2)),
    ),
    "a decimal as an interval": (
        PlanNode(JsonOperation.INTERVAL, 0), (schema(b"d:70,2,256"), array(2, [None, bytes(64)])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_column_that_contradicts_itself_is_an_error(what: str) -> None:
    node, column = WRONG[what]
    with pytest.raises(ValueError, match=r"Arrow|operation|outside"):
        written(node, column)


def test_what_is_right_is_written() -> None:
    assert written(ELEMENTS, lists(b"+l", ints(0, 2, 4))) == [b"[1,2]", b"[3,4]"]
    assert written(ELEMENTS, lists(b"+vl", ints(2, 0), ints(2, 0))) == [b"[3,4]", b"[]"]
    entries = (ENTRIES, array(2, [None], [texts(0, 1, 2), BYTES[1]]))
    assert written(MAP, lists(b"+m", ints(0, 1, 2), children=entries)) == [b'{"a":1}', b'{"b":2}']
    assert written(UNION, unions(b"\0\5", ints(1, 0))) == [b"2", b"1"]


def test_keys_and_entries_that_are_null_fail_their_row() -> None:
    keys = texts(0, 1, 2, null_count=1)
    keys.buffers[0] = array(1, [b"\1"]).buffers[0]
    column = lists(b"+m", ints(0, 1, 2), children=(ENTRIES, array(2, [None], [keys, BYTES[1]])))
    assert written(MAP, column) == [b'{"a":1}', (2, Misfit.NULL)]
    entries = array(2, [b"\1"], [texts(0, 1, 2), BYTES[1]], null_count=1)
    assert written(MAP, lists(b"+m", ints(0, 1, 2), children=(ENTRIES, entries))) == [
        b'{"a":1}',
        (1, Misfit.NULL),
    ]


def test_intervals_that_pyarrow_does_not_know() -> None:
    node = PlanNode(JsonOperation.INTERVAL, 0)
    assert written(node, (schema(b"tiM"), array(2, [None, ints(14, -1)]))) == [b'"P14M"', b'"-P1M"']
    days = array(2, [None, ints(1, -1500, 0, 0)])
    assert written(node, (schema(b"tiD"), days)) == [b'"P1DT-1.500S"', b'"PT0S"']


def test_a_uuid_of_another_size_fails_its_row() -> None:
    node = PlanNode(JsonOperation.UUID, 0)
    assert written(node, (schema(b"u"), texts(0, 1, 2))) == [(0, Misfit.NOT_A_UUID)] * 2
