"""Encoders in ArrowRows: both twins write the same records and refuse the same rows; misuse is an error."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kproducer._core.columns.arrow_names import REFUSALS
from kproducer._core.columns.encoder_plan import (
    CONSTANT,
    ROW,
    SAME,
    AvroOperation,
    EncoderPlan,
    Format,
    Misfit,
    PlanNode,
)
from kproducer._core.columns.pure.arrow_rows import BLOCK_ROWS
from tests.support.columnar.encoders import Encoders
from tests.unit.columns.arrow_kit import DEFAULT_MS, HEADER, Batches, Twin, parts, twin

CONTENT_LIMIT = 60
INT = AvroOperation.INTEGER
KINDS = ["pure", "native"]
GUIDS = [("__value_schema_id", bytes(17)), ("__key_schema_id", bytes(17))]


def plan(root: PlanNode, prefix: bytes = b"") -> EncoderPlan:
    return EncoderPlan(Format.AVRO, root, prefix)


def row_of(*children: PlanNode, prefix: bytes = b"") -> EncoderPlan:
    return plan(PlanNode(AvroOperation.RECORD, ROW, children=children), prefix)


def integer(column: int, null: bytes | None = None) -> PlanNode:
    return PlanNode(INT, column, null=null, b=32, place=f"c{column}")


def drain(
    kind: Twin,
    encoders: Encoders,
    data: Any,
    columns: tuple[int, ...],
    value: EncoderPlan | None,
    key: EncoderPlan | None = None,
    headers: Any = (),
    content_limit: int = CONTENT_LIMIT,
) -> Any:
    """Records, refusals and bytes in batches, and the same number for all of them."""
    source = kind.source(data)
    rows = kind.arrow(source, columns, content_limit, True)
    made = [None if each is None else encoders.encoder(each) for each in (value, key)]
    rows.encode_columns(*made, list(headers))
    batches = Batches(kind, 3, 1 << 16)
    rows.add_topic(b"t", 3, batches.slots)
    checksum = kind.checksum("t", -1, -1)
    said: list[Any] = []
    while (count := source.next_chunk()) >= 0:
        rows.start_chunk(0, {})
        row = 0
        refusals = []
        while row < count:
            end = rows.plan(row, DEFAULT_MS, 1)
            assert row < end <= count
            while (alone := rows.append_planned()) >= 0:
                code, detail = rows.refusal(alone)
                if code:
                    refusals.append((alone, REFUSALS[code], detail))
                else:
                    batches.append(1, parts(rows.record(alone)))
            row = end
        said.append(sorted(refusals))
        rows.end_chunk()
    said.append(rows.content_bytes)
    source.close()
    source = kind.source(data)
    made = [None if each is None else encoders.encoder(each) for each in (value, key)]
    while source.next_chunk() >= 0:
        checksum.add_chunk(source, columns, *made, list(headers))
    return b"".join(batches.finish()[1]), said, checksum.value


def both(native: Twin, *given: Any, **more: Any) -> Any:
    expected = drain(twin("pure"), Encoders.of("pure"), *given, **more)
    assert drain(native, Encoders.of("native"), *given, **more) == expected
    return expected


_number = st.none() | st.integers(-(2**31), 2**31 - 1) | st.just(2**40)
_row = st.fixed_dictionaries(
    {
        "a": _number,
        "b": _number,
        "text": st.none() | st.text(max_size=40),
        "headers": st.none()
        | st.lists(
            st.none()
            | st.fixed_dictionaries(
                {"key": st.none() | st.text(max_size=9), "value": st.none() | st.binary(max_size=30)}
            ),
            max_size=2,
        ),
        "time": st.sampled_from([None, -1, 5]),
    }
)
_ARROW = pa.struct(
    [
        *(("a", pa.int64()), ("b", pa.int64()), ("text", pa.string())),
        *(("headers", pa.list_(HEADER)), ("time", pa.timestamp("ms"))),
    ]
)


@settings(max_examples=200, phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(st.none() | _row, min_size=1, max_size=8),
    st.booleans(),
    st.sampled_from([(), GUIDS[:1], GUIDS]),
    st.sampled_from([24, 44, CONTENT_LIMIT, 2**40]),
    st.booleans(),
    st.booleans(),
)
def test_twins_refuse_the_same_rows_for_the_same_reasons(
    native: Twin,
    rows: list[Any],
    has_key: bool,
    added: Any,
    limit: int,
    has_headers: bool,
    is_sliced: bool,
) -> None:
    """Misfits of value and key, null rows, times, headers and sizes, in any combination."""
    data = pa.array([*rows, rows[0]], _ARROW)[1:] if is_sliced else pa.array(rows, _ARROW)
    value = row_of(integer(0), PlanNode(AvroOperation.BYTES, 2, null=b"\1", place="text"), prefix=b"\0id")
    key = plan(integer(1), b"k") if has_key else None
    columns = (-1, -1, 3 if has_headers else -1, -1, 4, -1)
    both(native, data, columns, value, key, added, limit)


@pytest.mark.parametrize("size", range(36, 64))
def test_added_headers_count_for_the_limit(native: Twin, size: int) -> None:
    pairs = pa.array([[{"key": "h", "value": b"x" * n}] for n in range(40)], pa.list_(HEADER))
    table = pa.table({"a": pa.array(range(40), pa.int32()), "h": pairs})
    both(native, table, (-1, -1, 1, -1, -1, -1), row_of(integer(0)), None, GUIDS[:1], size)


def test_blocks_that_end_early_lose_no_rows(native: Twin) -> None:
    """Values fill the memory of a block before its rows do; some do not fit, and the last is too large."""
    count = 2 * BLOCK_ROWS + 1
    texts = [str(n) * 400 for n in range(count)]
    table = pa.table({"a": [2**40 if n % 97 == 0 else n for n in range(count)], "text": texts})
    value = row_of(integer(0), PlanNode(AvroOperation.BYTES, 1))
    key = plan(PlanNode(AvroOperation.BYTES, 1))
    written, said, _ = both(native, table, (-1,) * 6, value, key, content_limit=4000)
    assert len(written) > 8 * 1024 * 1024
    reasons = [reason for _, reason, _ in said[0]]
    assert (reasons.count("value"), reasons.count("size")) == (len(range(0, count, 97)), 0)
    both(native, table, (-1,) * 6, value, key, content_limit=3000)


def test_records_without_bytes_are_records(native: Twin) -> None:
    for children in ((), (PlanNode(AvroOperation.NOTHING, 0, null=b""),)):
        written, said, _ = both(native, pa.table({"n": pa.nulls(3)}), (-1,) * 6, row_of(*children))
        assert len(written) == 3 * 7
        assert said == [[], 0]


@pytest.mark.parametrize("name", KINDS)
def test_a_node_of_the_same_array_follows_a_dictionary_once(name: str) -> None:
    structs = pa.array([{"x": 5}, {"x": 6}, {"x": 7}], pa.struct([("x", pa.int32())]))
    encoded = pa.DictionaryArray.from_arrays(pa.array([2, 0, None], pa.int8()), structs)
    inner = PlanNode(AvroOperation.RECORD, SAME, children=(PlanNode(INT, 0, b=32),))
    root = row_of(PlanNode(AvroOperation.RECORD, 0, null=b"-", children=(inner,)))
    table = pa.table({"d": encoded})
    assert Encoders.of(name).encode(table, root) == [b"\x0e", b"\x0a", b"-"]


# -- misuse ------------------------------------------------------------------------------------------------


def test_an_encoder_is_used_by_one_reader(native: Twin) -> None:
    encoders = Encoders.of("native")
    source, encoder = native.source(pa.table({"a": [1]})), encoders.encoder(row_of(integer(0)))
    rows = native.arrow(source, (-1,) * 6, CONTENT_LIMIT, True)
    rows.encode_columns(encoder, None, [])
    rows.add_topic(b"t", 1, None)
    source.next_chunk()
    rows.start_chunk(0, {})
    rows.plan(0, 7, 0)
    with pytest.raises(RuntimeError, match="one reader"):
        encoder.encode_rows(source, 0, 1)
    with pytest.raises(RuntimeError, match="one reader"):
        native.checksum("t", -1, -1).add_chunk(source, (-1,) * 6, encoder)
    assert rows.append_planned() == 0
    assert rows.record(0)[1] == b"\2"
    del rows
    gc.collect()
    assert encoder.encode_rows(source, 0, 1) == [b"\2"]


@pytest.mark.parametrize("name", KINDS)
def test_value_and_key_have_encoders_of_their_own(name: str) -> None:
    kind, encoder = twin(name), Encoders.of(name).encoder(row_of(integer(0)))
    rows = kind.arrow(kind.source(pa.table({"a": [1]})), (-1,) * 6, CONTENT_LIMIT, True)
    with pytest.raises(ValueError, match="encoders of their own"):
        rows.encode_columns(encoder, encoder, [])


@pytest.mark.parametrize("name", KINDS)
def test_rows_and_chunks_that_are_not_there_are_errors(name: str) -> None:
    encoders = Encoders.of(name)
    encoder, source = encoders.encoder(row_of(integer(0))), encoders.source(pa.table({"a": [1, 2]}))
    with pytest.raises(ValueError, match=r"no chunk of Arrow data is loaded: call next_chunk\(\) first"):
        encoder.encode_rows(source, 0, 0)
    source.next_chunk()
    for first, count in ((0, 3), (2, 1), (-1, 1), (0, -1), (3, 0)):
        with pytest.raises(IndexError):
            encoder.encode_rows(source, first, count)
    assert encoder.encode_rows(source, 1, 1) == [b"\4"]
    assert encoder.encode_rows(source, 2, 0) == []
    source.close()
    with pytest.raises(ValueError, match=r"no chunk of Arrow data is loaded: call next_chunk\(\) first"):
        encoder.encode_rows(source, 0, 0)


def test_a_closed_source_is_not_read(native: Twin) -> None:
    for data in (pa.table({"value": ["a"]}), pa.array(["a"])):
        source = native.source(data)
        rows = native.arrow(source, (0, -1, -1, -1, -1, -1), CONTENT_LIMIT, True)
        with pytest.raises(ValueError, match=r"no chunk of Arrow data is loaded: call next_chunk\(\) first"):
            rows.start_chunk(0, {})
        source.next_chunk()
        source.close()
        with pytest.raises(ValueError, match=r"no chunk of Arrow data is loaded: call next_chunk\(\) first"):
            rows.start_chunk(0, {})


WRONG_PLANS = {
    "a root that is a constant": plan(PlanNode(AvroOperation.BOOLEAN, CONSTANT)),
    "a root of the same array": plan(PlanNode(AvroOperation.BOOLEAN, SAME)),
    "a row in a row": row_of(PlanNode(AvroOperation.RECORD, ROW)),
    "a column below all": plan(integer(-4)),
    "a column that the data do not have": row_of(integer(7)),
    "rows as a union": plan(PlanNode(AvroOperation.UNION, ROW)),
    "rows as a number": plan(PlanNode(INT, ROW)),
    "a number of text": row_of(PlanNode(INT, 1)),
    "an array without elements": row_of(PlanNode(AvroOperation.ARRAY, 2)),
    "an array of a field that it does not have": row_of(
        PlanNode(AvroOperation.ARRAY, 2, children=(integer(1),))
    ),
    "a factor that overflows": row_of(PlanNode(INT, 0, a=-(2**63), b=32)),
    "a size that overflows": row_of(PlanNode(AvroOperation.DECIMAL_FIXED, 3, size=2**31)),
    "a size below zero": row_of(PlanNode(AvroOperation.DECIMAL_FIXED, 3, size=-1)),
    "a decimal without a limit": row_of(PlanNode(AvroOperation.DECIMAL, 3)),
    "an enum without symbols": row_of(PlanNode(AvroOperation.ENUM, 1)),
    "an operation that is not there": row_of(PlanNode(99, 0)),
}


@pytest.mark.parametrize("what", WRONG_PLANS)
def test_a_plan_that_does_not_fit_is_an_error(what: str) -> None:
    lists = pa.array([[1]], pa.list_(pa.int32()))
    table = pa.table({"i": [1], "s": ["x"], "l": lists, "d": pa.array([1], pa.decimal128(5))})
    with pytest.raises(ValueError, match=r"plan|invalid"):
        Encoders.of("native").encode(table, WRONG_PLANS[what])


def test_a_constant_writes_its_prefix_alone() -> None:
    root = row_of(PlanNode(AvroOperation.BOOLEAN, CONSTANT, b"c"), integer(0))
    for name in KINDS:
        assert Encoders.of(name).encode(pa.table({"i": [1]}), root) == [b"c\2"]


def test_a_source_that_is_encoded_is_not_closed_by_another_thread(native: Twin) -> None:
    """Rows are read without the interpreter lock."""
    table = pa.table({"text": ["x" * 100] * 200_000})
    source = native.source(table)
    encoder = Encoders.of("native").encoder(row_of(PlanNode(AvroOperation.BYTES, 0)))
    source.next_chunk()
    ended = threading.Event()
    refused: list[str] = []

    def interfere() -> None:
        while not ended.is_set():
            try:
                source.next_chunk() if ended.is_set() else encoder.encode_rows(source, 0, 1)
            except RuntimeError as error:
                refused.append(str(error))

    checksum = native.checksum("t", -1, -1)
    other = Encoders.of("native").encoder(row_of(PlanNode(AvroOperation.BYTES, 0)))
    thread = threading.Thread(target=interfere)
    thread.start()
    try:
        for _ in range(5):
            try:
                checksum.add_chunk(source, (-1,) * 6, other)
            except RuntimeError as error:
                refused.append(str(error))
    finally:
        ended.set()
        thread.join()
    assert all("being read" in each for each in refused)
    source.close()


def test_a_row_that_no_memory_can_hold_is_too_large_and_the_others_are_not(native: Twin) -> None:
    """One text of a dictionary, which so many elements refer to that they are 2**47 bytes."""
    encoded = pa.DictionaryArray.from_arrays(
        pa.array([0] * (1 << 23), pa.int8()), pa.array(["x" * (1 << 24)])
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 1 << 23, 1 << 23], pa.int32()), encoded)
    element = PlanNode(AvroOperation.BYTES, 0)
    root = row_of(PlanNode(AvroOperation.ARRAY, 0, children=(element,)))
    source = native.source(pa.table({"a": lists}))
    rows = native.arrow(source, (-1,) * 6, 1 << 20, True)
    rows.encode_columns(Encoders.of("native").encoder(root), None, [])
    rows.add_topic(b"t", 1, None)
    source.next_chunk()
    rows.start_chunk(0, {})
    assert rows.plan(0, 7, 0) == 3
    assert rows.append_planned() == 1
    code, size = rows.refusal(1)
    assert REFUSALS[code] == "size"
    assert size > 1 << 26
    assert [rows.append_planned() for _ in range(3)] == [0, 2, -1]
    assert rows.record(2)[1] == b"\0"
    assert rows.content_bytes == 2


def test_misfits_name_their_node() -> None:
    table = pa.table({"a": [1, 2**40, None]})
    for name in KINDS:
        rows = Encoders.of(name).encode(table, row_of(PlanNode(AvroOperation.NOTHING, CONSTANT), integer(0)))
        assert rows == [b"\2", (2, Misfit.OUT_OF_RANGE), (2, Misfit.NULL)]
