"""Writes values in Avro's binary encoding; see ``AvroOperation``. The twin of ``native/_avro_writer.pyx``.

Source: Avro specification 1.12, "Binary Encoding" and "Logical Types".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Final

from kproducer._core.columns.encoder_plan import AvroOperation, Misfit, MisfitError, PlanNode, child_value
from kproducer._core.kernel.varint import encode_varlong
from kproducer.types import INT64_MAX

_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NANOSECONDS_PER_MS: Final = 1_000_000


def write_avro(
    out: bytearray, node: PlanNode, value: Any, write_child: Callable[[PlanNode, Any], None]
) -> None:
    """Write a value that is not null.

    Raises:
        MisfitError: it does not fit.
    """
    operation = node.operation
    if operation == AvroOperation.RECORD:
        for child in node.children:
            write_child(child, child_value(child, value))
    elif operation == AvroOperation.ARRAY:
        if value:
            out += encode_varlong(len(value))
            for each in value:
                write_child(node.children[0], each)
        out.append(0)
    elif operation == AvroOperation.UNION:
        type_id, chosen = value
        number = dict(node.symbols)[bytes((type_id,))][0]
        write_child(node.children[number], chosen)
    else:
        out += _ENCODERS[AvroOperation(operation)](node, value)


def _integer(node: PlanNode, value: int) -> bytes:
    number = _scaled(node, value)
    limit = 1 << (node.b - 1)
    if not -limit <= number < limit:
        raise MisfitError(Misfit.OUT_OF_RANGE)
    return encode_varlong(number)


def _scaled(node: PlanNode, value: int) -> int:
    number = value // -node.a if node.a < 0 else value * max(node.a, 1)
    if not -INT64_MAX - 1 <= number <= INT64_MAX or value > INT64_MAX:
        raise MisfitError(Misfit.OUT_OF_RANGE)
    return number


def _floating(node: PlanNode, value: float) -> bytes:
    is_double = node.operation == AvroOperation.DOUBLE
    if isinstance(value, int) and abs(value) > 1 << (53 if is_double else 24):
        raise MisfitError(Misfit.NOT_EXACT)
    return struct.pack("<d" if is_double else "<f", value)


def _fixed(node: PlanNode, value: bytes) -> bytes:
    if len(value) != node.size:
        raise MisfitError(Misfit.WRONG_SIZE)
    return value


def _enum(node: PlanNode, value: bytes) -> bytes:
    for text, encoded in node.symbols:
        if text == value:
            return encoded
    raise MisfitError(Misfit.NOT_A_SYMBOL)


def _decimal(node: PlanNode, value: int) -> bytes:
    number: int = value * 10**node.a
    if abs(number) >= int.from_bytes(node.symbols[0][1], "little"):
        raise MisfitError(Misfit.TOO_MANY_DIGITS)
    if node.operation == AvroOperation.DECIMAL:
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return encode_varlong(size) + number.to_bytes(size, "big", signed=True)
    try:
        return number.to_bytes(node.size, "big", signed=True)
    except OverflowError:
        raise MisfitError(Misfit.OUT_OF_RANGE) from None


def _uuid(node: PlanNode, value: bytes) -> bytes:
    if node.a == 16 and len(value) == 16:
        data, text = (
            value,
            re.sub(rb"(.{8})(.{4})(.{4})(.{4})(.{12})", rb"\1-\2-\3-\4-\5", value.hex().encode()),
        )
    elif node.a != 16 and _UUID.fullmatch(value):
        data, text = bytes.fromhex(value.replace(b"-", b"").decode()), value
    else:
        raise MisfitError(Misfit.NOT_A_UUID)
    return data if node.size == 16 else encode_varlong(len(text)) + text


def _duration(node: PlanNode, value: Any) -> bytes:
    if isinstance(value, int):
        parts = (0, 0, _scaled(node, value))
    else:
        parts = (value.months, value.days, value.nanoseconds // _NANOSECONDS_PER_MS)
    for part in parts:
        if part < 0:
            raise MisfitError(Misfit.NEGATIVE)
        if part >> 32:
            raise MisfitError(Misfit.OUT_OF_RANGE)
    return struct.pack("<III", *parts)


_ENCODERS: Final[dict[AvroOperation, Callable[[PlanNode, Any], bytes]]] = {
    AvroOperation.NOTHING: lambda node, value: b"",
    AvroOperation.BOOLEAN: lambda node, value: bytes((value,)),
    AvroOperation.INTEGER: _integer,
    AvroOperation.FLOAT: _floating,
    AvroOperation.DOUBLE: _floating,
    AvroOperation.BYTES: lambda node, value: value if node.a else encode_varlong(len(value)) + value,
    AvroOperation.FIXED: _fixed,
    AvroOperation.DECIMAL: _decimal,
    AvroOperation.DECIMAL_FIXED: _decimal,
    AvroOperation.UUID: _uuid,
    AvroOperation.DURATION: _duration,
    AvroOperation.ENUM: _enum,
}
