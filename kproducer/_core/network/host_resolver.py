"""Resolves a broker's host name to all of its addresses, on background threads.

The only module that calls the name service. A slow name service must not delay connections that are up, so
lookups run on daemon threads: one that hangs in the name service is never waited for and ends with the
process. Keeps no results. Source: KIP-302 (``client.dns.lookup``); Kafka's client resolves on its I/O thread.
"""

from __future__ import annotations

import codecs

# getaddrinfo would import it at its first call. If another thread forks during that import, the import can
# never end in the child.
import encodings.idna  # noqa: F401
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final, NamedTuple, Protocol, TypeAlias

from kproducer._core.network.transport_layer import SocketAddress
from kproducer.errors import NetworkError

#: The most names that are looked up at the same time; the others wait in a queue.
MAX_THREADS: Final = 8


class ResolvedAddress(NamedTuple):
    """One address of a host, or of a proxy that connects to it.

    Attributes:
        family: the socket family.
        address: as ``socket.connect`` takes it.
        target: the (host, port) that the proxy is asked to connect to; ``None`` without a proxy.
    """

    family: int
    address: SocketAddress
    target: tuple[str, int] | None = None


#: A lookup that has begun, and may have ended. Its exception is a NetworkError.
Lookup: TypeAlias = "Future[Sequence[ResolvedAddress]]"

#: From (host, port) to a lookup. Does not block.
BeginLookup: TypeAlias = Callable[[str, int], Lookup]


class AddressSource(Protocol):
    """Where the addresses of hosts come from; a ``Proxy`` is one."""

    def resolve(self, host: str, port: int) -> Sequence[ResolvedAddress]:
        """The addresses, in the order in which to try them. May block. Raises NetworkError."""

    def needs_name_service(self, host: str) -> bool:
        """Whether ``resolve`` asks the name service, and may therefore take long."""


def resolve_host(host: str, port: int) -> list[ResolvedAddress]:
    """All TCP addresses of a host, IPv4 and IPv6, in the operating system's order of preference.

    Blocks while the name service is asked. Raises NetworkError if the name cannot be resolved.
    Differs from Kafka: the Java client keeps only the addresses of the first one's family, so a host whose
    IPv6 address is unreachable may fail although it has IPv4.
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
    """The canonical name of every address of a host, for ``resolve_canonical_bootstrap_servers_only``.

    For an alias that stands for all brokers whose certificates or tickets carry the real names. An address
    without a name is returned as it is. Blocks while the name service is asked. Raises NetworkError.
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


class BackgroundResolver:
    """Begins lookups. All methods: I/O thread only.

    An idle thread stays until ``close``: an interpreter that is shutting down starts no threads, and many
    short programs send their records at that point.

    Args:
        on_looked_up: called on another thread after each lookup that did not end at once.
        source: where addresses come from; ``None``: the operating system's name service.
    """

    def __init__(self, on_looked_up: Callable[[], object], source: AddressSource | None = None) -> None:
        self._on_looked_up = on_looked_up
        self._source = source
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = 0
        self._pending: dict[tuple[str, int], Lookup] = {}
        # getaddrinfo looks the codec up. If another thread forks while one of our threads imports it, the
        # child could never import it.
        codecs.lookup("idna")

    def begin(self, host: str, port: int) -> Lookup:
        """Look a host up, or join the pending lookup of it. For a literal address the lookup ends at once."""
        source = self._source
        resolve = resolve_host if source is None else source.resolve
        if is_literal(host) if source is None else not source.needs_name_service(host):
            lookup: Lookup = Future()
            _look_up(resolve, host, port, lookup)
            return lookup
        self._pending = {name: lookup for name, lookup in self._pending.items() if not lookup.done()}
        known = self._pending.get((host, port))
        if known is not None:
            return known
        lookup = self._pending[host, port] = Future()
        on_looked_up = self._on_looked_up

        def job() -> None:
            _look_up(resolve, host, port, lookup)
            on_looked_up()

        self._jobs.put(job)
        if self._threads < min(len(self._pending), MAX_THREADS):
            self._start_thread()
        return lookup

    def _start_thread(self) -> None:
        thread = threading.Thread(target=_work, args=(self._jobs,), name="kproducer-resolver", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread can be started, for example at interpreter shutdown: look up on this thread.
            if not self._threads:
                self._jobs.put(None)
                _work(self._jobs)
            return
        self._threads += 1

    def close(self) -> None:
        """End the threads, without waiting for those that hang. Idempotent."""
        threads, self._threads = self._threads, 0
        for _ in range(threads):
            self._jobs.put(None)

    def release_after_fork(self) -> None:
        """In a forked child: the threads exist only in the parent."""
        self._threads = 0

    def __del__(self) -> None:
        self.close()


def _work(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    # While it is idle it refers to neither the resolver nor its client, so that both can be collected.
    while (job := jobs.get()) is not None:
        job()
        del job


def _look_up(
    resolve: Callable[[str, int], Sequence[ResolvedAddress]], host: str, port: int, lookup: Lookup
) -> None:
    try:
        lookup.set_result(resolve(host, port))
    except NetworkError as error:
        lookup.set_exception(error)
    except Exception as error:
        failure = NetworkError(f"could not resolve the host name {host!r}: {error!r}")
        failure.__cause__ = error
        lookup.set_exception(failure)


def is_literal(host: str) -> bool:
    """Whether the host is an IP address, which needs no name service."""
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return True
