"""Strategies that draw an Avro schema, an Arrow type that fits it, and values of both.

A ``Shape`` knows what a reader must find for each value that Arrow has. Arrays are made as awkward as Arrow
allows: slices, offsets of children, values below nulls, nulls in dictionaries.
"""

from __future__ import annotations

import decimal
import itertools
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)
_MS_PER_DAY = 86_400_000
_TEXTS = st.text(max_size=6) | st.sampled_from(
    ["", "\u00fc\u20ac", "a long text, longer than a view has room for"]
)
_BYTES = st.binary(max_size=6) | st.just(b"bytes that are longer than twelve")
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@attrs.frozen
class Shape:
    """An Avro type and an Arrow type.

    Attributes:
        avro: the schema, as JSON has it.
        arrow: the type.
        values: draws values, as ``array`` takes them; never null.
        read: from such a value to what a reader without logical types returns.
        array: from values, ``None`` for null, to an array.
        nullable: whether ``None`` fits.
    """

    avro: Any
    arrow: Any
    values: st.SearchStrategy[Any]
    read: Callable[[Any], Any]
    array: Callable[[Sequence[Any]], Any]
    nullable: bool = False

    def optional_values(self) -> st.SearchStrategy[Any]:
        return st.none() | self.values if self.nullable else self.values


def names() -> Callable[[], str]:
    """A function that returns a name that it has not returned before."""
    counter = itertools.count()
    return lambda: f"T{next(counter)}"


