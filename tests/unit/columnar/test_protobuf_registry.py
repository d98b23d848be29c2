"""``Protobuf`` with a schema registry: what confluent-kafka's deserializer reads; and sent, as a whole."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import SerializationContext as ConfluentContext
from google.protobuf.message_factory import GetMessageClass

from kproducer import ConfigError, InvalidArgumentError, KafkaProducer, SerializationError
from kproducer._core.bulk.column_format import ColumnsToEncode
from kproducer._core.columns.arrow import ArrowSource
from kproducer._core.columns.encoder_plan import ArrowField
from kproducer.columnar import Protobuf
from kproducer.schema_registry import (
    ProtobufSerializer,
    header_schema_id_serializer,
)
from kproducer.testing import FakeKafka
from tests.unit.columnar.protobuf_kit import compiled, encode, pool_of, proto

CUSTOMER = proto("message Customer {\nstring name = 1\n}", "shop", "customer.proto")
ORDERS = proto(
    """
    message First {
        string name = 1
    }
    message Order {
        int64 id = 1
        Customer customer = 2
        google.protobuf.Timestamp at = 3
        message Other {
        }
        message Item {
            string name = 1
        }
    }
    """,
    "shop",
    "orders.proto",
)
ORDERS.dependency.append("customer.proto")
TABLE = pa.table(
    {
        "id": [1, 2],
        "customer": [{"name": "a"}, None],
        "at": pa.array([1_500, None], pa.timestamp("ms", "UTC")),
    }
)


@pytest.fixture(scope="module")
def classes() -> dict[str, Any]:
    pool = pool_of(CUSTOMER, ORDERS)
    names = ("First", "Order", "Order.Item")
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in names}


def read(client: Any, kind: Any, data: bytes | None, headers: Any = None, field: str = "value") -> Any:
    deserializer = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
    return deserializer(data, ConfluentContext("events", field, headers))


def test_the_records_are_those_of_the_serializer(client, confluent_client, registry, classes):
    order = classes["Order"]
    found = encode(Protobuf(order, registry=client), TABLE, topic="events")
    first = order(id=1, customer={"name": "a"}, at={"seconds": 1, "nanos": 500_000_000})
    serializer = ProtobufSerializer(order, client)
    assert found == [serializer.serialize("events", [], each) for each in (first, order(id=2))]
    assert [read(confluent_client, order, each) for each in found] == [first, order(id=2)]
    assert registry.subjects() == ["customer.proto", "events-value"]


@pytest.mark.parametrize(
    ("name", "frame"),
    [("First", b"\x00"), ("Order", b"\x02\x02"), ("Order.Item", b"\x04\x02\x02")],
)
def test_the_position_of_the_message_follows_the_id(client, confluent_client, classes, name, frame):
    kind = classes[name]
    table = pa.table({"id": [7]}) if name == "Order" else pa.table({"name": ["x"]})
    (data,) = encode(Protobuf(kind, registry=client), table, topic="events", role="key")
    assert isinstance(data, bytes)
    assert data[5:].startswith(frame)
    assert read(confluent_client, kind, data, field="key") == (
        kind(id=7) if name == "Order" else kind(name="x")
    )


def test_the_guid_goes_into_a_header(client, confluent_client, classes):
    given = Protobuf(
        classes["Order"], registry=client, conf={"schema.id.serializer": header_schema_id_serializer}
    )
    header = compiled(given, TABLE, topic="events").header
    assert header is not None
    assert header[0] == "__value_schema_id"
    data = encode(given, TABLE, topic="events")[1]
    assert data == b"\x08\x02"
    assert read(confluent_client, classes["Order"], data, [header]) == classes["Order"](id=2)


def test_the_latest_version_has_the_message_at_another_position(client, confluent_client, classes):
    moved = proto("message New {\n}", "shop", "orders.proto")
    moved.dependency.append("customer.proto")
    moved.message_type.extend(ORDERS.message_type)
    newer = GetMessageClass(pool_of(CUSTOMER, moved).FindMessageTypeByName("shop.New"))
    ProtobufSerializer(newer, client).prepare("events")
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    (data, _) = encode(Protobuf(classes["Order"], registry=client, conf=conf), TABLE, topic="events")
    assert isinstance(data, bytes)
    assert data[5:7] == b"\x02\x04"


def test_what_the_registry_refuses(client, classes):
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    with pytest.raises(SerializationError, match="events-value"):
        encode(Protobuf(classes["Order"], registry=client, conf=conf), TABLE, topic="events")
    with pytest.raises(InvalidArgumentError, match="call send_arrow once per topic"):
        encode(Protobuf(classes["Order"], registry=client), TABLE, topic=None)
    with pytest.raises(ConfigError, match=r"Protobuf: use\.deprecated\.format"):
        Protobuf(classes["Order"], registry=client, conf={"use.deprecated.format": True})
    with pytest.raises(ConfigError, match=r"Protobuf: reference\.subject\.name\.strategy"):
        Protobuf(classes["Order"], registry=client, conf={"reference.subject.name.strategy": 5})
    with pytest.raises(ConfigError, match=r"did you mean 'skip\.known\.types'"):
        Protobuf(classes["Order"], registry=client, conf={"skip.known.type": True})


def test_what_was_resolved_needs_no_registry_and_no_code_of_the_messages(client, classes):
    source = ArrowSource(TABLE)
    wanted = ColumnsToEncode(tuple(map(ArrowField.of, source.fields())), frozenset(), "events", "value")
    resolved = Protobuf(classes["Order"], registry=client).resolve(wanted)
    again = pickle.loads(pickle.dumps(resolved))
    assert again.compile_columns(wanted) == resolved.compile_columns(wanted)
    assert again.compile_columns(wanted).plan.prefix[5:] == b"\x02\x02"
    # In another process, which knows neither the pool nor the files.
    program = (
        "import pickle, sys\n"
        "resolved, wanted = pickle.loads(sys.stdin.buffer.read())\n"
        "sys.stdout.buffer.write(pickle.dumps(resolved.compile_columns(wanted)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps((resolved, wanted)),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert pickle.loads(done.stdout) == resolved.compile_columns(wanted)


def test_send_arrow(client, confluent_client, classes):
    order, item = classes["Order"], classes["Order.Item"]
    table = TABLE.append_column("name", pa.array(["k", None]))
    with FakeKafka() as kafka:
        kafka.create_topic("events", partitions=1)
        with KafkaProducer(kafka.bootstrap_servers) as producer:
            result = producer.send_arrow(
                "events",
                table,
                value=Protobuf(order, ["id", "customer", "at"], registry=client),
                key=Protobuf(item, ["name"], registry=client),
            )
            assert result.failures(timeout=30) == []
        records = kafka.topic("events").records()
    assert [read(confluent_client, order, each.value).id for each in records] == [1, 2]
    assert [read(confluent_client, item, each.key, field="key").name for each in records] == ["k", ""]


def test_a_row_that_does_not_fit_fails_alone(classes):
    table = pa.table({"id": pa.array([1, 2**63, 3], pa.uint64())})
    with FakeKafka() as kafka:
        kafka.create_topic("events", partitions=1)
        with KafkaProducer(kafka.bootstrap_servers) as producer:
            result = producer.send_arrow("events", table, value=Protobuf(classes["Order"]))
            ((row, error),) = result.failures(timeout=30)
        assert [classes["Order"].FromString(each.value).id for each in kafka.topic("events").records()] == [
            1,
            3,
        ]
    assert row == 1
    assert isinstance(error, SerializationError)
    assert str(error) == "the value cannot be written: field 'id' is out of range"
