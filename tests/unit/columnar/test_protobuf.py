"""``Protobuf``: what it writes is what google.protobuf reads and writes; both kernels agree."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, struct_pb2
from google.protobuf.internal import encoder, wire_format

from kproducer._core.columns.encoder_plan import Misfit
from kproducer.columnar import Protobuf
from tests.unit.columnar.protobuf_kit import encode, message_class, parsed, rows

UINT64_MAX = 2**64 - 1


def test_every_scalar_at_its_limits():
    kinds = {
        "int32": (pa.int32(), -(2**31), 2**31 - 1),
        "int64": (pa.int64(), -(2**63), 2**63 - 1),
        "uint32": (pa.uint32(), 1, 2**32 - 1),
        "uint64": (pa.uint64(), 2**63, UINT64_MAX),
        "sint32": (pa.int32(), -(2**31), 2**31 - 1),
        "sint64": (pa.int64(), -(2**63), 2**63 - 1),
        "fixed32": (pa.uint32(), 1, 2**32 - 1),
        "fixed64": (pa.uint64(), 2**63, UINT64_MAX),
        "sfixed32": (pa.int32(), -(2**31), 2**31 - 1),
        "sfixed64": (pa.int64(), -(2**63), 2**63 - 1),
        "float": (pa.float32(), -0.0, 1.5),
        "double": (pa.float64(), -0.0, math.inf),
        "bool": (pa.bool_(), True, False),
        "string": (pa.string(), "ü", "x" * 200),
        "bytes": (pa.binary(), b"\xff\x00", b""),
    }
    text = "message M {\n" + "\n".join(f"{kind} f_{kind} = {number}" for number, kind in enumerate(kinds, 1))
    message = message_class(text + "\n}")
    table = pa.table({f"f_{kind}": pa.array(values, kind_) for kind, (kind_, *values) in kinds.items()})
    found = rows(message, table)
    for number in (0, 1):
        expected = message(**{f"f_{kind}": values[number + 1] for kind, values in kinds.items()})
        assert found[number] == expected
        assert encode(Protobuf(message), table)[number] == expected.SerializeToString(deterministic=True)


def test_the_bits_of_nan_stay():
    message = message_class("message M {\ndouble d = 1\nfloat f = 2\n}")
    (data,) = encode(Protobuf(message), pa.table({"d": [math.nan], "f": pa.array([math.nan], pa.float32())}))
    assert data == message(d=math.nan, f=math.nan).SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "reason"),
    [
        ("int32", pa.int64(), 2**31, Misfit.OUT_OF_RANGE),
        ("sint32", pa.int64(), -(2**31) - 1, Misfit.OUT_OF_RANGE),
        ("int64", pa.uint64(), 2**63, Misfit.OUT_OF_RANGE),
        ("sint64", pa.uint64(), UINT64_MAX, Misfit.OUT_OF_RANGE),
        ("sfixed32", pa.uint32(), 2**31, Misfit.OUT_OF_RANGE),
        ("uint32", pa.int8(), -1, Misfit.OUT_OF_RANGE),
        ("uint32", pa.uint64(), UINT64_MAX, Misfit.OUT_OF_RANGE),
        ("uint64", pa.int64(), -1, Misfit.OUT_OF_RANGE),
        ("fixed32", pa.int64(), 2**32, Misfit.OUT_OF_RANGE),
        ("fixed64", pa.int32(), -1, Misfit.OUT_OF_RANGE),
        ("double", pa.int64(), 2**53 + 1, Misfit.NOT_EXACT),
        ("double", pa.uint64(), UINT64_MAX, Misfit.NOT_EXACT),
        ("float", pa.int32(), 2**24 + 1, Misfit.NOT_EXACT),
    ],
)
def test_a_number_that_does_not_fit_fails_its_row_only(kind, arrow, value, reason):
    message = message_class(f"message M {{\n{kind} n = 1\n}}")
    first, second, third = encode(Protobuf(message), pa.table({"n": pa.array([1, value, 2], arrow)}))
    assert (message.FromString(first).n, second, message.FromString(third).n) == (1, ("n", reason), 2)


def test_presence():
    text = """
    message M {
        int32 implicit = 1
        optional int32 explicit = 2
        google.protobuf.Int32Value wrapped = 3
        string text = 4
        optional string some_text = 5
    }
    """
    message = message_class(text)
    numbers = pa.array([0, None, 5], pa.int32())
    texts = ["", None, "x"]
    table = pa.table(
        {"implicit": numbers, "explicit": numbers, "wrapped": numbers, "text": texts, "some_text": texts}
    )
    zero, null, five = encode(Protobuf(message), table)
    assert zero == b"\x10\x00\x1a\x00\x2a\x00"
    assert null == b""
    assert five == b"\x08\x05\x10\x05\x1a\x02\x08\x05\x22\x01x\x2a\x01x"
    assert [each.HasField("wrapped") for each in rows(message, table)] == [True, False, True]


def test_proto2_required_fields_and_defaults():
    text = """
    syntax = "proto2"
    message M {
        required int32 id = 1
        optional int32 size = 2 [default = 7]
        optional string name = 3 [default = "none"]
        repeated int32 unpacked = 4
        repeated int32 packed = 5 [packed = true]
        optional Color color = 6
    }
    enum Color {
        RED = 1
        BLUE = -2
    }
    """
    message = message_class(text)
    table = pa.table(
        {
            "id": pa.array([0, None, 1], pa.int32()),
            "size": pa.array([7, 1, None], pa.int32()),
            "name": ["none", "x", None],
            "unpacked": [[0, 1], [], None],
            "packed": [[0, -1], [], None],
            "color": ["RED", "RED", "BLUE"],
        }
    )
    first, second, third = rows(message, table)
    assert first == message(id=0, size=7, name="none", unpacked=[0, 1], packed=[0, -1], color=1)
    assert second == ("id", Misfit.NULL)
    assert third == message(id=1, color=-2)
    assert (third.size, third.name, third.HasField("size")) == (7, "none", False)


def test_features_of_editions():
    text = """
    edition = "2023"
    message M {
        int32 explicit = 1
        int32 implicit = 2 [presence = IMPLICIT]
        int32 needed = 3 [presence = LEGACY_REQUIRED]
        N group = 4 [encoding = DELIMITED]
        repeated N groups = 5 [encoding = DELIMITED]
    }
    message N {
        int32 x = 1
        string y = 2
    }
    """
    message = message_class(text)
    zero = pa.array([0, 1, 2], pa.int32())
    inner = [{"x": 3, "y": "a"}, None, {"x": 0, "y": ""}]
    table = pa.table(
        {
            "explicit": zero,
            "implicit": zero,
            "needed": pa.array([1, None, 3], pa.int32()),
            "group": inner,
            "groups": [[{"x": 1, "y": "b"}, {"x": 0, "y": None}], None, []],
        }
    )
    first, second, third = rows(message, table)
    assert first.HasField("explicit")
    assert (first.group.x, first.group.y, len(first.groups)) == (3, "a", 2)
    assert second == ("needed", Misfit.NULL)
    assert third == message(explicit=2, implicit=2, needed=3, group={"x": 0, "y": ""})


def test_groups_of_proto2():
    text = """
    syntax = "proto2"
    message M {
        repeated group item = 1
        optional int32 last = 2
        message Item {
            optional string name = 3
        }
    }
    """
    message = message_class(text)
    table = pa.table({"item": [[{"name": "a"}, {"name": None}]], "last": pa.array([1], pa.int32())})
    (found,) = rows(message, table)
    assert [each.name for each in found.item] == ["a", ""]


def test_enums_by_name_and_number():
    text = """
    message M {
        Color open = 1
        repeated Color several = 2
        optional Color maybe = 3
    }
    enum Color {
        option allow_alias = true
        NONE = 0
        RED = 1
        ROUGE = 1
        MINUS = -1
    }
    """
    message = message_class(text)
    names = pa.array(["NONE", "ROUGE", "MINUS", "red"])
    table = pa.table(
        {
            "open": names.dictionary_encode(),
            "several": [["NONE", "RED"], [], None, []],
            "maybe": pa.array([0, 77, -1, 2**31], pa.int64()),
        }
    )
    first, second, third, fourth = rows(message, table)
    assert first == message(open=0, several=[0, 1], maybe=0)
    assert second == message(open=1, maybe=77)
    assert third == message(open=-1, maybe=-1)
    assert fourth == ("open", Misfit.NOT_A_SYMBOL)
    numbers = pa.table({"maybe": pa.array([2**31, 2**31 - 1], pa.int64())})
    assert rows(message, numbers) == [("maybe", Misfit.OUT_OF_RANGE), message(maybe=2**31 - 1)]


def test_a_closed_enum_takes_its_own_numbers_only():
    text = """
    syntax = "proto2"
    message M {
        optional Color color = 1
    }
    enum Color {
        RED = 1
        BLUE = -2
    }
    """
    message = message_class(text)
    table = pa.table({"color": [1, -2, 0, 2**32 + 1, None]})
    assert rows(message, table) == [
        message(color=1),
        message(color=-2),
        ("color", Misfit.NOT_A_SYMBOL),
        ("color", Misfit.OUT_OF_RANGE),
        message(),
    ]


@pytest.mark.parametrize("size", [0, 1, 120, 121, 122, 127, 128, 16_380, 16_384, 70_000, 2_100_000])
def test_the_length_of_a_message_takes_as_many_bytes_as_it_needs(size):
    message = message_class("message M {\nstring s = 1\nM m = 2\nrepeated M ms = 3\nrepeated bool b = 4\n}")
    value = {"s": "x" * size, "m": {"s": "y" * size}}
    table = pa.table({"m": [value], "ms": [[value, value]], "b": [[True] * size]})
    assert rows(message, table) == [message(m=value, ms=[value, value], b=[True] * size)]


def test_lists_of_all_types_of_arrow():
    message = message_class("message M {\nrepeated int32 n = 1\nrepeated string s = 2\n}")
    numbers, texts = [[1, 2], [], None, [3]], [["a"], None, ["", "b"], []]
    for of in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view):
        table = pa.table({"n": pa.array(numbers, of(pa.int32())), "s": pa.array(texts, of(pa.string_view()))})
        for start in range(3):
            assert rows(message, table.slice(start)) == [
                message(n=n or [], s=s or []) for n, s in zip(numbers[start:], texts[start:], strict=True)
            ]
    fixed = pa.table({"n": pa.array([[1, 2], None, [0, -1]], pa.list_(pa.int32(), 2))})
    assert rows(message, fixed) == [message(n=[1, 2]), message(), message(n=[0, -1])]


def test_an_element_that_is_null_fails_its_row():
    message = message_class(
        "message M {\nrepeated int32 n = 1\nmap<string, int32> m = 2\nrepeated M ms = 3\n}"
    )
    table = pa.table(
        {
            "n": [[1, None], [1], []],
            "m": pa.array([[], [("a", None)], []], pa.map_(pa.string(), pa.int32())),
            "ms": [[], [], [{"n": [5]}, None]],
        }
    )
    assert encode(Protobuf(message), table) == [
        ("n[]", Misfit.NULL),
        ("m.value", Misfit.NULL),
        ("ms[]", Misfit.NULL),
    ]


def test_maps():
    text = """
    message M {
        map<string, int32> a = 1
        map<uint64, M> b = 2
        map<bool, google.protobuf.Timestamp> c = 3
    }
    """
    message = message_class(text)
    table = pa.table(
        {
            "a": pa.array([[("", 0)], [("x", -1)], None], pa.map_(pa.string(), pa.int32())),
            "b": pa.array(
                [[(UINT64_MAX, {"a": [("y", 1)]})], [], [(0, {"a": []})]],
                pa.map_(pa.uint64(), pa.struct([("a", pa.map_(pa.string(), pa.int32()))])),
            ),
            # Some libraries have lists of pairs instead of maps.
            "c": pa.array(
                [[{"k": True, "v": 1_500}], [], None],
                pa.list_(pa.struct([("k", pa.bool_()), ("v", pa.timestamp("ms"))])),
            ),
        }
    )
    first, second, third = rows(message, table)
    assert dict(first.a) == {"": 0}
    assert dict(first.b[UINT64_MAX].a) == {"y": 1}
    assert (first.c[True].seconds, first.c[True].nanos) == (1, 500_000_000)
    assert dict(second.a) == {"x": -1}
    assert list(third.b) == [0]


ONEOF = """
message M {
    string a = 1
    oneof pick {
        int32 i = 2
        string s = 4
        N n = 5
    }
    int32 z = 3
}
message N {
    oneof x {
        int32 p = 1
        int32 q = 2
    }
    oneof y {
        int32 r = 3
        int32 t = 4
    }
}
"""


def test_a_oneof_takes_one_value():
    message = message_class(ONEOF)
    table = pa.table(
        {
            "i": pa.array([0, None, None, 1, None], pa.int32()),
            "s": [None, "", None, None, None],
            "n": [None, None, {"p": 1, "q": None, "r": None, "t": 2}, {"p": 1, "q": None, "r": 1, "t": None},
                  {"p": 1, "q": 2, "r": None, "t": None}],
            "z": pa.array([1, 2, 3, 4, 5], pa.int32()),
        }
    )  # fmt: skip
    found = parsed(message, encode(Protobuf(message), table))
    assert [each.WhichOneof("pick") for each in found[:3]] == ["i", "s", "n"]
    assert found[2].n.WhichOneof("y") == "t"
    assert found[3:] == [("n", Misfit.SEVERAL_VALUES), ("n.q", Misfit.SEVERAL_VALUES)]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_oneof_from_a_union(is_sparse):
    message = message_class(ONEOF)
    if is_sparse:
        union = pa.UnionArray.from_sparse(
            pa.array([7, 3, 7, 3], pa.int8()),
            [pa.array([9, 1, 9, None], pa.int32()), pa.array(["x", "9", None, "9"])],
            ["i", "s"],
            [3, 7],
        )
    else:
        union = pa.UnionArray.from_dense(
            pa.array([7, 3, 7, 3], pa.int8()),
            pa.array([0, 1, 1, 0], pa.int32()),
            [pa.array([None, 1], pa.int32()), pa.array(["x", None])],
            ["i", "s"],
            [3, 7],
        )
    table = pa.table({"pick": union, "a": ["1", "2", "3", "4"]})
    assert rows(message, table) == [
        message(a="1", s="x"), message(a="2", i=1), message(a="3"), message(a="4"),
    ]  # fmt: skip
    several = pa.table({"pick": union, "n": [{"p": 1}, None, {"p": 2}, {"p": 3}]})
    assert parsed(message, encode(Protobuf(message), several)) == [
        ("n", Misfit.SEVERAL_VALUES), message(i=1), message(n={"p": 2}), message(n={"p": 3}),
    ]  # fmt: skip


def test_a_union_without_alternatives_takes_no_rows():
    union = pa.UnionArray.from_sparse(pa.array([], pa.int8()), [])
    assert rows(message_class(ONEOF), pa.table({"pick": union})) == []


def test_fields_by_their_names_in_json_and_in_the_order_of_their_numbers():
    text = """
    message M {
        int32 order_id = 300
        string customerName = 2
        int32 other = 1 [json_name = "@other"]
    }
    """
    message = message_class(text)
    table = pa.table({"orderId": [1], "customerName": ["x"], "@other": [3]})
    assert rows(message, table) == [message(order_id=1, customerName="x", other=3)]
    assert rows(message, table.rename_columns(["order_id", "customerName", "other"])) == [
        message(order_id=1, customerName="x", other=3)
    ]


def test_columns_that_the_call_uses_otherwise_are_written_if_the_message_has_them():
    message = message_class("message M {\nint32 id = 1\nstring key = 2\n}")
    table = pa.table({"id": [1], "key": ["k"], "topic": ["t"]})
    encoded = encode(Protobuf(message), table, taken=("key", "topic"))
    assert parsed(message, encoded) == [message(id=1, key="k")]
    assert parsed(message, encode(Protobuf(message, ["id"]), table)) == [message(id=1)]


def test_one_struct_column_is_the_message():
    message = message_class("message M {\nint32 id = 1\nM m = 2\n}")
    column = pa.array([{"id": 1, "m": {"id": 2}}, None, {"id": 0, "m": None}])
    table = pa.table({"value": column, "other": [1, 2, 3]})
    assert rows(message, table, columns="value") == [message(id=1, m={"id": 2}), None, message()]
    as_dictionary = pa.DictionaryArray.from_arrays(pa.array([2, 0, None], pa.int8()), column)
    assert rows(message, pa.table({"value": as_dictionary}), columns="value") == [
        message(), message(id=1, m={"id": 2}), None,
    ]  # fmt: skip
    # As Spark's rows in an array that has no names.
    assert rows(struct_pb2.Struct, pa.table({"v": [{"a": 1.0}]}), columns="v")[0]["a"] == 1.0


def test_a_message_that_contains_itself_and_missing_columns():
    message = message_class("message M {\nM m = 1\nint32 n = 2\nrepeated M ms = 3\n}")
    value: dict[str, Any] = {"n": 1}
    for _ in range(8):
        value = {"m": value}
    assert rows(message, pa.table({"m": [value]})) == [message(m=value)]


def test_binary_of_all_types():
    message = message_class("message M {\nbytes b = 1\nstring s = 2\n}")
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(13)):
        data = [b"\xff" * 13, b"0123456789abc", None]
        for column in (
            pa.array(data, kind),
            *([pa.array(data, kind).dictionary_encode()] if kind != pa.binary_view() else []),
        ):
            assert rows(message, pa.table({"b": column})) == [message(b=each or b"") for each in data]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        texts = ["ü" * 13, "", "0123456789abcdefghij"]
        assert rows(message, pa.table({"s": pa.array(texts, kind)})) == [message(s=each) for each in texts]


def test_text_that_is_not_utf_8_fails_its_row():
    message = message_class("message M {\nstring s = 1\n}")
    good = [b"abcdefgh", b"", "äöü€😀".encode(), b"1234567\xc3\xbc", b"12345678\xc3\xbc9"]
    bad = [b"\xff", b"12345678\xff", b"1234567\xc3", b"12345678\xed\xa0\x80", b"123456781234567\x80"]
    column = pa.array([*good, *bad], pa.binary()).view(pa.string())
    found = encode(Protobuf(message), pa.table({"s": column}))
    assert parsed(message, found[: len(good)]) == [message(s=each.decode()) for each in good]
    assert found[len(good) :] == [("s", Misfit.NOT_UTF8)] * len(bad)


def test_many_fields_and_large_numbers():
    message = message_class(
        "message M {\n"
        + "\n".join(f"optional int32 f{n} = {n}" for n in (1, 15, 16, 2047, 2048, 536_870_911))
        + "\n}"
    )
    table = pa.table({field.name: pa.array([0, 1, None], pa.int32()) for field in message.DESCRIPTOR.fields})
    assert rows(message, table)[2] == message()


def test_a_class_of_the_process_and_a_descriptor():
    table = pa.table({"name": ["a.proto"], "dependency": [["b", "c"]], "syntax": ["proto3"]})
    kind = descriptor_pb2.FileDescriptorProto
    assert rows(kind, table) == [kind(name="a.proto", dependency=["b", "c"], syntax="proto3")]
    assert encode(Protobuf(kind.DESCRIPTOR), table) == encode(Protobuf(kind), table)
    assert repr(Protobuf(kind, "x")) == "Protobuf(google.protobuf.FileDescriptorProto, 'x')"


def test_tags_are_those_of_protobuf():
    assert encoder.TagBytes(16, wire_format.WIRETYPE_VARINT) == b"\x80\x01"
    message = message_class("message M {\nfixed64 n = 16\n}")
    assert encode(Protobuf(message), pa.table({"n": [1]})) == [b"\x81\x01" + struct.pack("<q", 1)]
