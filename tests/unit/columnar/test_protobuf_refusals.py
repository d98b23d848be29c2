"""What ``Protobuf`` refuses before anything is sent: the error names column, type and field, and a remedy."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from kproducer.columnar import Protobuf
from kproducer.errors import ConfigError, InvalidArgumentError
from tests.unit.columnar.protobuf_kit import compiled, message_class

TEXT = """
message M {
    int32 int = 1
    double double = 2
    float float = 3
    bool bool = 4
    string string = 5
    bytes bytes = 6
    Color color = 7
    N n = 8
    repeated int64 ints = 9
    map<string, int32> counts = 10
    google.protobuf.Timestamp at = 11
    google.protobuf.Duration took = 12
    google.protobuf.Int64Value maybe = 13
    google.protobuf.Struct object = 14
    google.protobuf.Value value = 15
    google.protobuf.ListValue list = 16
    oneof pick {
        int32 a_a = 17
        string b = 18
    }
    google.protobuf.Any any = 19
    uint64 unsigned = 20
}
message N {
    int32 x = 1
    string y = 2
    N n = 3
}
enum Color {
    NONE = 0
}
"""
MESSAGE = message_class(TEXT)


def refusal(given: Any, data: Any, **more: Any) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        compiled(given, data, **more)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "arrow_type", "text"),
    [
        ("int", pa.float64(),
         "column 'int' is of type float64, which does not fit int32 of the .* cast it to int32"),
        ("int", pa.string(), "string, which does not fit int32 .* cast it to int32, or change the message"),
        ("int", pa.bool_(), "bool, which does not fit int32"),
        ("int", pa.timestamp("ms"), r"timestamp\[ms.*\], which does not fit int32"),
        ("unsigned", pa.date32(), "date32.* which does not fit uint64 .* cast it to uint64"),
        ("double", pa.string(), "string, which does not fit double .* cast it to float64"),
        ("float", pa.float64(), "float64, which does not fit float .* cast it to float32"),
        ("bool", pa.int8(), "int8, which does not fit bool .* cast it to bool"),
        ("string", pa.binary(), "binary, which does not fit string .* cast it to string"),
        ("string", pa.decimal128(9, 2), r"decimal128\(9, 2\), which does not fit string"),
        ("bytes", pa.int64(), "int64, which does not fit bytes .* cast it to binary"),
        ("color", pa.float32(), r"does not fit enum t\.Color .* cast it to string or int32"),
        ("color", pa.binary(), r"which does not fit enum t\.Color"),
        ("n", pa.int32(), r"int32, which does not fit t\.N .* make it a struct"),
        ("n", pa.struct([("x", pa.string())]),
         "column 'n', at 'n.x', is of type string, which does not fit int32"),
        ("ints", pa.int64(), "int64, which does not fit repeated int64 .* make it a list"),
        ("ints", pa.list_(pa.string()), r"column 'ints', at 'ints\[\]', is of type string"),
        ("counts", pa.list_(pa.int32()), "which does not fit map<string, int32> .* make it a map"),
        ("counts", pa.struct([("a", pa.int32())]), "which does not fit map<string, int32>"),
        ("counts", pa.map_(pa.int32(), pa.int32()), "at 'counts.key', is of type int32"),
        ("counts", pa.map_(pa.string(), pa.string()), "at 'counts.value', is of type string"),
        ("at", pa.int64(), r"does not fit google\.protobuf\.Timestamp .* cast it to a timestamp"),
        ("at", pa.date32(), r"which does not fit google\.protobuf\.Timestamp"),
        ("took", pa.timestamp("s"), r"does not fit google\.protobuf\.Duration .* cast it to a duration"),
        ("took", pa.month_day_nano_interval(), r"which does not fit google\.protobuf\.Duration"),
        ("maybe", pa.string(), "string, which does not fit int64 .* cast it to int64"),
        ("object", pa.string(), r"which does not fit google\.protobuf\.Struct .* make it a struct, or a map"),
        ("object", pa.map_(pa.int32(), pa.int32()), r"which does not fit google\.protobuf\.Struct"),
        ("object", pa.struct([("a", pa.binary())]),
         r"at 'object.a', is of type binary, which does not fit google\.protobuf\.Value"),
        ("value", pa.timestamp("s"), r"which does not fit google\.protobuf\.Value .* make it bool, a number"),
        ("list", pa.int32(), r"which does not fit google\.protobuf\.ListValue .* make it a list"),
        ("pick", pa.int32(), r"does not fit oneof t\.M\.pick .* one column for each field \(a_a, b\)"),
        ("any", pa.binary(), r"which does not fit google\.protobuf\.Any .* make it a struct"),
        ("n", pa.struct([("z", pa.int32())]),
         r"field 'z' in 'n' is not in the .* t\.N \(fields: 'x', 'y', 'n'\): leave it out, or add"),
        ("int", pa.dictionary(pa.int8(), pa.string()), "dictionary<string>, which does not fit int32"),
    ],
)  # fmt: skip
def test_types_that_do_not_fit(name, arrow_type, text):
    table = pa.schema([(name, arrow_type)]).empty_table()
    assert re.search(text, refusal(Protobuf(MESSAGE), table))
    assert refusal(Protobuf(MESSAGE), table).startswith("value: ")


def test_a_column_that_the_message_does_not_have():
    text = refusal(Protobuf(MESSAGE), pa.table({"int": [1], "strin": ["x"]}), role="key")
    assert text.startswith(
        "key: column 'strin' is not in the Protobuf message t.M (did you mean 'string'? fields: 'int', "
    )
    assert text.endswith(": leave it out, with columns=[...], or add it to the message")
    text = refusal(Protobuf(MESSAGE), pa.table({"what": [1], "int": [1], "strin": ["x"]}))
    assert text.startswith("value: columns 'what', 'strin' are not in the Protobuf message t.M (did you mean")
    assert text.endswith(": leave them out, with columns=[...], or add them to the message")


def test_an_alternative_that_is_not_in_the_oneof():
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])], ["c"])
    assert refusal(Protobuf(MESSAGE), pa.table({"pick": union})) == (
        "value: the alternative 'c' of the union 'pick' is not in oneof t.M.pick (fields: a_a, b): rename it"
        ", or leave it out"
    )


def test_two_columns_that_are_one_field():
    assert refusal(Protobuf(MESSAGE), pa.table({"a_a": [1], "aA": [1]})) == (
        "value: columns 'a_a' and 'aA' are both field 'a_a' of t.M: leave one of them out"
    )


def test_a_required_field_without_a_column():
    text = """
    syntax = "proto2"
    message M {
        optional N n = 1
        optional int32 x = 2
    }
    message N {
        required int32 id = 1
        optional int32 x = 2
    }
    """
    assert refusal(Protobuf(message_class(text, "N")), pa.table({"x": [1]})) == (
        "value: there is no column 'id', which the Protobuf message t.N requires: add it"
    )
    assert refusal(Protobuf(message_class(text)), pa.table({"n": [{"x": 1}]})) == (
        "value: there is no field 'id' in 'n', which the Protobuf message t.N requires: add it"
    )


def test_one_column_that_is_no_message():
    table = pa.table({"c": [1], "at": pa.array([1], pa.timestamp("s"))})
    assert refusal(Protobuf(MESSAGE, "c"), table) == (
        "value: column 'c' is of type int64, which does not fit t.M of the Protobuf message: make it a struct"
        ", or change the message"
    )
    timestamp = MESSAGE.DESCRIPTOR.fields_by_name["at"].message_type
    assert "make it a struct" in refusal(Protobuf(timestamp, "at"), table)
    assert "there is no column 'd'" in refusal(Protobuf(MESSAGE, "d"), table)


def test_more_oneofs_than_the_kernel_counts():
    oneofs = "\n".join(
        f"oneof o{n} {{\nint32 a{n} = {2 * n + 1}\nint32 b{n} = {2 * n + 2}\n}}" for n in range(64)
    )
    message = message_class(f"message M {{\n{oneofs}\n}}")
    names = [field.name for field in message.DESCRIPTOR.fields]
    table = pa.table({name: pa.array([None], pa.int32()) for name in names})
    assert "more than 63 oneofs of t.M have several columns" in refusal(Protobuf(message), table)
    compiled(Protobuf(message), table.drop_columns(["a63"]))


@pytest.mark.parametrize("message", [None, "M", object(), int, {}])
def test_what_is_no_message(message):
    with pytest.raises(
        ConfigError, match="Protobuf: message: expected a class that protoc generates, or the"
    ):
        Protobuf(message)


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ({"conf": {"skip.known.types": True}}, "Protobuf: conf needs a registry"),
        ({"columns": []}, "Protobuf: columns: expected the name of one column"),
        ({"columns": ["a", "a"]}, "Protobuf: columns: expected the name of one column"),
        ({"registry": object()}, "expected a kproducer.schema_registry.SchemaRegistryClient"),
    ],
)
def test_arguments_that_are_wrong(conf, text):
    with pytest.raises(ConfigError, match=text):
        Protobuf(MESSAGE, **conf)


def test_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor", None)
    with pytest.raises(ConfigError, match=r"Protobuf needs the package protobuf: pip install .*\[protobuf\]"):
        Protobuf(MESSAGE)


def test_importing_the_formats_needs_none_of_their_packages():
    program = (
        "import sys\n"
        "sys.modules['google.protobuf'] = sys.modules['fastavro'] = sys.modules['pyarrow'] = None\n"
        "import kproducer.columnar\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
