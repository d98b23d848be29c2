"""Bytes in and out of one connection: plaintext now, TLS behind the same protocol later.

A transport layer owns one non-blocking socket. It knows nothing of frames, requests or timeouts; it never
blocks and never retries. Source: Kafka classes ``TransportLayer`` and ``PlaintextTransportLayer``.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from typing import Protocol

from kproducer.errors import NetworkError

#: A socket address as ``socket.getaddrinfo`` gives it: (host, port) or (host, port, flow, scope).
SocketAddress = tuple[str, int] | tuple[str, int, int, int]

#: Answers of a non-blocking connect that mean "on its way". EINTR: the kernel goes on by itself.
_CONNECT_PENDING = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN, errno.EINTR})


def describe_address(address: SocketAddress) -> str:
    """``host:port``, with brackets around an IPv6 host."""
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def describe_os_error(error: OSError) -> str:
    """The operating system's own words for an error, without Python's decoration."""
    return error.strerror or str(error) or type(error).__name__


class TransportLayer(Protocol):
    """What a channel needs from its connection. I/O thread only. No method blocks."""

    def fileno(self) -> int:
        """The socket's file descriptor, for the selector."""

    def finish_connect(self) -> None:
        """Take note of a finished TCP connect. Raises NetworkError when the connect failed."""

    @property
    def is_ready(self) -> bool:
        """Whether application bytes may flow (TCP connected and every handshake done)."""

    def handshake(self) -> None:
        """Go on with the handshake as far as the socket allows. Plaintext has none."""

    def send(self, buffers: Sequence[memoryview]) -> int:
        """Hand over the buffers in order, as many bytes as fit; 0 when the socket takes nothing now.

        Raises OSError when the connection is broken.
        """

    @property
    def has_pending_writes(self) -> bool:
        """Whether bytes that ``send`` accepted have not reached the socket yet (TLS records)."""

    def flush(self) -> None:
        """Move pending writes to the socket as far as it takes them. Raises OSError."""

    def receive_into(self, buffer: memoryview) -> int:
        """Read what is there into ``buffer``; 0 at the end of the stream.

        Raises BlockingIOError when nothing is there, another OSError when the connection is broken.
        """

    @property
    def has_buffered_bytes(self) -> bool:
        """Whether bytes wait inside this object that the selector cannot see (decrypted TLS)."""

    def close(self) -> None:
        """Give the socket back. Idempotent; never raises."""


class PlaintextTransportLayer:
    """A TCP connection without encryption. I/O thread only."""

    __slots__ = ("_connected", "_socket")

    def __init__(self, sock: socket.socket, *, connected: bool = False) -> None:
        self._socket = sock
        self._connected = connected

    def fileno(self) -> int:
        return self._socket.fileno()

    def finish_connect(self) -> None:
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise NetworkError(os.strerror(code))
        try:
            to_itself = self._socket.getsockname() == self._socket.getpeername()
        except OSError as error:
            raise NetworkError(describe_os_error(error)) from error
        if to_itself:
            # Connecting to a free port of the ephemeral range on the own machine can pick that very port as
            # the source and succeed with nobody listening. Holding it would keep the broker from starting.
            raise NetworkError("nobody listens there (the socket connected to itself)")
        self._connected = True

    @property
    def is_ready(self) -> bool:
        return self._connected

    def handshake(self) -> None:
        return None

    def send(self, buffers: Sequence[memoryview]) -> int:
        try:
            if len(buffers) == 1:
                return self._socket.send(buffers[0])
            return self._socket.sendmsg(buffers)
        except BlockingIOError:
            return 0

    @property
    def has_pending_writes(self) -> bool:
        return False

    def flush(self) -> None:
        return None

    def receive_into(self, buffer: memoryview) -> int:
        return self._socket.recv_into(buffer)

    @property
    def has_buffered_bytes(self) -> bool:
        return False

    def close(self) -> None:
        self._socket.close()


def open_socket(family: int, send_buffer_bytes: int, receive_buffer_bytes: int) -> socket.socket:
    """A non-blocking TCP socket with our options; -1 leaves a buffer size to the operating system.

    Raises OSError; no descriptor is left open then.
    """
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # A request is written whole; waiting to fill a segment only adds delay.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Before connect: the receive buffer decides the TCP window scale that is negotiated.
        if send_buffer_bytes != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        if receive_buffer_bytes != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    except BaseException:
        sock.close()
        raise
    return sock


def start_connect(sock: socket.socket, address: SocketAddress) -> bool:
    """Start a non-blocking connect. True when it is done already. Raises OSError when it failed at once."""
    code = sock.connect_ex(address)
    if code == 0:
        return True
    if code in _CONNECT_PENDING:
        return False
    raise OSError(code, os.strerror(code))
