"""Shared code of generated modules: errors, varints, tagged fields, struct tables.

Copied into every generated package, so that the package depends only on the standard library.
Positions are offsets into the buffer that was passed in; all integers are big-endian.
Source: the Kafka protocol guide; KIP-482 for varint lengths and tagged fields.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

ZERO_UUID = uuid.UUID(int=0)
ZERO_UUID_BYTES = bytes(16)

#: The default of parameters whose field gets a new object.
NEW: Any = object()

#: A bytes-like value of a records or zero-copy field.
Buffer = bytes | bytearray | memoryview

#: Buffers that were not copied, for SendBuilder to insert: (position in the small buffer, the bytes).
Gather = list[tuple[int, Buffer]]

#: The longest string of the protocol, in bytes of UTF-8.
MAX_STRING_BYTES = 32767
MAX_LENGTH = 2**31 - 1
#: The highest tag that Kafka writes.
MAX_TAG = MAX_LENGTH - 1


class CodecError(ValueError):
    """A message cannot be decoded or encoded.

    Attributes:
        message_name, version: the message that was being decoded or encoded.
        field_path: the field, for instance ``topics[3].partitions[0].leader_id``.
        offset: position in the buffer, or ``None`` if none applies.
        reason: what is wrong with it.
    """

    verb = "process"

    def __init__(self, reason: str, field_path: str = "", offset: int | None = None) -> None:
        super().__init__(reason, field_path, offset)
        self.reason = reason
        self.field_path = field_path
        self.offset = offset
        self.message_name = ""
        self.version: int | None = None

    def of(self, message_name: str, version: int) -> CodecError:
        """Add the message and version to the error; return this error."""
        self.message_name = message_name
        self.version = version
        return self

    def __str__(self) -> str:
        subject = self.message_name or "message"
        if self.version is not None:
            subject += f" v{self.version}"
        field = f", field {self.field_path}" if self.field_path else ""
        offset = f", offset {self.offset}" if self.offset is not None else ""
        return f"cannot {self.verb} {subject}{field}{offset}: {self.reason}"


class DecodeError(CodecError):
    """The bytes are not a valid message of this kind and version."""

    verb = "decode"


class EncodeError(CodecError):
    """The message, or one of its values, cannot be encoded in this version."""

    verb = "encode"


#: The exceptions that invalid bytes can cause inside a generated function; all become a DecodeError.
DECODE_FAILURES = (IndexError, struct.error, ValueError)
#: The exceptions that a wrong value can cause inside a generated function; all become an EncodeError.
ENCODE_FAILURES = (IndexError, struct.error, ValueError, TypeError, AttributeError, OverflowError)


class ArrayStructs(dict[int, struct.Struct]):
    """Structs for arrays of n numbers, by n. Short ones are cached, long ones are not."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __missing__(self, length: int) -> struct.Struct:
        made = struct.Struct(f">{length}{self.code}")
        if length < SHORT_ARRAY:
            self[length] = made
        return made


class ArrayReaders(dict[int, Callable[[bytes | memoryview, int], tuple[Any, ...]]]):
    """Functions that read an array of n numbers, by n; each is made on first use. Only for short arrays."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __missing__(self, length: int) -> Callable[[bytes | memoryview, int], tuple[Any, ...]]:
        reader = self[length] = struct.Struct(f">{length}{self.code}").unpack_from
        return reader


#: Longer arrays of numbers are read in pieces of this many.
_PIECE = 1024
#: Arrays with fewer elements have prepared readers; their compact length takes one byte.
SHORT_ARRAY = 128

INT8S = ArrayStructs("b")
INT16S = ArrayStructs("h")
UINT16S = ArrayStructs("H")
INT32S = ArrayStructs("i")
UINT32S = ArrayStructs("I")
INT64S = ArrayStructs("q")
FLOAT64S = ArrayStructs("d")

BOOL_READERS = ArrayReaders("?")
INT8_READERS = ArrayReaders("b")
INT16_READERS = ArrayReaders("h")
UINT16_READERS = ArrayReaders("H")
INT32_READERS = ArrayReaders("i")
UINT32_READERS = ArrayReaders("I")
INT64_READERS = ArrayReaders("q")
FLOAT64_READERS = ArrayReaders("d")


# -- decoding --------------------------------------------------------------------------------------------


def read_uvarint_rest(buffer: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte (above 127) has been read; return (value, position)."""
    byte = buffer[position]
    if byte < 128:
        return first & 0x7F | byte << 7, position + 1
    value = first & 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise DecodeError("a varint is longer than 5 bytes")
    if value > 0xFFFFFFFF:
        raise DecodeError("a varint has more than 32 bits")
    return value, position


