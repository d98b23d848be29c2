"""What the servers of tests on loopback share: their sockets, and a thread for each connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType

from typing_extensions import Self


class LoopbackService:
    """Runs from construction to ``close``. Methods may be called on any thread."""

    def __init__(self) -> None:
        #: Protects what follows.
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every connection and wait for the threads. Idempotent."""
        with self._lock:
            self._is_closed = True
            sockets = tuple(self._sockets)
        for each in sockets:
            end(each)
        for thread in self._threads:
            thread.join(60)
        # Includes connections that were accepted at the last moment.
        for each in tuple(self._sockets):
            each.close()

    def listen(self) -> socket.socket:
        """Open a listening socket on a free port."""
        return self.keep(socket.create_server(("127.0.0.1", 0)))

    def keep(self, each: socket.socket) -> socket.socket:
        """Close it with the service."""
        with self._lock:
            self._sockets.add(each)
            if self._is_closed:
                end(each)
        return each

    def start(self, target: Callable[..., None], *arguments: object) -> None:
        """Run a function on a new thread, unless the service is closed."""
        with self._lock:
            if not self._is_closed:
                thread = threading.Thread(
                    target=target, args=arguments, name=type(self).__name__, daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def drop(self, *sockets: socket.socket) -> None:
        """Close connections."""
        for each in sockets:
            end(each)
            each.close()
            with self._lock:
                self._sockets.discard(each)


def end(each: socket.socket) -> None:
    """Shut a socket down: threads that wait for it continue."""
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


def read(source: socket.socket, size: int) -> bytes:
    """Read exactly this many bytes.

    Raises:
        EOFError: the connection has ended.
    """
    data = bytearray()
    while len(data) < size:
        piece = source.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
