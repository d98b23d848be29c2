"""``valueFormat`` and ``keyFormat``: what the driver checks and looks up, and what a task then writes."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import pickle
import subprocess
import sys

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import Row
from pyspark.sql import types as t

from kproducer._core.columns.arrow import ArrowSource
from kproducer.spark import KafkaProducerDataSource, SparkOptionError, SparkSchemaError, SparkWriteError
from kproducer.spark.arrow_types import arrow_type, record_batches
from kproducer.spark.exactly_once.spark_write import new_checksum
from kproducer.spark.partition_writer import write_partition
from kproducer.spark.producer_cache import ProducerCache
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.spark.fake_producer import FakeProducer, close_idle

#: Formats are kept in the process, by options: each test has a topic of its own.
_topics = (f"typed-{number}" for number in itertools.count())

ORDERS = t.StructType(
    [
        t.StructField("key", t.StructType([t.StructField("shop", t.StringType(), False)])),
        t.StructField("id", t.LongType(), False),
        t.StructField("price", t.DecimalType(10, 2)),
        t.StructField("at", t.TimestampType()),
        t.StructField("tags", t.ArrayType(t.StringType(), False)),
        t.StructField("counts", t.MapType(t.StringType(), t.IntegerType())),
        t.StructField("timestamp", t.TimestampType()),
    ]
)
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=datetime.timezone.utc)
ROW = Row(Row("x"), 1, decimal.Decimal("1.50"), MOMENT, ["a"], {"n": 2, "m": None}, MOMENT)
VALUE = {
    "id": 1,
    "price": decimal.Decimal("1.50"),
    "at": MOMENT,
    "tags": ["a"],
    "counts": {"n": 2, "m": None},
}


class Job:
    """A write to a topic of its own, without Spark's JVM."""

    def __init__(self, registry: FakeSchemaRegistry | None = None) -> None:
        self.topic = next(_topics)
        self.registry = registry

    def writer(self, schema: t.StructType, **options: str):
        given = {"kafka.bootstrap.servers": "h:1", "topic": self.topic, "checkTimeoutMs": "0"}
        if self.registry is not None:
            given["schema.registry.url"] = self.registry.url
        given |= {name.replace("__", "."): value for name, value in options.items()}
        source = KafkaProducerDataSource({name: value for name, value in given.items() if value})
        return source.writer(schema, False)

    def write(self, schema: t.StructType, rows, **options: str):
        """What a task sends."""
        writer = pickle.loads(pickle.dumps(self.writer(schema, **options)))
        producer = FakeProducer()
        cache = ProducerCache(lambda settings: producer)
        try:
            batches = record_batches(rows, schema, writer.columns.reads)
            write_partition(batches, writer.columns, writer.options, cache)
        finally:
            close_idle(cache)
        return producer.sent


@pytest.fixture
def registry():
    with FakeSchemaRegistry() as running:
        yield running


def avro(registry: FakeSchemaRegistry, topic: str, data: bytes, field: str = MessageField.VALUE):
    with SchemaRegistryClient({"url": registry.url}) as client:
        return AvroDeserializer(client)(data, SerializationContext(topic, field))


def from_json(registry: FakeSchemaRegistry, topic: str, data: bytes):
    with SchemaRegistryClient({"url": registry.url}) as client:
        return JSONDeserializer(None, schema_registry_client=client)(
            data, SerializationContext(topic, MessageField.VALUE)
        )


def test_columns_become_json(registry):
    job = Job(registry)
    (record,) = job.write(ORDERS, [ROW], valueFormat="json", keyFormat="json")
    assert from_json(registry, job.topic, record.value) == {
        "id": 1,
        "price": 1.5,
        "at": "2024-02-29T12:30:15.123456Z",
        "tags": ["a"],
        "counts": {"n": 2, "m": None},
    }
    assert record.key[5:] == b'{"shop":"x"}'


def test_json_needs_no_registry_and_no_schema():
    frame = t.StructType().add("n", "integer").add("m", "decimal(5,2)").add("x", "double")
    rows = [Row(1, decimal.Decimal("1.5"), 0.5), Row(None, None, float("nan"))]
    sent = Job().write(frame, rows, valueFormat="json", value__nan="null")
    assert [record.value for record in sent] == [b'{"n":1,"m":1.50,"x":0.5}', b"{}"]
    sent = Job().write(
        frame, rows, valueFormat="json", value__nulls="write", value__decimals="string", value__nan="null"
    )
    assert [record.value for record in sent] == [
        b'{"n":1,"m":"1.50","x":0.5}',
        b'{"n":null,"m":null,"x":null}',
    ]
    with pytest.raises(SparkWriteError, match=r"row 1 of the task.*field 'x' is NaN"):
        Job().write(frame, rows, valueFormat="json")


