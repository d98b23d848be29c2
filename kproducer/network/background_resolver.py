"""Looks host names up on threads of its own: a slow name service must not delay the connections that are up.

The threads are daemons: one that hangs in the name service ends with the process and is never waited for.
Knows nothing of connections, and keeps no answers. Source: ours; Kafka's client resolves on its I/O thread.
"""

from __future__ import annotations

import codecs
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final, TypeAlias

from kproducer.errors import NetworkError
from kproducer.network.host_resolver import HostResolver, ResolvedAddress, resolve_host

#: A lookup that has begun, and may have ended. Its exception is a NetworkError.
Lookup: TypeAlias = "Future[Sequence[ResolvedAddress]]"

#: (host, port) to a lookup. Does not block.
BeginLookup = Callable[[str, int], Lookup]

#: So many names are looked up at the same time; the others wait in a queue.
MAX_THREADS: Final = 8

_Job: TypeAlias = tuple[str, int, Lookup, Callable[[], object]]


class BackgroundResolver:
    """Begins lookups. All methods: I/O thread only.

    A thread that has nothing to do stays until ``close``, because an interpreter that is ending begins none,
    and that is when many a short program sends its records.

    Args:
        on_looked_up: called on another thread after each lookup that did not end at once.
        resolve: blocks until it has the addresses, or raises NetworkError.
    """

    def __init__(self, on_looked_up: Callable[[], object], resolve: HostResolver = resolve_host) -> None:
        self._on_looked_up = on_looked_up
        self._resolve = resolve
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._under_way: dict[tuple[str, int], Lookup] = {}
        # getaddrinfo imports it. On one of our threads that could happen while another thread forks, and the
        # child could then never import it.
        codecs.lookup("idna")

    def begin(self, host: str, port: int) -> Lookup:
        """Look a host up, or join the lookup of it that is under way. Literal addresses are ready at once."""
        if _is_literal(host):
            lookup: Lookup = Future()
            _look_up(self._resolve, host, port, lookup)
            return lookup
        self._under_way = {name: lookup for name, lookup in self._under_way.items() if not lookup.done()}
        known = self._under_way.get((host, port))
        if known is not None:
            return known
        lookup = self._under_way[host, port] = Future()
        self._jobs.put((host, port, lookup, self._on_looked_up))
        if self._threads < min(len(self._under_way), MAX_THREADS):
            self._start_thread()
        return lookup

    def _start_thread(self) -> None:
        thread = threading.Thread(
            target=_work, args=(self._jobs, self._resolve), name="kproducer-resolver", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            # No more threads, be it that the interpreter is ending. Better late than never.
            if not self._threads:
                self._jobs.put(None)
                _work(self._jobs, self._resolve)
            return
        self._threads += 1

    def close(self) -> None:
        """End the threads, without waiting for those that hang. Idempotent."""
        threads, self._threads = self._threads, 0
        for _ in range(threads):
            self._jobs.put(None)

    def release_after_fork(self) -> None:
        """In a forked child: the threads are the parent's."""
        self._threads = 0

    def __del__(self) -> None:
        self.close()


def _work(jobs: SimpleQueue[_Job | None], resolve: HostResolver) -> None:
    # Holds neither the resolver nor its client while it has nothing to do: both can be collected.
    while (job := jobs.get()) is not None:
        host, port, lookup, on_looked_up = job
        _look_up(resolve, host, port, lookup)
        on_looked_up()
        del job, lookup, on_looked_up


def _look_up(resolve: HostResolver, host: str, port: int, lookup: Lookup) -> None:
    try:
        lookup.set_result(resolve(host, port))
    except NetworkError as error:
        lookup.set_exception(error)
    except Exception as error:
        failure = NetworkError(f"could not resolve the host name {host!r}: {error!r}")
        failure.__cause__ = error
        lookup.set_exception(failure)


def _is_literal(host: str) -> bool:
    """Whether the host is an address by itself, which the name service is not asked about."""
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return True
