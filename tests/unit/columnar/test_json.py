"""``Json``: arguments, columns, what a JSON Schema says about them, and the schema registry."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import confluent_kafka.schema_registry as confluent
import jsonschema_rs
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import SerializationContext

from kproducer import ConfigError, InvalidArgumentError, KafkaProducer, SerializationError
from kproducer._core.bulk.column_format import ColumnFormat, ColumnsToEncode
from kproducer._core.columns.arrow import ArrowSource
from kproducer._core.columns.encoder_plan import ArrowField, Misfit
from kproducer.columnar import Json, json_schema
from kproducer.columnar.json_constraints import Constraints
from kproducer.errors import SchemaRegistryError
from kproducer.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from kproducer.testing import FakeKafka
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.unit.columnar.json_rows import compiled, written

ORDERS = pa.table({"id": [1, 2], "item": ["pen", None], "price": [1.5, 2.0]})


def schema_of(properties: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "object", "properties": properties, **more})


def refusal(given: Json, data: Any, **more: Any) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        compiled(given, data, **more)
    return str(caught.value)


# -- arguments and columns -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"columns": []}, "Json: columns: expected the name of one column"),
        ({"nulls": "drop"}, "Json: nulls: expected 'write' or 'omit', not 'drop'"),
        ({"nan": None}, "Json: nan: expected 'error' or 'null', not None"),
        ({"decimals": "float"}, "Json: decimals: expected 'number' or 'string'"),
        ({"schema": "{"}, "Json: schema is not JSON"),
        ({"schema": {"type": "object"}}, "Json: schema: expected JSON or a Schema, got dict"),
        ({"schema": "latest"}, "schema=latest needs a registry"),
        ({"conf": {"validate": False}}, "conf needs a registry"),
        ({"registry": "http://localhost:8081"}, "Json: expected a .*SchemaRegistryClient, got str"),
    ],
)
def test_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Json(**arguments)


def test_a_schema_that_is_not_one() -> None:
    with pytest.raises(SerializationError, match="the JSON Schema is not valid"):
        Json(schema='{"type": "text"}')


def test_columns_that_the_call_uses_are_left_out_unless_the_schema_has_them() -> None:
    assert isinstance(Json(), ColumnFormat)
    assert written(Json(), ORDERS, taken=("id", "price")) == [b'{"item":"pen"}', b'{"item":null}']
    schema = schema_of({"id": {"type": "integer"}, "item": {}})
    assert written(Json(schema=schema), ORDERS, taken=("id", "price"))[0] == b'{"id":1,"item":"pen"}'
    assert "did you mean 'item'?" in refusal(Json(["items"]), ORDERS)


def test_types_that_json_has_no_form_for() -> None:
    runs = pa.RunEndEncodedArray.from_arrays([2], ["x"])
    assert "column 'a' is of type run_end_encoded, which is not written as JSON" in refusal(
        Json(), pa.table({"a": runs})
    )
    keys = pa.table({"a": pa.array([], pa.map_(pa.float64(), pa.int8()))})
    assert "column 'a', at 'a.key', is of type float64, but keys in JSON are strings" in refusal(Json(), keys)
    twice = pa.struct([pa.field("x", pa.int8()), pa.field("x", pa.int8())])
    assert "column 'a', at 'a.x', exists twice" in refusal(Json(), pa.table({"a": pa.array([], twice)}))


@pytest.mark.parametrize("text", ["d:5", "d:x,y", "d:5,9999", "ttx", "tDq", "ts", "?", ""])
def test_formats_that_arrow_does_not_have(text: str) -> None:
    wanted = ColumnsToEncode((ArrowField("a", text),), frozenset(), "t", "value")
    with pytest.raises(InvalidArgumentError, match=r"column 'a' is of type .*, which is not written as JSON"):
        Json().compile_columns(wanted)


def test_importing_formats_needs_none_of_their_packages() -> None:
    program = (
        "import sys\n"
        "for name in ('fastavro', 'httpcore', 'google.protobuf', 'jsonschema_rs', 'pyarrow'):\n"
        "    sys.modules[name] = None\n"
        "from kproducer.columnar import Json\n"
        "Json(['a', 'b'], nulls='omit')\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)


def test_a_schema_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(
        ConfigError, match=r"needs the package jsonschema-rs: pip install 'kproducer\[json\]'"
    ):
        Json(schema="{}")


# -- what a schema says ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "float64 and does not fit the property 'a' of the JSON Schema: it is not of the "
                             "type string: cast it to string, or change the schema"),
        ({"type": "integer"}, "it is not of the type integer: cast it to int64"),
        ({"type": ["null", "boolean"]}, "it is not of the type null or boolean: cast it to bool"),
        ({"type": "array", "items": {}}, "it is not of the type array: make it a list"),
        ({"$ref": "#/definitions/text"}, "it is not of the type string"),
        ({"allOf": [{}, {"type": "object"}]}, "it is not of the type object: make it a struct or a map"),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "it is not of the type null: cast it to string"),
        ({"enum": ["x", "y"]}, "it is not among the values of the enum: cast it to string"),
        ({"const": None}, "it is not among the values of the const: leave the column out"),
        (False, "it is excluded by the schema false"),
    ],
)  # fmt: skip
def test_a_type_that_does_not_fit(schema: Any, text: str) -> None:
    given = Json(schema=schema_of({"a": schema}, definitions={"text": {"type": "string"}}))
    found = refusal(given, pa.table({"a": pa.array([], pa.float64())}))
    assert "column 'a' is of type float64" in found or schema is False
    assert text in found


@pytest.mark.parametrize(
    "schema",
    [
        True, {}, {"type": "number"}, {"type": ["integer", "number"]}, {"$ref": "#/definitions/number"},
        {"$ref": "#"},
        {"anyOf": [{"type": "string"}, {"type": "number"}]}, {"minimum": 5}, {"not": {"type": "number"}},
        {"if": {}, "then": {"type": "string"}}, {"enum": [1, 2]}, {"const": 1.5},
        {"allOf": [{"anyOf": [{}, {}, {}, {}, {}]}] * 8},
    ],
)  # fmt: skip
def test_what_may_fit_is_not_refused(schema: Any) -> None:
    definitions = {"number": {"$ref": "#/definitions/a~1b"}, "a/b": {"type": "number"}}
    contents = {"properties": {"a": schema}, "definitions": definitions}
    assert written(Json(schema=json.dumps(contents)), pa.table({"a": [1.5]})) == [b'{"a":1.5}']


@pytest.mark.parametrize(
    "contents",
    [
        {"$ref": "https://example.com/other"}, {"$ref": "#anchor"}, {"$ref": "#/a/b"}, {"$ref": 5}, 5, None,
        {"type": 5, "allOf": {}, "properties": [], "required": [{}], "enum": "x"}, {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, {"anyOf": [{"$ref": "#"}] * 3}, {"items": [False]},
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_followed_say_nothing(contents: Any) -> None:
    constraints = Constraints.of(contents, {})
    assert constraints.narrowed("object", ["a"]).of_member("a").alternatives
    assert constraints.narrowed("array").of_elements().alternatives
    assert not constraints.exclude("null")


@pytest.mark.parametrize("combination", ["allOf", "anyOf"])
def test_references_that_lead_to_the_same_schemas_again_are_limited(monkeypatch, combination: str) -> None:
    followed = []
    referred = Constraints._referred

    def counted(self: Constraints, document: str, reference: Any) -> Any:
        followed.append(reference)
        assert len(followed) <= 100_000
        return referred(self, document, reference)

    monkeypatch.setattr(Constraints, "_referred", counted)
    schema = {combination: [{"$ref": "#"}] * 300}
    constraints = Constraints.of({**schema, "properties": {"a": schema}}, {})
    assert constraints.of_member("a").alternatives


def test_an_index_that_is_too_long_for_a_number() -> None:
    contents = {"$ref": f"#/anyOf/{'9' * 5000}", "anyOf": [{}]}
    assert Constraints.of(contents, {}).alternatives == ((),)


def test_properties_that_are_missing_or_not_allowed() -> None:
    closed = schema_of({"id": {}, "item": {}}, additionalProperties=False)
    assert "it cannot have the property 'price', only those of the schema ('id', 'item'): choose other" in (
        refusal(Json(schema=closed), ORDERS)
    )
    needs_more = schema_of({"id": {}}, required=["id", "at"])
    assert "it needs the property 'at'" in refusal(Json(schema=needs_more), ORDERS)
    others = schema_of({"id": {}}, additionalProperties={"type": "string"})
    assert "column 'price' is of type float64" in refusal(Json(schema=others), ORDERS)
    patterns = schema_of({"id": {}}, patternProperties={"^p": {}, "^i": {}}, additionalProperties=False)
    assert len(written(Json(schema=patterns), ORDERS)) == 2


def test_structs_lists_and_maps() -> None:
    table = pa.table(
        {
            "s": [{"x": 1, "y": "a"}],
            "l": [["a"]],
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    one = schema_of({"s": {"type": "object", "properties": {"x": {"type": "string"}}}})
    assert "column 's', at 's.x', is of type int64" in refusal(Json(schema=one), table)
    one = schema_of({"s": {"required": ["z"]}})
    assert "it needs the property 'z'" in refusal(Json(schema=one), table)
    one = schema_of({"l": {"items": {"type": "integer"}}})
    assert "column 'l', at 'l[]', is of type string" in refusal(Json(schema=one), table)
    one = schema_of({"m": {"type": "object", "additionalProperties": {"type": "boolean"}}})
    assert "column 'm', at 'm.value', is of type int64" in refusal(Json(schema=one), table)
    fine = schema_of(
        {
            "s": {"anyOf": [{"type": "null"}, {"properties": {"x": {"type": "integer"}}}]},
            "l": {"prefixItems": [{"type": "integer"}], "items": False},
            "m": {"properties": {"k": {"type": "integer"}}, "additionalProperties": False},
        }
    )
    assert written(Json(schema=fine), table) == [b'{"s":{"x":1,"y":"a"},"l":["a"],"m":{"k":1}}']


def test_several_columns_need_an_object_and_one_its_own_type() -> None:
    assert "it is not of the type string" in refusal(Json(schema='{"type": "string"}'), ORDERS)
    assert written(Json("item", schema='{"type": "string"}'), ORDERS) == [b'"pen"', None]
    assert "column 'price' is of type float64 and does not fit the JSON Schema: it is not" in refusal(
        Json("price", schema='{"type": "string"}'), ORDERS
    )
    many = pa.table({f"column{number}": [1] for number in range(100)})
    assert len(refusal(Json(schema=schema_of({}, required=["x"])), many)) < 500


def test_null_where_the_schema_does_not_allow_it_fails_its_row() -> None:
    schema = schema_of({"id": {"type": "integer"}, "item": {"type": "string"}})
    assert written(Json(schema=schema), ORDERS)[1] == ("item", Misfit.NULL)
    assert written(Json(schema=schema, nulls="omit"), ORDERS)[1] == b'{"id":2,"price":2.0}'
    required = schema_of({"item": {"type": ["string", "null"]}}, required=["item"])
    assert written(Json(schema=required), ORDERS)[1] == b'{"id":2,"item":null,"price":2.0}'
    assert written(Json(schema=required, nulls="omit"), ORDERS)[1] == ("item", Misfit.NULL)
    elements = schema_of({"l": {"items": {"type": "integer"}}})
    assert written(Json(schema=elements), pa.table({"l": [[1], [None]]})) == [
        b'{"l":[1]}',
        ("l[]", Misfit.NULL),
    ]
    nothing = pa.table({"item": pa.nulls(1)})
    assert "it is null, which is not allowed: cast it to string" in refusal(Json(schema=schema), nothing)


# -- derived schemas -------------------------------------------------------------------------------------

ALL_TYPES = pa.schema(
    [
        pa.field("b", pa.bool_(), nullable=False),
        pa.field("i", pa.uint64()),
        pa.field("f", pa.float32()),
        pa.field("d", pa.decimal128(10, 2)),
        pa.field("t", pa.string()),
        pa.field("e", pa.dictionary(pa.int8(), pa.string())),
        pa.field("y", pa.binary()),
        pa.field("u", pa.uuid()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("ms")),
        pa.field("time", pa.time32("s")),
        pa.field("took", pa.duration("ns")),
        pa.field("l", pa.list_(pa.field("item", pa.int8(), nullable=False))),
        pa.field("two", pa.list_(pa.int8(), 2)),
        pa.field("m", pa.map_(pa.string(), pa.int8())),
        pa.field("s", pa.struct([pa.field("x", pa.int8(), nullable=False), ("y", pa.int8())])),
        pa.field("n", pa.null()),
    ]
)


def test_the_derived_schema() -> None:
    schema = json.loads(json_schema(ALL_TYPES, title="All"))
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert (schema["title"], schema["required"], schema["additionalProperties"]) == ("All", ["b"], False)
    assert schema["properties"] == {
        "b": {"type": "boolean"},
        "i": {"type": ["integer", "null"]},
        "f": {"type": ["number", "null"]},
        "d": {"type": ["number", "null"]},
        "t": {"type": ["string", "null"]},
        "e": {"type": ["string", "null"]},
        "y": {"type": ["string", "null"], "contentEncoding": "base64"},
        "u": {"type": ["string", "null"], "format": "uuid"},
        "day": {"type": ["string", "null"], "format": "date"},
        "at": {"type": ["string", "null"], "format": "date-time"},
        "local": {"type": ["string", "null"]},
        "time": {"type": ["string", "null"]},
        "took": {"type": ["string", "null"]},
        "l": {"type": ["array", "null"], "items": {"type": "integer"}},
        "two": {
            "type": ["array", "null"], "items": {"type": ["integer", "null"]}, "minItems": 2, "maxItems": 2,
        },
        "m": {"type": ["object", "null"], "additionalProperties": {"type": ["integer", "null"]}},
        "s": {
            "type": ["object", "null"],
            "properties": {"x": {"type": "integer"}, "y": {"type": ["integer", "null"]}},
            "required": ["x"],
            "additionalProperties": False,
        },
        "n": {"type": "null"},
    }  # fmt: skip


def test_the_derived_schema_of_one_column() -> None:
    assert json.loads(json_schema(ALL_TYPES, columns="day")) == {
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "string", "format": "date",
    }  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="column 'r' is of type run_end_encoded"):
        json_schema(pa.schema([("r", pa.run_end_encoded(pa.int32(), pa.string()))]))


@pytest.mark.parametrize("options", [{}, {"nulls": "omit"}, {"nan": "null"}, {"decimals": "string"}])
def test_rows_are_valid_by_the_derived_schema(
    options: dict[str, Any], client: SchemaRegistryClient, registry: FakeSchemaRegistry
) -> None:
    rows = [
        {
            "b": True, "i": 2**64 - 1, "f": 1.5, "d": "1.50", "t": "x", "e": "y", "y": b"\xff", "day": 19_000,
            "u": bytes(16), "at": 1, "local": 1, "time": 1, "took": 1, "l": [1], "two": [1, None],
            "m": [("k", None)], "s": {"x": 1, "y": None}, "n": None,
        },
        {"b": False},
    ]  # fmt: skip
    columns = [
        pa.array([row.get(field.name) for row in rows], pa.string()).cast(field.type)
        if field.name == "d"
        else pa.array([row.get(field.name) for row in rows], field.type)
        for field in ALL_TYPES
    ]
    table = pa.Table.from_arrays(columns, schema=ALL_TYPES)
    found = written(Json(registry=client, **options), table)
    validator = jsonschema_rs.validator_for(json.loads(registry.versions("t-value")[0]["schema"]))
    for row in found:
        assert row[:5] == b"\x00\x00\x00\x00\x01"
        validator.validate(json.loads(row[5:]))
    assert jsonschema_rs.Draft7Validator(json.loads(json_schema(ALL_TYPES))).is_valid(
        json.loads(written(Json(), table)[0])
    )


def test_a_union_becomes_any_of() -> None:
    children = [pa.array([1], pa.int8()), pa.array([None], pa.string())]
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), children)
    assert json.loads(json_schema(pa.table({"u": union})))["properties"]["u"] == {
        "anyOf": [{"type": ["integer", "null"]}, {"type": ["string", "null"]}, {"type": "null"}]
    }


# -- a schema registry -----------------------------------------------------------------------------------


def test_confluent_reads_what_send_arrow_writes(
    client: SchemaRegistryClient, registry: FakeSchemaRegistry
) -> None:
    with FakeKafka() as kafka, KafkaProducer(kafka.bootstrap_servers) as producer:
        result = producer.send_arrow(
            "orders", ORDERS, value=Json(registry=client, title="Order"), key=Json("id", registry=client)
        )
        result.result(timeout=30)
        records = kafka.topic("orders").records()
    confluent_client = confluent.SchemaRegistryClient({"url": registry.url})
    deserializer = JSONDeserializer(None, schema_registry_client=confluent_client)
    context = SerializationContext("orders", "value")
    assert [deserializer(record.value, context) for record in records] == ORDERS.to_pylist()
    assert [record.key[5:] for record in records] == [b"1", b"2"]
    assert registry.versions("orders-value")[0]["schemaType"] == "JSON"
    confluent_client.close()


def test_a_row_that_does_not_fit_fails_alone() -> None:
    table = pa.table({"x": [1.0, float("nan"), 3.0]})
    with FakeKafka() as kafka, KafkaProducer(kafka.bootstrap_servers) as producer:
        result = producer.send_arrow("t", table, value=Json())
        ((row, error),) = result.failures(timeout=30)
        assert [record.value for record in kafka.topic("t").records()] == [b'{"x":1.0}', b'{"x":3.0}']
    assert row == 1
    assert "field 'x' is NaN or infinite, which JSON cannot represent" in str(error)


def test_the_schema_may_be_named_by_a_header(client: SchemaRegistryClient) -> None:
    given = Json(registry=client, conf={"schema.id.serializer": header_schema_id_serializer})
    made = compiled(given, ORDERS)
    assert made.plan.prefix == b""
    assert made.header is not None
    assert made.header[0] == "__value_schema_id"


def test_the_latest_schema_and_its_references(
    client: SchemaRegistryClient, registry: FakeSchemaRegistry
) -> None:
    registry.register("item", '{"type": "string"}', "JSON")
    order = json.loads(schema_of({"id": {"type": "integer"}, "item": {"$ref": "item.json"}}))
    client.register_schema(
        "t-value", Schema(json.dumps(order), "JSON", [SchemaReference("item.json", "item", 1)])
    )
    given = Json(["id", "item"], schema="latest", registry=client)
    assert written(given, ORDERS)[0][5:] == b'{"id":1,"item":"pen"}'
    # The referenced schema does not allow null.
    assert written(given, ORDERS)[1] == ("item", Misfit.NULL)
    wrong = ORDERS.set_column(1, "item", pa.array([1, 2]))
    assert "column 'item' is of type int64" in refusal(given, wrong)
    unchecked = Json(["id", "item"], registry=client, schema="latest", conf={"validate": False})
    assert written(unchecked, wrong)[0][5:] == b'{"id":1,"item":1}'


def test_a_resolved_format_needs_no_registry(client: SchemaRegistryClient) -> None:
    source = ArrowSource(ORDERS)
    wanted = ColumnsToEncode(tuple(map(ArrowField.of, source.fields())), frozenset(), "t", "value")
    source.close()
    resolved = pickle.loads(pickle.dumps(Json(registry=client, nulls="omit").resolve(wanted)))
    client.close()
    assert resolved.compile_columns(wanted).plan.prefix == b"\x00\x00\x00\x00\x01"


def test_errors_of_the_registry(client: SchemaRegistryClient) -> None:
    with pytest.raises(SchemaRegistryError):
        compiled(Json(schema="latest", registry=client), ORDERS)
    with pytest.raises(InvalidArgumentError, match="call send_arrow once per topic"):
        compiled(Json(registry=client), ORDERS, topic=None)
    with pytest.raises(SerializationError, match="refers to 'item', but no SchemaRegistryClient"):
        compiled(Json(schema=Schema("{}", "JSON", [SchemaReference("item.json", "item", 1)])), ORDERS)
