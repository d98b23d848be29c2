"""WriteColumns: which columns of the DataFrame are written, and whether their types are supported.

The columns are those of Spark's own Kafka sink: ``value`` (required), ``key``, ``topic``, ``partition``,
``headers``, ``timestamp``. They are checked on the driver before a task starts. The error names every wrong
column, its type and the cast that helps. Source: Spark's ``KafkaWriter``.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DoubleType,
    IntegerType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kproducer.spark.errors import SparkSchemaError

COLUMN_NAMES = ("key", "value", "topic", "partition", "timestamp", "headers")

#: Likely misspellings of a column's name. Extra columns are ignored, as by Spark's sink, but ignoring one of
#: these would lose all keys or headers.
_NEAR_NAMES = {
    "keys": "key",
    "record_key": "key",
    "values": "value",
    "payload": "value",
    "topics": "topic",
    "topic_name": "topic",
    "partitions": "partition",
    "partition_id": "partition",
    "partitionid": "partition",
    "header": "headers",
    "time_stamp": "timestamp",
    "timestamps": "timestamp",
    "timestamp_ms": "timestamp",
}


@attrs.frozen(kw_only=True)
class WriteColumns:
    """Positions of the columns that are written; ``None``: missing, or overridden by an option.

    Attributes:
        topic_option: the topic of every row, if the option was given; then ``topic`` is ``None``.
    """

    value: int
    key: int | None = None
    topic: int | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: int | None = None
    topic_option: str | None = None

    @classmethod
    def check(
        cls, schema: StructType, topic_option: str | None = None, *, fail_on_extra: bool = False
    ) -> WriteColumns:
        """Find the columns in a schema.

        Args:
            schema: the DataFrame's.
            topic_option: takes precedence over a column ``topic``, as in Spark's sink.
            fail_on_extra: whether a column that is not written is an error.

        Raises:
            SparkSchemaError: names every wrong or missing column and what would be right.
        """
        mistakes: list[str] = []
        positions: dict[str, int] = {}
        for position, field in enumerate(schema.fields):
            if field.name in positions:
                mistakes.append(f"column '{field.name}' comes twice: drop or rename one of them")
            elif field.name in COLUMN_NAMES:
                positions[field.name] = position
        if topic_option is not None:
            positions.pop("topic", None)
        mistakes += _missing(schema, positions, topic_option)
        mistakes += _misnamed(schema, positions, topic_option, fail_on_extra)
        checked = (_MISTAKES[name](schema.fields[position]) for name, position in positions.items())
        mistakes += [mistake for mistake in checked if mistake]
        if mistakes:
            raise SparkSchemaError("; ".join(mistakes))
        return cls(topic_option=topic_option, **positions)


def _missing(schema: StructType, positions: dict[str, int], topic_option: str | None) -> list[str]:
    mistakes = []
    if "value" not in positions:
        names = ", ".join(f"'{field.name}'" for field in schema.fields) or "none"
        mistakes.append(
            f"column 'value' is missing (columns: {names}): make one, for instance "
            "df.select(to_json(struct('*')).alias('value'))"
        )
    if topic_option is None and "topic" not in positions:
        mistakes.append("there is no topic: set the option 'topic', or add a column 'topic' of type STRING")
    return mistakes


def _misnamed(
    schema: StructType, positions: dict[str, int], topic_option: str | None, fail_on_extra: bool
) -> list[str]:
    mistakes = []
    for field in schema.fields:
        if field.name in COLUMN_NAMES:
            continue
        lower = field.name.lower()
        meant = lower if lower in COLUMN_NAMES else _NEAR_NAMES.get(lower)
        unused = meant is not None and meant not in positions and (meant != "topic" or topic_option is None)
        if meant is not None and unused:
            mistakes.append(
                f"column '{field.name}' would not be written: rename it to '{meant}', or drop it "
                f"(df.withColumnRenamed('{field.name}', '{meant}'))"
            )
        elif fail_on_extra:
            mistakes.append(
                f"column '{field.name}' would not be written: drop it, or leave out the option 'extraColumns'"
            )
    return mistakes


def _bytes_mistake(field: StructField) -> str | None:
    if isinstance(field.dataType, (StringType, BinaryType)):
        return None
    if field.dataType.typeName() in ("struct", "array", "map"):
        remedy = f"use to_json({field.name}), or to_avro/to_protobuf for those formats"
    else:
        remedy = f"use CAST({field.name} AS STRING)"
    return _wrong_type(field, "STRING or BINARY", remedy)


def _cast_mistake(field: StructField) -> str | None:
    kind, name = (StringType, "STRING") if field.name == "topic" else (IntegerType, "INT")
    if isinstance(field.dataType, kind):
        return None
    return _wrong_type(field, name, f"use CAST({field.name} AS {name})")


def _timestamp_mistake(field: StructField) -> str | None:
    data_type, name = field.dataType, field.name
    if isinstance(data_type, (TimestampType, DoubleType)):
        return None
    if isinstance(data_type, IntegralType):
        remedy = f"use timestamp_millis({name}) for ms since the epoch, timestamp_seconds({name}) for seconds"
    elif isinstance(data_type, TimestampNTZType):
        remedy = f"use CAST({name} AS TIMESTAMP), which reads it in the session's time zone"
    elif isinstance(data_type, DateType):
        remedy = f"use CAST({name} AS TIMESTAMP)"
    else:
        remedy = f"use to_timestamp({name})"
    return _wrong_type(field, "TIMESTAMP, or DOUBLE in seconds since the epoch", remedy)


def _headers_mistake(field: StructField) -> str | None:
    data_type = field.dataType
    if isinstance(data_type, ArrayType) and isinstance(data_type.elementType, StructType):
        inner = data_type.elementType.fields
        if (
            [each.name for each in inner] == ["key", "value"]
            and isinstance(inner[0].dataType, StringType)
            and isinstance(inner[1].dataType, (StringType, BinaryType))
        ):
            return None
    remedy = "use array(struct(<name> AS key, CAST(<value> AS BINARY) AS value), ...)"
    if data_type.typeName() == "map":
        remedy = (
            f"use transform(map_entries({field.name}), "
            "e -> struct(e.key AS key, CAST(e.value AS BINARY) AS value))"
        )
    return _wrong_type(field, "ARRAY<STRUCT<key: STRING, value: BINARY>>", remedy)


def _wrong_type(field: StructField, right: str, remedy: str) -> str:
    given = field.dataType.simpleString()
    if field.name != "headers":
        given = given.upper()  # as SQL writes it; struct fields keep their case
    return f"column '{field.name}' is of type {given} and must be {right}: {remedy}"


_MISTAKES: dict[str, Callable[[StructField], str | None]] = {
    "key": _bytes_mistake,
    "value": _bytes_mistake,
    "topic": _cast_mistake,
    "partition": _cast_mistake,
    "timestamp": _timestamp_mistake,
    "headers": _headers_mistake,
}