def padded(make: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> Any:
    """The array as a slice of a longer one."""
    if not values:
        return make(values)
    return make([values[-1], *values, values[0]]).slice(1, len(values))


def _leaf(avro: Any, arrow: Any, values: Any, read: Callable[[Any], Any] = lambda value: value) -> Shape:
    return Shape(avro, arrow, values, read, lambda given: pa.array(given, type=arrow))


def _integers(avro: Any, arrow: Any, low: int, high: int, factor: int = 1, divisor: int = 1) -> Shape:
    """Integers of which the reader finds the product with ``factor``, divided by ``divisor``."""
    width = arrow.bit_width
    storage = {8: pa.int8, 16: pa.int16, 32: pa.int32, 64: pa.int64}[width]()
    is_plain = pa.types.is_integer(arrow)
    return Shape(
        avro,
        arrow,
        st.integers(low, high)
        | st.sampled_from([low, high, max(low, min(-1, high)), max(low, min(0, high))]),
        lambda value: value * factor // divisor,
        lambda given: pa.array(given, type=arrow) if is_plain else pa.array(given, type=storage).view(arrow),
    )


def _limits(arrow: Any, bits: int) -> tuple[int, int]:
    width = min(arrow.bit_width, bits)
    if pa.types.is_unsigned_integer(arrow):
        return 0, min(2**arrow.bit_width - 1, 2 ** (bits - 1) - 1)
    return -(2 ** (width - 1)), 2 ** (width - 1) - 1


_SMALL = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


def _plain_integers() -> Iterator[Shape]:
    for arrow in _SMALL:
        yield _integers("int", arrow, *_limits(arrow, 32))
        yield _integers("long", arrow, *_limits(arrow, 64))
        # A logical type that nobody knows is its base type.
        yield _integers({"type": "long", "logicalType": "parsecs"}, arrow, *_limits(arrow, 64))
        for avro, most in (("float", 2**24), ("double", 2**53)):
            low, high = _limits(arrow, 64)
            shape = _integers(avro, arrow, max(low, -most), min(high, most))
            yield attrs.evolve(shape, read=float)


def _times() -> Iterator[Shape]:
    def logical(kind: str, name: str) -> dict[str, str]:
        return {"type": kind, "logicalType": name}

    yield _integers(logical("int", "date"), pa.date32(), *INT32)
    yield _integers(
        logical("int", "date"),
        pa.date64(),
        INT32[0] * _MS_PER_DAY,
        INT32[1] * _MS_PER_DAY,
        divisor=_MS_PER_DAY,
    )
    yield _integers(logical("int", "time-millis"), pa.time32("s"), 0, 86_399, factor=1000)
    yield _integers(logical("int", "time-millis"), pa.time32("ms"), 0, 86_399_999)
    yield _integers(logical("int", "time-millis"), pa.time64("us"), 0, 86_399_999_999, divisor=1000)
    yield _integers(logical("long", "time-micros"), pa.time32("ms"), 0, 86_399_999, factor=1000)
    yield _integers(logical("long", "time-micros"), pa.time64("ns"), 0, 86_399_999_999_999, divisor=1000)
    for local in ("", "local-"):
        for name, wanted in (("millis", 10**3), ("micros", 10**6), ("nanos", 10**9)):
            for unit, given in _TICKS.items():
                factor, divisor = max(wanted // given, 1), max(given // wanted, 1)
                low, high = -((2**63) // factor), (2**63 - 1) // factor
                zone = "UTC" if not local else None
                yield _integers(
                    logical("long", f"{local}timestamp-{name}"),
                    pa.timestamp(unit, zone),
                    low,
                    high,
                    factor,
                    divisor,
                )


def _half(value: float) -> float:
    return float(np.float16(value))


def _floats() -> Iterator[Shape]:
    half = st.floats(width=16, allow_nan=False)
    single = st.floats(width=32, allow_nan=False)

    def halves(given: Sequence[Any]) -> Any:
        return pa.array([None if each is None else np.float16(each) for each in given], type=pa.float16())

    for avro in ("float", "double"):
        yield Shape(avro, pa.float16(), half, _half, halves)
        yield _leaf(avro, pa.float32(), single)
    yield _leaf("double", pa.float64(), st.floats(allow_nan=False))


def _strings(next_name: Callable[[], str]) -> Iterator[Shape]:
    plain = [pa.string(), pa.large_string(), pa.string_view()]
    symbols = ["A", "B_2", "c"]
    for arrow in plain:
        yield _leaf("string", arrow, _TEXTS)
        yield _leaf("bytes", arrow, _TEXTS, str.encode)
        yield _leaf(
            {"type": "enum", "name": next_name(), "symbols": symbols}, arrow, st.sampled_from(symbols)
        )
        yield _leaf({"type": "string", "logicalType": "uuid"}, arrow, st.uuids().map(str))
        yield _leaf(
            {"type": "fixed", "size": 16, "name": next_name(), "logicalType": "uuid"},
            arrow,
            st.uuids().map(lambda value: str(value).upper()),
            lambda value: uuid.UUID(value).bytes,
        )
    for arrow in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield _leaf("bytes", arrow, _BYTES)
        yield _leaf(
            {"type": "fixed", "size": 3, "name": next_name()}, arrow, st.binary(min_size=3, max_size=3)
        )
    for size in (0, 3, 13):
        data = st.binary(min_size=size, max_size=size)
        yield _leaf("bytes", pa.binary(size), data)
        yield _leaf(
            {"type": "fixed", "size": size, "name": f"{next_name()}", "namespace": "a.b"},
            pa.binary(size),
            data,
        )
    sixteen = st.binary(min_size=16, max_size=16)
    yield _leaf(
        {"type": "string", "logicalType": "uuid"}, pa.binary(16), sixteen, lambda v: str(uuid.UUID(bytes=v))
    )
    for index in _SMALL:
        for avro, arrow in (("string", pa.string()), ("bytes", pa.string()), ("string", pa.large_string())):
            read = str.encode if avro == "bytes" else str
            kind = pa.dictionary(index, arrow)
            yield Shape(avro, kind, _TEXTS, read, lambda given, kind=kind: _dictionary(given, kind))
    enum = {"type": "enum", "name": next_name(), "symbols": symbols}
    kind = pa.dictionary(pa.int8(), pa.string())
    yield Shape(enum, kind, st.sampled_from(symbols), str, lambda given: _dictionary(given, kind))


def _dictionary(given: Sequence[Any], kind: Any) -> Any:
    """Every second null is one in the dictionary; the dictionary is a slice."""
    texts = sorted({each for each in given if each is not None})
    values = pa.array(["no value", *texts, None], type=kind.value_type).slice(1)
    places: list[int | None] = []
    for number, each in enumerate(given):
        null = len(texts) if number % 2 else None
        places.append(null if each is None else texts.index(each))
    return pa.DictionaryArray.from_arrays(pa.array(places, type=kind.index_type), values)


def _scaled(number: int, digits: int) -> decimal.Decimal:
    # Not an operation of the context, which would round.
    return decimal.Decimal((number < 0, tuple(map(int, str(abs(number)))), -digits))


def _big_endian(number: int, size: int | None) -> bytes:
    if size is None:
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def _decimals(next_name: Callable[[], str]) -> Iterator[Shape]:
    for make, most in ((pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)):
        for precision, digits, more in ((most, 0, 0), (most, most, 0), (most - 4, 2, 3), (3, 1, 0)):
            arrow = make(precision, digits)
            limit = 10**precision
            numbers = st.integers(1 - limit, limit - 1) | st.sampled_from(
                [1 - limit, limit - 1, 0, -1, -128, 127, 128]
            )
            values = numbers.filter(lambda n, limit=limit: abs(n) < limit).map(
                lambda n, digits=digits: _scaled(n, digits)
            )
            for size in (None, 33):
                avro: dict[str, Any] = {"type": "bytes"}
                if size is not None:
                    avro = {"type": "fixed", "size": size, "name": next_name()}
                avro |= {
                    "logicalType": "decimal",
                    "precision": min(precision + more, 76),
                    "scale": digits + more,
                }

                def read(value: Any, size: Any = size, scale: int = digits + more) -> bytes:
                    sign, figures, exponent = value.as_tuple()
                    number = int("".join(map(str, figures))) * 10 ** (scale + exponent)
                    return _big_endian(-number if sign else number, size)

                yield _leaf(avro, arrow, values, read)


def _durations(next_name: Callable[[], str]) -> Iterator[Shape]:
    def avro() -> dict[str, Any]:
        return {"type": "fixed", "size": 12, "name": next_name(), "logicalType": "duration"}

    parts = st.tuples(st.integers(0, INT32[1]), st.integers(0, INT32[1]), st.integers(0, 2**32 * 10**6 - 1))
    yield _leaf(
        avro(),
        pa.month_day_nano_interval(),
        parts.map(pa.MonthDayNano),
        lambda value: struct.pack("<III", value[0], value[1], value[2] // 10**6),
    )
    for unit, ticks in _TICKS.items():
        factor, divisor = max(1000 // ticks, 1), max(ticks // 1000, 1)
        shape = _integers(avro(), pa.duration(unit), 0, (2**32 - 1) * divisor // factor, factor, divisor)
        yield attrs.evolve(
            shape,
            read=lambda value, factor=factor, divisor=divisor: struct.pack(
                "<III", 0, 0, value * factor // divisor
            ),
        )


def leaves(next_name: Callable[[], str]) -> list[Shape]:
    """Every pair of types that contain no others. ``next_name``: an unused name for a type."""
    return [
        _leaf("boolean", pa.bool_(), st.booleans()),
        *_plain_integers(),
        *_floats(),
        *_times(),
        *_strings(next_name),
        *_decimals(next_name),
        *_durations(next_name),
    ]


def nullable(shape: Shape, *, is_first: bool) -> Shape:
    """The union with null."""
    read = shape.read
    return attrs.evolve(
        shape,
        avro=["null", shape.avro] if is_first else [shape.avro, "null"],
        read=lambda value: None if value is None else read(value),
        nullable=True,
    )


def null() -> Shape:
    return Shape("null", pa.null(), st.none(), lambda value: None, lambda given: pa.nulls(len(given)), True)


def _mask(given: Sequence[Any]) -> Any:
    return pa.array([each is None for each in given], type=pa.bool_())


def listed(element: Shape, kind: str) -> Shape:
    """An array of the elements: ``kind`` is the name of a function of pyarrow, such as ``large_list``."""
    field = pa.field("item", element.arrow)
    if kind == "fixed":
        arrow = pa.list_(field, 2)
        values = st.lists(element.optional_values(), min_size=2, max_size=2)
    else:
        arrow = getattr(pa, kind)(field)
        values = st.lists(element.optional_values(), max_size=3)

    def make(given: Sequence[Any]) -> Any:
        if kind == "fixed":
            filler = next((each for each in given if each is not None), None)
            if filler is None:
                return pa.nulls(len(given), arrow)
            flat = [each for some in given for each in (filler if some is None else some)]
            child = padded(element.array, flat)
            return pa.FixedSizeListArray.from_arrays(child, type=arrow, mask=_mask(given))
        flat = [each for some in given for each in some or ()]
        offsets = [0]
        for some in given:
            offsets.append(offsets[-1] + len(some or ()))
        child = padded(element.array, flat)
        is_large = kind.startswith("large")
        numbers = pa.array(offsets, type=pa.int64() if is_large else pa.int32())
        if kind in ("list_", "large_list"):
            maker = pa.LargeListArray if is_large else pa.ListArray
            return maker.from_arrays(numbers, child, type=arrow, mask=_mask(given))
        maker = pa.LargeListViewArray if is_large else pa.ListViewArray
        sizes = pa.array([len(some or ()) for some in given], type=numbers.type)
        return maker.from_arrays(numbers[:-1], sizes, child, type=arrow, mask=_mask(given))

    read = element.read
    return Shape(
        {"type": "array", "items": element.avro},
        arrow,
        values,
        lambda value: [read(each) for each in value],
        make,
    )


LIST_KINDS = ("list_", "large_list", "list_view", "large_list_view", "fixed")


def mapped(value: Shape, *, as_list: bool) -> Shape:
    """A map; in Arrow a map, or a list of structs."""
    names = st.lists(st.text(max_size=3), max_size=3, unique=True)
    values = names.flatmap(
        lambda keys: st.tuples(*(value.optional_values() for _ in keys)).map(
            lambda found: list(zip(keys, found, strict=True))
        )
    )
    entry = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", value.arrow)])
    arrow = pa.list_(pa.field("entries", entry)) if as_list else pa.map_(pa.string(), value.arrow)

    def make(given: Sequence[Any]) -> Any:
        pairs = [pair for each in given for pair in each or ()]
        offsets: list[int | None] = [0]
        for each in given:
            offsets.append(offsets[-1] + len(each or ()))  # type: ignore[operator]
        keys = padded(lambda texts: pa.array(texts, type=pa.string()), [pair[0] for pair in pairs])
        items = padded(value.array, [pair[1] for pair in pairs])
        if as_list:
            structs = pa.StructArray.from_arrays([keys, items], fields=list(entry))
            return pa.ListArray.from_arrays(
                pa.array(offsets, pa.int32()), structs, type=arrow, mask=_mask(given)
            )
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()), keys, items, type=arrow, mask=_mask(given)
        )

    read = value.read
    return Shape(
        {"type": "map", "values": value.avro},
        arrow,
        values,
        lambda given: {name: read(each) for name, each in given},
        make,
    )


def record(fields: Sequence[Shape], name: str, absent: Sequence[tuple[str, Any]] = ()) -> Shape:
    """A record of fields ``f0``, ``f1`` and so on.

    Args:
        absent: type and default of fields that Arrow does not have.
    """
    names = [f"f{number}" for number in range(len(fields))]
    arrow = pa.struct([pa.field(each, shape.arrow) for each, shape in zip(names, fields, strict=True)])
    values = st.tuples(*(shape.optional_values() for shape in fields))

    def make(given: Sequence[Any]) -> Any:
        # Below a null there are values.
        filler = next((each for each in given if each is not None), None)
        if filler is None:
            return pa.nulls(len(given), arrow)
        rows = [filler if each is None else each for each in given]
        children = [padded(shape.array, [row[at] for row in rows]) for at, shape in enumerate(fields)]
        if not children:
            return pa.array([None if each is None else {} for each in given], type=arrow)
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=_mask(given))

    def read(value: Any) -> Any:
        found = {each: shape.read(part) for each, shape, part in zip(names, fields, value, strict=True)}
        return found | {f"absent{number}": default for number, (_, default) in enumerate(absent)}

    avro_fields = [{"name": each, "type": shape.avro} for each, shape in zip(names, fields, strict=True)]
    avro_fields += [
        {"name": f"absent{number}", "type": kind, "default": default}
        for number, (kind, default) in enumerate(absent)
    ]
    # The order of the schema is not that of the columns.
    return Shape({"type": "record", "name": name, "fields": avro_fields[::-1]}, arrow, values, read, make)


def union(branches: Sequence[Shape], *, is_dense: bool, type_ids: Sequence[int]) -> Shape:
    """A union of both Avro and Arrow; values are pairs of the number of the branch and its value."""
    fields = [pa.field(f"b{number}", shape.arrow) for number, shape in enumerate(branches)]
    arrow = (pa.dense_union if is_dense else pa.sparse_union)(fields, type_codes=list(type_ids))
    values = st.one_of(
        *(st.tuples(st.just(number), shape.optional_values()) for number, shape in enumerate(branches))
    )
    ids = list(type_ids)

    def make(given: Sequence[Any]) -> Any:
        # A union has no nulls: the place of one, which is never read, gets any value.
        filler = next((each for each in given if each is not None), None)
        if filler is None:
            return pa.nulls(len(given), arrow)
        pairs = [filler if each is None else each for each in given]
        types = pa.array([ids[number] for number, _ in pairs], type=pa.int8())
        if is_dense:
            children = [[value for chosen, value in pairs if chosen == n] for n in range(len(branches))]
            seen = [0] * len(branches)
            offsets = []
            for number, _ in pairs:
                offsets.append(seen[number])
                seen[number] += 1
            arrays = [padded(shape.array, part) for shape, part in zip(branches, children, strict=True)]
            return pa.UnionArray.from_dense(
                types, pa.array(offsets, pa.int32()), arrays, [field.name for field in fields], ids
            )
        arrays = []
        for number, shape in enumerate(branches):
            own = [value for chosen, value in pairs if chosen == number]
            part = [value if chosen == number else own[0] if own else None for chosen, value in pairs]
            arrays.append(padded(shape.array, part) if own else pa.nulls(len(pairs), shape.arrow))
        return pa.UnionArray.from_sparse(types, arrays, [field.name for field in fields], ids)

    return Shape(
        ["null", *(shape.avro for shape in branches)]
        if any(s.nullable for s in branches)
        else [s.avro for s in branches],
        arrow,
        values,
        lambda value: branches[value[0]].read(value[1]),
        make,
    )


def _draw_shape(draw: st.DrawFn, next_name: Callable[[], str], depth: int) -> Shape:
    kind = draw(st.sampled_from(("leaf", "null", "list", "map", "record", "union") if depth else ("leaf",)))
    if kind == "null":
        return null()
    if kind == "list":
        shape = listed(_draw_optional(draw, next_name, depth - 1), draw(st.sampled_from(LIST_KINDS)))
    elif kind == "map":
        shape = mapped(_draw_optional(draw, next_name, depth - 1), as_list=draw(st.booleans()))
    elif kind == "record":
        shape = draw_record(draw, next_name, depth - 1)
    elif kind == "union":
        shape = _draw_union(draw, next_name)
    else:
        shape = draw(st.sampled_from(leaves(next_name)))
    return shape


def _draw_optional(draw: st.DrawFn, next_name: Callable[[], str], depth: int) -> Shape:
    shape = _draw_shape(draw, next_name, depth)
    if isinstance(shape.avro, list) or shape.avro == "null" or not draw(st.booleans()):
        return shape
    return nullable(shape, is_first=draw(st.booleans()))


_ABSENT = [
    ("int", -7),
    ("string", "\u00fc"),
    ("double", 0.5),
    (["null", "string"], None),
    ({"type": "array", "items": "long"}, [1, 2]),
    ({"type": "map", "values": "boolean"}, {"a": True}),
]


def draw_record(draw: st.DrawFn, next_name: Callable[[], str], depth: int) -> Shape:
    fields = [_draw_optional(draw, next_name, depth) for _ in range(draw(st.integers(1, 4)))]
    absent = draw(st.lists(st.sampled_from(_ABSENT), max_size=2))
    return record(fields, next_name(), absent)


def _draw_union(draw: st.DrawFn, next_name: Callable[[], str]) -> Shape:
    by_kind: dict[str, Shape] = {}
    for shape in draw(st.lists(st.sampled_from(_union_branches(next_name)), min_size=1, max_size=4)):
        kind = shape.avro["type"] if isinstance(shape.avro, dict) else shape.avro
        by_kind.setdefault(kind, shape)
    branches = list(by_kind.values())
    if draw(st.booleans()):
        # Null in a branch is the null of the union.
        branches = [attrs.evolve(nullable(each, is_first=True), avro=each.avro) for each in branches]
    ids = draw(st.lists(st.integers(0, 127), min_size=len(branches), max_size=len(branches), unique=True))
    return union(branches, is_dense=draw(st.booleans()), type_ids=ids)


def _union_branches(next_name: Callable[[], str]) -> list[Shape]:
    # Without double and array, which fastavro takes for integers and bytes, too.
    return [
        _leaf("boolean", pa.bool_(), st.booleans()),
        _integers("long", pa.int64(), *INT64),
        _leaf("string", pa.string(), _TEXTS),
        _leaf("bytes", pa.binary(), _BYTES),
        mapped(_integers("long", pa.int64(), *INT64), as_list=False),
        record([_leaf("string", pa.string(), _TEXTS)], next_name()),
    ]


def without_logical_types(schema: Any) -> Any:
    """The schema whose reader returns plain numbers and bytes."""
    if isinstance(schema, list):
        return [without_logical_types(each) for each in schema]
    if isinstance(schema, dict):
        dropped = ("logicalType", "precision", "scale")
        return {name: without_logical_types(each) for name, each in schema.items() if name not in dropped}
    return schema


def table_of(record_shape: Shape, rows: Sequence[Any], cuts: Sequence[int]) -> Any:
    """A chunked table of the fields of a record.

    Args:
        cuts: where chunks begin; some may be empty.
    """
    schema = pa.schema(list(record_shape.arrow))
    if not rows:
        return pa.Table.from_batches([], schema=schema)
    structs = padded(record_shape.array, rows)
    # Not from_struct_array(), which ends the process if there are unions.
    batch = pa.RecordBatch.from_arrays([structs.field(at) for at in range(len(schema))], schema=schema)
    places = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = [batch.slice(start, end - start) for start, end in itertools.pairwise(places)]
    return pa.Table.from_batches([parts[0].slice(0, 0), *parts], schema=schema)
