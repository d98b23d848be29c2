"""Requests as frames.

Source: Kafka's ``SendBuilder``; the Kafka protocol guide, "Request/Response".
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from kproducer_messages import EncodeError, RequestHeader

from kproducer._core.client.api_keys import api_name, request_header_version
from kproducer._core.network.framing import SIZE_PREFIX_BYTES
from kproducer.errors import LocalProtocolError

#: The fields with which every frame of a request begins: size of the rest, API key, version, correlation id.
FRAME_START = struct.Struct(">ihhi")
#: The largest frame: its size is an int32.
_MAX_SIZE = 2**31 - 1


def build_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: Any
) -> list[memoryview]:
    """Lay out a whole request frame: size prefix, header, body.

    Args:
        message: a generated request.
        client_id: may be null.

    Raises:
        LocalProtocolError: this version cannot express the message, or it is too large for a frame.
    """
    try:
        header = _header(api_key, version, client_id)
        frame_bytes = SIZE_PREFIX_BYTES + len(header) + message.size(version)
        start = frame_start(api_key, version, correlation_id, frame_bytes)
        head = start + header[FRAME_START.size - SIZE_PREFIX_BYTES :]
        frame = bytearray(frame_bytes)
        frame[: len(head)] = head
        position = message.encode_into(frame, len(head), version)
    except EncodeError as error:
        raise LocalProtocolError(str(error)) from error
    if position != frame_bytes or len(frame) != frame_bytes:
        # Refused, because the broker could not read the stream behind such a frame.
        raise LocalProtocolError(f"{api_name(api_key)} v{version} changed while it was being encoded")
    return [memoryview(frame)]


def frame_start(api_key: int, version: int, correlation_id: int, frame_bytes: int) -> bytes:
    """The ``FRAME_START`` of a frame; ``frame_bytes`` includes the size prefix.

    Raises LocalProtocolError if the frame is too large.
    """
    size = frame_bytes - SIZE_PREFIX_BYTES
    if size > _MAX_SIZE:
        raise LocalProtocolError(
            f"{api_name(api_key)} v{version} takes {size} bytes; a frame ends at {_MAX_SIZE}"
        )
    return FRAME_START.pack(size, api_key, version, correlation_id)


@lru_cache(maxsize=256)
def _header(api_key: int, version: int, client_id: str | None) -> bytes:
    """The request's header with correlation id 0, the only field that differs between requests."""
    header = RequestHeader(request_api_key=api_key, request_api_version=version, client_id=client_id)
    return header.encode(request_header_version(api_key, version))
