"""The client's side of opening a tunnel through a proxy, without I/O: SOCKS5 and HTTP CONNECT.

``socksio`` and ``h11`` encode and decode the messages; this module decides what to send next and what an
answer means. The selector sends the messages, because the I/O thread must never block: the package
``python-socks`` was rejected, whose public functions connect blocking sockets. Brokers never send first, so
bytes after the proxy's last answer are an error.
Source: RFC 1928 (SOCKS5), RFC 1929 (its user names and passwords), RFC 9110 (CONNECT).
"""

from __future__ import annotations

import base64
import contextlib
import socket
from typing import Final, Protocol

import h11
from socksio import ProtocolError, socks5

from kproducer._core.config.proxy_url import ProxyUrl
from kproducer._core.network.transport_layer import describe_address
from kproducer.errors import AuthenticationError, KafkaError, NetworkError, printable

#: The most bytes of an HTTP answer's head, with those of all informational answers before it.
_LONGEST_HEAD_BYTES: Final = 64 * 1024
#: How every answer begins.
_HTTP: Final = b"HTTP/"
_PROXY_AUTHENTICATION_REQUIRED: Final = 407
#: RFC 1928: the length of a name is one byte.
_LONGEST_NAME_BYTES: Final = 255
_NO_CREDENTIALS: Final = (
    "the proxy requires a user name and password; write proxy_url as SCHEME://USER:PASSWORD@HOST:PORT"
)


class ProxyHandshake(Protocol):
    """Opens one tunnel."""

    def begin(self) -> bytes:
        """What to send first."""

    def receive(self, data: bytes) -> bytes | None:
        """The proxy sent ``data``: returns what to send next, maybe nothing; ``None``: the tunnel is open.

        Raises:
            AuthenticationError: the proxy rejects the credentials, or requires some.
            NetworkError: the proxy refuses to connect, or its answer cannot be understood.
        """


class Socks5Handshake:
    """Negotiates an authentication method, authenticates, and asks for a connection.

    Args:
        url: the proxy, with the credentials.
        host, port: what to connect to; an IP address, or a name that the proxy looks up.

    Raises:
        NetworkError: the host's name cannot be sent in this protocol.
    """

    def __init__(self, url: ProxyUrl, host: str, port: int) -> None:
        self._url = url
        self._command = _command(host, port)
        self._protocol = socks5.SOCKS5Connection()
        self._received = b""

    def begin(self) -> bytes:
        methods = [socks5.SOCKS5AuthMethod.NO_AUTH_REQUIRED]
        if self._url.username:
            methods.append(socks5.SOCKS5AuthMethod.USERNAME_PASSWORD)
        self._protocol.send(socks5.SOCKS5AuthMethodsRequest(methods))
        return self._protocol.data_to_send()

    def receive(self, data: bytes) -> bytes | None:
        self._received += data
        length = self._answer_length()
        if len(self._received) < length:
            return b""
        answer, self._received = self._received[:length], self._received[length:]
        try:
            reply = self._protocol.receive_data(answer)
        except (ProtocolError, ValueError) as error:
            raise _not_understood("SOCKS5", answer) from error
        if self._received:
            raise _not_understood("SOCKS5", self._received)
        if isinstance(reply, socks5.SOCKS5Reply):
            return None
        if isinstance(reply, socks5.SOCKS5AuthReply):
            self._answer_method(reply.method)
        elif isinstance(reply, socks5.SOCKS5UsernamePasswordReply) and not reply.success:
            raise _credentials_rejected(self._url)
        else:
            self._protocol.send(self._command)
        return self._protocol.data_to_send()

    def _answer_length(self) -> int:
        """The length of the answer that begins with what was received, or a lower bound of it."""
        head = self._received
        state = self._protocol.state
        if head and head[0] != (1 if state is socks5.SOCKS5State.SERVER_VERIFY_USERNAME_PASSWORD else 5):
            raise _not_understood("SOCKS5", head)
        if state is not socks5.SOCKS5State.CLIENT_AUTHENTICATED:
            return 2
        # The reply to the command: version, code, reserved, type of address, address, port.
        if len(head) > 1 and head[1]:
            # Some proxies send no address with a refusal, or close the connection after this byte.
            raise NetworkError(f"the proxy refused to connect: {_refusal(head[1])}")
        if len(head) < 5:
            return 5
        lengths = {1: 4, 3: 1 + head[4], 4: 16}
        if head[3] not in lengths:
            raise _not_understood("SOCKS5", head)
        return 4 + lengths[head[3]] + 2

    def _answer_method(self, method: socks5.SOCKS5AuthMethod) -> None:
        if method is socks5.SOCKS5AuthMethod.NO_AUTH_REQUIRED:
            self._protocol.send(self._command)
        elif method is socks5.SOCKS5AuthMethod.USERNAME_PASSWORD and self._url.username:
            username, password = self._url.username.encode(), self._url.password.encode()
            self._protocol.send(socks5.SOCKS5UsernamePasswordRequest(username, password))
        elif self._url.username:
            raise AuthenticationError("the proxy does not accept authentication by user name and password")
        else:
            raise AuthenticationError(_NO_CREDENTIALS)


