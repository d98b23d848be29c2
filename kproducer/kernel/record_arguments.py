"""What a kernel says about arguments that are no record, and how it copies those that may change under it.

Both twins call these for everything but bytes, so that they refuse the same things with the same words.
Nothing here is on the usual path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn, TypeAlias

from kproducer.errors import SerializationError
from kproducer.kernel.layout import RECORD_BATCH_OVERHEAD
from kproducer.types import INT32_MAX, INT64_MAX

#: No batch comes near it, and no sum of such sizes overflows.
_MOST_WEIGHED_BYTES: Final = 2**40
#: What a key or value may be.
BytesLike: TypeAlias = "bytes | bytearray | memoryview"
Headers: TypeAlias = Sequence[tuple[str, "BytesLike | None"]]


def check_buffer(buffer: object) -> None:
    """Refuse what no batch can be written into.

    Raises:
        TypeError: no bytearray.
        ValueError: too small for a batch's header.
    """
    if not isinstance(buffer, bytearray):
        raise TypeError(f"a batch is written into a bytearray, not {_type_name(buffer)}")
    if len(buffer) < RECORD_BATCH_OVERHEAD:
        raise ValueError(f"a buffer of {len(buffer)} bytes cannot hold a header of {RECORD_BATCH_OVERHEAD}")


def refuse_buffer(size: int, wanted: int) -> NoReturn:
    """Raise the error for a buffer that does not hold what was written so far."""
    raise ValueError(f"a buffer of {size} bytes cannot hold the {wanted} bytes of a batch")


def check_weights(weight: float, earlier_bytes: int, wire_limit: int) -> None:
    """Refuse what ``BatchWriter.set_compression_estimate`` cannot reckon with.

    Raises:
        ValueError: an argument is out of range.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"a byte of records weighs 0 to 1 bytes on the wire, not {weight}")
    if not (0 <= earlier_bytes <= _MOST_WEIGHED_BYTES and 0 <= wire_limit <= _MOST_WEIGHED_BYTES):
        raise ValueError(f"{earlier_bytes} earlier bytes and a limit of {wire_limit} are no sizes of a batch")


def as_bytes(data: object, field: str) -> bytes:
    """Return a copy that nobody can change between the measuring and the writing of its length."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        try:
            return bytes(data)
        except ValueError as error:  # a memoryview that was released
            raise SerializationError(f"the {field} cannot be read: {error}") from error
    raise SerializationError(
        f"the {field} must be bytes, bytearray, memoryview or None, not {_type_name(data)}"
    )


def as_header_sequence(headers: object) -> Headers:
    """Return ``headers`` if they are a sequence of whatever."""
    if isinstance(headers, (str, bytes, bytearray, memoryview)) or not isinstance(headers, Sequence):
        raise SerializationError(
            f"headers must be a sequence of (name, value) pairs, not {_type_name(headers)}"
        )
    return headers


def as_pair(header: object, index: int) -> tuple[str, BytesLike | None]:
    """Return the two parts of a header."""
    if not isinstance(header, (tuple, list)) or len(header) != 2:
        raise SerializationError(f"header {index} must be a (name, value) pair, not {header!r:.100}")
    return header[0], header[1]


def bad_header_name(name: object, index: int) -> SerializationError:
    """The error for a name that is no text, or none that can be encoded."""
    if isinstance(name, str):
        return SerializationError(f"the name of header {index} cannot be encoded as UTF-8: {name!r:.100}")
    return SerializationError(f"the name of header {index} must be a str, not {_type_name(name)}")


def refuse_length(size: int, field: str) -> NoReturn:
    """Raise the error for something longer than the format's int32 lengths."""
    raise SerializationError(f"the {field} has {size} bytes; the record format allows {INT32_MAX}")


def refuse_timestamp(timestamp_ms: object) -> NoReturn:
    """Raise the error for what is no timestamp."""
    if isinstance(timestamp_ms, int):
        raise SerializationError(
            f"timestamp_ms is {timestamp_ms}; it must be 0 to {INT64_MAX} (milliseconds since the epoch)"
        )
    raise SerializationError(f"timestamp_ms must be an int, not {_type_name(timestamp_ms)}")


def _type_name(value: object) -> str:
    return type(value).__name__
