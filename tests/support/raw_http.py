"""An HTTP server on loopback that answers with bytes that a test writes, at the pace of the test."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from tests.support.loopback_service import LoopbackService


class RawHttpServer(LoopbackService):
    """Runs from construction to ``close``. Each connection has a thread.

    Args:
        answer: called with each new connection; when it returns, the connection is closed.

    Attributes:
        stopping: set by ``close``; an answer that waits should wait for it.
    """

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._answer = answer
        self.stopping = threading.Event()
        super().__init__()
        self._listener = self.listen()
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start(self._accept)

    def close(self) -> None:
        """See ``LoopbackService``."""
        self.stopping.set()
        super().close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.start(self._serve, self.keep(self._listener.accept()[0]))

    def _serve(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):
                connection.settimeout(60)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._answer(connection)
        finally:
            self.drop(connection)


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
