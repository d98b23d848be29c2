"""WriteColumns: which columns of the DataFrame are written, and whether their types are supported.

The columns are those of Spark's own Kafka sink: ``value`` (required), ``key``, ``topic``, ``partition``,
``headers``, ``timestamp``. With a format for values, all columns but the last five are fields of the value.
They are checked on the driver before a task starts. The error names every wrong column, its type and the
cast that fixes it. Source: Spark's ``KafkaWriter``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as t

from kproducer.spark.errors import SparkSchemaError

if TYPE_CHECKING:
    from kproducer._core.bulk.column_format import ColumnsToEncode, CompiledColumns
    from kproducer.columnar.format_plans import ResolvedColumns

#: Every column that can be written, with likely misspellings. Extra columns are ignored, as by Spark's sink,
#: but ignoring a misspelt one would lose all keys or headers.
COLUMN_NAMES = {
    "key": ("keys", "record_key"),
    "value": ("values", "payload"),
    "topic": ("topics", "topic_name"),
    "partition": ("partitions", "partition_id", "partitionid"),
    "timestamp": ("time_stamp", "timestamps", "timestamp_ms"),
    "headers": ("header",),
}


#: The columns that are never fields of values with a format.
NOT_IN_VALUES = frozenset(COLUMN_NAMES) - {"value"}


class FormattedColumns(NamedTuple):
    """A ``ColumnFormat`` for the columns of a DataFrame. Picklable.

    Attributes:
        resolved: the format, with its schema; contains no registry and no credentials.
    """

    resolved: ResolvedColumns

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        return self.resolved.compile_columns(wanted._replace(taken=NOT_IN_VALUES))


class WriteColumns(NamedTuple):
    """The columns that are written.

    Attributes:
        names: those with a role of their own; without ``topic`` if an option sets the topic, and without
            ``value`` if a format makes the values.
        topic: the topic of every row, if the option is set.
        value, key: the formats; ``None``: the column has the bytes or text.
    """

    names: tuple[str, ...]
    topic: str | None = None
    value: FormattedColumns | None = None
    key: FormattedColumns | None = None

    @classmethod
    def check(
        cls,
        schema: t.StructType,
        topic: str | None = None,
        *,
        fail_on_extra: bool = False,
        formatted: Mapping[str, str] = MappingProxyType({}),
    ) -> WriteColumns:
        """Find the columns in a schema.

        Args:
            schema: of the DataFrame.
            topic: the option; takes precedence over a column ``topic``, as in Spark's sink.
            fail_on_extra: whether a column that is not written is an error.
            formatted: the roles (``value``, ``key``) that a format makes, and the column that it makes them
                of; empty: of all columns. The types of these columns are not checked.

        Raises:
            SparkSchemaError: names every wrong or missing column, and the remedy.
        """
        mistakes: list[str] = []
        written: dict[str, t.StructField] = {}
        roles = COLUMN_NAMES.keys() - {"value"} if "value" in formatted else COLUMN_NAMES.keys()
        for field in schema.fields:
            if field.name in written:
                mistakes.append(f"column '{field.name}' appears twice: drop or rename one of them")
            elif field.name in roles:
                written[field.name] = field
        if topic is not None:
            written.pop("topic", None)
        elif "topic" not in written:
            mistakes.append(
                "there is no topic: set the option 'topic', or add a column 'topic' of type STRING"
            )
        needed = {"value"} - formatted.keys() | {name for name in formatted.values() if name}
        names = ", ".join(f"'{name}'" for name in schema.names) or "none"
        for name in sorted(needed - set(schema.names)):
            mistakes.append(
                f"column '{name}' is missing (columns: {names}): {_missing_remedy(name, formatted)}"
            )
        if formatted.get("value") != "":
            missing = roles - written.keys() - ({"topic"} if topic is not None else set())
            mistakes += _extra_column_mistakes(schema, missing, needed, fail_on_extra)
        mistakes += [
            mistake
            for name, field in written.items()
            if name not in formatted and (mistake := _type_mistake(field))
        ]
        if mistakes:
            raise SparkSchemaError("; ".join(mistakes))
        return cls(tuple(written), topic)

    def reads(self, name: str) -> bool:
        """Whether the values of a column are needed."""
        formats = [each for each in (self.value, self.key) if each is not None]
        return name in self.names or any(each.resolved.columns in (None, name) for each in formats)


def _missing_remedy(name: str, formatted: Mapping[str, str]) -> str:
    if formatted.get("value") == name:
        return "correct the option 'value.column'"
    if name == "key":
        return "the option 'keyFormat' needs it, so create it, or remove the option"
    return (
        "create it, for example with df.select(to_json(struct('*')).alias('value')), or, in the sink, set "
        "the option 'valueFormat' to write all columns"
    )


def _extra_column_mistakes(
    schema: t.StructType, missing: Iterable[str], needed: Container[str], fail_on_extra: bool
) -> list[str]:
    mistakes = []
    for name in (name for name in schema.names if name not in COLUMN_NAMES and name not in needed):
        meant = next((each for each in missing if name.lower() in (each, *COLUMN_NAMES[each])), None)
        if meant is not None:
            mistakes.append(
                f"column '{name}' would not be written: rename it to '{meant}', or drop it "
                f"(df.withColumnRenamed('{name}', '{meant}'))"
            )
        elif fail_on_extra:
            mistakes.append(f"column '{name}' would not be written: drop it, or remove extraColumns=fail")
    return mistakes


def _type_mistake(field: t.StructField) -> str | None:
    is_right, right, remedy = _RULES[field.name]
    if is_right(field.dataType):
        return None
    given = field.dataType.simpleString()
    if field.name != "headers":
        given = given.upper()  # as in SQL; names of struct fields keep their case
    return f"column '{field.name}' has type {given} and must be {right}: use {remedy(field)}"


def _bytes_remedy(field: t.StructField) -> str:
    if field.dataType.typeName() in ("struct", "array", "map"):
        return f"the option '{field.name}Format' (avro, json or protobuf), or to_json({field.name})"
    return f"CAST({field.name} AS STRING)"


def _timestamp_remedy(field: t.StructField) -> str:
    kind = field.dataType
    if isinstance(kind, t.IntegralType):
        return "timestamp_millis(timestamp) for ms since the epoch, timestamp_seconds(timestamp) for seconds"
    if isinstance(kind, t.TimestampNTZType):
        return "CAST(timestamp AS TIMESTAMP), which reads it in the session's time zone"
    return "CAST(timestamp AS TIMESTAMP)" if isinstance(kind, t.DateType) else "to_timestamp(timestamp)"


def _is_headers(kind: t.DataType) -> bool:
    if not (isinstance(kind, t.ArrayType) and isinstance(kind.elementType, t.StructType)):
        return False
    fields = kind.elementType.fields
    return (
        [each.name for each in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, t.StringType)
        and isinstance(fields[1].dataType, (t.StringType, t.BinaryType))
    )


def _headers_remedy(field: t.StructField) -> str:
    if field.dataType.typeName() == "map":
        return "transform(map_entries(headers), e -> struct(e.key AS key, CAST(e.value AS BINARY) AS value))"
    return "array(struct(<name> AS key, CAST(<value> AS BINARY) AS value), ...)"


def _accept(*kinds: type[t.DataType]) -> Callable[[t.DataType], bool]:
    return lambda given: isinstance(given, kinds)


#: A check of a type, the right types as text, and the expression that converts another type.
_Rule = tuple[Callable[[t.DataType], bool], str, Callable[[t.StructField], str]]
_BYTES: _Rule = (_accept(t.StringType, t.BinaryType), "STRING or BINARY", _bytes_remedy)
_TIME = "TIMESTAMP, or DOUBLE in seconds since the epoch"
_RULES: dict[str, _Rule] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": (_accept(t.StringType), "STRING", lambda field: "CAST(topic AS STRING)"),
    "partition": (_accept(t.IntegerType), "INT", lambda field: "CAST(partition AS INT)"),
    "timestamp": (_accept(t.TimestampType, t.DoubleType), _TIME, _timestamp_remedy),
    "headers": (_is_headers, "ARRAY<STRUCT<key: STRING, value: BINARY>>", _headers_remedy),
}