def read_uvarint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint; return (value, position)."""
    first = buffer[position]
    return (first, position + 1) if first < 128 else read_uvarint_rest(buffer, position + 1, first)


def read_long_length(buffer: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """Finish a compact length that is not a plain byte above 0; return (count, or -1 for null; position)."""
    if first > 127:
        first, position = read_uvarint_rest(buffer, position, first)
    return first - 1, position


def read_numbers(
    buffer: bytes | memoryview, position: int, length: int, end: int, code: str
) -> tuple[list[Any], int]:
    """Read an array of numbers of any length, or refuse it before anything is allocated."""
    width = struct.calcsize(">" + code)
    stop = position + length * width
    if not position <= stop <= end:
        raise bad_length(length, position, end, "elements")
    numbers: list[Any] = []
    # In pieces, because a tuple of all numbers would be as large as the list.
    while length > 0:
        count = min(length, _PIECE)
        numbers += struct.unpack_from(f">{count}{code}", buffer, position)
        position += count * width
        length -= count
    return numbers, stop


def read_tag(buffer: bytes | memoryview, position: int, end: int, previous: int) -> tuple[int, int, int]:
    """Read the head of a tagged field; return (tag, end of its bytes, position)."""
    tag, position = read_uvarint(buffer, position)
    if tag <= previous:
        raise DecodeError(f"tag {tag} follows tag {previous}; tags must increase")
    size, position = read_uvarint(buffer, position)
    if size > end - position:
        raise DecodeError(f"tag {tag} claims {size} bytes, {end - position} are left")
    return tag, position + size, position


def read_unknown_tags(
    buffer: bytes | memoryview, position: int, end: int, count: int, misplaced: tuple[int, ...] = ()
) -> tuple[dict[int, bytes] | None, int]:
    """Read ``count`` tagged fields that are all unknown; return (their bytes by tag, or None; position).

    ``misplaced`` are tags of fields that are not tagged in this version.
    """
    unknown: dict[int, bytes] = {}
    previous = -1
    for _ in range(count):
        previous, tag_end, position = read_tag(buffer, position, end, previous)
        if previous in misplaced:
            raise misplaced_tag(previous)
        unknown[previous] = bytes(buffer[position:tag_end])
        position = tag_end
    # A count of 0 may be encoded in several bytes.
    return unknown or None, position


def misplaced_tag(tag: int) -> DecodeError:
    """The error for the tag of a field that is not tagged in this version; Kafka refuses it as well."""
    return DecodeError(f"tag {tag} belongs to a field that is not tagged in this version")


def bad_length(length: int, position: int, end: int, unit: str) -> DecodeError:
    """The error for a length (in ``unit``) that is negative or that the rest of the buffer cannot hold."""
    if length == -1:
        return DecodeError("null, and the field is not nullable in this version")
    if length < 0:
        return DecodeError(f"the length is negative: {length}")
    return DecodeError(f"the length claims {length} {unit}, and only {max(end - position, 0)} bytes are left")


def tag_overrun(position: int, tag_end: int) -> DecodeError:
    """The error for a tagged field whose value is longer than its size."""
    return DecodeError(f"the value is {position - tag_end} bytes longer than the tag's size says")


def decode_failed(error: Exception, item: object, at: str, position: int, end: int) -> DecodeError:
    """Turn a failure inside a generated function into a DecodeError with a field path.

    Args:
        error: the failure.
        item: the struct that was being filled.
        at: the step that failed: a field name, or ``name:format`` for each field of a group.
        position: the start of the step.
        end: the end of the buffer, or of the tagged field.
    """
    if ":" in at:
        return _group_failed(at, position, end)
    elements = getattr(item, at, None)
    path = f"{at}[{len(elements)}]" if isinstance(elements, list) else at
    if isinstance(error, DecodeError):
        if error.offset is None:
            error.field_path, error.offset = path, position
        else:
            error.field_path = f"{path}.{error.field_path}"
        return error
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"the text is not UTF-8: {error.reason}", path, position)
    return DecodeError("the buffer ends inside the field", path, min(position, end))


def _group_failed(at: str, position: int, end: int) -> DecodeError:
    name = ""
    for part in at.split():
        name, code = part.split(":")
        width = struct.calcsize(">" + code)
        if position + width > end:
            break
        position += width
    reason = f"the buffer ends inside the field: {max(end - position, 0)} of {width} bytes are there"
    return DecodeError(reason, name, min(position, end))


# -- encoding --------------------------------------------------------------------------------------------


def uvarint_size(value: int) -> int:
    """Bytes that an unsigned varint takes."""
    return (max(value.bit_length(), 1) + 6) // 7


def write_uvarint(buffer: bytearray, position: int, value: int) -> int:
    """Write an unsigned varint; return the position after it."""
    if 127 < value < 16384:
        buffer[position] = value & 0x7F | 0x80
        buffer[position + 1] = value >> 7
        return position + 2
    while value > 127:
        buffer[position] = value & 0x7F | 0x80
        position += 1
        value >>= 7
    buffer[position] = value
    return position + 1


def unknown_tags_size(unknown: dict[int, bytes]) -> int:
    """The size of unknown tagged fields in bytes, without their count."""
    size = 0
    for tag, data in unknown.items():
        size += uvarint_size(tag) + uvarint_size(len(data)) + len(data)
    return size


def check_unknown_tags(unknown: dict[int, bytes], known: tuple[int, ...]) -> int:
    """Refuse tags that clash with known ones or do not increase; return their number."""
    previous = -1
    for tag in unknown:
        if not 0 <= tag <= MAX_TAG:
            raise EncodeError(f"tag {tag} is outside 0..{MAX_TAG}")
        if tag in known:
            raise EncodeError(f"unknown tagged field {tag} clashes with the field that has this tag")
        if tag <= previous:
            raise EncodeError(f"unknown tagged field {tag} follows tag {previous}; tags must increase")
        previous = tag
    return len(unknown)


def write_unknown_tags(
    buffer: bytearray, position: int, unknown: dict[int, bytes], low: int = 0, high: int = MAX_LENGTH + 1
) -> int:
    """Write the unknown tagged fields with ``low <= tag < high``; return the position after them."""
    for tag, data in unknown.items():
        if low <= tag < high:
            position = write_uvarint(buffer, position, tag)
            length = len(data)
            position = write_uvarint(buffer, position, length)
            buffer[position : position + length] = data
            position += length
    return position


def text_bytes(text: str) -> int:
    """Length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def byte_length(data: Buffer) -> int:
    """Length of a bytes-like value in bytes, for items of any size."""
    return data.nbytes if type(data) is memoryview else len(data)


