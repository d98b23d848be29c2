"""TLS servers in memory, whose bytes a test moves, and contexts for both sides."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Sequence
from functools import cache
from typing import Any

from tests.support.certificates import Authority, Certificate

HOST = "broker.example.com"


@cache
def authority() -> Authority:
    return Authority()


@cache
def certificate(*names: str) -> Certificate:
    return authority().issue(*(names or (HOST, "10.1.2.3")))


def server_context(leaf: Certificate | None = None, **attributes: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (leaf or certificate()).leaf.configure_cert(context)
    context.load_verify_locations(cadata=authority().pem)
    for name, value in attributes.items():
        setattr(context, name, value)
    return context


def client_context(trusted: Authority | None = None, **attributes: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=(trusted or authority()).pem)
    for name, value in attributes.items():
        setattr(context, name, value)
    return context


class MemorySocket:
    """A socket whose bytes the test moves: at most ``limits`` bytes a call, then as many as it likes."""

    def __init__(self, limits: Sequence[int] = ()) -> None:
        self.limits = list(limits)
        self.to_client = bytearray()
        self.from_client = bytearray()
        self.has_ended = False
        self.broken: OSError | None = None

    def _limit(self) -> int:
        return self.limits.pop(0) if self.limits else 1 << 30

    def send(self, data: memoryview) -> int:
        if self.broken is not None:
            raise self.broken
        count = min(self._limit(), len(data))
        if not count:
            raise BlockingIOError
        self.from_client += data[:count]
        return count

    def recv(self, size: int) -> bytes:
        count = min(self._limit(), size, len(self.to_client))
        data = bytes(self.to_client[:count])
        del self.to_client[:count]
        if data:
            return data
        if self.to_client or not (self.has_ended or self.broken):
            raise BlockingIOError
        if self.broken is not None:
            raise self.broken
        return b""


class Peer:
    """A TLS server in memory on the other side of a MemorySocket."""

    def __init__(self, sock: MemorySocket, context: ssl.SSLContext) -> None:
        self.sock = sock
        self.sni: str | None = None

        def note_sni(_: object, name: str | None, __: object) -> None:
            self.sni = name

        context.sni_callback = note_sni  # type: ignore[assignment]
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.received = bytearray()

    def step(self) -> None:
        """Take what the client has sent, and answer."""
        self.incoming.write(self.sock.from_client)
        self.sock.from_client.clear()
        try:
            self.tls.do_handshake()
            while data := self.tls.read(1 << 16):
                self.received += data
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self.sock.has_ended = True
        self.flush()

    def write(self, data: bytes) -> None:
        self.tls.write(data)
        self.flush()

    def flush(self) -> None:
        self.sock.to_client += self.outgoing.read()


class SocketPeer(Peer):
    """A TLS server at the end of a real socket, for tests that run both ends on one thread."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(MemorySocket(), context)
        sock.setblocking(False)
        self.connection = sock

    def pump(self) -> None:
        """Receive and send what is possible, in between answer what has arrived."""
        self.receive()
        self.step()
        self.send()

    def receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := self.connection.recv(1 << 20):
                self.sock.from_client += data

    def send(self) -> None:
        waiting = self.sock.to_client
        with contextlib.suppress(BlockingIOError):
            while waiting:
                del waiting[: self.connection.send(waiting)]
