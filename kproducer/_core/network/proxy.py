"""Proxy: the proxy that a client's connections go through, and ProxyTunnel: the tunnel of one connection.

A connection through a proxy is a TCP connection to the proxy. ``ProxyTunnel`` makes the proxy connect to the
broker; from then on the connection's transport layer uses the socket as if it were connected to the broker.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from kproducer._core.network.host_resolver import ResolvedAddress, is_literal, resolve_host
from kproducer._core.network.transport_layer import describe_os_error
from kproducer.errors import ConfigError, NetworkError

if TYPE_CHECKING:
    from kproducer._core.config.proxy_url import ProxyUrl
    from kproducer._core.network.proxy_handshakes import ProxyHandshake

_READ_SIZE_BYTES = 4096


class Proxy:
    """A proxy. Immutable; any thread. ``str`` is its URL without user name and password, and its setting.

    Args:
        url: where it is, and the credentials.

    Raises:
        ConfigError: the packages for proxies are not installed.
    """

    def __init__(self, url: ProxyUrl) -> None:
        try:
            # Imported here: most producers use no proxy.
            from kproducer._core.network import proxy_handshakes
        except ImportError as error:
            raise ConfigError(
                f"proxy_url needs the packages h11 and socksio ({error}): pip install 'kproducer[proxy]'"
            ) from error
        self._url = url
        is_http = url.scheme == "http"
        handshake = proxy_handshakes.HttpConnectHandshake if is_http else proxy_handshakes.Socks5Handshake
        self._new_handshake = handshake

    def __str__(self) -> str:
        return f"{self._url} (proxy_url)"

    def resolve(self, host: str, port: int) -> list[ResolvedAddress]:
        """The proxy's addresses, each with what it is asked to connect to: the host, or one of its addresses.

        Blocks while the name service is asked. Raises NetworkError if a name cannot be resolved.
        """
        try:
            addresses = resolve_host(self._url.host, self._url.port)
        except NetworkError as error:
            raise NetworkError(f"the proxy {self}: {error}") from error
        targets = [(host, port)]
        if not self._url.resolves_names:
            targets = [resolved.address[:2] for resolved in resolve_host(host, port)]
        return [
            ResolvedAddress(found.family, found.address, target) for target in targets for found in addresses
        ]

    def needs_name_service(self, host: str) -> bool:
        """Whether ``resolve`` asks the name service, and may therefore take long."""
        return not (is_literal(self._url.host) and (self._url.resolves_names or is_literal(host)))

    def new_tunnel(self, sock: socket.socket, target: tuple[str, int]) -> ProxyTunnel:
        """The tunnel to (host, port) of a socket that is connecting to the proxy. Raises NetworkError."""
        return ProxyTunnel(sock, self._new_handshake(self._url, *target))


class ProxyTunnel:
    """Opens the tunnel of one connection over its non-blocking socket. I/O thread only. No method blocks.

    Args:
        sock: connecting to the proxy; the transport layer closes it.
        handshake: what to say to the proxy.
    """

    def __init__(self, sock: socket.socket, handshake: ProxyHandshake) -> None:
        self._socket = sock
        self._handshake = handshake
        self._unsent = handshake.begin()

    @property
    def wants_write(self) -> bool:
        """Whether the socket has not taken everything yet."""
        return bool(self._unsent)

    def advance(self) -> bool:
        """Continue as far as the socket allows; returns whether the tunnel is open.

        Raises AuthenticationError if the proxy rejects the credentials, NetworkError if it refuses the
        connection, answers with something else or closes the connection.
        """
        try:
            while True:
                while self._unsent:
                    self._unsent = self._unsent[self._socket.send(self._unsent) :]
                data = self._socket.recv(_READ_SIZE_BYTES)
                if not data:
                    raise NetworkError("the proxy closed the connection without opening a tunnel")
                answer = self._handshake.receive(data)
                if answer is None:
                    return True
                self._unsent = answer
        except BlockingIOError:
            return False
        except OSError as error:
            raise NetworkError(f"the connection to the proxy broke: {describe_os_error(error)}") from error
