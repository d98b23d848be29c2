"""The network under httpcore, so that each step of an exchange ends at the deadline of the call.

httpcore's timeouts are for single steps: a server that sends one byte at a time, or a SOCKS proxy that never
answers, could delay a call without limit. Here a step never takes longer than what remains of ``deadlines``.
Only the operating system's look-up of a host name has no timeout. Imported only with httpcore.
Source: httpcore, "Network Backends"; docs/decisions/0052-registry-client.md
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import httpcore

from kproducer.schema_registry.deadlines import remaining_s

_Result = TypeVar("_Result")
_TLS_READ_BYTES = 1 << 14


class BoundedBackend(httpcore.NetworkBackend):
    """Opens connections whose steps end with the call. Thread-safe."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address that answers. The addresses share the remaining time."""
        with _as_httpcore(httpcore.ConnectError, httpcore.ConnectTimeout):
            failure: OSError = OSError(f"{host} has no address")
            found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
            for number, (family, kind, protocol, _, address) in enumerate(found):
                try:
                    sock = socket.socket(family, kind, protocol)
                except OSError as error:  # a kernel without IPv6
                    failure = error
                    continue
                try:
                    sock.settimeout(_step_s(timeout) / (len(found) - number))
                    sock.connect(address)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                except OSError as error:
                    sock.close()
                    failure = error
                except BaseException:
                    sock.close()
                    raise
                else:
                    return _TcpStream(sock)
            raise failure


class _Stream(httpcore.NetworkStream):
    """A connection. One thread at a time uses it."""

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        try:
            with _as_httpcore(httpcore.ConnectError, httpcore.ConnectTimeout):
                return _TlsStream(self, ssl_context, server_hostname, timeout)
        except BaseException:
            self.close()
            raise


class _TcpStream(_Stream):
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with self._closed_on_failure(), _as_httpcore(httpcore.ReadError, httpcore.ReadTimeout):
            self._sock.settimeout(_step_s(timeout))
            return self._sock.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with self._closed_on_failure(), _as_httpcore(httpcore.WriteError, httpcore.WriteTimeout):
            while buffer:
                self._sock.settimeout(_step_s(timeout))
                buffer = buffer[self._sock.send(buffer) :]

    def close(self) -> None:
        self._sock.close()

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        # httpcore drops a connection to a SOCKS proxy without closing it.
        try:
            yield
        except BaseException:
            self.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        """``is_readable`` is what httpcore's pool asks an idle connection: data now is its end."""
        if info != "is_readable":
            return None
        if self._sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))


class _TlsStream(_Stream):
    """TLS over another connection, which may be TLS itself: that to a proxy."""

    def __init__(
        self,
        below: httpcore.NetworkStream,
        context: ssl.SSLContext,
        server_hostname: str | None,
        timeout: float | None,
    ) -> None:
        self._below = below
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=server_hostname)
        self._run(self._tls.do_handshake, timeout)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _as_httpcore(httpcore.ReadError, httpcore.ReadTimeout):
            try:
                return self._run(partial(self._tls.read, max_bytes), timeout)
            except ssl.SSLEOFError:  # servers close the connection without saying so in TLS
                return b""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _as_httpcore(httpcore.WriteError, httpcore.WriteTimeout):
            while buffer:
                count = self._run(partial(self._tls.write, buffer), timeout)
                buffer = buffer[count:]

    def close(self) -> None:
        self._below.close()

    def get_extra_info(self, info: str) -> Any:
        return self._tls if info == "ssl_object" else self._below.get_extra_info(info)

    def _run(self, step: Callable[[], _Result], timeout: float | None) -> _Result:
        """Run a step of TLS, and exchange the bytes that it needs."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._send(timeout)
                data = self._below.read(_TLS_READ_BYTES, timeout)
                if data:
                    self._received.write(data)
                else:
                    self._received.write_eof()
            else:
                self._send(timeout)
                return result

    def _send(self, timeout: float | None) -> None:
        if data := self._to_send.read():
            self._below.write(data, timeout)


def _step_s(timeout: float | None) -> float:
    left_s = remaining_s()
    if left_s <= 0:
        raise TimeoutError("the time is over")
    return left_s if timeout is None else min(timeout, left_s)


@contextmanager
def _as_httpcore(failed: type[Exception], late: type[Exception]) -> Iterator[None]:
    """Raise the errors of sockets as httpcore's, which it and its callers expect."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except (OSError, UnicodeError) as error:  # a host name may be one that cannot be encoded
        raise failed(str(error)) from error