def byte_view(data: Buffer) -> Buffer:
    """A bytes-like value as single bytes, not copied."""
    if type(data) is memoryview and (data.itemsize != 1 or data.ndim != 1):
        return data.cast("B")
    return data


def null_value(field_path: str = "") -> EncodeError:
    """The error for a null that the version cannot represent."""
    return EncodeError("null, and the field is not nullable in this version", field_path)


def string_too_long(length: int) -> EncodeError:
    """The error for a text that is too long for a string field."""
    return EncodeError(f"the text takes {length} bytes, a string at most {MAX_STRING_BYTES}")


def encode_failed(error: Exception, item: object, at: str, element: object = None) -> EncodeError:
    """Turn a failure inside a generated function into an EncodeError with a field path.

    Args:
        error: the failure.
        item: the struct that was being written.
        at: the step that failed: a field name, ``name:format`` for each field of a group, or
            ``name:[format]`` for an array of numbers.
        element: the array element that was being written.
    """
    if not hasattr(item, "unknown_tagged_fields"):
        found = "null" if item is None else f"a value of type {type(item).__name__}"
        return EncodeError(f"expected a struct, found {found}")
    if ":" in at:
        return _numbers_failed(error, item, at)
    value = getattr(item, at, None)
    path = at
    if isinstance(error, EncodeError) and error.field_path.startswith("["):
        pass  # which element it was is known
    elif element is not None and isinstance(value, (list, tuple)):
        path += next((f"[{index}]" for index, other in enumerate(value) if other is element), "")
    elif isinstance(value, (list, tuple)) and None in value:
        path, value = f"{at}[{value.index(None)}]", None
    if isinstance(error, EncodeError):
        error.field_path = _joined(path, error.field_path)
        return error
    if value is None:
        return null_value(path)
    if isinstance(error, UnicodeEncodeError):
        return EncodeError(f"the text has no UTF-8 form: {error.reason}", path)
    shown = element if element is not None else value
    return EncodeError(f"a value of type {type(shown).__name__} does not fit the field: {error}", path)