def test_a_key_is_made_of_a_column_without_another_role():
    frame = t.StructType().add("id", "long").add("value", "string").add("unread", "variant")
    rows = [Row(7, "x", None)]
    (record,) = Job().write(frame, rows, keyFormat="json", key__column="id")
    assert (record.key, record.value) == (b"7", b"x")


def test_the_title_of_a_json_schema_is_the_record_name(registry):
    job = Job(registry)
    options = {"value__record__name": "Order", "value__subject__name__strategy": "RECORD"}
    job.writer(ORDERS, valueFormat="json", keyFormat="json", **options)
    assert "Order" in registry.subjects()


def test_columns_become_a_record_and_the_key_another_one(registry):
    job = Job(registry)
    (record,) = job.write(ORDERS, [ROW], valueFormat="avro", keyFormat="avro")
    assert avro(registry, job.topic, record.value) == VALUE
    assert avro(registry, job.topic, record.key, MessageField.KEY) == {"shop": "x"}
    assert record.timestamp_ms == 1709209815123


def test_the_registry_is_asked_once_for_the_same_write(registry):
    job = Job(registry)
    job.writer(ORDERS, valueFormat="avro", value__subject__name__strategy="TOPIC", keyFormat="avro")
    asked = list(registry.requests)
    assert asked[0] == f"POST /subjects/{job.topic}-value/versions?normalize=false"
    assert len(asked) == 3  # the key's strategy is an association or the topic
    job.writer(ORDERS, valueFormat="avro", value__subject__name__strategy="TOPIC", keyFormat="avro")
    assert registry.requests == asked


def test_nullability_goes_into_the_schema():
    job = Job()
    writer = job.writer(ORDERS, valueFormat="avro", value__record__name="com.example.Order", keyFormat="avro")
    schema = writer.columns.value.resolved.compiler.args[0]
    assert schema["name"] == "com.example.Order"
    types = {field["name"]: field["type"] for field in schema["fields"]}
    assert types["id"] == "long"
    assert types["tags"] == ["null", {"type": "array", "items": "string"}]
    assert set(types) == {"id", "price", "at", "tags", "counts"}


def test_without_a_name_records_are_called_as_by_spark_or_as_their_column():
    columns = Job().writer(ORDERS, valueFormat="avro", keyFormat="avro").columns
    assert columns.value.resolved.compiler.args[0]["name"] == "topLevelRecord"
    assert columns.key.resolved.compiler.args[0]["name"] == "key"
    columns = Job().writer(ORDERS, valueFormat="avro", keyFormat="avro", key__record__name="a.Shop").columns
    assert columns.key.resolved.compiler.args[0]["name"] == "a.Shop"


def test_a_key_of_another_type_is_that_value_alone():
    schema = t.StructType().add("key", "long").add("n", "integer")
    (first, second) = Job().write(schema, [Row(-2, 1), Row(None, 1)], valueFormat="avro", keyFormat="avro")
    assert (first.key, second.key) == (b"\x03", None)


def test_a_format_for_keys_alone_leaves_the_values_as_they_are():
    schema = t.StructType().add("key", "long").add("value", "string")
    (record,) = Job().write(schema, [Row(1, "x")], keyFormat="avro")
    assert (record.key, record.value) == (b"\x02", b"x")


def test_a_column_value_is_a_field_like_others():
    schema = t.StructType().add("value", "integer", False).add("keys", "integer", False)
    (record,) = Job().write(schema, [Row(1, 2)], valueFormat="avro")
    assert record.value == b"\x02\x04"


def test_one_column_may_be_the_value_and_null_a_tombstone():
    schema = t.StructType().add("key", "string").add("after", t.StructType().add("n", "integer", False))
    rows = [Row("a", Row(1)), Row("b", None)]
    sent = Job().write(schema, rows, valueFormat="avro", value__column="after")
    assert [(record.key, record.value) for record in sent] == [(b"a", b"\x02"), (b"b", None)]


def test_a_schema_may_have_fields_for_columns_with_a_role(registry):
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": "long"}, {"name": "topic", "type": "string"}],
    }
    frame = t.StructType().add("id", "long").add("topic", "string")
    job = Job(registry)
    (record,) = job.write(frame, [Row(1, "t")], valueFormat="avro", value__schema=json.dumps(schema))
    assert avro(registry, job.topic, record.value) == {"id": 1, "topic": "t"}


def test_the_latest_version_is_used_and_nothing_registered(registry):
    job = Job(registry)
    job.writer(ORDERS, valueFormat="avro", keyFormat="avro")
    before = len(registry.requests)
    frame = t.StructType().add("id", "integer", False)
    (record,) = job.write(frame, [Row(5)], valueFormat="avro", value__schema="latest")
    assert avro(registry, job.topic, record.value) == dict.fromkeys(VALUE) | {"id": 5}
    assert not [request for request in registry.requests[before:] if request.startswith("POST")]


