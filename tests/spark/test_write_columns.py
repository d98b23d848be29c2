"""Columns of the sink: Spark's own set, and for everything else the cast that helps."""

from __future__ import annotations

import pytest
from pyspark.sql import types as t

from kproducer.spark.errors import SparkSchemaError
from kproducer.spark.write_columns import WriteColumns

HEADERS = t.ArrayType(
    t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
)


def schema(**columns: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in columns.items()])


def mistake(columns: t.StructType, topic: str | None = "t", *, fail_on_extra: bool = False) -> str:
    with pytest.raises(SparkSchemaError) as caught:
        WriteColumns.check(columns, topic, fail_on_extra=fail_on_extra)
    return str(caught.value)


def test_all_columns_are_found_in_any_order():
    columns = WriteColumns.check(
        schema(
            headers=HEADERS,
            timestamp=t.TimestampType(),
            partition=t.IntegerType(),
            topic=t.StringType(),
            key=t.BinaryType(),
            value=t.StringType(),
        )
    )
    assert columns == WriteColumns(("headers", "timestamp", "partition", "topic", "key", "value"))


def test_value_alone_and_a_topic_option_are_enough():
    assert WriteColumns.check(schema(value=t.BinaryType()), "orders") == WriteColumns(("value",), "orders")


def test_the_topic_option_wins_over_the_column_whatever_its_type():
    columns = WriteColumns.check(schema(value=t.StringType(), topic=t.IntegerType()), "orders")
    assert columns == WriteColumns(("value",), "orders")


def test_a_timestamp_may_be_seconds_as_double():
    WriteColumns.check(schema(value=t.StringType(), timestamp=t.DoubleType()), "t")


def test_header_values_may_be_strings():
    kind = t.ArrayType(
        t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.StringType())])
    )
    WriteColumns.check(schema(value=t.StringType(), headers=kind), "t")


def test_columns_of_the_kafka_source_can_be_written_back():
    columns = WriteColumns.check(
        schema(
            key=t.BinaryType(),
            value=t.BinaryType(),
            topic=t.StringType(),
            partition=t.IntegerType(),
            offset=t.LongType(),
            timestamp=t.TimestampType(),
            timestampType=t.IntegerType(),
        )
    )
    assert columns.names == ("key", "value", "topic", "partition", "timestamp")


MAP = t.MapType(t.StringType(), t.StringType())


@pytest.mark.parametrize(
    ("name", "kind", "cure"),
    [
        ("value", t.IntegerType(), "CAST(value AS STRING)"),
        ("value", schema(a=t.IntegerType()), "to_json(value)"),
        ("value", t.ArrayType(t.StringType()), "to_json(value)"),
        ("value", MAP, "to_json(value)"),
        ("key", t.LongType(), "CAST(key AS STRING)"),
        ("partition", t.LongType(), "CAST(partition AS INT)"),
        ("partition", t.StringType(), "CAST(partition AS INT)"),
        ("timestamp", t.LongType(), "timestamp_millis(timestamp)"),
        ("timestamp", t.StringType(), "to_timestamp(timestamp)"),
        ("timestamp", t.DateType(), "CAST(timestamp AS TIMESTAMP)"),
        ("timestamp", t.TimestampNTZType(), "CAST(timestamp AS TIMESTAMP)"),
        ("headers", MAP, "map_entries(headers)"),
        ("headers", t.StringType(), "array(struct("),
        ("headers", t.ArrayType(t.StringType()), "array(struct("),
        ("headers", t.ArrayType(schema(value=t.BinaryType(), key=t.StringType())), "array(struct("),
        ("headers", t.ArrayType(schema(key=t.StringType(), value=t.IntegerType())), "array(struct("),
    ],
)
def test_a_wrong_type_is_named_with_the_cast_that_helps(name, kind, cure):
    columns = {"value": t.StringType(), name: kind}
    message = mistake(schema(**columns))
    assert f"column '{name}' has type" in message
    assert cure in message


def test_a_topic_column_must_be_a_string():
    message = mistake(schema(value=t.StringType(), topic=t.BinaryType()), None)
    assert "CAST(topic AS STRING)" in message


def test_a_missing_value_column_names_the_columns_there_are():
    message = mistake(schema(id=t.LongType(), name=t.StringType()))
    assert "column 'value' is missing" in message
    assert "'id', 'name'" in message


def test_a_missing_topic_names_both_ways():
    message = mistake(schema(value=t.StringType()), None)
    assert "option 'topic'" in message
    assert "column 'topic'" in message


@pytest.mark.parametrize("near", ["Key", "KEY", "keys"])
def test_a_column_that_is_nearly_one_of_ours_is_a_mistake(near):
    message = mistake(schema(value=t.StringType(), **{near: t.StringType()}))
    assert f"column '{near}' would not be written: rename it to 'key'" in message


def test_nearly_is_no_mistake_beside_the_right_one():
    WriteColumns.check(schema(value=t.StringType(), key=t.StringType(), keys=t.StringType()), "t")


def test_extra_columns_are_ignored_unless_asked_otherwise():
    columns = schema(value=t.StringType(), note=t.StringType())
    assert WriteColumns.check(columns, "t").names == ("value",)
    assert "column 'note' would not be written" in mistake(columns, fail_on_extra=True)


def test_a_column_that_comes_twice_is_a_mistake():
    columns = t.StructType([t.StructField("value", t.StringType()), t.StructField("value", t.StringType())])
    assert "appears twice" in mistake(columns)


def test_all_mistakes_are_told_at_once():
    message = mistake(schema(key=t.LongType(), partition=t.LongType()), None)
    assert all(
        part in message for part in ("column 'key'", "column 'partition'", "column 'value'", "no topic")
    )
