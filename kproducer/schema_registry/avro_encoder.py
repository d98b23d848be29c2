"""Makes encoders of Avro's records: a plan for the compiled encoder of dictionaries, the rest for fastavro.

The compiled encoder checks the class of each value. A value that it does not know (a tuple that names the
branch of a union, an ``int`` that is too large) makes it decline the whole record, and fastavro encodes it
or finds what is wrong. So the result is always fastavro's, and there are no other rules here. Without the
native kernel, fastavro encodes all values. Source: Avro specification 1.12, "Binary encoding"; fastavro's
``schemaless_writer``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from kproducer._core.columns.avro_records import AvroRecordEncoder, ValueChild, ValueNode, ValueOperation
from kproducer._core.kernel.varint import encode_varlong
from kproducer.errors import SerializationError

#: Encodes one value.
Encoder = Callable[[Any], bytes]

_RECORDS = ("record", "error")
_PRIMITIVES = {
    "null": ValueNode(ValueOperation.NULL),
    "boolean": ValueNode(ValueOperation.BOOLEAN),
    "int": ValueNode(ValueOperation.INTEGER, size=32),
    "long": ValueNode(ValueOperation.INTEGER, size=64),
    "float": ValueNode(ValueOperation.FLOAT),
    "double": ValueNode(ValueOperation.DOUBLE),
    "string": ValueNode(ValueOperation.STRING),
    "bytes": ValueNode(ValueOperation.BYTES),
}
_LOGICAL = {
    "long-timestamp-millis": ValueNode(ValueOperation.TIMESTAMP, size=1_000),
    "long-timestamp-micros": ValueNode(ValueOperation.TIMESTAMP, size=1),
    "int-date": ValueNode(ValueOperation.DATE),
}
#: fastavro's functions for logical types. Applications may register others, which only fastavro runs.
_LOGICAL_WRITERS = {
    "long-timestamp-millis": "prepare_timestamp_millis",
    "long-timestamp-micros": "prepare_timestamp_micros",
    "long-local-timestamp-millis": "prepare_local_timestamp_millis",
    "long-local-timestamp-micros": "prepare_local_timestamp_micros",
    "int-date": "prepare_date",
    "int-time-millis": "prepare_time_millis",
    "long-time-micros": "prepare_time_micros",
    "bytes-decimal": "prepare_bytes_decimal",
    "fixed-decimal": "prepare_fixed_decimal",
    "string-uuid": "prepare_uuid",
}
#: Names of types that fastavro has a writer for; it looks here before it looks for named types.
_KINDS = {*_PRIMITIVES, *_RECORDS, "enum", "fixed", "array", "map", "union", "error_union"}
#: Branches of unions that the class of a value tells apart, if there is only one of int and long.
_DISTINCT = {"null", "boolean", "int", "long", "string", "bytes"}


class UnsupportedSchemaError(SerializationError):
    """There is no plan for this schema; it never reaches the application."""


def compile_encoder(
    schema: Any, named_schemas: Mapping[str, Any], prefix: bytes, strict: bool, with_fastavro: Encoder
) -> Encoder:
    """An encoder for a schema; ``with_fastavro`` itself if the compiled encoder cannot be used.

    Args:
        schema: as ``fastavro.parse_schema`` returns it.
        named_schemas: the named types that the schema refers to, also from ``parse_schema``.
        prefix: what each result begins with.
        strict: values with fields that the schema does not have are declined.
        with_fastavro: encodes the values that the compiled encoder declines, with the prefix; also those that
            contain themselves (see ``value_depth``).
    """
    if AvroRecordEncoder is None or not isinstance(schema, dict) or schema.get("type") != "record":
        return with_fastavro
    try:
        plan = _PlanCompiler(named_schemas, strict).plan(schema)
        return AvroRecordEncoder(plan, prefix, with_fastavro).encode
    except (UnsupportedSchemaError, TypeError, OverflowError, RecursionError):
        # TypeError: names that are not str. OverflowError: sizes that are too large. RecursionError: types
        # that are nested too deeply.
        return with_fastavro


class _PlanCompiler:
    """Makes the nodes of a plan from a schema. A record that contains itself has one node."""

    def __init__(self, named_schemas: Mapping[str, Any], strict: bool) -> None:
        self._named_schemas = named_schemas
        self._strict = strict
        self._nodes: list[ValueNode] = []
        #: The numbers of records, by full name.
        self._records: dict[str, int] = {}

    def plan(self, schema: Mapping[str, Any]) -> tuple[ValueNode, ...]:
        if schema.get("logicalType") is not None or not _KINDS.isdisjoint(self._named_schemas):
            # If a named type is called "string", fastavro mostly takes a reference to it for the primitive
            # type: leave such schemas to it.
            raise UnsupportedSchemaError(schema)
        self._record(schema)
        return tuple(self._nodes)

    def _add(self, node: ValueNode) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _record(self, schema: Mapping[str, Any]) -> int:
        full_name = schema["name"]
        if full_name not in self._records:
            # Added before its fields, so that a record which contains itself finds its own number.
            self._records[full_name] = number = self._add(ValueNode(ValueOperation.RECORD))
            _check_names([field["name"] for field in schema["fields"]])
            fields = tuple(map(self._field, schema["fields"]))
            self._nodes[number] = ValueNode(ValueOperation.RECORD, fields, size=int(self._strict))
        return self._records[full_name]

    def _field(self, field: Mapping[str, Any]) -> ValueChild:
        kind = field["type"]
        default: tuple[Any, ...] = ()
        if not self._strict:
            if "default" in field:
                default = (field["default"],)
            elif isinstance(kind, list) and "null" in kind:
                default = (None,)
        # Keys of dictionaries usually are interned, and then equal names are the same object.
        return ValueChild(self._value(kind), sys.intern(field["name"]), default)

    def _value(self, schema: Any) -> int:
        """Add the nodes of a type, and return the number of the first."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in self._named_schemas:
                return self._value(self._named_schemas[schema])
            schema = {"type": schema}
        kind = schema["type"]
        if not isinstance(kind, str):
            return self._value(kind)
        if schema.get("logicalType") is not None:
            return self._logical(schema)
        if kind in _PRIMITIVES:
            return self._add(_PRIMITIVES[kind])
        if kind in _RECORDS:
            return self._record(schema)
        if kind in ("array", "map"):
            operation = ValueOperation.ARRAY if kind == "array" else ValueOperation.MAP
            item = self._value(schema["items" if kind == "array" else "values"])
            return self._add(ValueNode(operation, (ValueChild(item),)))
        if kind == "enum":
            _check_names(schema["symbols"])
            symbols = {symbol: encode_varlong(place) for place, symbol in enumerate(schema["symbols"])}
            return self._add(ValueNode(ValueOperation.ENUM, data=symbols))
        if kind == "fixed" and isinstance(schema["size"], int):
            return self._add(ValueNode(ValueOperation.FIXED, size=schema["size"]))
        if kind in self._named_schemas:
            return self._value(self._named_schemas[kind])
        raise UnsupportedSchemaError(schema)

    def _logical(self, schema: Mapping[str, Any]) -> int:
        kind = schema["type"]
        if kind != "fixed" and kind not in _PRIMITIVES:
            raise UnsupportedSchemaError(schema)  # the application may have taught fastavro this type
        name = f"{kind}-{schema['logicalType']}"
        if not _is_fastavros(name):
            raise UnsupportedSchemaError(schema)
        known = _LOGICAL.get(name)
        return self._add(known or ValueNode(ValueOperation.FASTAVRO, data=_fastavro_encoder(schema)))

    def _union(self, schema: list[Any]) -> int:
        """A nullable type, or a union of primitive types that the class of the value tells apart."""
        kinds = [self._kind(branch) for branch in schema]
        is_nullable = len(schema) == 2 and "null" in kinds
        if not is_nullable and (not _DISTINCT.issuperset(kinds) or {"int", "long"}.issubset(kinds)):
            raise UnsupportedSchemaError(schema)
        branches = tuple(
            ValueChild(self._value(branch), place)
            for place, (branch, kind) in enumerate(zip(schema, kinds, strict=True))
            if kind != "null"
        )
        null = kinds.index("null") if "null" in kinds else -1
        return self._add(ValueNode(ValueOperation.UNION, branches, size=null))

    def _kind(self, schema: Any) -> str:
        """The name of a branch's type; with a logical type, one that no set contains."""
        while isinstance(schema, (str, dict)):
            if isinstance(schema, str):
                if schema not in self._named_schemas:
                    return schema
                schema = self._named_schemas[schema]
            elif "logicalType" in schema:
                return f"{schema['type']}-{schema['logicalType']}"
            elif isinstance(schema["type"], str) and schema["type"] not in self._named_schemas:
                return str(schema["type"])
            else:
                schema = schema["type"]
        raise UnsupportedSchemaError(schema)


