"""The serializers and columnar formats with a real registry, read by confluent-kafka's deserializers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import confluent_kafka.schema_registry as confluent
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import SerializationContext as ConfluentContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from kproducer import KafkaProducer
from kproducer.columnar import Avro
from kproducer.schema_registry import (
    AvroSerializer,
    JSONSerializer,
    ProtobufSerializer,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    SerializationContext,
)
from kproducer.testing import FakeKafka
from tests.support.apicurio_registry import ApicurioRegistry
from tests.support.kafka.maven_artifacts import KafkaUnavailableError, registry_jar
from tests.support.requirements import REQUIRE_KAFKA, skip_or_fail

pytestmark = pytest.mark.kafka

READING = {"type": "record", "name": "Reading", "fields": [{"name": "value", "type": "double"}]}
NOTED = {
    **READING,
    "fields": [*READING["fields"], {"name": "note", "type": ["null", "string"], "default": None}],
}


@pytest.fixture(scope="module")
def registry() -> Iterator[ApicurioRegistry]:
    try:
        registry_jar()
    except KafkaUnavailableError as error:
        skip_or_fail(REQUIRE_KAFKA, f"tests with Apicurio Registry: {error}")
    with ApicurioRegistry() as running:
        yield running


@pytest.fixture
def client(registry: ApicurioRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as connected:
        yield connected


@pytest.fixture
def reader(registry: ApicurioRegistry) -> Iterator[confluent.SchemaRegistryClient]:
    with confluent.SchemaRegistryClient({"url": registry.url}) as connected:
        yield connected


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, "value", [])


def read(deserializer: Any, topic: str, data: bytes | None) -> Any:
    return deserializer(data, ConfluentContext(topic, "value"))


def test_versions_of_an_avro_schema(client: SchemaRegistryClient, reader: Any) -> None:
    first = AvroSerializer(client, json.dumps(READING))({"value": 1.5}, context("versions"))
    second = AvroSerializer(client, json.dumps(NOTED))({"value": 2.5, "note": "n"}, context("versions"))
    latest = {"auto.register.schemas": False, "use.latest.version": True}
    third = AvroSerializer(client, conf=latest)({"value": 3.5, "note": None}, context("versions"))
    deserializer = AvroDeserializer(reader)
    assert read(deserializer, "versions", first) == {"value": 1.5}
    assert read(deserializer, "versions", second) == {"value": 2.5, "note": "n"}
    assert read(deserializer, "versions", third) == {"value": 3.5, "note": None}
    assert client.get_versions("versions-value") == [1, 2]


def test_a_schema_is_looked_up_without_being_registered(client: SchemaRegistryClient) -> None:
    conf = {"auto.register.schemas": False, "normalize.schemas": True}
    with pytest.raises(SchemaRegistryError, match="looked-up-value"):
        AvroSerializer(client, json.dumps(READING), conf=conf)({"value": 1.5}, context("looked-up"))
    registered = AvroSerializer(client, json.dumps(READING))({"value": 1.5}, context("looked-up"))
    assert (
        AvroSerializer(client, json.dumps(READING, indent=4), conf=conf)({"value": 1.5}, context("looked-up"))
        == registered
    )


def test_avro_schemas_that_refer_to_others(client: SchemaRegistryClient, reader: Any) -> None:
    client.register_schema("reading", Schema(json.dumps(READING), "AVRO"))
    outer = {"type": "record", "name": "Batch", "fields": [{"name": "first", "type": "Reading"}]}
    schema = Schema(json.dumps(outer), "AVRO", [SchemaReference("Reading", "reading", 1)])
    data = AvroSerializer(client, schema)({"first": {"value": 4.5}}, context("references"))
    assert read(AvroDeserializer(reader), "references", data) == {"first": {"value": 4.5}}


def test_json_schema(client: SchemaRegistryClient, reader: Any) -> None:
    schema = json.dumps({"title": "Reading", "type": "object", "properties": {"value": {"type": "number"}}})
    data = JSONSerializer(schema, client)({"value": 1.5}, context("json"))
    assert read(JSONDeserializer(schema, schema_registry_client=reader), "json", data) == {"value": 1.5}


def test_protobuf_with_an_import(client: SchemaRegistryClient, reader: Any) -> None:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="measured.proto",
        package="example",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    fields = file.message_type.add(name="Measured").field
    fields.add(name="value", number=1, type=field.TYPE_DOUBLE, label=field.LABEL_OPTIONAL)
    fields.add(
        name="at",
        number=2,
        type=field.TYPE_MESSAGE,
        type_name=".google.protobuf.Timestamp",
        label=field.LABEL_OPTIONAL,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    measured = message_factory.GetMessageClass(pool.FindMessageTypeByName("example.Measured"))
    message = measured(value=1.5, at={"seconds": 7})
    latest = {"auto.register.schemas": False, "use.latest.version": True}
    for conf in ({}, latest):
        data = ProtobufSerializer(measured, client, conf)(message, context("protobuf"))
        deserializer = ProtobufDeserializer(measured, {"use.deprecated.format": False}, reader)
        assert read(deserializer, "protobuf", data) == message


@pytest.mark.parametrize("schema", [None, json.dumps(NOTED)])
def test_avro_made_of_columns(client: SchemaRegistryClient, reader: Any, schema: str | None) -> None:
    topic = "derived" if schema is None else "given"
    table = pa.table({"value": [1.5, 2.5], "note": ["a", None]})
    with FakeKafka() as kafka, KafkaProducer(kafka.bootstrap_servers) as producer:
        producer.send_arrow(topic, table, value=Avro(schema=schema, registry=client)).result(10)
        # The latest version is the one that was just registered.
        producer.send_arrow(topic, table, value=Avro(schema="latest", registry=client)).result(10)
        found = [read(AvroDeserializer(reader), topic, each.value) for each in kafka.topic(topic).records()]
    assert found == 2 * table.to_pylist()
    assert client.get_versions(f"{topic}-value") == [1]


def test_what_the_registry_refuses_is_in_the_error(client: SchemaRegistryClient) -> None:
    with pytest.raises(SchemaRegistryError, match=r"missing-value.*404"):
        client.get_latest_version("missing-value")
