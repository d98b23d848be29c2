"""RegistryConnection: requests to a schema registry, with retries, and with other URLs if one fails.

Knows HTTP and JSON, but no schemas. Neither an error nor a variable in its traceback contains credentials,
because tools that report errors show both. Source: Confluent Schema Registry API reference.
"""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from kproducer.errors import ConfigError, SchemaRegistryError
from kproducer.errors.hidden_variables import without_frames
from kproducer.schema_registry import answers, deadlines
from kproducer.schema_registry.client_settings import ClientSettings
from kproducer.schema_registry.http_exchange import (
    HttpAnswer,
    HttpConnections,
    HttpRequest,
    basic_credentials,
    secrets_of,
)
from kproducer.types import VERSION

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_RETRIABLE_STATUSES = {408, 429, 500, 502, 503, 504}
_PACKAGE = "kproducer.schema_registry."
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
        ConfigError: httpcore is not installed, or socksio for a SOCKS proxy.
    """

    def __init__(self, settings: ClientSettings, wait: Callable[[float], None] = time.sleep) -> None:
        # Fixed after construction.
        self._settings = settings
        self._wait = wait
        # Thread-safe by its own lock.
        self._http = HttpConnections(settings)
        #: Index of the URL that answered last. Any thread, without a lock: a lost update costs one attempt
        #: with another URL.
        self._preferred = 0

    def request(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: object = None
    ) -> Any:
        """The JSON of a response.

        Blocks until the deadline of the thread's look-up, and for at most ``max.block.ms``.

        Args:
            method: of HTTP.
            path: below the base URL, without a slash at its beginning; its segments are quoted.
            query: parameters.
            body: is sent as JSON, unless it is ``None``.

        Raises:
            SchemaRegistryError: the registry refused the request, or no URL answered.
        """
        headers = {"Accept": f"{_MEDIA_TYPE}, application/json", "User-Agent": f"kproducer/{VERSION}"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = _MEDIA_TYPE
            headers["Confluent-Accept-Unknown-Properties"] = "true"
        with deadlines.within(self._settings.max_block_ms / 1000):
            return self._with_retries(HttpRequest(method, path, target(path, query), headers, content))

    def close(self) -> None:
        """Close the connections. Later requests are refused."""
        self._http.close()
        if self._settings.tokens is not None:
            self._settings.tokens.close()

    def after_fork_in_child(self) -> None:
        """Sockets and locks belong to the parent: use new ones. Must not lock."""
        self._http.after_fork_in_child()
        if self._settings.tokens is not None:
            self._settings.tokens.after_fork_in_child()

    def _with_retries(self, request: HttpRequest) -> Any:
        settings = self._settings
        failures: dict[str, SchemaRegistryError] = {}
        for attempt in range(settings.max_retries + 1):
            for index in self._order():
                url = settings.urls[index]
                if deadlines.remaining_s() <= 0:
                    break
                try:
                    answer = self._attempt(url, request)
                except SchemaRegistryError as error:
                    if not error.is_temporary:
                        raise
                    failures[url] = error
                else:
                    self._preferred = index
                    return answer
            wait_s = _backoff_ms(settings, attempt) / 1000
            if attempt == settings.max_retries or deadlines.remaining_s() <= wait_s:
                break
            self._wait(wait_s)
        if not failures:
            url = settings.urls[self._preferred]
            raise SchemaRegistryError(
                f"there is no time left for {_where(url, request)}: the look-up of this schema has already "
                f"taken {settings.max_block_ms:.0f} ms; check the registry, or set max.block.ms",
                url=url,
                is_temporary=True,
            )
        raise _combined(list(failures.values()), attempt + 1) from list(failures.values())[-1]

    def _order(self) -> list[int]:
        count = len(self._settings.urls)
        return [(self._preferred + step) % count for step in range(count)]

    def _attempt(self, url: str, request: HttpRequest) -> Any:
        try:
            outcome = self._exchange(url, request)
        except BaseException as error:  # such as KeyboardInterrupt
            raise without_frames(error) from None
        # Raised here, and not where the credentials are in variables.
        if isinstance(outcome, SchemaRegistryError):
            raise outcome
        return outcome

    def _exchange(self, url: str, request: HttpRequest) -> Any:
        """The JSON of the response, or the error."""
        where = _where(url, request)
        authorization, secrets = self._authorization(url)
        if isinstance(authorization, SchemaRegistryError):
            return authorization
        secrets += self._http.proxy_secrets
        httpcore = self._http.httpcore
        try:
            answer = self._http.exchange(url, request, authorization)
        except SchemaRegistryError as error:  # the client is closed
            return without_frames(error)
        except httpcore.LocalProtocolError:
            # The error's text is not used, because it quotes what we sent, which may be a token.
            return SchemaRegistryError(
                f"the request cannot be sent: {where}: HTTP does not allow one of its header fields; check "
                "the settings bearer.auth.*",
                url=url,
            )
        except Exception as error:
            # A certificate that is not accepted will not be accepted later.
            is_refused_tls = _has_cause(error, ssl.SSLCertVerificationError)
            advice = "the url, the network and the registry"
            if is_refused_tls:
                advice = "ssl.ca.location"
            elif self._settings.proxy is not None:
                advice = "the proxy, the url, the network and the registry"
            return SchemaRegistryError(
                f"the schema registry is not reachable: {where}: {type(error).__name__}: "
                f"{_shown(str(error), secrets)}; check {advice}",
                url=url,
                is_temporary=not is_refused_tls,
            )
        if not 200 <= answer.status < 300:
            return _refusal(where, url, answer, secrets)
        mistake = answer.mistake
        if not mistake:
            try:
                return answers.parsed(answer.body) if answer.body else None
            except ValueError:
                mistake = "the response is not JSON"
        return SchemaRegistryError(
            f"{where}: {mistake}; check that the url is that of a schema registry",
            url=url,
            http_status_code=answer.status,
        )

    def _authorization(self, url: str) -> tuple[Mapping[str, str] | SchemaRegistryError, list[str]]:
        """Header fields, and the texts in them that no error may show; or why there are none."""
        settings = self._settings
        if settings.basic_auth is not None:
            fields = {"Authorization": f"Basic {basic_credentials(*settings.basic_auth)}"}
            return fields, secrets_of(*settings.basic_auth)
        if settings.bearer_headers is None:
            return {}, []
        try:
            headers = settings.bearer_headers()
        except ConfigError as error:
            # The error names the field, and does not quote its value.
            return SchemaRegistryError(str(error), url=url), []
        except SchemaRegistryError as error:  # there is no token
            error.url = url
            return without_frames(error), []
        except Exception as error:
            # The error of the application's function: its text may contain a token.
            failure = SchemaRegistryError(
                f"bearer.auth.custom.provider.function raised {type(error).__name__}; expected a "
                "dictionary with bearer.auth.token",
                url=url,
            )
            failure.__cause__ = _of_the_application(error)
            return failure, []
        return headers, [headers["Authorization"].removeprefix("Bearer ")]


def _where(url: str, request: HttpRequest) -> str:
    return f"{request.method} {url}/{request.path}"


def target(path: str, query: Mapping[str, Any] | None) -> str:
    """The path and the query of a request. Lists are repeated parameters."""
    pairs = [
        (name, str(each).lower() if isinstance(each, bool) else each)
        for name, value in (query or {}).items()
        for each in (value if isinstance(value, list) else [value])
    ]
    return f"{path}?{urlencode(pairs, quote_via=quote)}" if pairs else path


def _of_the_application(error: Exception) -> Exception:
    """The error without our own functions, which have the settings in their variables."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        trace = trace.tb_next
    return error.with_traceback(trace)


def _shown(text: str, secrets: list[str]) -> str:
    """A text from outside for an error: without the credentials, escaped and shortened."""
    return answers.shown(_redacted(text, secrets))


def _redacted(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "(not shown)")
    return text


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


def _refusal(where: str, url: str, answer: HttpAnswer, secrets: list[str]) -> SchemaRegistryError:
    status, code, text = answer.status, -1, ""
    try:
        fields = answers.parsed(answer.body)
    except ValueError:
        fields = None  # a proxy's page, for instance
    if isinstance(fields, dict):
        found_code, found_text = fields.get("error_code"), fields.get("message")
        if type(found_code) is int and abs(found_code) <= answers.MOST_INT32:
            code = found_code
        if isinstance(found_text, str):
            text = _redacted(found_text, secrets)
    said = answers.shown(text) or "no message"
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
    text = "; ".join(map(str, failures))
    return failures[-1].with_text(f"{text} (rounds of attempts: {attempts})")


def _backoff_ms(settings: ClientSettings, attempt: int) -> float:
    # The wait is random, so that producers that started together do not ask again together.
    longest_ms: float = min(settings.retry_wait_ms * 2**attempt, settings.retry_max_wait_ms)
    return random.random() * longest_ms
