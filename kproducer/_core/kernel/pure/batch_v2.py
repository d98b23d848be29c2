"""Writes the records of record batch v2 one by one into a caller's buffer, after the space for the header.

A record on the wire (all integers zigzag varints, the timestamp delta a varlong):

    length | attributes (one zero byte) | timestamp delta | offset delta
    key length (-1: null) | key | value length (-1: null) | value
    header count | for each: name length | name (UTF-8) | value length (-1: null) | value

Knows nothing of compression, limits on requests or retries. Source: Kafka's ``DefaultRecord.writeTo``.
"""

from __future__ import annotations

from typing import Final

import attrs

from kproducer._core.kernel.layout import RECORD_BATCH_OVERHEAD
from kproducer._core.kernel.record_headers import checked_headers
from kproducer._core.kernel.varint import NULL_LENGTH, TABLE, TABLE_SIZE, encode_varint, encode_varlong
from kproducer.types import INT32_MAX, INT64_MAX, Headers

#: How a record without headers ends: with their count, 0.
NO_HEADERS: Final = b"\0"


@attrs.define(eq=False)
class BatchWriter:
    """Encodes the records of one batch into ``buffer``, after the space for the header. Not thread-safe.

    The writer never resizes the buffer, and nothing else can while the writer exists. Arguments must have
    exactly the types given here: callers convert and check what applications pass in.

    Attributes:
        buffer: what was passed in, or to ``move_to`` since.
        limit: no record may end beyond this position. The owner may move it between 0 (no more records are
            taken) and ``len(buffer)``, its initial value.
        position: where the next record starts.
        record_count: records taken so far; also the offset delta of the next one.
        base_timestamp_ms: timestamp of the first record; -1 before it.
        max_timestamp_ms: largest timestamp; -1 before the first record.
    """

    buffer: bytearray
    # Assigning bytes to a slice of a bytearray makes a temporary copy first; a memoryview does not.
    _view: memoryview = attrs.field(init=False)
    limit: int = attrs.field(init=False)
    _ratio: float = attrs.field(init=False, default=0.0)
    _wire_limit: int = attrs.field(init=False, default=0)
    position: int = attrs.field(init=False, default=RECORD_BATCH_OVERHEAD)
    record_count: int = attrs.field(init=False, default=0)
    base_timestamp_ms: int = attrs.field(init=False, default=-1)
    max_timestamp_ms: int = attrs.field(init=False, default=-1)

    def __attrs_post_init__(self) -> None:
        _check_buffer(self.buffer, RECORD_BATCH_OVERHEAD)
        self._view = memoryview(self.buffer)
        self.limit = len(self.buffer)

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> bool:
        """Encode one record at ``position``.

        Args:
            timestamp_ms: milliseconds since the epoch, 0 to 2**63 - 1. It may be before the first record's.
            key, value: ``None`` is null.
            headers: (name, value) pairs in order; names may repeat, values may be ``None``.

        Returns:
            Whether it was taken. ``False``: it would end beyond ``limit``, and the compression estimate (see
            ``set_compression_estimate``) does not allow it either; nothing has changed.

        Raises:
            TypeError: an argument has another type; nothing has changed.
            ValueError, OverflowError: an argument is out of range, or a header's name cannot be encoded as
                UTF-8; nothing has changed.
        """
        if (value.__class__ is not bytes and value is not None) or (
            key.__class__ is not bytes and key is not None
        ):
            raise TypeError(f"key and value must be bytes or None, not {_types(key, value)}")
        if timestamp_ms.__class__ is not int:
            raise TypeError(f"timestamp_ms must be an int, not {_types(timestamp_ms)}")
        if not 0 <= timestamp_ms <= INT64_MAX:
            raise ValueError(f"timestamp_ms is {timestamp_ms}; it must be 0 to {INT64_MAX}")
        tail = encode_headers(headers) if headers else NO_HEADERS
        record_count = self.record_count
        delta = timestamp_ms - self.base_timestamp_ms if record_count else 0
        delta_bytes = TABLE[delta] if 0 <= delta < TABLE_SIZE else encode_varlong(delta)
        if record_count < TABLE_SIZE:
            count_bytes = TABLE[record_count]
        elif record_count <= INT32_MAX:
            count_bytes = encode_varint(record_count)
        else:
            return False
        if value is None:
            value_length_bytes = NULL_LENGTH
            value = b""
        else:
            size = len(value)
            value_length_bytes = TABLE[size] if size < TABLE_SIZE else encode_varint(size)
        if key is None:
            body = b"".join((b"\0", delta_bytes, count_bytes, NULL_LENGTH, value_length_bytes, value, tail))
        else:
            size = len(key)
            key_length_bytes = TABLE[size] if size < TABLE_SIZE else encode_varint(size)
            body = b"".join(
                (b"\0", delta_bytes, count_bytes, key_length_bytes, key, value_length_bytes, value, tail)
            )
        size = len(body)
        if size < TABLE_SIZE:
            record = TABLE[size] + body
        elif size <= INT32_MAX:
            record = encode_varint(size) + body
        else:
            return False
        position = self.position
        end = position + len(record)
        if end > self.limit and not self._fits_by_estimate(end):
            return False
        max_timestamp_ms = self.max_timestamp_ms
        try:
            self._view[position:end] = record
            self.position = end
            self.record_count = record_count + 1
            if timestamp_ms > max_timestamp_ms:
                self.max_timestamp_ms = timestamp_ms
            if not record_count:
                self.base_timestamp_ms = timestamp_ms
        except BaseException:
            # A signal handler, such as the one of Ctrl-C, can raise between any two of these statements.
            # Position and count must agree, or the broker refuses the whole batch.
            self.position = position
            self.record_count = record_count
            self.max_timestamp_ms = max_timestamp_ms
            raise
        return True

    def move_to(self, buffer: bytearray) -> None:
        """Continue in another buffer, with a copy of what was written so far; ``limit`` becomes its size.

        Raises:
            TypeError: ``buffer`` is not a bytearray.
            ValueError: it is too small for the copy; nothing has changed.
        """
        _check_buffer(buffer, self.position)
        view = memoryview(buffer)
        view[: self.position] = self._view[: self.position]
        self._view, self.buffer = view, buffer
        self.limit = len(buffer)

    def set_compression_estimate(self, ratio: float, wire_limit: int) -> None:
        """Take records beyond ``limit``, up to the end of the buffer, while the estimate allows it.

        Kafka's rule: the expected size of the batch on the wire is its header and ``ratio`` times the bytes
        of its records; the record to be added counts in full. A record that would make the expected size
        ``wire_limit`` is not taken. While ``limit`` is 0, none is.

        Args:
            ratio: expected bytes on the wire per byte of records, 0 (there is no estimate) to 1.
            wire_limit: bytes, 0 to 2**40; larger than any batch.
        """
        self._ratio = ratio
        self._wire_limit = wire_limit

    def _expected_size(self, position: int) -> int:
        """Expected size of the batch on the wire if its records ended at ``position``."""
        return RECORD_BATCH_OVERHEAD + int((position - RECORD_BATCH_OVERHEAD) * self._ratio)

    def _fits_by_estimate(self, end: int) -> bool:
        """Whether a record may end at ``end``, beyond ``limit``. See ``set_compression_estimate``."""
        position = self.position
        return (
            self._ratio > 0
            and self.limit > 0
            and end <= len(self.buffer)
            and self._expected_size(position) + end - position <= self._wire_limit
            and self._expected_size(end) < self._wire_limit
        )


def encode_headers(headers: Headers) -> bytes:
    """Encode the headers of one record, their count included.

    Raises:
        TypeError: as ``checked_headers``.
        ValueError: also if something is longer than 2**31 - 1 bytes.
    """
    checked = checked_headers(headers)
    pieces = [encode_varint(len(checked))]
    for name, value in checked:
        pieces += (encode_varint(len(name)), name)
        pieces += (NULL_LENGTH,) if value is None else (encode_varint(len(value)), value)
    return b"".join(pieces)


def return_free_memory() -> None:
    """Give what the C library has free back to the operating system: Python has no way to."""


def _check_buffer(buffer: object, content_bytes: int) -> None:
    if not isinstance(buffer, bytearray):
        raise TypeError(f"a batch is written into a bytearray, not {_types(buffer)}")
    if len(buffer) < content_bytes:
        raise ValueError(f"a buffer of {len(buffer)} bytes cannot hold the {content_bytes} bytes of a batch")


def _types(*values: object) -> str:
    return " and ".join(type(value).__name__ for value in values)
