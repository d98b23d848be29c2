"""SOCKS5 and HTTP CONNECT proxies on loopback, written without the libraries that the producer uses.

``LoopbackProxy`` connects to what clients ask for, or misbehaves as a test wants. Uses threads.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Mapping

from tests.support.loopback_service import LoopbackService, end, read

_SOCKS_REFUSED, _HTTP_REFUSED = 2, "403 Forbidden by test"


class LoopbackProxy(LoopbackService):
    """Runs from construction to ``close``.

    Args:
        scheme: socks5, socks5h or http.
        credentials: (user, password) that clients must have; ``None``: anybody may use it.
        names: the hosts that only this proxy can resolve, and their addresses.
        refuses: refuse to connect to anything.
        answer: sent instead of the first answer, before the proxy closes the connection.
        hold: the proxy waits for this event before its first answer.
        in_pieces: each byte of an answer is sent by itself.

    Attributes:
        targets: the (host, port) that clients asked for, as they wrote it.
        ports: connections to the first port go to the second instead; may be changed at any time.
    """

    def __init__(
        self,
        scheme: str,
        *,
        credentials: tuple[str, str] | None = None,
        names: Mapping[str, str] | None = None,
        refuses: bool = False,
        answer: bytes | None = None,
        hold: threading.Event | None = None,
        in_pieces: bool = False,
    ) -> None:
        self.scheme = scheme
        self.targets: list[tuple[str, int]] = []
        self.ports: dict[int, int] = {}
        self._credentials = credentials
        self._names = dict(names or {})
        self._refuses = refuses
        self._answer = answer
        self._hold = hold
        self._in_pieces = in_pieces
        super().__init__()
        self._listener = self.listen()
        self.port: int = self._listener.getsockname()[1]
        self.start(self._accept)

    def url(self, user: str = "", password: str = "") -> str:
        """The value of ``proxy_url``; user and password as they are written in it."""
        return f"{self.scheme}://{f'{user}:{password}@' if user else ''}127.0.0.1:{self.port}"

    def break_connections(self) -> None:
        """End every connection; new ones are accepted."""
        with self._lock:
            sockets = self._sockets - {self._listener}
        for each in sockets:
            end(each)

    def close(self) -> None:
        """See ``LoopbackService``."""
        if self._hold is not None:
            self._hold.set()
        super().close()

    # -- inside --------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.start(self._serve, self.keep(self._listener.accept()[0]))

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._answer is not None or self._hold is not None:
                client.recv(1, socket.MSG_PEEK)
            if self._hold is not None:
                self._hold.wait(60)
            if self._answer is not None:
                client.recv(4096)
                client.sendall(self._answer)
            else:
                broker = self._connect_http(client) if self.scheme == "http" else self._connect_socks(client)
                if broker is not None:
                    self.start(_copy, broker, client)
                    _copy(client, broker)
        end(client)

    def _send(self, client: socket.socket, data: bytes) -> None:
        for piece in [data[i : i + 1] for i in range(len(data))] if self._in_pieces else [data]:
            client.sendall(piece)

    def _open(self, host: str, port: int) -> socket.socket | None:
        self.targets.append((host, port))
        if self._refuses:
            return None
        try:
            target = self._names.get(host, host), self.ports.get(port, port)
            return self.keep(socket.create_connection(target, 10))
        except OSError:
            return None

    def _connect_socks(self, client: socket.socket) -> socket.socket | None:
        version, count = read(client, 2)
        methods = read(client, count)
        assert version == 5
        wanted = 0 if self._credentials is None else 2
        if wanted not in methods:
            self._send(client, b"\x05\xff")
            return None
        self._send(client, bytes([5, wanted]))
        if self._credentials is not None:
            assert read(client, 1) == b"\x01"
            given = tuple(read(client, read(client, 1)[0]).decode() for _ in range(2))
            self._send(client, bytes([1, given != self._credentials]))
            if given != self._credentials:
                return None
        _, command, _, kind = read(client, 4)
        assert command == 1
        if kind == 3:
            host = read(client, read(client, 1)[0]).decode()
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, read(client, size))
        broker = self._open(host, int.from_bytes(read(client, 2), "big"))
        code = 0 if broker is not None else _SOCKS_REFUSED if self._refuses else 5
        # The address is never used by clients. Proxies write all three kinds.
        self._send(client, bytes([5, code, 0, 3, 5]) + b"proxy" + b"\x12\x34")
        return broker

    def _connect_http(self, client: socket.socket) -> socket.socket | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += read(client, 1)
        request, *headers = head.decode().split("\r\n")
        method, target, _ = request.split(" ")
        assert method == "CONNECT"
        if self._credentials is not None:
            expected = base64.b64encode(":".join(self._credentials).encode()).decode()
            if f"proxy-authorization: basic {expected}".lower() not in [each.lower() for each in headers]:
                self._send(
                    client,
                    b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n"
                    b"Content-Length: 3\r\n\r\nno!",
                )
                return None
        host, _, port = target.rpartition(":")
        broker = self._open(host.strip("[]"), int(port))
        if broker is None:
            status = _HTTP_REFUSED if self._refuses else "502 Bad Gateway"
            self._send(client, f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
            return None
        self._send(client, b"HTTP/1.0 200 Connection established\r\nVia: test\r\n\r\n")
        return broker


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    end(source)
    end(sink)