def _check_names(names: Any) -> None:
    """Names of fields, or symbols: they have to be different, and none may say which branch a record is."""
    if type(names) is not list or any(type(name) is not str for name in names):
        raise UnsupportedSchemaError(names)
    if len(set(names)) != len(names) or "-type" in names:
        raise UnsupportedSchemaError(names)


def _is_fastavros(name: str) -> bool:
    """Whether the application has not told fastavro what this logical type means."""
    from fastavro import logical_writers

    own = getattr(logical_writers, "_logical_writers", None)
    expected = getattr(own, _LOGICAL_WRITERS.get(name, ""), None)
    return logical_writers.LOGICAL_WRITERS.get(name) is expected


def _fastavro_encoder(schema: Mapping[str, Any]) -> Callable[[Any], bytes | None]:
    """Encodes a value of a logical type, which has no parts; ``None``: the value does not fit."""
    import io

    from fastavro import parse_schema, schemaless_writer
    from fastavro.validation import validate

    # The copy is without the marks that fastavro has put into the schema.
    parsed = parse_schema({name: value for name, value in schema.items() if not name.startswith("__")})

    def encode(value: Any) -> bytes | None:
        # In a union fastavro checks before it writes; without this, time-millis would take 1.75 as 1.
        if not validate(value, parsed, raise_errors=False):
            return None
        buffer = io.BytesIO()
        schemaless_writer(buffer, parsed, value)
        return buffer.getvalue()

    return encode
