"""Turns a broker's host name into all the addresses behind it.

The only place that asks the name service; the client takes it as an argument, so that tests bring their own.
Source: KIP-302 (``client.dns.lookup``).
"""

from __future__ import annotations

# For getaddrinfo, which else imports it at its first call: in a child forked in the middle of that the import
# would never end.
import encodings.idna  # noqa: F401
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kproducer.errors import NetworkError
from kproducer.network.transport_layer import SocketAddress


class ResolvedAddress(NamedTuple):
    """One address of a host: the socket family, and the address as ``socket.connect`` takes it."""

    family: int
    address: SocketAddress


#: (host, port) to addresses in the order to try them; raises NetworkError, never returns an empty sequence.
HostResolver = Callable[[str, int], Sequence[ResolvedAddress]]


def resolve_host(host: str, port: int) -> list[ResolvedAddress]:
    """All TCP addresses of a host, IPv4 and IPv6, in the operating system's order of preference.

    Blocks while the name service is asked. Raises NetworkError when the name cannot be resolved.
    Differs from Kafka: the Java client keeps only the addresses of the first one's family.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NetworkError(f"could not resolve the host name {host!r}: {words}") from error
    addresses: list[ResolvedAddress] = []
    for family, _, _, _, address in found:
        resolved = ResolvedAddress(family, address)  # type: ignore[arg-type]
        if family in (socket.AF_INET, socket.AF_INET6) and resolved not in addresses:
            addresses.append(resolved)
    if not addresses:
        raise NetworkError(f"the host name {host!r} has no TCP address")
    return addresses


def canonical_addresses(host: str, port: int) -> list[tuple[str, int]]:
    """The canonical name of every address behind a host, for ``resolve_canonical_bootstrap_servers_only``.

    Useful where one alias stands for all brokers and their certificates or tickets carry the real names. An
    address without a name stands for itself. Blocks while the name service is asked. Raises NetworkError.
    """
    names: list[tuple[str, int]] = []
    for resolved in resolve_host(host, port):
        try:
            name = socket.getnameinfo(resolved.address, socket.NI_NAMEREQD | socket.NI_NUMERICSERV)[0]
        except OSError:
            name = resolved.address[0]
        if (name, port) not in names:
            names.append((name, port))
    return names
