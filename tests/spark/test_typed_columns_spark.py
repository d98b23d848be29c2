"""Typed columns on Spark: batch, stream and exactly once; Spark's own functions read what was written."""

from __future__ import annotations

import itertools
import json

import pyspark
import pytest
from pyspark.sql import functions as f

from kproducer.testing import FakeKafka
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.kafka.maven_artifacts import KafkaUnavailableError, spark_jar
from tests.support.requirements import REQUIRE_KAFKA, skip_or_fail

# Older versions of PySpark leave the sockets of collect() to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_names = (f"typed-spark-{number}" for number in itertools.count())

#: Every type that Spark's ``from_avro`` reads as it was.
ALL_TYPES = """
    id,
    id = 1 AS flag,
    CAST(id AS INT) AS number,
    CAST(id / 4 AS FLOAT) AS small,
    id / 3 AS large,
    CAST(id * 100.25 AS DECIMAL(12, 2)) AS price,
    concat('text-', id) AS text,
    CAST('bytes' AS BINARY) AS data,
    DATE '2024-02-29' AS day,
    TIMESTAMP '2024-02-29 12:30:15.123456' AS at,
    TIMESTAMP_NTZ '2024-02-29 12:30:15.123456' AS local,
    array(id, NULL) AS numbers,
    map('a', CAST(id AS DOUBLE), 'b', NULL) AS counts,
    named_struct('inner', named_struct('n', id, 't', IF(id = 2, NULL, 'x'))) AS nested,
    IF(id = 1, NULL, 'not null') AS maybe
"""


class Target:
    """A topic of its own, with brokers and a schema registry."""

    def __init__(self, kafka: FakeKafka, registry: FakeSchemaRegistry) -> None:
        self.kafka, self.registry = kafka, registry
        self.topic = next(_names)
        kafka.create_topic(self.topic, 2)

    def options(self, **more: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.kafka.bootstrap_servers,
            "topic": self.topic,
            "schema.registry.url": self.registry.url,
            **{name.replace("__", "."): value for name, value in more.items()},
        }

    def save(self, frame, **more: str) -> None:
        frame.write.format("kproducer").mode("append").options(**self.options(**more)).save()

    def records(self, isolation_level="read_uncommitted"):
        return self.kafka.topic(self.topic).records(isolation_level=isolation_level)

    def values(self, spark):
        rows = [(bytearray(record.key or b""), bytearray(record.value)) for record in self.records()]
        return spark.createDataFrame(rows, "key binary, value binary")

    def schema(self, role: str = "value") -> str:
        return self.registry.versions(f"{self.topic}-{role}")[-1]["schema"]


@pytest.fixture
def target():
    with FakeKafka() as kafka, FakeSchemaRegistry() as registry:
        yield Target(kafka, registry)


@pytest.fixture(scope="module")
def spark_avro(spark) -> None:
    """Spark with ``from_avro``, whose jar PySpark does not bring along."""
    try:
        jar = spark_jar("spark-avro_2.13", pyspark.__version__)
    except KafkaUnavailableError as error:
        skip_or_fail(REQUIRE_KAFKA, str(error))
    spark.sql(f"ADD JAR '{jar}'")


@pytest.fixture
def row_format(spark) -> str:
    """The format as in Spark 4.0: streams are written from rows."""

    def make():
        # Defined in here, so that it is pickled by value: workers cannot import the tests.
        from kproducer.spark.data_source import KafkaProducerDataSource
        from kproducer.spark.writers import StreamRowWriter

        class RowSource(KafkaProducerDataSource):
            stream_writer = StreamRowWriter

            @classmethod
            def name(cls):
                return "kproducer_typed_rows"

        return RowSource

    spark.dataSource.register(make())
    return "kproducer_typed_rows"


def sorted_rows(frame):
    return sorted(frame.collect(), key=lambda row: row.id)


