"""Compiles an Avro schema into Python code for the usual values, and leaves all others to fastavro.

A generated function checks the class of each value. A value that it does not know (a tuple that names the
branch of a union, an ``int`` that is too large) makes it decline the whole record, and fastavro encodes
it or finds what is wrong. So the result is always fastavro's, and there are no other rules here.
Source: Avro specification 1.12, "Binary encoding"; fastavro's ``schemaless_writer``.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Mapping
from typing import Any

from kproducer.errors import SerializationError

#: From a value to bytes.
Encoder = Callable[[Any], bytes]


class DeclinedError(SerializationError):
    """The generated code does not know this value; it never reaches the application."""


class UnsupportedSchemaError(SerializationError):
    """No code can be generated for this schema; it never reaches the application."""


_INT_BITS = 32
_LONG_BITS = 64
_GROUP_BITS = 14
_GROUP_MASK = (1 << _GROUP_BITS) - 1
#: Numbers from 0 to here take at most two bytes and are looked up without a call.
_SMALL_NUMBERS = 1 << (_GROUP_BITS - 1)
_DAYS_TO_EPOCH = datetime.date(1970, 1, 1).toordinal()
_PLAIN_CLASSES = {
    "null": "None",
    "boolean": "bool",
    "int": "int",
    "long": "int",
    "string": "str",
    "bytes": "bytes",
}


class _Varints:
    """Tables of zigzag varints, and the function that uses them. Two bytes hold 14 bits of a number."""

    def __init__(self) -> None:
        last = [
            bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(1 << _GROUP_BITS)
        ]
        more = [bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(1 << _GROUP_BITS)]
        #: The varint of each number from 0 to ``_SMALL_NUMBERS``.
        self.small = last[::2]

        def encode(number: int) -> bytes:
            """The varint of a number of 64 bits."""
            rest = (number << 1) ^ (number >> (_LONG_BITS - 1))
            if rest <= _GROUP_MASK:
                return last[rest]
            encoded = more[rest & _GROUP_MASK]
            rest >>= _GROUP_BITS
            while rest > _GROUP_MASK:
                encoded += more[rest & _GROUP_MASK]
                rest >>= _GROUP_BITS
            return encoded + last[rest]

        self.encode = encode


_varints: _Varints | None = None


def compile_encoder(
    schema: Any, named_schemas: Mapping[str, Any], prefix: bytes, strict: bool, with_fastavro: Encoder
) -> Encoder:
    """An encoder for a schema; ``with_fastavro`` itself if no code can be generated for it.

    Args:
        schema: as ``fastavro.parse_schema`` returns it.
        named_schemas: the named types that the schema refers to, also from ``parse_schema``.
        prefix: what each result begins with.
        strict: values with fields that the schema does not have are declined.
        with_fastavro: encodes the values that the generated code declines, with the prefix.
    """
    global _varints
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return with_fastavro
    if _varints is None:
        _varints = _Varints()
    generator = _Generator(named_schemas, strict, _varints)
    try:
        return generator.encoder(schema, prefix, with_fastavro)
    except UnsupportedSchemaError:
        return with_fastavro


class _Generator:
    """Generates one function per record, array and map. Each returns the bytes of a value, or raises."""

    def __init__(self, named_schemas: Mapping[str, Any], strict: bool, varints: _Varints) -> None:
        self._named_schemas = named_schemas
        self._strict = strict
        self._lines: list[str] = []
        #: Functions of records, by full name: a record may contain itself.
        self._records: dict[str, str] = {}
        self._count = 0
        self._globals: dict[str, Any] = {
            "Declined": DeclinedError,
            "date": datetime.date,
            "datetime": datetime.datetime,
            "EPOCH": datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc),
            "join": b"".join,
            "pack_double": struct.Struct("<d").pack,
            "pack_float": struct.Struct("<f").pack,
            "small": varints.small,
            "varint": varints.encode,
        }

    def encoder(self, schema: Mapping[str, Any], prefix: bytes, with_fastavro: Encoder) -> Encoder:
        self._globals["with_fastavro"] = with_fastavro
        name = self._outermost(schema, prefix)
        source = "\n".join(self._lines)
        exec(compile(source, "<Avro encoder>", "exec"), self._globals)
        encoder: Encoder = self._globals[name]
        return encoder

    def _constant(self, value: object, kind: str) -> str:
        name = self._new_name(kind)
        self._globals[name] = value
        return name

    def _new_name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _outermost(self, schema: Mapping[str, Any], prefix: bytes) -> str:
        """Generate the function of the whole value. Any error in it declines the value."""
        lines: list[str] = []
        parts = self._record(lines, schema, "given")
        name = self._new_name("encode")
        self._lines += [
            f"def {name}(given):",
            "    try:",
            *(f"        {line}" for line in lines),
            f"        return {_joined([repr(prefix), *parts])}",
            "    except RecursionError:",
            "        raise",  # a value that contains itself would crash fastavro's C code
            "    except Exception:",
            "        pass",  # fastavro's error must not have this one as context
            "    return with_fastavro(given)",
        ]
        return name

    def _function(self, parts_of: Callable[[list[str], str], list[str]]) -> str:
        """Generate a function around the lines of one value.

        Args:
            parts_of: appends lines, and returns the expressions whose bytes are the result.
        """
        lines: list[str] = []
        parts = parts_of(lines, "value")
        name = self._new_name("encode")
        self._lines += [f"def {name}(value):", *(f"    {line}" for line in lines)]
        self._lines.append(f"    return {_joined(parts)}")
        return name

    def _record_function(self, schema: Mapping[str, Any]) -> str:
        full_name = schema["name"]
        if full_name not in self._records:
            # A record that contains itself finds this name while its own function is generated.
            self._records[full_name] = alias = self._new_name("record")
            generated = self._function(lambda lines, variable: self._record(lines, schema, variable))
            self._lines.append(f"{alias} = {generated}")
        return self._records[full_name]

    def _record(self, lines: list[str], schema: Mapping[str, Any], variable: str) -> list[str]:
        fields = schema["fields"]
        lines.append(f"if {variable}.__class__ is not dict: raise Declined")
        if self._strict:
            lines.append(f"if len({variable}) != {len(fields)}: raise Declined")
        parts: list[str] = []
        for field in fields:
            value = self._new_name("v")
            if "default" in field and not self._strict:
                default = self._constant(field["default"], "default")
                lines.append(f"{value} = {variable}.get({field['name']!r}, {default})")
            else:
                lines.append(f"{value} = {variable}[{field['name']!r}]")
            parts += self._value(lines, field["type"], value)
        return parts

    def _value(self, lines: list[str], schema: Any, variable: str) -> list[str]:
        """Append the lines that check a value, and return the expressions of its bytes."""
        if isinstance(schema, list):
            return self._union(lines, schema, variable)
        if isinstance(schema, str):
            if schema in self._named_schemas:
                return self._value(lines, self._named_schemas[schema], variable)
            schema = {"type": schema}
        kind = schema["type"]
        if not isinstance(kind, str):
            return self._value(lines, kind, variable)
        logical = schema.get("logicalType")
        if logical is not None:
            if kind in ("array", "map", "record", "error", "enum"):
                raise UnsupportedSchemaError(schema)  # the application may have told fastavro what it means
            return self._logical(lines, schema, variable, f"{kind}-{logical}")
        if kind in ("array", "map"):
            function = self._function(
                lambda inner, value: (self._array if kind == "array" else self._map)(inner, schema, value)
            )
            return [f"{function}({variable})"]
        if kind in ("record", "error"):
            return [f"{self._record_function(schema)}({variable})"]
        if kind == "enum":
            symbols = {symbol: self._varint(number) for number, symbol in enumerate(schema["symbols"])}
            return [f"{self._constant(symbols, 'symbols')}[{variable}]"]
        if kind == "fixed":
            size = schema["size"]
            if not isinstance(size, int):  # it becomes code
                raise UnsupportedSchemaError(schema)
            lines.append(f"if {variable}.__class__ is not bytes or len({variable}) != {size}: raise Declined")
            return [variable]
        if kind in self._named_schemas:
            return self._value(lines, self._named_schemas[kind], variable)
        return self._primitive(lines, kind, variable)

    def _primitive(self, lines: list[str], kind: str, variable: str) -> list[str]:
        if kind == "null":
            lines.append(f"if {variable} is not None: raise Declined")
            return []
        if kind == "boolean":
            lines.append(f"if {variable}.__class__ is not bool: raise Declined")
            return [rf"(b'\x01' if {variable} else b'\x00')"]
        if kind in ("int", "long"):
            return self._whole_number(lines, kind, variable)
        if kind in ("float", "double"):
            lines.append(
                f"if {variable}.__class__ is not float and {variable}.__class__ is not int: raise Declined"
            )
            return [f"pack_{kind}({variable})"]
        if kind not in ("string", "bytes"):
            raise UnsupportedSchemaError(kind)
        data, expected = variable, "bytes"
        if kind == "string":
            data, expected = self._new_name("s"), "str"
        lines.append(f"if {variable}.__class__ is not {expected}: raise Declined")
        if kind == "string":
            lines.append(f"{data} = {variable}.encode()")
        length = self._new_name("n")
        lines.append(f"{length} = len({data})")
        return [_number(length, can_be_negative=False), data]

    def _whole_number(self, lines: list[str], kind: str, variable: str) -> list[str]:
        limit = 1 << ((_INT_BITS if kind == "int" else _LONG_BITS) - 1)
        lines.append(
            f"if {variable}.__class__ is not int or not {-limit} <= {variable} < {limit}: raise Declined"
        )
        return [_number(variable)]

    def _logical(self, lines: list[str], schema: Any, variable: str, logical: str) -> list[str]:
        kind = schema["type"]
        units = {"long-timestamp-millis": 1_000, "long-timestamp-micros": 1}
        if logical in units:
            unit = self._constant(datetime.timedelta(microseconds=units[logical]), "unit")
            lines += [
                f"if {variable}.__class__ is datetime:",
                f"    if {variable}.tzinfo is None: raise Declined",
                f"    {variable} = ({variable} - EPOCH) // {unit}",
            ]
            return self._whole_number(lines, kind, variable)
        if logical == "int-date":
            lines += [
                f"if {variable}.__class__ is date:",
                f"    {variable} = {variable}.toordinal() - {_DAYS_TO_EPOCH}",
            ]
            return self._whole_number(lines, kind, variable)
        # fastavro encodes it. Names are not needed: logical types have no parts.
        return [f"{self._constant(_fastavro_encoder(schema), 'logical')}({variable})"]

    def _array(self, lines: list[str], schema: Any, variable: str) -> list[str]:
        item = self._function(lambda inner, value: self._value(inner, schema["items"], value))
        lines += [
            f"if {variable}.__class__ is not list: raise Declined",
            rf"if not {variable}: return b'\x00'",
            f"items = join(map({item}, {variable}))",
        ]
        return [_number(f"len({variable})", can_be_negative=False), "items", r"b'\x00'"]

    def _map(self, lines: list[str], schema: Any, variable: str) -> list[str]:
        key = self._function(lambda inner, value: self._primitive(inner, "string", value))
        item = self._function(lambda inner, value: self._value(inner, schema["values"], value))
        lines += [
            f"if {variable}.__class__ is not dict: raise Declined",
            rf"if not {variable}: return b'\x00'",
            f"items = join([{key}(name) + {item}(each) for name, each in {variable}.items()])",
        ]
        return [_number(f"len({variable})", can_be_negative=False), "items", r"b'\x00'"]

    def _union(self, lines: list[str], schema: list[Any], variable: str) -> list[str]:
        """A nullable type, or a union of primitive types that the class of the value tells apart."""
        kinds = [self._kind(branch) for branch in schema]
        is_nullable = len(schema) == 2 and "null" in kinds
        if not is_nullable and (
            not {"null", *_PLAIN_CLASSES}.issuperset(kinds) or {"int", "long"}.issubset(kinds)
        ):
            raise UnsupportedSchemaError(schema)
        result = self._new_name("u")
        keyword = "if"
        for number, (branch, kind) in enumerate(zip(schema, kinds, strict=True)):
            index = self._varint(number)
            if kind == "null":
                lines.append(f"{keyword} {variable} is None: {result} = {index!r}")
            else:
                inner: list[str] = []
                if kind in ("record", "error"):
                    # A dictionary may name its branch.
                    inner.append(f"if '-type' in {variable}: raise Declined")
                if kind in ("float", "double"):
                    # fastavro checks the range of a float here.
                    inner.append(f"if {variable}.__class__ is not float: raise Declined")
                if kind == "enum":
                    inner.append(f"if {variable}.__class__ is not str: raise Declined")
                parts = self._value(inner, branch, variable)
                condition = " is not None" if is_nullable else f".__class__ is {_PLAIN_CLASSES[kind]}"
                lines.append(f"{keyword} {variable}{condition}:")
                lines += [f"    {line}" for line in inner]
                lines.append(f"    {result} = {_joined([repr(index), *parts])}")
            keyword = "elif"
        lines.append("else: raise Declined")
        return [result]

    def _kind(self, schema: Any) -> str:
        """The name of a branch's type; with a logical type, or a union in it, one that no list contains."""
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

    @staticmethod
    def _varint(number: int) -> bytes:
        assert _varints is not None
        return _varints.encode(number)


def _number(expression: str, can_be_negative: bool = True) -> str:
    condition = (
        f"0 <= {expression} < {_SMALL_NUMBERS}" if can_be_negative else f"{expression} < {_SMALL_NUMBERS}"
    )
    return f"(small[{expression}] if {condition} else varint({expression}))"


def _joined(parts: list[str]) -> str:
    """The expression for several pieces; beyond three of them, a join is faster than concatenation."""
    if len(parts) <= 3:
        return " + ".join(parts) if parts else "b''"
    return f"join(({', '.join(parts)}))"


def _fastavro_encoder(schema: Any) -> Encoder:
    import io

    from fastavro import parse_schema, schemaless_writer
    from fastavro.validation import validate

    # The copy has no marks of the schema around it.
    parsed = parse_schema({name: value for name, value in schema.items() if not name.startswith("__")})

    def encode(value: Any) -> bytes:
        # In a union fastavro checks before it writes; without this, time-millis would take 1.75 as 1.
        if not validate(value, parsed, raise_errors=False):
            raise DeclinedError
        buffer = io.BytesIO()
        schemaless_writer(buffer, parsed, value)
        return buffer.getvalue()

    return encode
