"""Avro made of columns, read by other projects: Apache Avro in Java, franz-go, confluent-kafka."""

from __future__ import annotations

import datetime
import decimal
import io
import itertools
import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

import confluent_kafka.schema_registry as confluent
import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import SerializationContext as ConfluentContext
from hypothesis import HealthCheck, Phase, given, settings

from kproducer import KafkaProducer, SerializationError
from kproducer._core.bulk.column_format import ColumnsToEncode
from kproducer._core.columns.encoder_plan import ArrowField
from kproducer.columnar import Avro, avro_schema
from kproducer.schema_registry import (
    AvroSerializer,
    SchemaRegistryClient,
    SchemaRegistryError,
    SerializationContext,
    header_schema_id_serializer,
)
from kproducer.testing import FakeKafka
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.columnar.avro_shapes import (
    LIST_KINDS,
    Shape,
    leaves,
    listed,
    names,
    null,
    nullable,
    record,
    table_of,
    union,
    without_logical_types,
)
from tests.support.columnar.encoders import Encoders
from tests.support.columnar.other_readers import (
    franz_go,
    franz_go_registry,
    read_with_franz_go,
    read_with_java,
)
from tests.support.kafka.maven_artifacts import KafkaUnavailableError, avro_class_path
from tests.support.requirements import REQUIRE_KAFKA, skip_or_fail

UTC = datetime.timezone.utc
WHEN = datetime.datetime(2024, 2, 29, 23, 59, 58, 765432)
ROWS: list[dict[str, Any]] = [
    {
        "flag": True,
        "tiny": -128,
        "int": -(2**31),
        "long": -(2**63),
        "float": 0.5,
        "double": -1e300,
        "text": "\u00fc\u20ac",
        "data": b"\0\xff",
        "decimal": decimal.Decimal("-12345678901234567890.12"),
        "date": WHEN.date(),
        "time_ms": datetime.time(23, 59, 58, 765000),
        "time_us": WHEN.time(),
        "utc_ms": WHEN.replace(microsecond=765000, tzinfo=UTC),
        "utc_us": WHEN.replace(tzinfo=UTC),
        "local_us": WHEN,
        "uuid": str(uuid.UUID(int=2**127 + 5)),
        "list": [1, None, 3],
        "map": {"k": "v"},
        "struct": {"x": 1, "inner": {"y": "deep"}},
        "structs": [{"z": [b"a"]}, {"z": []}],
    },
    {
        "flag": False,
        "tiny": 127,
        "int": 2**31 - 1,
        "long": 2**63 - 1,
        "float": -0.25,
        "double": 2.5,
        "text": "",
        "data": b"",
        "decimal": decimal.Decimal("0.00"),
        "date": datetime.date(1, 1, 1),
        "time_ms": datetime.time(0),
        "time_us": datetime.time(0, 0, 0, 1),
        "utc_ms": datetime.datetime(1970, 1, 1, tzinfo=UTC),
        "utc_us": datetime.datetime(1900, 1, 1, tzinfo=UTC),
        "local_us": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        "uuid": str(uuid.UUID(int=1)),
        "list": [],
        "map": {},
        "struct": {"x": None, "inner": None},
        "structs": None,
    },
    dict.fromkeys(
        (
            "flag",
            "tiny",
            "int",
            "long",
            "float",
            "double",
            "text",
            "data",
            "decimal",
            "date",
            "time_ms",
            "time_us",
            "utc_ms",
            "utc_us",
            "local_us",
            "uuid",
            "list",
            "map",
            "struct",
            "structs",
        )
    ),
]
ARROW = pa.schema(
    [
        *(
            ("flag", pa.bool_()),
            ("tiny", pa.int8()),
            ("int", pa.int32()),
            ("long", pa.int64()),
            ("float", pa.float32()),
        ),
        *(
            ("double", pa.float64()),
            ("text", pa.string()),
            ("data", pa.binary()),
            ("decimal", pa.decimal128(22, 2)),
        ),
        *(("date", pa.date32()), ("time_ms", pa.time32("ms")), ("time_us", pa.time64("us"))),
        *(
            ("utc_ms", pa.timestamp("ms", "UTC")),
            ("utc_us", pa.timestamp("us", "UTC")),
            ("local_us", pa.timestamp("us")),
        ),
        *(("uuid", pa.string()), ("list", pa.list_(pa.int32())), ("map", pa.map_(pa.string(), pa.string()))),
        ("struct", pa.struct([("x", pa.int16()), ("inner", pa.struct([("y", pa.string())]))])),
        ("structs", pa.list_(pa.struct([("z", pa.list_(pa.binary()))]))),
    ]
)
TABLE = pa.Table.from_pylist(ROWS, ARROW)


