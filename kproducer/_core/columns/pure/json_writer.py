"""Writes values as JSON; see ``JsonOperation``. The twin of ``native/_json_writer.pyx``.

Sources: RFC 8259 (JSON), RFC 3339 (dates and times), RFC 4648 (base64).
"""

from __future__ import annotations

import base64
import datetime
import json
import math
import struct
import uuid
from collections.abc import Callable
from typing import Any, Final

from kproducer._core.columns.encoder_plan import JsonOperation, Misfit, MisfitError, PlanNode, child_value

_SECONDS_PER_DAY: Final = 86_400
#: The days that can be written, from 0000-01-01 to before 10000-01-01, counted from 1970-01-01.
_DAYS: Final = range(-719_528, 2_932_897)
#: The ordinal of 1970-01-01.
_EPOCH_ORDINAL: Final = 719_163
#: The calendar repeats after this many years, which have this many days.
_ERA_YEARS: Final = 400
_ERA_DAYS: Final = 146_097
#: By size in bytes: the format of ``struct``, that of an integer of the same size, and the bits of the
#: fraction.
_FLOATS: Final = {2: ("<e", "<H", 10), 4: ("<f", "<I", 23)}
_UUID_BYTES: Final = 16


def write_json(
    out: bytearray, node: PlanNode, value: Any, write_child: Callable[[PlanNode, Any], None]
) -> None:
    """Write a value that is not null.

    Raises:
        MisfitError: it does not fit.
    """
    operation = node.operation
    start = len(out)
    if operation in (JsonOperation.OBJECT, JsonOperation.ENTRY):
        for child in node.children:
            write_child(child, child_value(child, value))
        if operation == JsonOperation.OBJECT:
            _put_brackets(out, start, b"{}")
    elif operation in (JsonOperation.ARRAY, JsonOperation.MAP):
        for each in value:
            write_child(node.children[0], each)
        _put_brackets(out, start, b"[]" if operation == JsonOperation.ARRAY else b"{}")
    elif operation == JsonOperation.UNION:
        type_id, chosen = value
        number = dict(node.symbols)[bytes((type_id,))][0]
        write_child(node.children[number], chosen)
    elif operation == JsonOperation.FLOAT and not math.isfinite(value):
        if not node.b or node.null is None:
            raise MisfitError(Misfit.NOT_A_NUMBER)
        out[start - len(node.prefix) :] = node.null
    else:
        out += _ENCODERS[JsonOperation(operation)](node, value).encode()


def _put_brackets(out: bytearray, start: int, brackets: bytes) -> None:
    """Replace the comma at ``start`` by the opening bracket, and append the closing one."""
    out[start : start + 1] = brackets[:1]
    out += brackets[1:]


def _floating(node: PlanNode, value: float) -> str:
    return shortest(value, node.a)