class HttpConnectHandshake:
    """Sends a CONNECT request.

    Args, Raises: as for ``Socks5Handshake``.
    """

    def __init__(self, url: ProxyUrl, host: str, port: int) -> None:
        self._url = url
        self._request = _connect_request(url, describe_address((host, port)))
        self._head = b""
        self._left_bytes = _LONGEST_HEAD_BYTES
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD_BYTES)

    def begin(self) -> bytes:
        return (self._protocol.send(self._request) or b"") + (self._protocol.send(h11.EndOfMessage()) or b"")

    def receive(self, data: bytes) -> bytes | None:
        # h11 waits for the end of the head before it looks at the first line.
        self._head = (self._head + data)[: len(_HTTP)]
        if not _HTTP.startswith(self._head):
            raise _not_understood("HTTP", data)
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise NetworkError(f"the proxy's answer has more than {_LONGEST_HEAD_BYTES} bytes")
        try:
            self._protocol.receive_data(data)
            event = self._protocol.next_event()
            while isinstance(event, h11.InformationalResponse):
                event = self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise _not_understood("HTTP", data) from error
        if not isinstance(event, h11.Response):
            return b""
        if event.status_code == _PROXY_AUTHENTICATION_REQUIRED:
            if self._url.username:
                raise _credentials_rejected(self._url)
            raise AuthenticationError(_NO_CREDENTIALS)
        if not 200 <= event.status_code < 300:
            reason = printable(bytes(event.reason).decode("latin-1"))
            raise NetworkError(f"the proxy refused to connect: HTTP {event.status_code} {reason}".rstrip())
        trailing, _ = self._protocol.trailing_data
        if trailing:
            raise _not_understood("HTTP", trailing)
        return None


def _command(host: str, port: int) -> socks5.SOCKS5CommandRequest:
    for family, kind in (
        (socket.AF_INET, socks5.SOCKS5AType.IPV4_ADDRESS),
        (socket.AF_INET6, socks5.SOCKS5AType.IPV6_ADDRESS),
    ):
        with contextlib.suppress(OSError, ValueError):
            address = socket.inet_pton(family, host)
            return socks5.SOCKS5CommandRequest(socks5.SOCKS5Command.CONNECT, kind, address, port)
    try:
        name = host.encode("ascii") if host.isascii() else host.encode("idna")
    except UnicodeError:
        name = b""
    if not 0 < len(name) <= _LONGEST_NAME_BYTES or not all(0x21 <= byte <= 0x7E for byte in name):
        raise NetworkError(f"a SOCKS5 proxy cannot be asked to connect to {printable(host)}")
    return socks5.SOCKS5CommandRequest(
        socks5.SOCKS5Command.CONNECT, socks5.SOCKS5AType.DOMAIN_NAME, name, port
    )


def _connect_request(url: ProxyUrl, target: str) -> h11.Request:
    headers = [("Host", target)]
    if url.username:
        credentials = f"{url.username}:{url.password}".encode()
        headers.append(("Proxy-Authorization", f"Basic {base64.b64encode(credentials).decode()}"))
    try:
        return h11.Request(method="CONNECT", target=target, headers=headers)
    except (h11.LocalProtocolError, UnicodeEncodeError):
        text = f"an HTTP proxy cannot be asked to connect to {printable(target)}"
        raise NetworkError(text) from None


def _refusal(code: int) -> str:
    """What a SOCKS5 proxy means with a reply code."""
    words = {
        1: "general failure",
        2: "its rules do not allow the connection",
        3: "the network is unreachable",
        4: "the host is unreachable, or its name cannot be resolved",
        5: "the broker refused the connection",
        6: "the time to live expired",
        7: "it does not support the command CONNECT",
        8: "it does not support this type of address",
    }
    return f"{words.get(code, 'unknown reason')} (SOCKS5 reply {code})"


def _credentials_rejected(url: ProxyUrl) -> KafkaError:
    return AuthenticationError(
        f"the proxy rejected the user name and password in proxy_url (user {printable(url.username)!r})"
    )


def _not_understood(protocol: str, data: bytes) -> NetworkError:
    advice = "check the scheme and the port in proxy_url"
    if protocol != "HTTP" and data.startswith(_HTTP):
        advice = "this is an HTTP proxy: write proxy_url as http://HOST:PORT"
    elif protocol == "HTTP" and data[:1] in (b"\x05", b"\x04", b"\0"):
        advice = "this may be a SOCKS proxy: write proxy_url as socks5h://HOST:PORT"
    return NetworkError(f"the proxy's answer is not {protocol} (it begins with 0x{data[:8].hex()}); {advice}")