def with_uuids(schema: str) -> str:
    """The derived schema, where the text of UUIDs is one."""
    parsed = json.loads(schema)
    for field in parsed["fields"]:
        if field["name"] == "uuid":
            field["type"] = ["null", {"type": "string", "logicalType": "uuid"}]
    return json.dumps(parsed)


SCHEMA = with_uuids(avro_schema(TABLE, "Sample"))
EXPECTED = [{**row, "uuid": None if row["uuid"] is None else uuid.UUID(row["uuid"])} for row in ROWS]


def encode(data: Any, schema: Any) -> list[bytes]:
    native = Encoders.of("native")
    fields = tuple(map(ArrowField.of, native.fields(data)))
    wanted = ColumnsToEncode(fields, frozenset(), "t", "value")
    return native.encode(data, Avro(schema=json.dumps(schema)).compile_columns(wanted).plan)


def some_rows(shape: Shape, count: int) -> list[Any]:
    """Rows that hypothesis draws, the same ones each time."""
    found: list[Any] = []

    @settings(
        max_examples=count, phases=[Phase.generate], database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(shape.values)
    def collect(row: Any) -> None:
        found.append(row)

    collect()
    return found


def shapes_of_all_types() -> list[Shape]:
    """A record of each pair of types, alone, nullable, and in all that contains types."""
    next_name = names()
    generator = random.Random(7)
    pairs = leaves(next_name)
    made = [record([pair, nullable(pair, is_first=True)], next_name()) for pair in pairs if named_once(pair)]
    made += [record([pair], next_name()) for pair in pairs if not named_once(pair)]
    for kind in LIST_KINDS:
        made.append(record([listed(nullable(generator.choice(pairs), is_first=False), kind)], next_name()))
    plain = [pair for pair in pairs if isinstance(pair.avro, str)]
    for is_dense in (False, True):
        text, number = (next(each for each in plain if each.avro == name) for name in ("string", "long"))
        made.append(record([union([text, number], is_dense=is_dense, type_ids=[3, 1]), null()], next_name()))
    return made


def named_once(pair: Shape) -> bool:
    return not (isinstance(pair.avro, dict) and "name" in pair.avro)


@pytest.mark.kafka
def test_java_reads_all_types_and_writes_the_same_bytes() -> None:
    try:
        avro_class_path()
    except KafkaUnavailableError as error:
        skip_or_fail(REQUIRE_KAFKA, f"tests with Apache Avro: {error}")
    shapes = shapes_of_all_types()
    cases = []
    for shape in shapes:
        rows = some_rows(shape, 4)
        cases.append((shape.avro, encode(table_of(shape, rows, [2]), shape.avro), rows))
    cases.append((json.loads(SCHEMA), encode(TABLE, json.loads(SCHEMA)), EXPECTED))
    answers = read_with_java([(schema, values) for schema, values, _ in cases])
    compared = 0
    for (schema, values, rows), found, shape in itertools.zip_longest(cases, answers, shapes):
        plain = fastavro.parse_schema(without_logical_types(schema))
        for value, row, answer in zip(values, rows, found, strict=True):
            assert answer.written == value
            read = fastavro.schemaless_reader(io.BytesIO(value), plain, None)
            if shape is not None:
                assert read == shape.read(row)
            text = io.StringIO()
            fastavro.json_writer(text, plain, [read])
            assert answer.json == json.loads(text.getvalue()), schema
            compared += 1
    assert compared > 600
    sample = answers[-1][0].text
    for part in ("-12345678901234567890.12", "2024-02-29", "23:59:58.765432", "2024-02-29T23:59:58.765432Z",
                 "2024-02-29T23:59:58.765Z", str(EXPECTED[0]["uuid"]), '"y": "deep"'):  # fmt: skip
        assert part in sample


# -- registries --------------------------------------------------------------------------------------------


def sent(client: SchemaRegistryClient, **more: Any) -> list[Any]:
    """The records of the table in a topic."""
    with FakeKafka() as kafka, KafkaProducer(kafka.bootstrap_servers) as producer:
        more.setdefault("value", Avro(schema=SCHEMA, registry=client))
        assert producer.send_arrow("events", TABLE, partition=0, **more).failures(30) == []
        return kafka.topic("events").records(0)


@pytest.mark.parametrize(
    "conf", [{}, {"schema.id.serializer": header_schema_id_serializer}], ids=["id", "guid"]
)
def test_confluent_reads_the_values_of_the_table(conf: dict[str, Any]) -> None:
    with FakeSchemaRegistry() as registry, SchemaRegistryClient({"url": registry.url}) as client:
        value = Avro(schema=SCHEMA, registry=client, conf=conf)
        key = Avro("long", registry=client, conf=conf)
        records = sent(client, value=value, key=key)
        theirs = confluent.SchemaRegistryClient({"url": registry.url})
        deserializer = AvroDeserializer(theirs)

        def read(data: Any, field: str, headers: Any) -> Any:
            return deserializer(data, ConfluentContext("events", field, headers))

        found = [read(each.value, "value", list(each.headers)) for each in records]
        assert found == EXPECTED
        keys = [read(each.key, "key", list(each.headers)) for each in records]
        assert keys == [row["long"] for row in ROWS]
        theirs.close()
        assert registry.subjects() == ["events-key", "events-value"]
        serializer = AvroSerializer(client, SCHEMA, conf=conf)
        ours = [serializer(row, SerializationContext("events", "value", [])) for row in EXPECTED]
        assert [each.value for each in records] == ours


@pytest.fixture(scope="module")
def go_program() -> str:
    return franz_go()


@pytest.fixture
def go_registry(go_program: str) -> Iterator[str]:
    with franz_go_registry(go_program) as url:
        yield url


def test_franz_go_reads_what_its_registry_was_given(go_program: str, go_registry: str) -> None:
    with SchemaRegistryClient({"url": go_registry}) as client:
        records = sent(client)
        serializer = AvroSerializer(client, SCHEMA)
        ours = [serializer(row, SerializationContext("events", "value", [])) for row in EXPECTED]
        assert [record.value for record in records] == ours
        found = read_with_franz_go(go_program, go_registry, [record.value for record in records])
        assert {each["type"] for each in found} == {"AVRO"}
        assert {each["id"] for each in found} == {client.get_latest_version("events-value").schema_id}
        for each, row in zip(found, EXPECTED, strict=True):
            schema = json.loads(each["schema"])
            assert schema == json.loads(SCHEMA)
            assert fastavro.schemaless_reader(io.BytesIO(each["data"]), schema, None) == row


def test_schemas_are_registered_looked_up_and_found_with_franz_go(go_program: str, go_registry: str) -> None:
    with SchemaRegistryClient({"url": go_registry}) as client:
        with pytest.raises(SchemaRegistryError, match=r"40401|not found"):
            sent(client, value=Avro(schema="latest", registry=client))
        with pytest.raises(SchemaRegistryError, match=r"4040|not found"):
            sent(client, value=Avro(schema=SCHEMA, registry=client, conf={"auto.register.schemas": False}))
        registered = sent(client)
        for value in (
            Avro(schema="latest", registry=client),
            Avro(schema=SCHEMA, registry=client, conf={"auto.register.schemas": False}),
            Avro(
                registry=client, conf={"use.schema.id": client.get_latest_version("events-value").schema_id}
            ),
        ):
            assert [each.value for each in sent(client, value=value)] == [each.value for each in registered]
        # Its answer to a registration has no GUID.
        guid = {"schema.id.serializer": header_schema_id_serializer}
        with pytest.raises(SerializationError, match="sent no GUID"):
            sent(client, value=Avro(schema=SCHEMA, registry=client, conf=guid))
