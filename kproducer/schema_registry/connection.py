"""RegistryConnection: requests to a schema registry, with retries, and with other URLs if one fails.

Knows HTTP and JSON, but no schemas. Source: Confluent Schema Registry API reference.
"""

from __future__ import annotations

import json
import os
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from kproducer.errors import ConfigError, SchemaRegistryError, printable
from kproducer.schema_registry.client_settings import ClientSettings
from kproducer.types import VERSION

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_RETRIABLE_STATUSES = {408, 429, 500, 502, 503, 504}
_LONGEST_TEXT = 500
_ADVICE = {
    401: "check basic.auth.user.info or the bearer token",
    403: "the registry does not allow this user to do it: grant the permission",
    404: "register the schema first, or check the subject and the url",
    409: "change the schema so that it is compatible with the earlier ones, or the subject's compatibility",
    422: "correct the schema",
}


def quoted(text: str) -> str:
    """A text as one segment of a URL's path."""
    return quote(text, safe="")


class RegistryConnection:
    """Sends requests to a registry. Thread-safe; usable in a forked child.

    Args:
        settings: URLs, authentication, timeouts and retries.
        wait: called with seconds between two attempts.

    Raises:
        ConfigError: httpx is not installed.
    """

    #: Set even if the constructor raises.
    _http: Any = None

    def __init__(self, settings: ClientSettings, wait: Callable[[float], None] = time.sleep) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ConfigError(
                "a schema registry client needs the package httpx; install one of the extras, for example: "
                "pip install 'kproducer[avro]'"
            ) from error
        # Fixed after construction.
        self._settings = settings
        self._wait = wait
        self._request_error = httpx.RequestError
        self._httpx = httpx
        # Guarded by _lock, which is never held during a request, and which a signal handler may take again.
        self._lock = threading.RLock()
        self._http_pid = 0
        #: Index of the URL that answered last. Any thread; a lost update costs one attempt elsewhere.
        self._preferred = 0
        self._closed = False

    def request(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: object = None
    ) -> Any:
        """The JSON of a response.

        Blocks. No attempt begins after ``max.block.ms``. An attempt takes at most ``timeout`` per step, so a
        server that answers in small pieces can take longer.

        Args:
            method: of HTTP.
            path: below the base URL, without a slash at its beginning; its segments are quoted.
            query: parameters.
            body: is sent as JSON, unless it is ``None``.

        Raises:
            SchemaRegistryError: the registry refused the request, or no URL answered.
        """
        settings = self._settings
        deadline = time.monotonic() + settings.max_block_ms / 1000
        headers = {"Accept": f"{_MEDIA_TYPE}, application/json", "User-Agent": f"kproducer/{VERSION}"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = _MEDIA_TYPE
            headers["Confluent-Accept-Unknown-Properties"] = "true"
        failures: dict[str, SchemaRegistryError] = {}
        for attempt in range(settings.max_retries + 1):
            for index in self._order():
                url = settings.urls[index]
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0 and failures:
                    break
                try:
                    answer = self._attempt(
                        method, url, path, query, headers, content, max(remaining_s, 0.001)
                    )
                except SchemaRegistryError as error:
                    if not error.is_temporary:
                        raise
                    failures[url] = error
                else:
                    self._preferred = index
                    return answer
            wait_s = _backoff_ms(settings, attempt) / 1000
            if attempt == settings.max_retries or time.monotonic() + wait_s >= deadline:
                break
            self._wait(wait_s)
        raise _combined(list(failures.values()), attempt + 1) from list(failures.values())[-1]

    def close(self) -> None:
        """Close the connections. Later requests are refused."""
        with self._lock:
            self._closed = True
            http, pid, self._http = self._http, self._http_pid, None
        if http is not None and pid == os.getpid():
            http.close()

    def __del__(self) -> None:
        # A client need not be closed. In a forked child the sockets are the parent's.
        if self._http is not None and self._http_pid == os.getpid():
            self._http.close()

    def after_fork_in_child(self) -> None:
        """Sockets and locks belong to the parent: use new ones. Must not lock."""
        self._lock = threading.RLock()

    def _order(self) -> list[int]:
        count = len(self._settings.urls)
        return [(self._preferred + step) % count for step in range(count)]

    def _session(self, url: str) -> Any:
        if self._http is not None and self._http_pid == os.getpid():
            return self._http
        with self._lock:
            if self._closed:
                raise SchemaRegistryError(f"{url}: the SchemaRegistryClient was closed", url=url)
            if self._http is None or self._http_pid != os.getpid():
                settings = self._settings
                self._http = self._httpx.Client(
                    auth=settings.basic_auth,
                    verify=settings.ssl_context or False,
                    proxy=settings.proxy,
                    trust_env=settings.proxy is None,
                    follow_redirects=False,
                )
                self._http_pid = os.getpid()
            return self._http

    def _attempt(
        self,
        method: str,
        url: str,
        path: str,
        query: Mapping[str, Any] | None,
        headers: dict[str, str],
        content: bytes | None,
        remaining_s: float,
    ) -> Any:
        session = self._session(url)
        where = f"{method} {url}/{path}"
        if self._settings.bearer_headers is not None:
            try:
                headers = {**headers, **self._settings.bearer_headers()}
            except ConfigError as error:
                # It names the field, and does not quote it.
                raise SchemaRegistryError(str(error), url=url) from error
            except Exception as error:
                # The application's function; its text may contain a token.
                raise SchemaRegistryError(
                    f"bearer.auth.custom.provider.function raised {type(error).__name__}; expected a "
                    "dictionary with bearer.auth.token",
                    url=url,
                ) from error
        try:
            response = session.request(
                method,
                f"{url}/{path}",
                params=query,
                headers=headers,
                content=content,
                timeout=min(self._settings.request_timeout_s, remaining_s),
            )
        except self._httpx.LocalProtocolError:
            # Its text quotes what we sent, which may be a token; "from None" keeps it out of tracebacks.
            raise SchemaRegistryError(
                f"the request cannot be sent: {where}: HTTP does not allow one of its header fields; check "
                "the settings bearer.auth.*",
                url=url,
            ) from None
        except self._request_error as error:
            # A certificate that is not accepted will not be accepted later.
            is_refused_tls = _has_cause(error, ssl.SSLCertVerificationError)
            advice = "the url, the network and the registry"
            if is_refused_tls:
                advice = "ssl.ca.location"
            elif self._settings.proxy is not None:
                advice = "the proxy, the url, the network and the registry"
            raise SchemaRegistryError(
                f"the schema registry is not reachable: {where}: {type(error).__name__}: "
                f"{printable(str(error))[:_LONGEST_TEXT]}; check {advice}",
                url=url,
                is_temporary=not is_refused_tls,
            ) from error
        if response.is_success:
            try:
                return response.json() if response.content else None
            except ValueError as error:
                raise SchemaRegistryError(
                    f"{where}: the response is not JSON; check that the url is that of a schema registry",
                    url=url,
                    http_status_code=response.status_code,
                ) from error
        raise _refusal(where, url, response)


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


def _refusal(where: str, url: str, response: Any) -> SchemaRegistryError:
    status: int = response.status_code
    code, text = -1, ""
    try:
        answer = response.json()
        code, text = int(answer.get("error_code", -1)), str(answer.get("message", ""))
    except (ValueError, TypeError, AttributeError):
        pass  # a proxy's page, for instance
    said = printable(text)[:_LONGEST_TEXT] or "no message"
    advice = _ADVICE.get(status)
    return SchemaRegistryError(
        f"the schema registry answered {where} with HTTP status {status}, error code {code}: {said}"
        + (f"; {advice}" if advice else ""),
        url=url,
        http_status_code=status,
        error_code=code,
        error_message=text,
        is_temporary=status in _RETRIABLE_STATUSES,
    )


def _combined(failures: list[SchemaRegistryError], attempts: int) -> SchemaRegistryError:
    last = failures[-1]
    text = "; ".join(str(each) for each in failures)
    return SchemaRegistryError(
        f"{text} (rounds of attempts: {attempts})",
        url=last.url,
        http_status_code=last.http_status_code,
        error_code=last.error_code,
        error_message=last.error_message,
        is_temporary=True,
    )


def _backoff_ms(settings: ClientSettings, attempt: int) -> float:
    # Random waits: many producers that start together do not ask again together.
    longest_ms: float = min(settings.retry_wait_ms * 2**attempt, settings.retry_max_wait_ms)
    return random.random() * longest_ms
