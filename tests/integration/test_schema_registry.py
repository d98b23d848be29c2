"""What a producer with schema registry serializers sends, as confluent-kafka's consumer reads it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import confluent_kafka.schema_registry as confluent
import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kproducer import KafkaProducer, Outcome, SerializationError
from kproducer.schema_registry import (
    AvroSerializer,
    JSONSerializer,
    ProtobufSerializer,
    SchemaRegistryClient,
    SchemaRegistryError,
    header_schema_id_serializer,
)
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.kafka.mock_cluster import MockCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.mock_cluster

AVRO = json.dumps({"type": "record", "name": "Reading", "fields": [{"name": "value", "type": "double"}]})
JSON = json.dumps({"title": "Reading", "type": "object", "properties": {"value": {"type": "number"}}})


def message_class() -> Any:
    """The class of a message, as protoc generates it."""
    file = descriptor_pb2.FileDescriptorProto(name="reading.proto", package="example", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    file.message_type.add(name="Reading").field.add(
        name="value", number=1, type=field.TYPE_DOUBLE, label=field.LABEL_OPTIONAL
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("example.Reading"))


@pytest.fixture
def registry() -> Iterator[FakeSchemaRegistry]:
    with FakeSchemaRegistry() as running:
        yield running


@pytest.fixture
def client(registry: FakeSchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url, "retries.wait.ms": 1}) as connected:
        yield connected


def consume(cluster: MockCluster, count: int) -> list[Any]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["events"])
    try:
        records: list[Any] = []
        while len(records) < count:
            message = consumer.poll(30)
            assert message is not None, f"{len(records)} of {count} records"
            assert message.error() is None
            records.append(message)
        return records
    finally:
        consumer.close()


def read(deserializer: Any, message: Any, field: str = "value") -> Any:
    data = message.key() if field == "key" else message.value()
    return deserializer(data, SerializationContext("events", field, message.headers()))


@pytest.mark.parametrize("many", [False, True], ids=["send", "send_many"])
@pytest.mark.parametrize(
    "conf", [{}, {"schema.id.serializer": header_schema_id_serializer}], ids=["id", "guid"]
)
def test_avro(mock_cluster, registry, client, many, conf):
    mock_cluster.create_topic("events", 1)
    serializer = AvroSerializer(client, AVRO, conf=conf)
    keys = [f"key number {number}" for number in range(20)]
    values = [{"value": number / 7} for number in range(20)]
    with KafkaProducer(
        mock_cluster.bootstrap_servers,
        key_serializer=AvroSerializer(client, "string", conf=conf),
        value_serializer=serializer,
    ) as producer:
        if many:
            producer.send_many("events", values, keys).result(30)
        else:
            for key, value in zip(keys, values, strict=True):
                producer.send("events", value, key)
    connected = confluent.SchemaRegistryClient({"url": registry.url})
    deserializer = AvroDeserializer(connected)
    records = consume(mock_cluster, 20)
    assert [read(deserializer, each) for each in records] == values
    assert [read(deserializer, each, "key") for each in records] == keys
    connected.close()
    assert registry.subjects() == ["events-key", "events-value"]


def test_json_and_protobuf(mock_cluster, registry, client):
    mock_cluster.create_topic("events", 1)
    servers = mock_cluster.bootstrap_servers
    with KafkaProducer(servers, value_serializer=JSONSerializer(JSON, client)) as producer:
        producer.send("events", {"value": 1.5}).result(30)
        producer.send("events", None).result(30)
    registry.stop()
    with FakeSchemaRegistry() as other:
        Message = message_class()  # noqa: N806
        protobuf = ProtobufSerializer(Message, SchemaRegistryClient({"url": other.url}))
        with KafkaProducer(servers, value_serializer=protobuf) as producer:
            producer.send("events", Message(value=5.0)).result(30)
        as_json, tombstone, as_protobuf = consume(mock_cluster, 3)
        assert read(JSONDeserializer(JSON), as_json) == {"value": 1.5}
        assert tombstone.value() is None
        connected = confluent.SchemaRegistryClient({"url": other.url})
        deserializer = ProtobufDeserializer(Message, {"use.deprecated.format": False}, connected)
        assert read(deserializer, as_protobuf) == Message(value=5.0)
        connected.close()


def test_a_registry_that_is_down_fails_the_record_and_not_the_others(mock_cluster, registry, client):
    mock_cluster.create_topic("events", 1)
    mock_cluster.create_topic("other", 1)
    serializer = AvroSerializer(client, AVRO)
    with KafkaProducer(mock_cluster.bootstrap_servers, value_serializer=serializer) as producer:
        producer.send("events", {"value": 1.0}).result(30)
        registry.stop()
        with pytest.raises(
            SchemaRegistryError, match=r"value \(dict\) for topic 'other'.*not reachable"
        ) as e:
            producer.send("other", {"value": 1.0})
        assert e.value.outcome is Outcome.NOT_SENT
        assert e.value.is_temporary
        assert e.value.url == registry.url
        producer.send("events", {"value": 2.0}).result(30)
        result = producer.send_many("other", [{"value": 1.0}])
        [(_, error)] = result.failures()
        assert isinstance(error, SchemaRegistryError)
        registry.start()
        producer.send("other", {"value": 3.0}).result(30)
        with pytest.raises(SerializationError, match="could not convert string to float") as wrong:
            producer.send("events", {"value": "x"})
        assert wrong.value.outcome is Outcome.NOT_SENT


def test_a_look_up_does_not_hold_up_records_of_other_topics(mock_cluster, registry, client):
    """The I/O thread delivers while another thread waits for the registry."""
    mock_cluster.create_topic("events", 1)
    mock_cluster.create_topic("slow", 1)
    serializer = AvroSerializer(client, AVRO)
    with KafkaProducer(mock_cluster.bootstrap_servers, value_serializer=serializer) as producer:
        producer.send("events", {"value": 1.0}).result(30)
        producer.partitions_for("slow")
        asked = len(registry.requests)
        registry.delay(3600)
        done = threading.Event()

        def send_slowly() -> None:
            producer.send("slow", {"value": 2.0})
            done.set()

        thread = threading.Thread(target=send_slowly)
        thread.start()
        wait_until(lambda: len(registry.requests) > asked)
        producer.send("events", {"value": 3.0}).result(30)
        assert not done.is_set()
        registry.delay(0)
        registry.stop()  # ends the delay; the client asks again
        registry.start()
        assert done.wait(60)
        thread.join()
