"""HttpConnections: one HTTP exchange with a registry, or with its proxy, within the deadline of the call.

Redirections are not followed, because they would pass on the credentials.
"""

from __future__ import annotations

import base64
import os
import ssl
import weakref
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import attrs

from kproducer._core.runtime.extra_packages import need_package
from kproducer.errors import SchemaRegistryError
from kproducer.schema_registry import deadlines
from kproducer.schema_registry.client_settings import ClientSettings, checked_proxy

#: The most that is read of an answer. A registry keeps a schema in one record of Kafka, of at most 1 MiB
#: unless the brokers are configured otherwise; the list of 80,000 subjects is as long as this. JSON takes up
#: to 25 times its length in memory.
LONGEST_ANSWER_BYTES = 8 << 20
_KEEP_ALIVE_S = 5.0
_SOCKS = ("socks5", "socks5h")


@attrs.frozen
class HttpRequest:
    """A request to a registry at any of its URLs, without credentials.

    Attributes:
        method: of HTTP.
        path: below the base URL.
        target: the path with the query.
        headers: fields.
        content: body; ``None``: none.
    """

    method: str
    path: str
    target: str
    headers: Mapping[str, str]
    content: bytes | None = attrs.field(repr=False)


@attrs.frozen
class HttpAnswer:
    """A response.

    Attributes:
        status: of HTTP.
        body: empty if there is a mistake.
        mistake: why the body was not read; empty: it was.
    """

    status: int
    body: bytes = attrs.field(repr=False)
    mistake: str = ""


class HttpConnections:
    """The connections of one client. Thread-safe; usable in a forked child.

    Args:
        settings: with URLs, TLS and proxy.

    Raises:
        ConfigError: httpcore is not installed, or socksio for a SOCKS proxy; or the environment has a proxy
            that is not a URL.
    """

    def __init__(self, settings: ClientSettings) -> None:
        need_package("a schema registry client", "httpcore", "httpcore", "avro")
        import httpcore

        # Fixed after construction.
        self.httpcore: Any = httpcore
        self._settings = settings
        self._proxies = {url: settings.proxy or _proxy_of_environment(url) for url in settings.urls}
        if any(proxy is not None and urlsplit(proxy).scheme in _SOCKS for proxy in self._proxies.values()):
            need_package("proxy: a SOCKS proxy", "socksio", "socksio", "proxy")
        self._factories = {url: self._factory(proxy) for url, proxy in self._proxies.items()}
        # Pools by base URL, each thread-safe by its own lock. Replaced in a forked child, never changed.
        self._pools = self._new_pools()
        # Any thread, without a lock: it only becomes true.
        self._is_closed = False

    @property
    def proxy_secrets(self) -> list[str]:
        """The texts in the proxies' URLs that no error may show."""
        found = []
        for proxy in filter(None, self._proxies.values()):
            user, password = _credentials(proxy)
            found += secrets_of(user, password)
        return found

    def exchange(self, url: str, request: HttpRequest, authorization: Mapping[str, str]) -> HttpAnswer:
        """Send a request, and read the response. Blocks for ``timeout``, or until the call's deadline.

        Args:
            url: base URL, one of the settings'.
            request: what to send.
            authorization: more header fields.

        Raises:
            SchemaRegistryError: the client is closed.
            Exception: one of httpcore. The variables of its traceback have the credentials.
        """
        if self._is_closed:
            raise SchemaRegistryError(f"{url}: the SchemaRegistryClient was closed", url=url)
        # A compressed answer could be a thousand times longer than what the network shows.
        headers = {**request.headers, **authorization, "Accept-Encoding": "identity"}
        with (
            # For the whole exchange: a server that sends byte by byte must not use up the next URL's time.
            deadlines.within(self._settings.request_timeout_s),
            self._pools[url].stream(
                request.method, f"{url}/{request.target}", headers=headers, content=request.content
            ) as response,
        ):
            received = {name.lower(): value.lower() for name, value in response.headers}
            if received.get(b"content-encoding", b"identity") != b"identity":
                return HttpAnswer(response.status, b"", "the response is compressed, which was not asked for")
            body = bytearray()
            for part in response.iter_stream():
                body += part
                if len(body) > LONGEST_ANSWER_BYTES:
                    mistake = f"the response is longer than {LONGEST_ANSWER_BYTES} bytes"
                    return HttpAnswer(response.status, b"", mistake)
            return HttpAnswer(response.status, bytes(body))

    def close(self) -> None:
        """Close the connections, and refuse to open new ones. Idempotent."""
        self._is_closed = True
        for pool in self._pools.values():
            pool.close()

    def after_fork_in_child(self) -> None:
        """Sockets and locks belong to the parent: use new ones. Must not lock."""
        self._pools = self._new_pools()

    def _new_pools(self) -> Mapping[str, Any]:
        pools = {url: new_pool() for url, new_pool in self._factories.items()}
        # A client need not be closed. The garbage collector runs this before it takes the sockets, which
        # would warn that they are open.
        weakref.finalize(self, _close_in_process, list(pools.values()), os.getpid())
        return pools

    def _factory(self, proxy: str | None) -> Callable[[], Any]:
        """What makes pools of connections through a proxy; ``None``: without one. Its repr has no secret."""
        from kproducer.schema_registry.bounded_network import BoundedBackend

        arguments: dict[str, Any] = {
            "ssl_context": self._settings.ssl_context,
            "max_connections": None,
            "keepalive_expiry": _KEEP_ALIVE_S,
            "network_backend": BoundedBackend(),
        }
        kind = self.httpcore.ConnectionPool
        if proxy is None:
            return lambda: kind(**arguments)
        parts = urlsplit(proxy)
        user, password = (text.encode() for text in _credentials(proxy))
        port = parts.port or (443 if parts.scheme == "https" else 1080 if parts.scheme in _SOCKS else 80)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        arguments["proxy_url"] = f"{parts.scheme}://{host}:{port}"
        arguments["proxy_auth"] = (user, password) if user or password else None
        kind = self.httpcore.SOCKSProxy if parts.scheme in _SOCKS else self.httpcore.HTTPProxy
        if parts.scheme == "https":
            arguments["proxy_ssl_context"] = ssl.create_default_context()
        return lambda: kind(**arguments)


def _close_in_process(pools: list[Any], pid: int) -> None:
    if pid == os.getpid():  # in a forked child the sockets are the parent's
        for pool in pools:
            pool.close()


def basic_credentials(user: str, password: str) -> str:
    """User and password as HTTP's scheme Basic sends them."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def secrets_of(user: str, password: str) -> list[str]:
    """The forms in which a server may repeat a password, the longest first."""
    if not password:
        return []
    forms = {password, quote(password, safe=""), f"{user}:{password}", basic_credentials(user, password)}
    return sorted(forms, key=len, reverse=True)


def _credentials(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return unquote(parts.username or ""), unquote(parts.password or "")


def _proxy_of_environment(url: str) -> str | None:
    """The proxy that the environment names for a URL (``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY``)."""
    # Imported here, because it takes longer than the other modules together, and not every client gets here.
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found:
        return None
    name = f"the environment variable {parts.scheme}_proxy or all_proxy"
    return checked_proxy(name, found if "://" in found else f"http://{found}")
