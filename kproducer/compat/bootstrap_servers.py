"""Addresses of servers without a port: the originals of all adapters take 9092, while kproducer refuses them.

Sources: librdkafka's ``rd_kafka_broker_name_parse``, kafka-python's and aiokafka's ``collect_hosts``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

_DEFAULT_PORT = 9092


def with_default_ports(servers: Any) -> Any:
    """The servers as a list, each with a port; what is not text is left for the settings to refuse.

    Args:
        servers: text with commas, or texts.
    """
    if isinstance(servers, (bytes, bytearray)) or not isinstance(servers, Iterable):
        return servers
    given = servers.split(",") if isinstance(servers, str) else list(servers)
    return [_with_default_port(each.strip()) if isinstance(each, str) else each for each in given]


def _with_default_port(server: str) -> str:
    scheme, separator, address = server.rpartition("://")
    if _is_ipv6(address):
        address = f"[{address}]"
    if address and ":" not in address.rpartition("]")[2]:
        address = f"{address}:{_DEFAULT_PORT}"
    return f"{scheme}{separator}{address}"


def _is_ipv6(address: str) -> bool:
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return True
