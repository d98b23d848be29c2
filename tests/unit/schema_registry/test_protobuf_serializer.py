"""ProtobufSerializer: message indexes, imported files, and that confluent-kafka reads what it writes."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as ConfluentProtobufSerializer
from confluent_kafka.serialization import SerializationContext as ConfluentContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from kproducer import ConfigError, SerializationError
from kproducer.schema_registry import ProtobufSerializer, header_schema_id_serializer

LATEST = {"auto.register.schemas": False, "use.latest.version": True}
Field = descriptor_pb2.FieldDescriptorProto


def message(name: str, /, **fields: tuple[int, str]) -> Any:
    """A message's descriptor; each field has a type, and the name of the type for messages."""
    proto = descriptor_pb2.DescriptorProto(name=name)
    for number, (field, (kind, type_name)) in enumerate(fields.items(), 1):
        proto.field.add(
            name=field, number=number, type=kind, type_name=type_name or None, label=Field.LABEL_OPTIONAL
        )
    return proto


def files() -> dict[str, Any]:
    """orders.proto imports customer.proto and a file that every registry has; Item is inside of Order."""
    customer = descriptor_pb2.FileDescriptorProto(name="customer.proto", package="shop", syntax="proto3")
    customer.message_type.append(message("Customer", name=(Field.TYPE_STRING, "")))
    order = message(
        "Order",
        id=(Field.TYPE_INT64, ""),
        customer=(Field.TYPE_MESSAGE, ".shop.Customer"),
        at=(Field.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
    )
    order.nested_type.append(message("Other"))
    order.nested_type.append(message("Item", name=(Field.TYPE_STRING, "")))
    orders = descriptor_pb2.FileDescriptorProto(
        name="orders.proto",
        package="shop",
        syntax="proto3",
        dependency=["customer.proto", "google/protobuf/timestamp.proto"],
    )
    orders.message_type.extend([message("First", name=(Field.TYPE_STRING, "")), order])
    return {"customer": customer, "orders": orders}


@pytest.fixture(scope="module")
def classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for each in files().values():
        pool.Add(each)
    names = ("Customer", "First", "Order", "Order.Item")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in names
    }


def read(client, message_class, data, headers=None):
    deserializer = ProtobufDeserializer(message_class, {"use.deprecated.format": False}, client)
    return deserializer(data, ConfluentContext("events", "value", headers))


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("First", b"\x00"),
        ("Order", bytes((1 << 1, 1 << 1))),
        ("Order.Item", bytes((2 << 1, 1 << 1, 1 << 1))),
    ],
)
def test_the_position_of_the_message_follows_the_id(client, confluent_client, classes, name, frame):
    kind = classes[name]
    value = kind(id=5) if name == "Order" else kind(name="täxt")
    data = ProtobufSerializer(kind, client).serialize("events", [], value)
    assert data[5:] == frame + value.SerializeToString()
    assert read(confluent_client, kind, data) == value


def test_the_bytes_and_schemas_are_those_of_confluent(client, confluent_client, registry, classes):
    value = classes["Order"](id=5, customer=classes["Customer"](name="x"))
    value.at.GetCurrentTime()
    data = ProtobufSerializer(classes["Order"], client).serialize("events", [], value)
    assert registry.subjects() == ["customer.proto", "events-value"]
    theirs = ConfluentProtobufSerializer(classes["Order"], confluent_client, {"use.deprecated.format": False})
    assert theirs(value, ConfluentContext("events", "value")) == data
    assert len(registry.versions("events-value")) == len(registry.versions("customer.proto")) == 1
    assert registry.versions("events-value")[0]["references"] == [
        {"name": "customer.proto", "subject": "customer.proto", "version": 1}
    ]


def test_files_that_every_registry_has_can_be_registered(client, registry, classes):
    conf = {
        "skip.known.types": False,
        "reference.subject.name.strategy": lambda ctx, file: f"file/{file.name}",
    }
    ProtobufSerializer(classes["Order"], client, conf).serialize("events", [], classes["Order"]())
    assert registry.subjects() == [
        "events-value",
        "file/customer.proto",
        "file/google/protobuf/timestamp.proto",
    ]


def test_the_guid_and_the_position_go_into_a_header(client, confluent_client, classes):
    conf = {"schema.id.serializer": header_schema_id_serializer}
    headers: list[tuple[str, bytes | None]] = []
    value = classes["Order"](id=2**60)
    data = ProtobufSerializer(classes["Order"], client, conf).serialize("events", headers, value)
    assert data == value.SerializeToString()
    assert len(headers[0][1] or b"") == 1 + 16 + 2
    assert read(confluent_client, classes["Order"], data, headers) == value


def test_the_position_is_that_in_the_registered_file(client, confluent_client, registry, classes):
    import base64

    newer = files()["orders"]
    newer.message_type.insert(0, message("Newest"))
    registry.register("customer.proto", _text(files()["customer"]), "PROTOBUF")
    registry.register(
        "events-value",
        base64.b64encode(newer.SerializeToString()).decode(),
        "PROTOBUF",
        references=[{"name": "customer.proto", "subject": "customer.proto", "version": 1}],
    )
    value = classes["Order"](id=5)
    data = ProtobufSerializer(classes["Order"], client, LATEST).serialize("events", [], value)
    assert data[5:7] == bytes((1 << 1, 2 << 1))
    assert read(confluent_client, classes["Order"], data) == value


def test_a_schema_without_the_message_is_refused(client, registry, classes):
    registry.register("events-value", _text(files()["customer"]), "PROTOBUF")
    with pytest.raises(SerializationError, match=r"has no message shop\.Order"):
        ProtobufSerializer(classes["Order"], client, LATEST).serialize("events", [], classes["Order"]())


def test_another_message_is_refused(client, classes):
    with pytest.raises(SerializationError, match=r"for Order got .*First"):
        ProtobufSerializer(classes["Order"], client).serialize("events", [], classes["First"]())


def test_mistakes_show_when_the_serializer_is_created(client, classes):
    with pytest.raises(ConfigError, match="that protoc generates, got an object of First"):
        ProtobufSerializer(classes["First"](), client)
    with pytest.raises(ConfigError, match=r"use\.deprecated\.format"):
        ProtobufSerializer(classes["First"], client, {"use.deprecated.format": True})
    with pytest.raises(ConfigError, match="expected a function"):
        ProtobufSerializer(classes["First"], client, {"reference.subject.name.strategy": "x"})


def _text(file: Any) -> str:
    import base64

    return base64.b64encode(file.SerializeToString()).decode()
