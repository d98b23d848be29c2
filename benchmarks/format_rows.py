"""The rows of the benchmark of formats: an Arrow table, its Avro schema, and its Protobuf message.

Six columns, repeated until there are enough: a long, a string, a double, a timestamp in milliseconds, a long
and a string that may be null. A tenth of the values of the last two are null.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

_CITIES = ("Denver", "Hamburg", "Lima", "Lyon", "Oslo", "Pune", "Recife")
_NULL_SHARE = 0.1
_FIRST_MS, _LAST_MS = 1_772_000_000_000, 1_775_000_000_000
_TIMESTAMP = pa.timestamp("ms", tz="UTC")


class _Kind(NamedTuple):
    """One of the six columns; ``avro`` and ``protobuf`` are its types."""

    name: str
    arrow: pa.DataType
    avro: Any
    protobuf: str
    value: Callable[[random.Random], Any]
    is_nullable: bool = False


_KINDS = (
    _Kind("id", pa.int64(), "long", "int64", lambda source: source.randrange(10**7)),
    _Kind("sensor", pa.string(), "string", "string", lambda source: f"sensor-{source.randrange(10**6):06}"),
    _Kind("reading", pa.float64(), "double", "double", lambda source: source.random() * 100),
    _Kind(
        "at",
        _TIMESTAMP,
        {"type": "long", "logicalType": "timestamp-millis"},
        "int64",
        lambda source: source.randrange(_FIRST_MS, _LAST_MS),
    ),
    _Kind("count", pa.int64(), "long", "int64", lambda source: source.randrange(1000), is_nullable=True),
    _Kind("city", pa.string(), "string", "string", lambda source: source.choice(_CITIES), is_nullable=True),
)


def _fields(count: int) -> list[tuple[str, _Kind]]:
    return [
        (f"{kind.name}_{number // len(_KINDS)}", kind)
        for number in range(count)
        for kind in [_KINDS[number % len(_KINDS)]]
    ]


def table_of(fields: int, rows: int) -> pa.Table:
    """The rows as columns, the same for all clients."""
    source = random.Random(20)
    columns = {}
    for name, kind in _fields(fields):
        values = [
            None if kind.is_nullable and source.random() < _NULL_SHARE else kind.value(source)
            for _ in range(rows)
        ]
        columns[pa.field(name, kind.arrow, nullable=kind.is_nullable)] = pa.array(values, kind.arrow)
    return pa.table(list(columns.values()), schema=pa.schema(list(columns)))


def with_numbers_as_timestamps(table: pa.Table) -> pa.Table:
    """The table with milliseconds in place of timestamps."""
    schema = pa.schema(
        [
            field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
            for field in table.schema
        ]
    )
    return table.cast(schema)


def dictionaries(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as dictionaries. Faster than ``to_pylist`` of the table."""
    names = table.column_names
    columns = [column.to_pylist() for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def avro_schema_of(fields: int) -> str:
    """The Avro schema as JSON."""
    described = [
        {"name": name, "type": ["null", kind.avro] if kind.is_nullable else kind.avro}
        for name, kind in _fields(fields)
    ]
    return json.dumps({"type": "record", "name": "Row", "fields": described})


def protobuf_message_of(fields: int) -> Any:
    """A class for the rows, as protoc generates it; timestamps are milliseconds in an int64."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"row_{fields}.proto", package="bench", syntax="proto3")
    message = file.message_type.add(name="Row")
    types = {"int64": 3, "string": 9, "double": 1}
    for number, (name, kind) in enumerate(_fields(fields), start=1):
        field = message.field.add(name=name, number=number, label=1, type=types[kind.protobuf])
        if kind.is_nullable:
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Row"))
