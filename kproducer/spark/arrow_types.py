"""The Arrow types of Spark's columns, and rows as Arrow data for Spark versions that pass rows to a writer.

Source: ``pyspark.sql.pandas.types``.
"""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

#: Rows per RecordBatch, if Spark passes rows.
_CHUNK_ROWS = 4096
#: Types that Spark writes to Arrow as structs of its own.
_OPAQUE_TYPES = ("VariantType", "GeometryType", "GeographyType")

#: Converts a value of a row to one that Arrow takes.
_Convert = Callable[[Any], Any]


def arrow_type(data_type: t.DataType) -> pa.DataType:
    """The type of the values that tasks get; timestamps may have another time zone.

    Raises:
        PySparkException: Arrow has no such type.
    """
    # Older versions of Spark have no such parameter, and the time zone is UTC.
    has_time_zone = "timezone" in inspect.signature(to_arrow_type).parameters
    arguments: dict[str, Any] = {"timezone": "UTC"} if has_time_zone else {}
    return to_arrow_type(data_type, **arguments)


def type_mistakes(data_type: t.DataType, place: str) -> Iterator[str]:
    """The types in a column that no format can write, and what to do about them.

    Args:
        data_type: of the column.
        place: its name.
    """
    if isinstance(data_type, t.UserDefinedType):
        data_type = data_type.sqlType()
    name = type(data_type).__name__
    if isinstance(data_type, t.StructType):
        for field in data_type.fields:
            yield from type_mistakes(field.dataType, f"{place}.{field.name}")
    elif isinstance(data_type, t.ArrayType):
        yield from type_mistakes(data_type.elementType, f"{place}[]")
    elif isinstance(data_type, t.MapType):
        yield from type_mistakes(data_type.keyType, f"{place}.key")
        yield from type_mistakes(data_type.valueType, f"{place}.value")
    elif name in _OPAQUE_TYPES or not _has_arrow_type(data_type):
        remedy = "to_json" if name == "VariantType" else "CAST(... AS STRING)"
        yield (
            f"column '{place}' has type {data_type.simpleString().upper()}, which no format can write: use "
            f"{remedy}, or drop it"
        )


def _has_arrow_type(data_type: t.DataType) -> bool:
    try:
        arrow_type(data_type)
    except PySparkException:
        return False
    return True


def record_batches(
    rows: Iterable[Any], schema: t.StructType, reads: Callable[[str], bool]
) -> Iterator[pa.RecordBatch]:
    """Convert rows to RecordBatches of ``schema``.

    Args:
        rows: as Spark passes them: timestamps without a time zone are in that of the machine.
        schema: of the DataFrame.
        reads: whether the values of a column are needed; otherwise they become nulls.
    """
    columns = [
        (position, arrow_type(field.dataType), _converter(field.dataType)) if reads(field.name) else None
        for position, field in enumerate(schema)
    ]
    remaining = iter(rows)
    while chunk := list(islice(remaining, _CHUNK_ROWS)):
        arrays = []
        for column in columns:
            if column is None:
                arrays.append(pa.nulls(len(chunk)))
                continue
            position, kind, convert = column
            values = [row[position] for row in chunk]
            arrays.append(pa.array(values if convert is None else map(convert, values), kind))
        yield pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _converter(data_type: t.DataType) -> _Convert | None:
    """How a value or null is converted; ``None``: Arrow takes it as it is."""
    convert = _convert_value(data_type)
    return None if convert is None else lambda value: None if value is None else convert(value)


def _convert_value(data_type: t.DataType) -> _Convert | None:
    if isinstance(data_type, t.UserDefinedType):
        convert = _converter(data_type.sqlType()) or _same
        return lambda value: convert(data_type.serialize(value))
    if isinstance(data_type, t.TimestampType):
        return lambda value: value.astimezone(datetime.timezone.utc)
    if isinstance(data_type, t.MapType):
        key, item = _converter(data_type.keyType) or _same, _converter(data_type.valueType) or _same
        return lambda value: [(key(name), item(each)) for name, each in value.items()]
    if isinstance(data_type, t.ArrayType):
        element = _converter(data_type.elementType)
        return None if element is None else lambda value: [element(each) for each in value]
    if isinstance(data_type, t.StructType):
        fields = [_converter(field.dataType) for field in data_type.fields]
        if any(fields):
            converters = [each or _same for each in fields]
            return lambda value: tuple(convert(each) for convert, each in zip(converters, value, strict=True))
    return None


def _same(value: Any) -> Any:
    return value
