"""``Protobuf`` and well-known messages: times, dates, wrapped scalars, JSON in messages, and all others."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import struct_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kproducer._core.columns.encoder_plan import Misfit
from kproducer.columnar import Protobuf
from tests.unit.columnar.protobuf_kit import encode, message_class, parsed, pool_of, proto, rows

UINT64_MAX = 2**64 - 1


def test_times():
    text = """
    message M {
        google.protobuf.Timestamp at = 1
        google.protobuf.Duration took = 2
    }
    """
    message = message_class(text)
    for unit, ticks in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        for zone in (None, "UTC", "Europe/Berlin"):
            numbers = [0, 1, -1, 1_700_000_000 * ticks + 1, -ticks, ticks - 1]
            table = pa.table(
                {
                    "at": pa.array(numbers, pa.timestamp(unit, zone)),
                    "took": pa.array(numbers, pa.duration(unit)),
                }
            )
            for number, each in zip(numbers, rows(message, table), strict=True):
                assert each.at.ToNanoseconds() == number * (10**9 // ticks)
                assert each.took.ToNanoseconds() == number * (10**9 // ticks)


def test_times_that_protobuf_cannot_represent():
    message = message_class("message M {\ngoogle.protobuf.Timestamp t = 1\ngoogle.protobuf.Duration d = 2\n}")
    seconds = [-62_135_596_801, 253_402_300_800, -62_135_596_800, 253_402_300_799]
    found = rows(message, pa.table({"t": pa.array(seconds, pa.timestamp("s"))}))
    assert found[:2] == [("t", Misfit.OUT_OF_RANGE)] * 2
    assert [each.t.ToJsonString() for each in found[2:]] == ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]
    longest = [315_576_000_001, -315_576_000_001, 315_576_000_000, -(2**63)]
    found = rows(message, pa.table({"d": pa.array(longest, pa.duration("s"))}))
    assert found[:2] == [("d", Misfit.OUT_OF_RANGE)] * 2
    assert found[2].d.ToJsonString() == "315576000000s"
    assert found[3] == ("d", Misfit.OUT_OF_RANGE)


def test_wrappers():
    kinds = {
        "Bool": [False, True], "Int32": [0, -1], "Int64": [0, 2**62], "UInt32": [0, 2**32 - 1],
        "UInt64": [0, UINT64_MAX], "Float": [0.0, 1.5], "Double": [0.0, -0.0], "String": ["", "x"],
        "Bytes": [b"", b"\xff"],
    }  # fmt: skip
    text = "message M {\n" + "\n".join(
        f"{label} google.protobuf.{kind}Value {kind.lower()}{end} = {number + more}"
        for number, kind in enumerate(kinds, 1)
        for label, end, more in (("", "", 0), ("repeated", "s", 20))
    )
    message = message_class(text + "\n}")
    types = {"UInt32": pa.uint32(), "UInt64": pa.uint64(), "Float": pa.float32()}
    columns: dict[str, Any] = {}
    for kind, values in kinds.items():
        columns[kind.lower()] = pa.array([*values, None], types.get(kind)).dictionary_encode()
        columns[f"{kind.lower()}s"] = [values, [], None]
        if kind in types:
            columns[f"{kind.lower()}s"] = pa.array([values, [], None], pa.list_(types[kind]))
    found = rows(message, pa.table(columns))
    for number in (0, 1):
        assert [getattr(found[number], kind.lower()).value for kind in kinds] == [
            values[number] for values in kinds.values()
        ]
    assert [each.value for each in found[0].uint64s] == [0, UINT64_MAX]
    assert found[2] == message()


JSON = """
message M {
    google.protobuf.Struct object = 1
    google.protobuf.Value any = 2
    google.protobuf.ListValue list = 3
}
"""


def test_json_in_messages():
    message = message_class(JSON)
    objects = [
        {"number": 1.5, "whole": 3, "text": "x", "yes": True, "list": [1, None], "inner": {"a": None}},
        {"number": None, "whole": None, "text": None, "yes": None, "list": None, "inner": None},
        None,
    ]
    table = pa.table(
        {
            "object": pa.array(objects),
            "any": pa.array([[[("k", 1)]], [], None], pa.list_(pa.map_(pa.string(), pa.int8()))),
            "list": [[{"a": "x"}, None], [], None],
        }
    )
    first, second, third = parsed(message, encode(Protobuf(message), table))
    expected = struct_pb2.Struct()
    expected.update(objects[0])
    assert first.object == type(first.object).FromString(expected.SerializeToString())
    assert first.any.list_value.values[0].struct_value.fields["k"].number_value == 1
    assert first.list.values[0].struct_value.fields["a"].string_value == "x"
    assert first.list.values[1].WhichOneof("kind") == "null_value"
    assert all(each.WhichOneof("kind") == "null_value" for each in second.object.fields.values())
    assert len(second.object.fields) == 6
    assert second.any.WhichOneof("kind") == "list_value"
    assert third == message()


@pytest.mark.parametrize(
    "values",
    [
        [1.5, None], [True, None], ["x", None], [2**53, None], [{"a": 1}, None],
        pa.array(["a", None]).dictionary_encode(), pa.array([{"a": 1}, None]),
        pa.array([[("k", "v")], None], pa.map_(pa.string(), pa.string())),
    ],
)  # fmt: skip
def test_a_value_of_any_type(values):
    message = message_class(JSON)
    first, second = parsed(message, encode(Protobuf(message), pa.table({"any": values})))
    assert first.any.WhichOneof("kind") not in (None, "null_value")
    assert not second.HasField("any")


def test_null_in_json_whose_file_was_compiled_from_another_folder():
    """The path of a file in descriptors is the one that ``protoc`` was called with."""
    file = struct_pb2.DESCRIPTOR.serialized_pb.replace(
        b"\x0a\x1cgoogle/protobuf/struct.proto", b"\x0a\x1ccommon/protobuf/struct.proto"
    )
    pool = DescriptorPool()
    pool.AddSerializedFile(file)
    list_value = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.ListValue"))
    (found,) = rows(list_value, pa.array([[1.5, None]]))
    assert [each.WhichOneof("kind") for each in found.values] == ["number_value", "null_value"]


def test_a_dictionary_of_structs_as_json():
    message = message_class(JSON)
    structs = pa.array([{"a": "x", "b": [1.0]}, {"a": None, "b": None}])
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 0], pa.int8()), structs)
    found = parsed(message, encode(Protobuf(message), pa.table({"object": column, "any": column})))
    assert [dict(each.object.fields)["a"].string_value for each in (found[1], found[3])] == ["x", "x"]
    assert found[1].object == found[1].any.struct_value
    assert found[2] == message()


def test_other_well_known_messages_from_their_structs():
    text = """
    message M {
        google.protobuf.Any any = 1
        google.protobuf.FieldMask mask = 2
        google.protobuf.Empty empty = 3
        google.protobuf.Timestamp at = 4
        google.protobuf.NullValue nothing = 5
    }
    """
    message = message_class(text)
    table = pa.table(
        {
            "any": [{"type_url": "type.googleapis.com/t.M", "value": b"\x08\x01"}, None],
            "mask": [{"paths": ["a", "b.c"]}, None],
            "empty": pa.array([{}, None], pa.struct([])),
            "at": [{"seconds": 5, "nanos": 0}, None],
            "nothing": pa.nulls(2),
        }
    )
    first, second = rows(message, table)
    assert first.any.type_url.endswith("t.M")
    assert list(first.mask.paths) == ["a", "b.c"]
    assert first.HasField("empty")
    assert first.at.seconds == 5
    assert second == message()


def test_dates():
    date = proto(
        "message Date {\nint32 year = 1\nint32 month = 2\nint32 day = 3\n}", "google.type", "d.proto"
    )
    file = proto("message M {\ngoogle.type.Date d = 1\n}")
    file.dependency.append("d.proto")
    message = GetMessageClass(pool_of(date, file).FindMessageTypeByName("t.M"))
    epoch = datetime.date(1970, 1, 1).toordinal()
    days = [
        *range(datetime.date(1999, 12, 1).toordinal(), datetime.date(2001, 3, 2).toordinal()),
        *range(1, datetime.date.max.toordinal(), 1_009),
        *range(1, 800),
        datetime.date.max.toordinal(),
    ]
    for kind, ticks in ((pa.date32(), 1), (pa.date64(), 86_400_000)):
        numbers = [(day - epoch) * ticks for day in days]
        found = rows(message, pa.table({"d": pa.array(numbers, kind)}))
        assert [(each.d.year, each.d.month, each.d.day) for each in found] == [
            datetime.date.fromordinal(day).timetuple()[:3] for day in days
        ]
        outside = pa.table({"d": pa.array([-epoch * ticks, (days[-1] + 1 - epoch) * ticks], kind)})
        assert rows(message, outside) == [("d", Misfit.OUT_OF_RANGE)] * 2