def test_spark_reads_every_type_back_from_avro(spark, spark_avro, target):
    frame = spark.range(4).selectExpr(*ALL_TYPES.split(",\n"))
    target.save(frame.withColumn("key", f.struct("text", "number")), valueFormat="avro", keyFormat="avro")
    values = target.values(spark)
    read = values.selectExpr(f"from_avro(substring(value, 6), '{target.schema()}', map()) AS r").select("r.*")
    assert sorted_rows(read) == sorted_rows(frame)
    keys = values.selectExpr(f"from_avro(substring(key, 6), '{target.schema('key')}', map()) AS r").select(
        "r.*"
    )
    assert sorted(keys.collect()) == sorted(frame.select("text", "number").collect())
    # Columns of Spark that are never null have no union with null.
    fields = {field["name"]: field["type"] for field in json.loads(target.schema())["fields"]}
    assert fields["id"] == "long"
    assert fields["maybe"] == ["null", "string"]


def test_spark_reads_every_type_back_from_json(spark, target):
    frame = spark.range(4).selectExpr(*ALL_TYPES.split(",\n"))
    target.save(frame.withColumn("key", f.col("id")), valueFormat="json", keyFormat="json")
    values = target.values(spark)
    text = f.expr("CAST(substring(value, 6) AS STRING)")
    read = values.select(f.from_json(text, frame.schema).alias("r")).select("r.*")
    assert sorted_rows(read) == sorted_rows(frame)
    keys = values.selectExpr("CAST(substring(key, 6) AS STRING) AS key").collect()
    assert sorted(row.key for row in keys) == ["0", "1", "2", "3"]
    # As with to_json, fields that are null are left out.
    (row,) = values.select(text.alias("text")).where("text LIKE '%text-1%'").collect()
    assert "maybe" not in json.loads(row.text)
    schema = json.loads(target.schema())
    assert "id" in schema["required"]
    assert "maybe" not in schema["required"]


def test_a_row_that_does_not_fit_fails_the_job_with_row_and_field(spark, target):
    schema = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}'
    frame = spark.range(4, numPartitions=1).select((f.col("id") * 1_000_000_000).alias("id"))
    with pytest.raises(Exception, match=r"row 3 of the task.*field 'id' is out of range"):
        target.save(frame, valueFormat="avro", value__schema=schema)


@pytest.mark.parametrize("by_rows", [False, True])
def test_a_query_asks_the_registry_once(spark, spark_avro, target, tmp_path, row_format, by_rows):
    source = tmp_path / "source"
    source.mkdir()
    for name in "abc":
        (source / name).write_text(f"{name}\n")
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
    frame = lines.selectExpr(
        "value AS key",
        "value AS letter",
        "named_struct('at', TIMESTAMP '2024-02-29 12:30:15', 'tags', map('n', DATE '2024-01-01')) AS more",
        "CAST(1.5 AS DECIMAL(5, 2)) AS price",
    )
    writer = frame.writeStream.format(row_format if by_rows else "kproducer").trigger(availableNow=True)
    writer = writer.options(**target.options(valueFormat="avro", value__subject__name__strategy="TOPIC"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(240)
    assert len(query.recentProgress) == 3
    assert target.registry.requests == [f"POST /subjects/{target.topic}-value/versions?normalize=false"]
    read = target.values(spark).selectExpr(f"from_avro(substring(value, 6), '{target.schema()}', map()) AS r")
    found = read.selectExpr("r.letter", "CAST(r.more AS STRING) AS more", "r.price").collect()
    assert sorted(map(tuple, found), key=str) == [
        (letter, "{2024-02-29 12:30:15, {n -> 2024-01-01}}", found[0].price) for letter in "abc"
    ]
    assert str(found[0].price) == "1.50"


def test_exactly_once_recognises_the_encoded_rows(spark, target):
    frame = spark.range(100).selectExpr("named_struct('n', id) AS key", "id", "concat('text-', id) AS text")
    options = {"valueFormat": "avro", "keyFormat": "avro", "delivery": "exactly-once", "writeId": "orders"}
    target.save(frame, **options)
    written = target.records("read_committed")
    assert len(written) == 100
    target.save(frame, **options)
    assert target.records("read_committed") == written
    with pytest.raises(Exception, match="ReplayMismatchError"):
        target.save(frame.withColumn("text", f.lit("other")), **options)
    with pytest.raises(Exception, match="ReplayMismatchError"):
        target.save(frame.withColumn("key", f.expr("named_struct('n', id + 1)")), **options)
    assert target.records("read_committed") == written
