"""``valueFormat=protobuf``: messages of a file of descriptors, and those that a schema registry has."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE
from pyspark.sql import Row
from pyspark.sql import types as t

from kproducer.spark import SparkOptionError, SparkSchemaError, SparkWriteError
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.spark.test_typed_columns import MOMENT, Job

_INT64, _STRING, _MESSAGE = (
    FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_STRING,
    FieldDescriptorProto.TYPE_MESSAGE,
)
FRAME = (
    t.StructType()
    .add("key", "string")
    .add("id", "long")
    .add("at", "timestamp")
    .add("shop", t.StructType().add("name", "string"))
)
ROWS = [Row("k", 7, MOMENT, Row("x"))]


def _add(message, *fields) -> None:
    for number, (name, kind, type_name) in enumerate(fields, 1):
        field = message.field.add(name=name, number=number, type=kind, label=1)
        if type_name:
            field.type_name = type_name


def files() -> tuple[FileDescriptorProto, FileDescriptorProto]:
    """``shop.proto``, and ``order.proto`` that imports it; its second message is ``shop.Order``."""
    shop = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    _add(shop.message_type.add(name="Shop"), ("name", _STRING, ""))
    order = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order.dependency.extend(["shop.proto", "google/protobuf/timestamp.proto"])
    _add(order.message_type.add(name="First"), ("n", _INT64, ""))
    _add(
        order.message_type.add(name="Order"),
        ("id", _INT64, ""),
        ("at", _MESSAGE, ".google.protobuf.Timestamp"),
        ("shop", _MESSAGE, ".shop.Shop"),
    )
    return shop, order


def order_class():
    pool = DescriptorPool()
    pool.AddSerializedFile(TIMESTAMP_FILE.serialized_pb)
    for file in files():
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


@pytest.fixture
def descriptor_file(tmp_path) -> str:
    path = tmp_path / "orders.desc"
    path.write_bytes(FileDescriptorSet(file=files()).SerializeToString())
    return str(path)


@pytest.fixture
def registry():
    with FakeSchemaRegistry() as running:
        yield running


def register(registry: FakeSchemaRegistry, subject: str) -> None:
    shop, order = (base64.b64encode(file.SerializeToString()).decode() for file in files())
    registry.register("shop.proto", shop, "PROTOBUF")
    references = [{"name": "shop.proto", "subject": "shop.proto", "version": 1}]
    registry.register(subject, order, "PROTOBUF", references=references)


def check(data: bytes) -> None:
    order = order_class().FromString(data)
    assert (order.id, order.shop.name) == (7, "x")
    assert order.at.ToMicroseconds() == round(MOMENT.timestamp() * 1_000_000)


def test_a_file_of_descriptors_has_the_message(descriptor_file):
    options = {"value__descriptor__file": descriptor_file, "value__message": "shop.Order"}
    (record,) = Job().write(FRAME, ROWS, valueFormat="protobuf", **options)
    assert record.key == b"k"
    check(record.value)


def test_the_files_are_registered(descriptor_file, registry):
    job = Job(registry)
    options = {"value__descriptor__file": descriptor_file, "value__message": "shop.Order"}
    (record,) = job.write(FRAME, ROWS, valueFormat="protobuf", **options)
    assert registry.subjects() == ["shop.proto", f"{job.topic}-value"]
    # Magic byte, id, and the position of the message: one number, 1.
    assert record.value[5:7] == b"\x02\x02"
    check(record.value[7:])


def test_the_registry_has_the_message(registry):
    job = Job(registry)
    register(registry, f"{job.topic}-value")
    before = len(registry.requests)
    (record,) = job.write(FRAME, ROWS, valueFormat="protobuf", value__message="shop.Order")
    assert record.value[5:7] == b"\x02\x02"
    check(record.value[7:])
    assert not [request for request in registry.requests[before:] if request.startswith("POST")]


def test_without_a_name_the_only_message_is_meant(registry):
    job = Job(registry)
    shop = base64.b64encode(files()[0].SerializeToString()).decode()
    registry.register(f"{job.topic}-value", shop, "PROTOBUF")
    (record,) = job.write(t.StructType().add("name", "string"), [Row("x")], valueFormat="protobuf")
    assert record.value[5:] == b"\x00\x0a\x01x"


def test_a_file_with_several_messages_needs_a_name(registry):
    job = Job(registry)
    register(registry, f"{job.topic}-value")
    with pytest.raises(SparkWriteError, match="has the messages First, Order: choose one"):
        job.writer(FRAME, valueFormat="protobuf")


def test_a_struct_may_be_the_key(descriptor_file):
    frame = t.StructType().add("key", t.StructType().add("name", "string")).add("value", "string")
    options = {"key__descriptor__file": descriptor_file, "key__message": "shop.Shop"}
    (record,) = Job().write(frame, [Row(Row("x"), "v")], keyFormat="protobuf", **options)
    assert (record.key, record.value) == (b"\x0a\x01x", b"v")


def test_another_file_is_noticed(descriptor_file):
    job = Job()
    options = {"value__descriptor__file": descriptor_file, "value__message": "shop.Shop"}
    frame = t.StructType().add("name", "string")
    job.writer(frame, valueFormat="protobuf", **options)
    shop, _ = files()
    shop.message_type[0].field[0].name = "title"
    Path(descriptor_file).write_bytes(FileDescriptorSet(file=[shop]).SerializeToString())
    with pytest.raises(SparkSchemaError, match="column 'name'"):
        job.writer(frame, valueFormat="protobuf", **options)


def refusal(path: str, message: str = "shop.Order") -> str:
    with pytest.raises(SparkOptionError) as caught:
        Job().writer(FRAME, valueFormat="protobuf", value__descriptor__file=path, value__message=message)
    return str(caught.value)


def test_unusable_files_are_refused(descriptor_file, tmp_path):
    assert "has no message 'Order': give its full name" in refusal(descriptor_file, "Order")
    assert "No such file" in refusal(str(tmp_path / "missing"))
    (tmp_path / "text").write_text("message Order {}")
    assert "is not a set of descriptors" in refusal(str(tmp_path / "text"))
    (tmp_path / "alone").write_bytes(FileDescriptorSet(file=files()[1:]).SerializeToString())
    assert "imports shop.proto, which is missing (protoc adds it with --include_imports)" in refusal(
        str(tmp_path / "alone")
    )