def test_a_guid_in_a_header_replaces_the_id(registry):
    frame = t.StructType().add("n", "integer", False)
    (record,) = Job(registry).write(
        frame, [Row(1)], valueFormat="avro", value__schema__id__serializer="header"
    )
    assert record.value == b"\x02"
    assert [name for name, _ in record.headers] == ["__value_schema_id"]


def test_a_row_that_does_not_fit_fails_the_task_with_row_and_field():
    frame = t.StructType().add("n", "long")
    schema = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}'
    rows = [Row(1), Row(2), Row(2**40)]
    with pytest.raises(SparkWriteError) as caught:
        Job().write(frame, rows, valueFormat="avro", value__schema=schema)
    assert "row 2 of the task" in str(caught.value)
    assert "field 'n' is out of range" in str(caught.value)


def test_checksums_cover_the_encoded_values_and_keys(registry):
    def checksum(row: Row, **options: str) -> int:
        writer = job.writer(ORDERS, valueFormat="avro", keyFormat="avro", **options)
        total = new_checksum(writer.columns)
        for batch in record_batches([row], ORDERS, writer.columns.reads):
            total.update(batch)
        return total.value

    job = Job(registry)
    first = checksum(ROW)
    assert checksum(ROW) == first
    assert checksum(Row(*ROW[:1], 2, *ROW[2:])) != first
    assert checksum(Row(Row("y"), *ROW[1:])) != first
    # The header with the schema is part of the record.
    assert checksum(ROW, value__schema__id__serializer="header") != first


def test_no_secret_leaves_the_driver():
    with FakeSchemaRegistry(user="me", password="hunter2") as registry:
        job = Job(registry)
        info = {"schema__registry__basic__auth__user__info": "me:hunter2"}
        writer = job.writer(ORDERS, valueFormat="avro", keyFormat="avro", **info)
        assert b"hunter2" not in pickle.dumps(writer)
        assert "hunter2" not in repr(writer)
        wrong = {"schema__registry__basic__auth__user__info": "me:wrong-secret"}
        with pytest.raises(SparkWriteError) as caught:
            job.writer(ORDERS, valueFormat="avro", keyFormat="avro", **wrong)
        assert "401" in str(caught.value)
        assert "check schema.registry.basic.auth.user.info" in str(caught.value)
        assert "wrong-secret" not in str(caught.value)


# -- what the driver refuses -------------------------------------------------------------------------------


def refusal(schema: t.StructType, **options: str) -> str:
    with pytest.raises((SparkSchemaError, SparkOptionError, SparkWriteError)) as caught:
        Job().writer(schema, **options)
    return str(caught.value)


def test_a_type_that_does_not_fit_is_named_with_column_and_field():
    frame = t.StructType().add("order", t.StructType().add("n", "string"))
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {
                "name": "order",
                "type": {"type": "record", "name": "o", "fields": [{"name": "n", "type": "int"}]},
            }
        ],
    }
    text = refusal(frame, valueFormat="avro", value__schema=json.dumps(schema))
    assert "option 'valueFormat=avro': column 'order', at 'order.n', is of type string" in text


def test_columns_that_the_schema_does_not_have_are_named():
    frame = t.StructType().add("n", "integer").add("m", "integer")
    schema = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}'
    text = refusal(frame, valueFormat="avro", value__schema=schema)
    assert "column 'm' is not in the Avro schema (fields: 'n'): leave it out (df.drop)" in text
    text = refusal(frame, valueFormat="avro", value__schema='"int"')
    assert "set the option 'value.column' to write one column" in text


def test_types_that_no_format_writes_are_named():
    frame = t.StructType().add("v", t.StructType().add("inner", t.VariantType()))
    frame = frame.add("years", t.YearMonthIntervalType()).add("headers", t.VariantType())
    text = refusal(frame.add("key", "long"), valueFormat="avro", keyFormat="avro")
    assert "column 'headers' has type variant and must be ARRAY" in text
    text = refusal(t.StructType(frame.fields[:-2]), valueFormat="avro")
    assert "column 'v.inner' has type VARIANT, which no format can write: use to_json, or drop it" in text
    assert "column 'years' has type INTERVAL YEAR TO MONTH" in text


@pytest.mark.parametrize("type_", [t.VariantType(), t.YearMonthIntervalType()])
def test_such_types_may_be_in_columns_that_are_never_null(type_):
    frame = t.StructType().add("v", type_, nullable=False).add("n", "integer")
    assert "column 'v' has type" in refusal(frame, valueFormat="json")
    Job().writer(frame, valueFormat="json", value__column="n")  # is not a mistake


