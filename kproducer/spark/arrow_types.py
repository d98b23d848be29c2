"""The Arrow types of Spark's columns, and rows as Arrow data for Spark versions that pass rows to a writer.

Source: ``pyspark.sql.pandas.types``; ``pyspark.sql.conversion``, as of Spark 4.0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
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
    else:
        if name not in _OPAQUE_TYPES:
            with suppress(PySparkException):
                arrow_type(data_type)
                return
        remedy = "to_json" if name == "VariantType" else "CAST(... AS STRING)"
        yield (
            f"column '{place}' has type {data_type.simpleString().upper()}, which no format can write: use "
            f"{remedy}, or drop it"
        )


def record_batches(
    rows: Iterable[Any], schema: t.StructType, reads: Callable[[str], bool]
) -> Iterator[pa.RecordBatch]:
    """Convert rows to RecordBatches with the columns that are needed.

    Args:
        rows: as Spark passes them: timestamps without a time zone are in that of the machine.
        schema: of the DataFrame.
        reads: whether the values of a column are needed.
    """
    # Imported here, because it is not part of Spark's API: later versions pass no rows, and may lack it.
    from pyspark.sql.conversion import LocalDataToArrowConversion

    positions = [position for position, name in enumerate(schema.names) if reads(name)]
    needed = t.StructType([schema[position] for position in positions])
    remaining = iter(rows)
    while chunk := [tuple(row[each] for each in positions) for row in islice(remaining, _CHUNK_ROWS)]:
        table = LocalDataToArrowConversion.convert(chunk, needed, use_large_var_types=False)
        yield from table.to_batches()
