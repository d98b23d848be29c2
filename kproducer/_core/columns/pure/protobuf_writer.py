"""Writes values in Protobuf's binary encoding; see ``ProtobufOperation``.

The twin of ``native/_protobuf_writer.pyx``. Source: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from typing import Any, Final

from kproducer._core.columns.encoder_plan import (
    NOT_IF_DEFAULT,
    Misfit,
    MisfitError,
    PlanNode,
    ProtobufOperation,
    child_value,
)
from kproducer._core.kernel.varint import encode_unsigned
from kproducer.types import INT32_MAX, INT64_MAX

_NANOSECONDS_PER_SECOND: Final = 1_000_000_000
#: The times that can be written: from the year 1 to the end of the year 9999, in seconds since 1970.
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
#: About 10,000 years.
_LONGEST_SECONDS: Final = 315_576_000_000
_FIRST_DAY: Final = datetime.date.min.toordinal() - datetime.date(1970, 1, 1).toordinal()
_LAST_DAY: Final = datetime.date.max.toordinal() - datetime.date(1970, 1, 1).toordinal()
#: Lowest and highest value, by ``b`` of the node.
_LIMITS: Final = {
    32: (-INT32_MAX - 1, INT32_MAX),
    64: (-INT64_MAX - 1, INT64_MAX),
    -32: (0, 2 * INT32_MAX + 1),
    -64: (0, 2 * INT64_MAX + 1),
}

_WriteChild = Callable[[PlanNode, Any], None]


def write_protobuf(out: bytearray, node: PlanNode, value: Any, write_child: _WriteChild) -> None:
    """Write a value that is not null, behind the prefix, or remove the prefix.

    Raises:
        MisfitError: it does not fit.
    """
    operation = node.operation
    start = len(out)
    if operation in (ProtobufOperation.FIELDS, ProtobufOperation.MESSAGE):
        _write_fields(out, node, value, write_child)
        if operation == ProtobufOperation.MESSAGE:
            out[start:start] = _varint(len(out) - start)
    elif operation in (ProtobufOperation.REPEATED, ProtobufOperation.PACKED):
        for each in value:
            write_child(node.children[0], each)
        if operation == ProtobufOperation.PACKED:
            if value:
                out[start:start] = _varint(len(out) - start)
            else:
                del out[start - len(node.prefix) :]
    elif operation == ProtobufOperation.UNION:
        type_id, chosen = value
        number = dict(node.symbols)[bytes((type_id,))][0]
        write_child(node.children[number], chosen)
    else:
        encoded = _ENCODERS[ProtobufOperation(operation)](node, value)
        if node.size == NOT_IF_DEFAULT and not any(encoded):
            del out[start - len(node.prefix) :]
        else:
            out += encoded


def _write_fields(out: bytearray, node: PlanNode, value: Any, write_child: _WriteChild) -> None:
    seen = set()
    for child in node.children:
        start = len(out)
        write_child(child, child_value(child, value))
        if child.size > NOT_IF_DEFAULT and len(out) > start:
            if child.size in seen:
                raise MisfitError(Misfit.SEVERAL_VALUES, child)
            seen.add(child.size)


def _varint(number: int) -> bytes:
    """A number of 64 bits; a negative one in two's complement."""
    return encode_unsigned(number & 2 * INT64_MAX + 1)


def _fitting(node: PlanNode, value: int) -> int:
    least, most = _LIMITS[node.b]
    if not least <= value <= most:
        raise MisfitError(Misfit.OUT_OF_RANGE)
    return value


def _zigzag(node: PlanNode, value: int) -> bytes:
    number = _fitting(node, value)
    return _varint(number << 1 ^ number >> 63)


def _fixed(node: PlanNode, value: int) -> bytes:
    size = 4 if node.operation == ProtobufOperation.FIXED32 else 8
    return _fitting(node, value).to_bytes(size, "little", signed=node.b > 0)


def _floating(node: PlanNode, value: float) -> bytes:
    is_double = node.operation == ProtobufOperation.DOUBLE
    if isinstance(value, int) and abs(value) > 1 << (53 if is_double else 24):
        raise MisfitError(Misfit.NOT_EXACT)
    return struct.pack("<d" if is_double else "<f", value)


def _bytes(node: PlanNode, value: bytes) -> bytes:
    if node.operation == ProtobufOperation.STRING:
        try:
            value.decode()
        except UnicodeDecodeError:
            raise MisfitError(Misfit.NOT_UTF8) from None
    return _varint(len(value)) + value


def _enum(node: PlanNode, value: bytes | int) -> bytes:
    if isinstance(value, int):
        if not -INT32_MAX - 1 <= value <= INT32_MAX:
            raise MisfitError(Misfit.OUT_OF_RANGE)
        value = struct.pack("<i", value)
    for text, encoded in node.symbols:
        if text == value:
            return encoded
    raise MisfitError(Misfit.NOT_A_SYMBOL)


def _timestamp(node: PlanNode, value: int) -> bytes:
    seconds, rest = divmod(value, node.a)
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        raise MisfitError(Misfit.OUT_OF_RANGE)
    return _message(seconds, rest * (_NANOSECONDS_PER_SECOND // node.a))


def _duration(node: PlanNode, value: int) -> bytes:
    # Both numbers have the sign of the duration.
    sign = -1 if value < 0 else 1
    seconds, rest = divmod(abs(value), node.a)
    if seconds > _LONGEST_SECONDS:
        raise MisfitError(Misfit.OUT_OF_RANGE)
    return _message(sign * seconds, sign * rest * (_NANOSECONDS_PER_SECOND // node.a))


def _date(node: PlanNode, value: int) -> bytes:
    days = value // node.a
    if not _FIRST_DAY <= days <= _LAST_DAY:
        raise MisfitError(Misfit.OUT_OF_RANGE)
    date = datetime.date(1970, 1, 1) + datetime.timedelta(days)
    return _message(date.year, date.month, date.day)


def _message(*numbers: int) -> bytes:
    """A message whose fields 1, 2 and so on are these numbers; the default, 0, is not written."""
    body = b"".join(
        bytes((field << 3,)) + _varint(number) for field, number in enumerate(numbers, 1) if number
    )
    return bytes((len(body),)) + body


_ENCODERS: Final[dict[ProtobufOperation, Callable[[PlanNode, Any], bytes]]] = {
    ProtobufOperation.NOTHING: lambda node, value: b"",
    ProtobufOperation.BOOLEAN: lambda node, value: bytes((value,)),
    ProtobufOperation.VARINT: lambda node, value: _varint(_fitting(node, value)),
    ProtobufOperation.ZIGZAG: _zigzag,
    ProtobufOperation.FIXED32: _fixed,
    ProtobufOperation.FIXED64: _fixed,
    ProtobufOperation.FLOAT: _floating,
    ProtobufOperation.DOUBLE: _floating,
    ProtobufOperation.BYTES: _bytes,
    ProtobufOperation.STRING: _bytes,
    ProtobufOperation.ENUM: _enum,
    ProtobufOperation.ENUM_NUMBER: _enum,
    ProtobufOperation.TIMESTAMP: _timestamp,
    ProtobufOperation.DURATION: _duration,
    ProtobufOperation.DATE: _date,
}
