"""Requests as buffers for scatter-gather writes: records are referenced, never copied.

All small fields go into one buffer, allocated once because exact sizes are computed first; the record buffers
are placed between slices of it. The caller does not change the record buffers until the frame is written.
Source: Kafka's ``SendBuilder``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kproducer_messages import EncodeError, RequestHeader

from kproducer.errors import LocalProtocolError
from kproducer.protocol.framing import SIZE_PREFIX, SIZE_PREFIX_BYTES
from kproducer.protocol.registry import api_name, request_header_version

#: The size prefix is an int32.
_MAX_SIZE = 2**31 - 1

#: Position of the correlation id in a frame: after the size prefix, API key and version, in every header.
_CORRELATION_ID_OFFSET = SIZE_PREFIX_BYTES + 4


def build_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: Any
) -> list[memoryview]:
    """Lay out a whole request frame.

    Args:
        message: a generated request; its record buffers are referenced by the result.
        client_id: may be null.

    Returns:
        Non-empty views that make up the frame in order: size prefix, header, body.

    Raises:
        LocalProtocolError: this version cannot express the message, or it is too large for a frame.
    """
    gather: list[tuple[int, bytes | bytearray | memoryview]] = []
    try:
        header = _header(api_key, version, client_id)
        total = len(header) + message.size(version)
        if total > _MAX_SIZE:
            raise LocalProtocolError(
                f"{api_name(api_key)} v{version} takes {total} bytes; a frame ends at {_MAX_SIZE}"
            )
        small_bytes = SIZE_PREFIX_BYTES + total - message.zero_copy_size(version)
        small = bytearray(small_bytes)
        SIZE_PREFIX.pack_into(small, 0, total)
        position = SIZE_PREFIX_BYTES + len(header)
        small[SIZE_PREFIX_BYTES:position] = header
        SIZE_PREFIX.pack_into(small, _CORRELATION_ID_OFFSET, correlation_id)
        position = message.encode_into(small, position, version, gather)
    except EncodeError as error:
        raise LocalProtocolError(str(error)) from error
    buffers = _interleave(small, gather)
    if position != small_bytes or sum(map(len, buffers)) != SIZE_PREFIX_BYTES + total:
        # A record buffer changed its size. The broker could not read the stream after such a frame.
        raise LocalProtocolError(f"{api_name(api_key)} v{version} changed while it was being encoded")
    return buffers


@lru_cache(maxsize=256)
def _header(api_key: int, version: int, client_id: str | None) -> bytes:
    """The request's header with correlation id 0, the only field that differs between requests."""
    header = RequestHeader(request_api_key=api_key, request_api_version=version, client_id=client_id)
    return header.encode(request_header_version(api_key, version))


def _interleave(
    small: bytearray, gather: list[tuple[int, bytes | bytearray | memoryview]]
) -> list[memoryview]:
    """Put each referenced buffer at its position between the slices of the small one."""
    view = memoryview(small)
    buffers: list[memoryview] = []
    start = 0
    for position, referenced in gather:
        # Batches are views of bytes, which need no cast.
        data = referenced if isinstance(referenced, memoryview) else memoryview(referenced)
        if data.format != "B" or data.ndim != 1:
            data = data.cast("B")
        if not len(data):
            continue
        if position > start:
            buffers.append(view[start:position])
            start = position
        buffers.append(data)
    if start < len(view):
        buffers.append(view[start:])
    return buffers
