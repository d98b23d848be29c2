"""JSONSerializer: validation, references, and that confluent-kafka reads what it writes."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import SerializationContext as ConfluentContext

from kproducer import ConfigError, SerializationError
from kproducer.schema_registry import JSONSerializer, Schema, SchemaReference

USER = json.dumps(
    {
        "title": "User",
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name"],
    }
)
VALUE = {"name": "Zoë", "age": 5}


def read(client, data, schema=USER):
    return JSONDeserializer(schema, schema_registry_client=client)(data, ConfluentContext("events", "value"))


def test_confluent_reads_a_value(client, confluent_client, registry):
    data = JSONSerializer(USER, client).serialize("events", [], VALUE)
    assert data == b"\x00\x00\x00\x00\x01" + '{"name":"Zoë","age":5}'.encode()
    assert read(confluent_client, data) == VALUE
    assert registry.versions("events-value")[0]["schemaType"] == "JSON"


def test_the_title_is_the_records_name(client, registry):
    JSONSerializer(USER, client, conf={"subject.name.strategy.type": "RECORD"}).serialize("events", [], VALUE)
    assert registry.subjects() == ["User"]


def test_a_value_that_does_not_fit_names_the_place(client):
    with pytest.raises(SerializationError, match=r"at \['age'\]: -1 is less than the minimum"):
        JSONSerializer(USER, client).serialize("events", [], {"name": "x", "age": -1})


def test_validation_can_be_switched_off(client):
    serializer = JSONSerializer(USER, client, conf={"validate": False})
    assert serializer.serialize("events", [], {"age": -1})[5:] == b'{"age":-1}'


@pytest.mark.parametrize("value", [float("nan"), object(), b"x", {1, 2}])
def test_values_that_are_not_json(client, value):
    for conf in ({"validate": False}, {}):
        with pytest.raises(SerializationError):
            JSONSerializer('{"title": "Any"}', client, conf=conf).serialize("events", [], {"x": value})


def test_an_encoder_of_the_application(client):
    serializer = JSONSerializer(USER, client, json_encode=lambda value: json.dumps(value, sort_keys=True))
    assert serializer.serialize("events", [], VALUE)[5:] == json.dumps(VALUE, sort_keys=True).encode()


def test_to_dict(client):
    serializer = JSONSerializer(USER, client, lambda value, ctx: {"name": f"{ctx.topic}/{value}"})
    assert serializer.serialize("events", [], "x")[5:] == b'{"name":"events/x"}'


def test_the_latest_version(client, registry):
    registry.register("events-value", USER, "JSON")
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    serializer = JSONSerializer(None, client, conf=conf)
    assert serializer.serialize("events", [], VALUE)[:5] == b"\x00\x00\x00\x00\x01"
    with pytest.raises(SerializationError, match='"name" is a required property'):
        serializer.serialize("events", [], {})


def test_references(client, confluent_client, registry):
    registry.register("user", USER, "JSON")
    list_of_users = {"title": "Users", "type": "array", "items": {"$ref": "user.json"}}
    schema = Schema(json.dumps(list_of_users), "JSON", [SchemaReference("user.json", "user", 1)])
    serializer = JSONSerializer(schema, client)
    data = serializer.serialize("events", [], [VALUE])
    assert json.loads(data[5:]) == [VALUE]
    with pytest.raises(SerializationError, match=r"at \[0\]"):
        serializer.serialize("events", [], [{}])


def test_a_schema_is_never_read_from_an_address_that_it_names(client):
    schema = json.dumps({"$ref": "http://127.0.0.1:1/schema.json"})
    with pytest.raises(SerializationError, match="is not among the references"):
        JSONSerializer(schema, client)


@pytest.mark.parametrize("schema", ["{", '{"type": "no type"}', 5])
def test_mistakes_in_the_schema_show_when_the_serializer_is_created(client, schema):
    with pytest.raises((ConfigError, SerializationError), match="JSON"):
        JSONSerializer(schema, client)
