"""An HTTP server on loopback that answers with bytes that a test writes, at the pace of the test."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType


class RawHttpServer:
    """Runs from construction to ``close``. Each connection has a thread.

    Args:
        answer: called with each new connection; when it returns, the connection is closed.

    Attributes:
        stopping: set by ``close``; an answer that waits should wait for it.
    """

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._answer = answer
        self.stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        #: Changed by the thread that accepts, until ``close`` has joined it.
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, name="raw http server", daemon=True)
        self._acceptor.start()

    def __enter__(self) -> RawHttpServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every connection and wait for the threads."""
        self.stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join(30)
        for thread in self._threads:
            thread.join(30)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(60)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._answer(connection)


def read_request(connection: socket.socket) -> bytes:
    """Read a request without a body, up to its end."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = connection.recv(1)
        if not piece:
            raise OSError("the client has gone")
        head += piece
    return head


def response(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A complete response."""
    fields = "".join(f"{header}\r\n" for header in (*headers, f"Content-Length: {len(body)}"))
    return f"HTTP/1.1 {status}\r\n{fields}\r\n".encode() + body