def test_missing_columns_are_named():
    frame = t.StructType().add("n", "integer")
    assert "the option 'keyFormat' needs it" in refusal(frame, valueFormat="avro", keyFormat="avro")
    assert "correct the option 'value.column'" in refusal(frame, valueFormat="avro", value__column="m")
    text = refusal(frame)
    assert "set the option 'valueFormat'" in text
    text = refusal(t.StructType().add("key", "integer"), valueFormat="avro")
    assert "column 'key' has type INT" in text
    text = refusal(t.StructType().add("key", "string"), valueFormat="avro")
    assert "there is no column for it" in text


def test_columns_that_are_not_written_are_mistakes_as_before():
    frame = t.StructType().add("after", t.StructType().add("n", "integer")).add("Key", "string")
    assert "rename it to 'key'" in refusal(frame, valueFormat="avro", value__column="after")
    frame = t.StructType().add("after", t.StructType().add("n", "integer")).add("more", "string")
    options = {"valueFormat": "avro", "value__column": "after", "extraColumns": "fail"}
    assert "column 'more' would not be written" in refusal(frame, **options)
    Job().writer(frame, valueFormat="avro", extraColumns="fail")


def test_wrong_options_of_formats_and_others_are_named_together():
    frame = t.StructType().add("n", "integer")
    text = refusal(frame, valueFormat="avro", value__schema="{", foo="1")
    assert "option 'value.schema': Avro: schema is not JSON" in text
    assert "unknown option 'foo'" in text


def test_a_subject_without_schema_is_named(registry):
    job = Job(registry)
    with pytest.raises(SparkWriteError) as caught:
        job.writer(t.StructType().add("n", "integer"), valueFormat="avro", value__schema="latest")
    assert f"the values of topic '{job.topic}'" in str(caught.value)
    assert "404" in str(caught.value)


# -- rows --------------------------------------------------------------------------------------------------


class Point:
    """A value of a user-defined type."""

    __UDT__: t.UserDefinedType

    def __init__(self, x: int) -> None:
        self.x = x


class PointType(t.UserDefinedType):
    @classmethod
    def sqlType(cls):  # noqa: N802
        return t.StructType().add("x", "integer").add("at", "timestamp")

    def serialize(self, obj):
        return (obj.x, MOMENT)


Point.__UDT__ = PointType()


def test_rows_of_all_types_become_arrow_data():
    kinds = {
        "b": ("boolean", True),
        "i": ("byte", 1),
        "f": ("float", 0.5),
        "d": ("decimal(10,2)", decimal.Decimal("1.50")),
        "s": ("string", "é"),
        "y": ("binary", bytearray(b"x")),
        "date": ("date", MOMENT.date()),
        "local": ("timestamp_ntz", MOMENT.replace(tzinfo=None)),
        "interval": (t.DayTimeIntervalType(), datetime.timedelta(days=1)),
        "list": (t.ArrayType(t.StructType().add("at", "timestamp")), [Row(MOMENT), None]),
        "map": (t.MapType(t.StringType(), t.ArrayType(t.TimestampType())), {"a": [MOMENT]}),
        "nothing": ("void", None),
        "point": (PointType(), Point(1)),
    }
    schema = t.StructType()
    for name, (kind, _) in kinds.items():
        schema = schema.add(name, kind)
    rows = [Row(*(value for _, value in kinds.values())), Row(*[None] * len(kinds))]
    (batch,) = record_batches(rows, schema, lambda name: name != "f")
    first, second = batch.to_pylist()
    assert first.pop("map") == [("a", [MOMENT])]
    assert first == {
        "b": True,
        "i": 1,
        "d": decimal.Decimal("1.50"),
        "s": "é",
        "y": b"x",
        "date": MOMENT.date(),
        "local": MOMENT.replace(tzinfo=None),
        "interval": datetime.timedelta(days=1),
        "list": [{"at": MOMENT}, None],
        "nothing": None,
        "point": {"x": 1, "at": MOMENT},
    }
    assert set(second.values()) == {None}
    assert [batch.schema.field(field.name).type for field in schema if field.name != "f"] == [
        arrow_type(field.dataType) for field in schema if field.name != "f"
    ]
    ArrowSource(batch).close()


def test_times_of_rows_without_a_zone_are_those_of_the_machine():
    (batch,) = record_batches(
        [Row(MOMENT.astimezone().replace(tzinfo=None))],
        t.StructType().add("at", "timestamp"),
        lambda name: True,
    )
    assert batch.column(0).type == pa.timestamp("us", tz="UTC")
    assert batch.to_pylist() == [{"at": MOMENT}]


def test_only_rows_need_spark_s_own_conversion():
    """Its module is not part of Spark's API, and Spark passes rows in version 4.0 only."""
    program = (
        "import sys; sys.modules['pyspark.sql.conversion'] = None; import kproducer.spark.resolved_formats"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
