"""Bytes in and out of one connection: the seam between channels and sockets.

A transport layer owns one non-blocking socket. It knows nothing of frames, requests or timeouts; it never
blocks and never retries. ``Selector`` gets the factory: ``TlsTransport`` is a subclass of ``TransportLayer``.
Source: Kafka classes ``TransportLayer`` and ``PlaintextTransportLayer``.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kproducer.errors import KafkaError, NetworkError

if TYPE_CHECKING:
    from kproducer._core.network import _native_channel_io as native

#: A socket address as ``socket.getaddrinfo`` returns it: (host, port) or (host, port, flow, scope).
SocketAddress = tuple[str, int] | tuple[str, int, int, int]

#: Results of a non-blocking connect that is in progress. After EINTR the operating system continues it.
_CONNECT_PENDING = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN, errno.EINTR})


def describe_address(address: SocketAddress) -> str:
    """``host:port``, with brackets around an IPv6 host."""
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def describe_os_error(error: OSError) -> str:
    """The operating system's message for an error, without the errno that Python adds."""
    return error.strerror or str(error) or type(error).__name__


class TransportLayer:
    """Moves the bytes of one TCP connection, without encryption. I/O thread only. No method blocks.

    A transport that encrypts is a subclass. It overrides ``is_ready``, ``handshake``, ``wants_write``,
    ``send``, ``receive_into``, ``has_buffered_bytes``, ``attach`` and ``native_error``.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._connected = False

    def fileno(self) -> int:
        """The socket's file descriptor, for the selector."""
        return self._socket.fileno()

    def finish_connect(self) -> None:
        """Called when the TCP connect has ended. Raises NetworkError if it failed."""
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise NetworkError(os.strerror(code))
        try:
            to_itself = self._socket.getsockname() == self._socket.getpeername()
        except OSError as error:
            raise NetworkError(describe_os_error(error)) from error
        if to_itself:
            # A connect to a free ephemeral port on the same machine can get that port as its source and
            # succeed without a listener. The open socket would keep a broker from binding the port.
            raise NetworkError("no listener on this port (the socket connected to itself)")
        self._connected = True

    @property
    def is_ready(self) -> bool:
        """Whether application bytes may flow (TCP connected and every handshake done)."""
        return self._connected

    def handshake(self) -> None:
        """Continue the handshake as far as the socket allows. Called until ``is_ready``.

        Raises AuthenticationError if one side refuses the other, NetworkError if the connection ended.
        """

    @property
    def wants_write(self) -> bool:
        """Whether this object holds bytes that the socket has not taken: ``send`` when it is writable."""
        return False

    def send(self, buffers: Sequence[memoryview]) -> int:
        """Send the buffers in order; returns how many bytes the socket took, 0 if it is full.

        After a short write the caller offers the remaining bytes again. A transport that encrypts counts
        bytes only when all of their ciphertext has reached the socket. Without buffers it sends what it
        holds. Raises OSError if the connection is broken, AuthenticationError as ``receive_into`` does.
        """
        try:
            if len(buffers) == 1:
                return self._socket.send(buffers[0])
            return self._socket.sendmsg(buffers)
        except BlockingIOError:
            return 0

    def receive_into(self, buffer: memoryview) -> int:
        """Read what has arrived into ``buffer``; returns the byte count, 0 at the end of the stream.

        Raises BlockingIOError if nothing has arrived, another OSError if the connection is broken,
        AuthenticationError if the broker refused this client after the handshake.
        """
        return self._socket.recv_into(buffer)

    @property
    def has_buffered_bytes(self) -> bool:
        """Whether this object holds bytes to be read that raise no event (decrypted TLS)."""
        return False

    def attach(self, sock: native.NativeSocket) -> None:
        """The transport is ready: prepare the native code that moves its bytes from now on.

        After that, ``receive_into`` may read what is left when the connection is broken; ``send`` is not
        used. Raises NetworkError.
        """

    def native_error(self, code: int) -> KafkaError | OSError:
        """The error to raise when native code ended with this errno."""
        return OSError(code, os.strerror(code))

    def close(self) -> None:
        """Close the socket. Idempotent; never raises."""
        self._socket.close()


#: (connecting socket, the host that it connects to) to a transport layer. Raises NetworkError.
TransportFactory: TypeAlias = Callable[[socket.socket, str], TransportLayer]


def open_socket(family: int, send_buffer_bytes: int, receive_buffer_bytes: int) -> socket.socket:
    """A non-blocking TCP socket with our options; -1 leaves a buffer size to the operating system.

    Raises OSError; no descriptor is left open then.
    """
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # A request is written as a whole; waiting to fill a segment only adds latency.
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


def start_connect(sock: socket.socket, address: SocketAddress) -> None:
    """Start a non-blocking connect; the socket becomes writable at its end. Raises OSError."""
    code = sock.connect_ex(address)
    if code and code not in _CONNECT_PENDING:
        raise OSError(code, os.strerror(code))
