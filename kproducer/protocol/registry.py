"""API keys, and the generated classes behind them.

The only place that maps numbers to message classes; it reads the index of the generated package and knows
no broker. Source: the list of API keys in the Kafka protocol guide.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

from kproducer_messages import REQUESTS, RESPONSES

from kproducer.errors import LocalProtocolError


class ApiKey(enum.IntEnum):
    """The APIs a producer speaks, now or later. Brokers list many more; those stay plain numbers."""

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


class VersionRange(NamedTuple):
    """Versions from ``min`` to ``max``, both included."""

    min: int
    max: int

    def __str__(self) -> str:
        return f"{self.min}-{self.max}"


def api_name(api_key: int) -> str:
    """A name for messages to people, also for keys we do not know."""
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


def supported_versions(api_key: int) -> VersionRange:
    """The versions our generated classes speak. Raises LocalProtocolError for an API without any."""
    message = request_class(api_key)
    return VersionRange(message.MIN_VERSION, message.MAX_VERSION)


def supported_api_keys() -> tuple[int, ...]:
    """The APIs that have generated classes, sorted."""
    return tuple(sorted(REQUESTS.keys() & RESPONSES.keys()))


def _lookup(classes: Mapping[int, type[Any]], api_key: int) -> type[Any]:
    try:
        return classes[api_key]
    except KeyError:
        raise LocalProtocolError(f"{api_name(api_key)} (key {int(api_key)}) has no compiled spec") from None
