"""API keys, and the generated message class and header version of each.

The only place that maps API keys to message classes; it reads the index of the generated package.
Source: the list of API keys in the Kafka protocol guide; KIP-482, KIP-511 and Kafka's ``ApiMessageType`` for
the headers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from kproducer_messages import REQUESTS, RESPONSES

from kproducer.errors import LocalProtocolError


class ApiKey(enum.IntEnum):
    """The APIs of a producer. Brokers list many more; those stay plain numbers."""

    PRODUCE = 0
    METADATA = 3
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    SASL_AUTHENTICATE = 36
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72


def api_name(api_key: int) -> str:
    """The name of an API for messages, also of one that this client does not know."""
    try:
        return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    except ValueError:
        return f"API {api_key}"


def request_class(api_key: int) -> type[Any]:
    """The generated class of an API's requests. Raises LocalProtocolError for an API without one."""
    return _lookup(REQUESTS, api_key)


def response_class(api_key: int) -> type[Any]:
    """The generated class of an API's responses. Raises LocalProtocolError for an API without one."""
    return _lookup(RESPONSES, api_key)


def request_header_version(api_key: int, version: int) -> int:
    """Version of the RequestHeader of a request: 2 for flexible versions, else 1."""
    return 2 if version in request_class(api_key).FLEXIBLE_VERSIONS else 1


def response_header_version(api_key: int, version: int) -> int:
    """Version of the ResponseHeader of a response: 1 for flexible versions, else 0.

    Responses to ApiVersions always have version 0: a client reads them before it knows the broker's versions.
    """
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version in response_class(api_key).FLEXIBLE_VERSIONS else 0


def _lookup(classes: Mapping[int, type[Any]], api_key: int) -> type[Any]:
    try:
        return classes[api_key]
    except KeyError:
        raise LocalProtocolError(f"{api_name(api_key)} (key {int(api_key)}) has no compiled spec") from None