def shortest(value: float, width: int) -> str:
    """A finite number of 2, 4 or 8 bytes in the form of ``repr``: the fewest digits that read back as it.

    Of several with as few digits, the nearest one.
    """
    if width not in _FLOATS or value == 0:
        return repr(value)
    letter, as_integer, fraction_bits = _FLOATS[width]
    (bits,) = struct.unpack(as_integer, struct.pack(letter, abs(value)))
    fraction, biased = bits & ((1 << fraction_bits) - 1), bits >> fraction_bits
    lowest = 2 - (1 << (8 * width - fraction_bits - 2)) - fraction_bits
    exponent = max(biased, 1) - 1 + lowest
    is_power_of_two = fraction == 0 and biased > 1
    if biased:
        fraction |= 1 << fraction_bits
    # Four times the number and the ends of what reads back as it, in units of 2**exponent. They are only part
    # of it if the fraction is even.
    four, is_odd = 4 * fraction, fraction & 1
    low, high = four - 2 + is_power_of_two, four + 2
    ten = math.ceil(math.log10(abs(value))) + 1
    while True:
        # In units of 10**ten: numerators above one denominator.
        above, below = 1 << max(exponent, 0), 4 << max(-exponent, 0)
        above, below = above * 10 ** max(-ten, 0), below * 10 ** max(ten, 0)
        first = -(-(low * above + is_odd) // below)
        last = (high * above - is_odd) // below
        if first <= last:
            break
        ten -= 1
    nearest, rest = divmod(four * above, below)
    nearest += 2 * rest > below or (2 * rest == below and nearest & 1)
    digits = str(min(max(nearest, first), last))
    return repr(float(f"{'-' if value < 0 else ''}{digits}e{ten}"))


def _text(node: PlanNode, value: bytes) -> str:
    try:
        return json.dumps(value.decode(), ensure_ascii=False)
    except UnicodeDecodeError:
        raise MisfitError(Misfit.NOT_UTF8) from None


def _uuid(node: PlanNode, value: bytes) -> str:
    if len(value) != _UUID_BYTES:
        raise MisfitError(Misfit.NOT_A_UUID)
    return f'"{uuid.UUID(bytes=value)}"'


def _decimal(node: PlanNode, value: int) -> str:
    scale = max(node.a, 0)
    digits = str(abs(value) * 10 ** max(-node.a, 0)).rjust(scale + 1, "0")
    text = "-" if value < 0 else ""
    text += f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
    return f'"{text}"' if node.b else text


def _date(node: PlanNode, value: int) -> str:
    return f'"{_day(value // node.a)}"'


def _day(days: int) -> str:
    if days not in _DAYS:
        raise MisfitError(Misfit.OUT_OF_RANGE)
    # Python's dates start with the year 1.
    is_year_0 = days + _EPOCH_ORDINAL < 1
    day = datetime.date.fromordinal(days + _EPOCH_ORDINAL + _ERA_DAYS * is_year_0)
    return f"{day.year - _ERA_YEARS * is_year_0:04}-{day.month:02}-{day.day:02}"


def _time(node: PlanNode, value: int) -> str:
    if not 0 <= value < node.a * _SECONDS_PER_DAY:
        raise MisfitError(Misfit.OUT_OF_RANGE)
    seconds, ticks = divmod(value, node.a)
    zone = "Z" if node.b else ""
    return f'"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_fraction(ticks, node.a)}{zone}"'


def _timestamp(node: PlanNode, value: int) -> str:
    days, ticks = divmod(value, node.a * _SECONDS_PER_DAY)
    return f'"{_day(days)}T{_time(node, ticks)[1:]}'


def _fraction(ticks: int, ticks_per_second: int) -> str:
    """A part of a second with a point and 3, 6 or 9 digits; nothing for 0."""
    if not ticks:
        return ""
    digits = str(ticks_per_second + ticks)[1:]
    while len(digits) > 3 and digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}"


def _duration(node: PlanNode, value: int) -> str:
    return _iso_duration(0, 0, value, node.a)


def _interval(node: PlanNode, value: Any) -> str:
    return _iso_duration(value.months, value.days, value.nanoseconds, 1_000_000_000)


def _iso_duration(months: int, days: int, ticks: int, ticks_per_second: int) -> str:
    """Months, days and seconds. If none is positive, the sign is in front of all."""
    sign = ""
    if max(months, days, ticks) <= 0 > min(months, days, ticks):
        sign, months, days, ticks = "-", -months, -days, -ticks
    text = f'"{sign}P{f"{months}M" if months else ""}{f"{days}D" if days else ""}'
    if ticks or not (months or days):
        seconds, rest = divmod(abs(ticks), ticks_per_second)
        text += f"T{'-' if ticks < 0 else ''}{seconds}{_fraction(rest, ticks_per_second)}S"
    return f'{text}"'


_ENCODERS: Final[dict[JsonOperation, Callable[[PlanNode, Any], str]]] = {
    JsonOperation.NOTHING: lambda node, value: "",
    JsonOperation.BOOLEAN: lambda node, value: "true" if value else "false",
    JsonOperation.INTEGER: lambda node, value: str(value),
    JsonOperation.FLOAT: _floating,
    JsonOperation.TEXT: _text,
    JsonOperation.BINARY: lambda node, value: f'"{base64.b64encode(value).decode()}"',
    JsonOperation.UUID: _uuid,
    JsonOperation.DECIMAL: _decimal,
    JsonOperation.DATE: _date,
    JsonOperation.TIME: _time,
    JsonOperation.TIMESTAMP: _timestamp,
    JsonOperation.DURATION: _duration,
    JsonOperation.INTERVAL: _interval,
}
