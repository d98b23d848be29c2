"""What ``Avro`` refuses before anything is sent: the error names column, type and field, and a remedy."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest

from kproducer._core.bulk.column_format import ColumnsToEncode, CompiledColumns
from kproducer._core.columns.arrow import ArrowSource
from kproducer._core.columns.encoder_plan import ArrowField
from kproducer.columnar import Avro, avro_schema
from kproducer.errors import ConfigError, InvalidArgumentError, SerializationError
from kproducer.schema_registry import SchemaRegistryClient


def compiled(
    given: Avro, data: Any, *, taken: tuple[str, ...] = (), topic: str | None = "t"
) -> CompiledColumns:
    source = ArrowSource(data)
    fields = tuple(map(ArrowField.of, source.fields()))
    source.close()
    return given.compile_columns(ColumnsToEncode(fields, frozenset(taken), topic, "value"))


def record(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def refusal(given: Avro, data: Any, **more: Any) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        compiled(given, data, **more)
    return str(caught.value)


@pytest.mark.parametrize(
    ("arrow_type", "avro_type", "text"),
    [
        (pa.float64(), "int", "column 'f' is of type float64, which does not fit int .* cast it to int32"),
        (pa.string(), ["null", "long"], "is of type string, which does not fit long .* cast it to int64"),
        (pa.float64(), "float", "float64, which does not fit float .* cast it to float32"),
        (pa.binary(), "string", "binary, which does not fit string .* cast it to string"),
        (pa.int64(), "string", "int64, which does not fit string"),
        (pa.int64(), "boolean", "int64, which does not fit boolean .* cast it to bool"),
        (pa.decimal128(10, 4), {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
         r"decimal128\(10, 4\), which does not fit decimal\(10, 2\) in bytes"),
        (pa.float64(), {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
         "float64, which does not fit decimal"),
        (pa.timestamp("us"), "long", r"timestamp\[us.*\], which does not fit long .* cast it to int64"),
        (pa.timestamp("us"), {"type": "int", "logicalType": "date"}, "fit date in int .* cast it to date32"),
        (pa.date32(), {"type": "long", "logicalType": "timestamp-millis"},
         "date32, which does not fit timestamp-millis in long .* cast it to a timestamp"),
        (pa.time64("us"), {"type": "long", "logicalType": "timestamp-micros"},
         r"time64\[us\], which does not fit timestamp-micros in long .* cast it to a timestamp"),
        (pa.binary(3), {"type": "fixed", "name": "F", "size": 4},
         r"fixed_size_binary\[3\], which does not fit fixed F"),
        (pa.list_(pa.string()), {"type": "array", "items": "int"},
         r"column 'f', at 'f\[\]', is of type string, which does not fit int"),
        (pa.list_(pa.int32()), {"type": "map", "values": "int"}, "list<int32>, which does not fit map"),
        (pa.map_(pa.int32(), pa.int32()), {"type": "map", "values": "int"},
         r"at 'f\[\].key', is of type int32, which does not fit string|at 'f.key', is of type int32"),
        (pa.struct([("x", pa.int32())]), "int", "struct.*, which does not fit int"),
        (pa.dictionary(pa.int8(), pa.string()), "int", "dictionary<string>, which does not fit int"),
        (pa.float64(), ["null", "int", "string"], "float64, which does not fit a union of null, int, string"),
        (pa.duration("ms"), "long", r"duration\[ms\], which does not fit long"),
    ],
)  # fmt: skip
def test_a_type_that_does_not_fit(arrow_type: pa.DataType, avro_type: Any, text: str) -> None:
    table = pa.table({"f": pa.array([], arrow_type)})
    import re

    assert re.search(text, found := refusal(Avro(schema=record({"name": "f", "type": avro_type})), table)), (
        found
    )


def test_an_inner_field_is_named_with_its_column() -> None:
    table = pa.table({"a": pa.array([], pa.struct([("b", pa.struct([("c", pa.string())]))]))})
    inner = json.loads(record({"name": "c", "type": "int"}))
    middle = {"type": "record", "name": "M", "fields": [{"name": "b", "type": {**inner, "name": "I"}}]}
    text = refusal(Avro(schema=record({"name": "a", "type": middle})), table)
    assert "column 'a', at 'a.b.c', is of type string" in text


def test_columns_and_fields_have_to_be_the_same() -> None:
    table = pa.table({"a": [1], "b": [2]})
    schema = record({"name": "a", "type": "long"}, {"name": "c", "type": "long"})
    assert "column 'b' is not in the Avro schema" in refusal(
        Avro(schema=record({"name": "a", "type": "long"})), table
    )
    more = pa.table({"a": [1], "b": [2], "d": [3]})
    assert refusal(Avro(schema=record({"name": "a", "type": "long"})), more) == (
        "value: columns 'b', 'd' are not in the Avro schema (fields: 'a'): leave them out, with"
        " columns=[...], or add them to the schema"
    )
    inner = pa.table({"a": pa.array([{"bb": 1, "cc": 2}])})
    struct = {**json.loads(record({"name": "bbb", "type": ["null", "long"]})), "name": "I"}
    of_two = record({"name": "a", "type": struct})
    assert (
        "fields 'bb', 'cc' in 'a' are not in the Avro schema (did you mean 'bbb' for 'bb'? fields"
        in refusal(Avro(schema=of_two), inner)
    )
    assert "there is no column for field 'c'" in refusal(Avro(["a"], schema=schema), table)
    assert "has no default (columns without a field: 'b'): add the column" in refusal(
        Avro(schema=schema), table
    )
    assert "did you mean 'a'?" in refusal(Avro(["aa"], schema=schema), table)
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert "2 columns named 'a'" in refusal(Avro(schema=schema), twice)


def test_several_columns_need_a_record() -> None:
    text = refusal(Avro(["a", "b"], schema='"long"'), pa.table({"a": [1], "b": [2]}))
    assert "several columns make a record, but the Avro schema is long" in text


def test_a_default_of_the_wrong_type() -> None:
    schema = record({"name": "a", "type": "long"}, {"name": "c", "type": "long", "default": "x"})
    with pytest.raises((InvalidArgumentError, ConfigError, SerializationError), match="Default value"):
        compiled(Avro(schema=schema), pa.table({"a": [1]}))


def test_types_and_names_that_no_schema_can_be_derived_from() -> None:
    nested = pa.struct([("seen", pa.list_(pa.duration("ms")))])
    for type_, column, remedy in (
        (pa.duration("ms"), r"'d' is of type duration\[ms\]", "give a schema"),
        (nested, r"'d.seen\[\]' is of type duration\[ms\]", "give a schema"),
        (pa.map_(pa.string(), pa.duration("s")), r"'d.value' is of type", "give a schema"),
        (
            pa.run_end_encoded(pa.int32(), pa.string()),
            r"'d' is of type run_end_encoded",
            "derived: decode it$",
        ),
    ):
        with pytest.raises(InvalidArgumentError, match=rf"^column {column}.*{remedy}"):
            avro_schema(pa.schema([("d", type_)]))
    with pytest.raises(InvalidArgumentError, match=r"^column 'd.a b': names in Avro have"):
        avro_schema(pa.schema([("d", pa.struct([("a b", pa.int32())]))]))
    with pytest.raises(
        InvalidArgumentError, match=r"column 'a-b': names in Avro have letters, digits and _ only"
    ):
        avro_schema(pa.schema([("a-b", pa.int32())]))
    with pytest.raises(InvalidArgumentError, match="'my record' is not a name in Avro"):
        avro_schema(pa.schema([("a", pa.int32())]), name="my record")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"columns": []}, "columns: expected the name of one column, a list of different names, or None"),
        ({"columns": ["a", "a"]}, "list of different names"),
        ({"columns": 1}, "columns: expected"),
        ({"schema": "latest"}, "schema=latest needs a registry"),
        ({"conf": {"auto.register.schemas": False}}, "conf needs a registry"),
        ({"schema": "{"}, "not JSON"),
        ({"schema": 5}, "expected JSON or a Schema, got int"),
        (
            {"registry": "http://localhost"},
            "expected a kproducer.schema_registry.SchemaRegistryClient, got str",
        ),
    ],
)
def test_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Avro(**arguments)


def test_a_setting_that_does_not_exist() -> None:
    hint = re.escape("did you mean 'auto.register.schemas'")
    with (
        SchemaRegistryClient({"url": "http://localhost:1"}) as registry,
        pytest.raises(ConfigError, match=hint),
    ):
        Avro(registry=registry, conf={"auto.register.schema": False})


def test_a_topic_column_with_a_registry() -> None:
    with SchemaRegistryClient({"url": "http://localhost:1"}) as registry:
        text = refusal(Avro(registry=registry), pa.table({"a": [1]}), topic=None)
    assert "topic_column cannot be used: call send_arrow once per topic" in text


def test_all_columns_are_used_for_something_else() -> None:
    assert "no column for it" in refusal(Avro(), pa.table({"k": ["a"]}), taken=("k",))
