"""Any fields, any values: both kernels write what google.protobuf writes, or refuse the same rows.

Invariant: a row is either the serialized message that protobuf's own setters make of its values, or a misfit
where protobuf or the message does not allow a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kproducer._core.columns.encoder_plan import Misfit
from kproducer.columnar import Protobuf
from tests.unit.columnar.protobuf_kit import encode, message_class

INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
COLORS = {"NONE": 0, "RED": 1, "BLUE": 300, "MINUS": -1}
ENUMS = """
enum Open {
    NONE = 0
    RED = 1
    BLUE = 300
    MINUS = -1
}
"""

#: Puts a value into a message, or raises ValueError as protobuf does.
Put = Callable[[Any, str, Any], None]


class Kind(NamedTuple):
    """A type of fields: the columns that it takes, and what protobuf makes of their values."""

    name: str
    types: list[Any]
    convert: Callable[[Any, Any], Any] = lambda value, arrow_type: value


def exact(limit: int) -> Callable[[Any, Any], Any]:
    def convert(value: Any, arrow_type: Any) -> Any:
        if isinstance(value, int) and abs(value) > limit:
            raise ValueError
        return value

    return convert


def in_range(bits: int, is_signed: bool) -> Callable[[Any, Any], Any]:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)

    def convert(value: Any, arrow_type: Any) -> Any:
        if not least <= value <= most:
            raise ValueError
        return value

    return convert


def timestamp(value: Any, arrow_type: Any) -> Any:
    ticks = UNITS[arrow_type.unit]
    seconds, rest = divmod(value, ticks)
    if not -62_135_596_800 <= seconds <= 253_402_300_799:
        raise ValueError
    return {"seconds": seconds, "nanos": rest * 10**9 // ticks}


def duration(value: Any, arrow_type: Any) -> Any:
    ticks = UNITS[arrow_type.unit]
    sign = -1 if value < 0 else 1
    seconds, rest = divmod(abs(value), ticks)
    if seconds > 315_576_000_000:
        raise ValueError
    return {"seconds": sign * seconds, "nanos": sign * rest * 10**9 // ticks}


SCALARS = [
    *(
        Kind(name, INTEGERS, in_range(bits, is_signed))
        for name, bits, is_signed in (
            ("int32", 32, True), ("int64", 64, True), ("sint32", 32, True), ("sint64", 64, True),
            ("sfixed32", 32, True), ("sfixed64", 64, True), ("uint32", 32, False), ("uint64", 64, False),
            ("fixed32", 32, False), ("fixed64", 64, False), ("Open", 32, True),
        )
    ),
    Kind("Open", TEXTS, lambda value, arrow_type: COLORS[value]),
    Kind("double", [pa.float16(), pa.float32(), pa.float64(), *INTEGERS], exact(2**53)),
    Kind("float", [pa.float16(), pa.float32(), *INTEGERS], exact(2**24)),
    Kind("bool", [pa.bool_()]),
    Kind("string", TEXTS),
    Kind("bytes", BINARIES),
]  # fmt: skip
MESSAGES = [
    Kind("google.protobuf.Timestamp", [pa.timestamp(unit) for unit in UNITS], timestamp),
    Kind("google.protobuf.Duration", [pa.duration(unit) for unit in UNITS], duration),
    *(
        Kind(f"google.protobuf.{name}Value", kind.types, lambda value, arrow_type, kind=kind: {
            "value": kind.convert(value, arrow_type)
        })
        for name, kind in zip(
            ("Int32", "Int64", "UInt32", "UInt64"),
            (SCALARS[0], SCALARS[1], SCALARS[6], SCALARS[7]),
            strict=True,
        )
    ),
    Kind("google.protobuf.StringValue", TEXTS, lambda value, arrow_type: {"value": value}),
    Kind("google.protobuf.BoolValue", [pa.bool_()], lambda value, arrow_type: {"value": value}),
]  # fmt: skip

_NEAR_LIMITS = [
    sign * 2**bits + more
    for bits in (0, 6, 7, 8, 13, 14, 15, 16, 24, 31, 32, 53, 63, 64)
    for sign in (1, -1)
    for more in (-1, 0, 1)
]


def values_of(arrow_type: Any) -> st.SearchStrategy[Any]:
    """Values of an Arrow type; times are numbers."""
    if pa.types.is_boolean(arrow_type):
        return st.booleans()
    if pa.types.is_floating(arrow_type):
        return st.floats(width=arrow_type.bit_width, allow_nan=False)
    if pa.types.is_integer(arrow_type) or pa.types.is_temporal(arrow_type):
        bits = arrow_type.bit_width
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if pa.types.is_unsigned_integer(arrow_type):
            least, most = 0, 2**bits - 1
        limits = [number for number in _NEAR_LIMITS if least <= number <= most]
        return st.integers(least, most) | st.sampled_from(limits)
    if pa.types.is_fixed_size_binary(arrow_type):
        return st.binary(min_size=3, max_size=3)
    if arrow_type in BINARIES:
        return st.binary(max_size=20)
    return st.text(max_size=20) | st.text(alphabet="a", min_size=120, max_size=140)


class FieldCase(NamedTuple):
    """A field and its column. ``label``: implicit, optional, required, repeated, unpacked or member."""

    name: str
    number: int
    kind: Kind
    label: str
    arrow_type: Any
    as_dictionary: bool
    values: list[Any]

    @property
    def declaration(self) -> str:
        label = {"implicit": "", "member": "", "unpacked": "repeated"}.get(self.label, self.label)
        is_packable = self.label == "unpacked" and self.kind.name not in ("string", "bytes")
        options = " [packed = false]" if is_packable and "." not in self.kind.name else ""
        return f"{label} {self.kind.name} {self.name} = {self.number}{options}"

    @property
    def is_repeated(self) -> bool:
        return self.label in ("repeated", "unpacked")

    def put(self, message: Any, value: Any) -> None:
        """As protobuf does it. Raises ValueError or KeyError if the value does not fit."""
        if value is None:
            if self.label == "required":
                raise ValueError
            return
        if self.is_repeated:
            if None in value:
                raise ValueError
            converted: Any = [self.kind.convert(each, self.arrow_type) for each in value]
        else:
            converted = self.kind.convert(value, self.arrow_type)
        message.MergeFrom(type(message)(**{self.name: converted}))

    def column(self) -> Any:
        array = pa.array(self.values, self.arrow_type if not self.is_repeated else pa.list_(self.arrow_type))
        if self.as_dictionary and not self.is_repeated:
            distinct = list(dict.fromkeys(self.values))
            indices = pa.array([distinct.index(value) for value in self.values], pa.int16())
            return pa.DictionaryArray.from_arrays(indices, pa.array(distinct, self.arrow_type))
        return array


@st.composite
def field_cases(draw: st.DrawFn, count: int, labels: list[str]) -> list[FieldCase]:
    numbers = draw(st.lists(st.integers(1, 40) | st.integers(1, 5_000), min_size=1, max_size=5, unique=True))
    cases = []
    for number in numbers:
        kind = draw(st.sampled_from(SCALARS + MESSAGES))
        arrow_type = draw(st.sampled_from(kind.types))
        label = draw(st.sampled_from(labels))
        one = values_of(arrow_type)
        if kind.name == "Open" and arrow_type in TEXTS:
            one = st.sampled_from([*COLORS, "other"])
        if label in ("repeated", "unpacked"):
            one = st.lists(st.none() | one if draw(st.booleans()) else one, max_size=4)
        values = draw(st.lists(st.none() | one, min_size=count, max_size=count))
        # Distinct values are found by equality, which zeros with and without a sign do not have.
        as_dictionary = draw(st.booleans()) and not pa.types.is_floating(arrow_type)
        cases.append(FieldCase(f"f{number}", number, kind, label, arrow_type, as_dictionary, values))
    return cases


def expected(message: Any, cases: list[FieldCase], row: int) -> Any:
    """The message of a row; ``None``: a value does not fit."""
    made = message()
    try:
        for case in cases:
            case.put(made, case.values[row])
    except (ValueError, KeyError):
        return None
    if sum(case.label == "member" and case.values[row] is not None for case in cases) > 1:
        return None
    return made


def check(cases: list[FieldCase], text: str, start: int, *, is_nested: bool) -> None:
    message = message_class(text)
    count = len(cases[0].values)
    table = pa.table({case.name: case.column() for case in cases})
    data, columns = table, None
    if is_nested:
        column = pa.StructArray.from_arrays(
            [case.column() for case in cases], names=[case.name for case in cases]
        )
        data, columns = pa.table({"value": column}), "value"
    encoded = encode(Protobuf(message, columns), data.slice(start))
    for row, found in enumerate(encoded, start):
        wanted = expected(message, cases, row)
        if wanted is None:
            place, reason = found
            assert place.removesuffix("[]") in {case.name for case in cases}
            assert isinstance(reason, Misfit)
        else:
            assert found == wanted.SerializeToString(deterministic=True)
            assert message.FromString(found) == wanted
    assert len(encoded) == count - start


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_messages_of_proto3(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    cases = data.draw(field_cases(count, ["implicit", "optional", "repeated", "unpacked", "member"]))
    members = "\n".join(case.declaration for case in cases if case.label == "member")
    others = "\n".join(case.declaration for case in cases if case.label != "member")
    oneof = f"oneof pick {{\n{members}\n}}\n" if members else ""
    check(
        cases,
        f"message M {{\n{oneof}{others}\n}}\n{ENUMS}",
        data.draw(st.integers(0, count - 1)),
        is_nested=data.draw(st.booleans()),
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_messages_of_proto2(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    cases = data.draw(field_cases(count, ["optional", "required", "repeated"]))
    # An enum of proto2 takes its own numbers only.
    cases = [case for case in cases if case.kind.name != "Open" or case.arrow_type in TEXTS]
    if cases:
        fields = "\n".join(case.declaration for case in cases)
        check(
            cases,
            f'syntax = "proto2"\nmessage M {{\n{fields}\n}}\n{ENUMS}',
            data.draw(st.integers(0, count - 1)),
            is_nested=data.draw(st.booleans()),
        )


_json = st.recursive(
    st.sampled_from([pa.float64(), pa.int16(), pa.string(), pa.bool_(), pa.null()]),
    lambda inner: (
        st.builds(pa.list_, inner)
        | st.lists(inner, max_size=3).map(
            lambda types: pa.struct([(f"k{number}", each) for number, each in enumerate(types)])
        )
    ),
    max_leaves=6,
)


def json_of(arrow_type: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_null(arrow_type):
        return st.none()
    if pa.types.is_list(arrow_type):
        return st.none() | st.lists(json_of(arrow_type.value_type), max_size=3)
    if pa.types.is_struct(arrow_type):
        return st.none() | st.fixed_dictionaries({each.name: json_of(each.type) for each in arrow_type})
    return st.none() | values_of(arrow_type)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_json_of_any_shape(data: st.DataObject) -> None:
    arrow_type = data.draw(_json)
    values = data.draw(st.lists(json_of(arrow_type), min_size=1, max_size=4))
    message = message_class("message M {\ngoogle.protobuf.Value v = 1\n}")
    for value, encoded in zip(
        values, encode(Protobuf(message), pa.table({"v": pa.array(values, arrow_type)})), strict=True
    ):
        assert isinstance(encoded, bytes)
        found = message.FromString(encoded)
        assert found.HasField("v") == (value is not None)
        if value is not None:
            assert as_python(found.v) == value


def as_python(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return {name: as_python(each) for name, each in value.struct_value.fields.items()}
    if kind == "list_value":
        return [as_python(each) for each in value.list_value.values]
    return None if kind == "null_value" else getattr(value, kind)
