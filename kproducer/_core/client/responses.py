"""Responses: header, correlation id, body.

Knows nothing of connections; the caller knows the request. Bytes after the body are ignored, as in Kafka's
client. Source: the Kafka protocol guide; Kafka's ``AbstractResponse``.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

from kproducer_messages import DecodeError, ResponseHeader

from kproducer._core.client.api_keys import api_name, response_class, response_header_version
from kproducer.errors import RemoteProtocolError
from kproducer.errors.internal_errors import CorrelationIdMismatchError

_CORRELATION_ID = struct.Struct(">i")

_header_version = cache(response_header_version)
_message_class = cache(response_class)


def parse_response(
    api_key: int, version: int, expected_correlation_id: int, payload: bytes | bytearray | memoryview
) -> Any:
    """Read a response frame without its size prefix.

    Returns:
        The generated message. It does not refer to ``payload``, whose memory may be reused.

    Raises:
        CorrelationIdMismatchError: it answers another request.
        RemoteProtocolError: the bytes are not such a response.
    """
    # Copied once, because the message owns the bytes that it refers to, and decoding is fastest from
    # ``bytes``.
    data = payload if type(payload) is bytes else bytes(payload)
    header_version = _header_version(api_key, version)
    try:
        if len(data) > 4 and (header_version == 0 or data[4] == 0):
            # The usual header, read without the generated class: the correlation id and, if flexible, no
            # tagged fields.
            (correlation_id,), position = _CORRELATION_ID.unpack_from(data), 4 + header_version
        else:
            header, position = ResponseHeader.decode(data, header_version)
            correlation_id = header.correlation_id
        if correlation_id != expected_correlation_id:
            raise CorrelationIdMismatchError(
                f"{api_name(api_key)} v{version}: the response has correlation id {correlation_id}, "
                f"the oldest request in flight has {expected_correlation_id}"
            )
        message, _ = _message_class(api_key).decode(data, version, position)
    except DecodeError as error:
        raise RemoteProtocolError(str(error)) from error
    return message