def _joined(path: str, below: str) -> str:
    return path + below if not below or below.startswith("[") else f"{path}.{below}"


def element_failed(
    error: Exception, items: Iterable[object], item: object, at: str, element: object = None
) -> EncodeError:
    """As ``encode_failed``, for the structs of an array; the path begins with the element's index."""
    failure = encode_failed(error, item, at, element)
    index = next((index for index, other in enumerate(items) if other is item), 0)
    failure.field_path = _joined(f"[{index}]", failure.field_path)
    return failure


def _numbers_failed(error: Exception, item: object, at: str) -> EncodeError:
    for part in at.split():
        name, code = part.split(":")
        value: Any = getattr(item, name, None)
        if value is None:
            return null_value(name)
        if code.startswith("["):
            if not isinstance(value, Sequence):
                return EncodeError(f"expected a list, found a value of type {type(value).__name__}", name)
            checked: Iterable[tuple[str, Any]] = (
                (f"{name}[{i}]", element) for i, element in enumerate(value)
            )
        else:
            checked = ((name, value),)
        code = code.strip("[]")
        for path, number in checked:
            if reason := _misfit(number, code):
                return EncodeError(reason, path)
    return EncodeError(f"the buffer is too small: {error}", at.split(":")[0])


_KINDS = {"b": "int8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "q": "int64", "d": "float64"}


def _misfit(value: Any, code: str) -> str:
    """Why a value does not fit a struct format; an empty string if it does."""
    if code == "16s":
        return "" if isinstance(value, uuid.UUID) else f"expected a uuid, found {type(value).__name__}"
    if value is None:
        return "null, and elements cannot be null"
    try:
        struct.pack(">b" if code == "?" else ">" + code, value)
    except (struct.error, OverflowError, TypeError):
        return f"{value!r} does not fit {_KINDS.get(code, 'bool')}"
    return ""


def no_such_version(kind: type[CodecError], name: str, version: int, lowest: int, highest: int) -> CodecError:
    """The error for a version that the message does not have."""
    known = f"it has {lowest} to {highest}" if lowest <= highest else "it has none that may be sent"
    return kind(f"there is no version {version}; {known}").of(name, version)


def not_in_version(value: object, versions: str) -> EncodeError:
    """The error for a field that is set although the version does not have it."""
    shown = repr(value)
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return EncodeError(f"it is set to {shown}, and only versions {versions} have this field")
