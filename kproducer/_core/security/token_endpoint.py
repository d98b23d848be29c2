"""Gets OAuth tokens from an identity provider's token endpoint, a cloud's metadata service, or a file.

Each source is a callable without arguments that returns an ``OAuthToken``; ``TokenSource`` calls it on its
own thread. Secrets (client secret, assertion, token) are sent to the endpoint and appear in no error.
``urllib`` is enough to post one form per token (docs/decisions/0052-registry-client.md). Redirections are not
followed, because they would pass on the credentials.
Source: RFC 6749 sections 4.4 and 5, RFC 7523; Kafka classes ``HttpJwtRetriever`` (KIP-768) and
``FileJwtRetriever``; "How to use managed identities on an Azure VM to acquire an access token" (IMDS).
"""

from __future__ import annotations

import base64
import functools
import http.client
import io
import json
import math
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kproducer._core.config.setting import shown_url
from kproducer._core.security.oauth_tokens import OAuthToken, RetriableTokenError
from kproducer._core.security.sasl_mechanisms import shown_text
from kproducer.errors import AuthenticationError

_LONGEST_ANSWER_BYTES = 1 << 20
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
#: Beside 5xx: Request Timeout, Too Many Requests.
RETRIABLE_STATUSES = (408, 429)
#: With which a metadata service answers while it is being updated.
_UPDATING = (404, 410)

Assertion = Callable[[], str]


@attrs.frozen
class TokenRequest:
    """What to send to a token endpoint. Its repr shows nothing of it.

    Attributes:
        fields: the form to post. Empty ones are not sent.
        authorization: value of the header ``Authorization``; empty: none.
        secrets: texts that errors must not show if the endpoint repeats them.
    """

    fields: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    authorization: str = attrs.field(default="", repr=False)
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)


@attrs.frozen
class ClientSecretGrant:
    """Client credentials: the client authenticates with id and secret (RFC 6749, section 4.4).

    Attributes:
        is_encoded: id and secret are encoded as section 2.3.1 requires (KIP-1025).
    """

    client_id: str
    secret: str = attrs.field(repr=False)
    scope: str
    is_encoded: bool

    def __call__(self) -> TokenRequest:
        client_id, secret = self.client_id, self.secret
        if self.is_encoded:
            client_id, secret = map(urllib.parse.quote_plus, (client_id, secret))
        basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        fields = {"grant_type": "client_credentials", "scope": self.scope}
        return TokenRequest(fields, f"Basic {basic}", (self.secret, secret, basic))


@attrs.frozen
class ClientAssertionGrant:
    """Client credentials: the client authenticates with an assertion (RFC 7523, section 2.2; KIP-1258).

    Attributes:
        client_id: may be empty, because the assertion names the client.
    """

    client_id: str
    assertion: Assertion
    scope: str

    def __call__(self) -> TokenRequest:
        assertion = self.assertion()
        fields = {
            "grant_type": "client_credentials",
            "client_assertion_type": _CLIENT_ASSERTION,
            "client_assertion": assertion,
            "client_id": self.client_id,
            "scope": self.scope,
        }
        return TokenRequest(fields, secrets=(assertion,))


@attrs.frozen
class JwtBearerGrant:
    """The assertion is the grant (RFC 7523, section 2.1; KIP-1139)."""

    assertion: Assertion
    scope: str

    def __call__(self) -> TokenRequest:
        assertion = self.assertion()
        fields = {"grant_type": _JWT_BEARER, "assertion": assertion, "scope": self.scope}
        return TokenRequest(fields, secrets=(assertion,))


@attrs.frozen
class EndpointNames:
    """What errors of a token endpoint call the settings.

    Attributes:
        url: the setting, or what else names the endpoint.
        timeouts: how long to wait for it.
        authorities: the certificates to trust.
    """

    url: str = "sasl_oauthbearer_token_endpoint_url"
    timeouts: str = "sasl_login_connect_timeout_ms, sasl_login_read_timeout_ms"
    authorities: str = "https_ca_location or ssl.truststore.location in sasl_jaas_config"


@attrs.define(eq=False, repr=False, slots=False)
class TokenEndpoint:
    """A token endpoint. Call it to request a token.

    Redirections are not followed, because they would pass on the credentials. Uses the proxies in
    ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``, except for a metadata service: it answers only on the
    machine whose identity it knows.

    Args:
        url: http or https, without user name and password.
        new_request: what to send.
        tls_context: returns the context for a connection; ``None``: the endpoint is not encrypted.
        connect_timeout_ms: for each address, and again for the tunnel of a proxy and the TLS handshake.
        read_timeout_ms: for sending the request, and again for the whole answer.
        names: of the settings, for errors.
        is_metadata_service: a token is got, without a form, from a cloud's metadata service.
    """

    _url: str
    _new_request: Callable[[], TokenRequest]
    _tls_context: Callable[[], ssl.SSLContext] | None
    _connect_timeout_ms: int
    _read_timeout_ms: int
    _names: EndpointNames = EndpointNames()
    _is_metadata_service: bool = False

    @property
    def where(self) -> str:
        """The endpoint in words, with the setting that names it."""
        return f"the token endpoint {shown_text(shown_url(self._url))} ({self._names.url})"

    def renamed(self, new_name: Callable[[str], str]) -> TokenEndpoint:
        """The same with other names of the settings in errors."""
        return attrs.evolve(self, names=EndpointNames(*map(new_name, attrs.astuple(self._names))))

    def __call__(self) -> OAuthToken:
        """Request a token.

        Raises:
            RetriableTokenError: the endpoint cannot be reached, or answers 408, 429 or 5xx; a metadata
                service also with 404 or 410.
            AuthenticationError: it refuses the request, or its answer has no usable token.
        """
        request = self._new_request()
        status, content_type, body = self._exchange(request)
        answer = _json_object(body)
        if status not in (200, 201):
            refusal = _refusal(answer, content_type, request.secrets)
            text = f"{self.where} answered with HTTP status {status}: {refusal}"
            if status >= 500 or status in RETRIABLE_STATUSES:
                raise RetriableTokenError(text)
            if self._is_metadata_service:
                if status in _UPDATING:
                    raise RetriableTokenError(text)
                raise AuthenticationError(f"{text}; check its URL, and the identities of this machine")
            raise AuthenticationError(f"{text}; check its URL and the credentials")
        if answer is None:
            raise AuthenticationError(
                f"{self.where} answered with {content_type}, {len(body)} bytes, instead of a JSON object;"
                " check its URL"
            )
        for name in ("access_token", "id_token"):
            token = answer.get(name)
            if isinstance(token, str) and token.strip():
                return _token(token.strip(), answer.get("expires_in"), self.where)
        raise AuthenticationError(f"the answer of {self.where} has no access_token")

    def _exchange(self, request: TokenRequest) -> tuple[int, str, bytes]:
        headers = {"Accept": "application/json", "Cache-Control": "no-cache"}
        if self._is_metadata_service:
            headers["Metadata"] = "true"
            message = urllib.request.Request(self._url, None, headers, method="GET")
        else:
            form = urllib.parse.urlencode({name: text for name, text in request.fields.items() if text})
            message = urllib.request.Request(self._url, form.encode(), headers, method="POST")
        if request.authorization:
            message.add_unredirected_header("Authorization", request.authorization)
        context = self._tls_context() if self._tls_context is not None else None
        # This opener neither follows redirections nor raises errors for statuses.
        opener = urllib.request.OpenerDirector()
        if not self._is_metadata_service:
            opener.add_handler(urllib.request.ProxyHandler())
        opener.add_handler(_Handler(context, self._read_timeout_ms / 1000))
        try:
            with opener.open(message, timeout=self._connect_timeout_ms / 1000) as response:
                return response.status, response.headers.get_content_type(), _read(response)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            # Its traceback has the connection and the secret, and ends here.
            failure = self._unreachable(error.reason if isinstance(error, urllib.error.URLError) else error)
        raise failure

    def _unreachable(self, cause: object) -> AuthenticationError | RetriableTokenError:
        text = f"{self.where} cannot be reached: {self._in_words(cause)}"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return AuthenticationError(f"{text}; to trust another authority, set {self._names.authorities}")
        return RetriableTokenError(text)

    def _in_words(self, error: object) -> str:
        if isinstance(error, TimeoutError):
            return f"timeout ({self._names.timeouts})"
        if isinstance(error, OSError) and error.strerror:
            return str(error.strerror)
        return shown_text(str(error)) or type(error).__name__


def _read(response: http.client.HTTPResponse) -> bytes:
    announced = response.length
    limit = _LONGEST_ANSWER_BYTES if announced is None else min(announced, _LONGEST_ANSWER_BYTES)
    body = response.read(limit)
    if announced is not None and len(body) < limit:
        raise http.client.IncompleteRead(bytes(0), limit - len(body))
    return body


class _BoundedReader(io.RawIOBase):
    """What a socket receives until its timeout, which is for a single read, has passed for all reads."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._received = sock.makefile("rb", buffering=0)
        timeout_s = sock.gettimeout()
        assert timeout_s is not None
        self._ends_at_s = time.monotonic() + timeout_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left_s = self._ends_at_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()


class _BoundedResponse(http.client.HTTPResponse):
    """An answer of an endpoint or a proxy, which may arrive in any number of pieces."""

    def __init__(self, sock: socket.socket, *arguments: Any, **others: Any) -> None:
        super().__init__(sock, *arguments, **others)
        self.fp.close()
        self.fp = io.BufferedReader(_BoundedReader(sock))


class _Connection(http.client.HTTPConnection):
    """A connection with one timeout until it is up, with the tunnel and TLS, and another one from then on."""

    response_class = _BoundedResponse

    def __init__(self, *arguments: Any, read_timeout_s: float, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self._read_timeout_s = read_timeout_s

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(self._read_timeout_s)


class _TlsConnection(_Connection, http.client.HTTPSConnection):
    """The same with TLS."""


class _Handler(urllib.request.AbstractHTTPHandler):
    """Opens http and https."""

    def __init__(self, context: ssl.SSLContext | None, read_timeout_s: float) -> None:
        super().__init__()
        self._http: Any = functools.partial(_Connection, read_timeout_s=read_timeout_s)
        self._https: Any = functools.partial(_TlsConnection, read_timeout_s=read_timeout_s, context=context)

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(self._http, request)

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(self._https, request)

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_


@attrs.frozen
class TokenFile:
    """A file with a token, which something else keeps fresh. Call it to read the token."""

    path: str
    source: str = "sasl_oauthbearer_token_endpoint_url"

    @property
    def where(self) -> str:
        """The file in words, with the setting that names it."""
        return f"the file {self.path!r} ({self.source})"

    def renamed(self, new_name: Callable[[str], str]) -> TokenFile:
        """The same with another name of the setting in errors."""
        return TokenFile(self.path, new_name(self.source))

    def __call__(self) -> OAuthToken:
        """Read the token. Raises AuthenticationError: the file cannot be read, or has no valid token."""
        return _token(read_token(self.path, self.where), None, self.where)


def read_token(path: str, where: str) -> str:
    """The token or assertion in a file. Raises AuthenticationError, which names ``where``."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(_LONGEST_ANSWER_BYTES).strip()
    except OSError as error:
        raise AuthenticationError(f"{where} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AuthenticationError(f"{where} has characters that a token cannot contain") from None
    if not text:
        raise AuthenticationError(f"{where} is empty")
    return text


def _token(value: str, expires_in: object, where: str) -> OAuthToken:
    """The token with its expiry: the claim ``exp``, or else what the answer says."""
    now_s = time.time()
    expires_at = _as_number(_claims(value).get("exp"))
    if expires_at is None:
        if isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdigit():
            expires_in = float(expires_in)  # some identity providers quote it
        life_s = _as_number(expires_in)
        if life_s is None:
            raise AuthenticationError(f"{where} does not say when its token expires (exp, expires_in)")
        expires_at = now_s + life_s
    if expires_at <= now_s:
        raise AuthenticationError(
            f"the token of {where} expired {now_s - expires_at:.0f} s ago; if it is new, check the clock"
        )
    return OAuthToken(value, expires_at)


def _claims(token: str) -> Mapping[str, Any]:
    """The claims of a JWT, which only the broker verifies; of other tokens none."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return _json_object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))) or {}
    except ValueError:
        return {}


def _as_number(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _json_object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refusal(answer: Mapping[str, Any] | None, content_type: str, secrets: tuple[str, ...]) -> str:
    """What the endpoint says about a refused request, by RFC 6749, section 5.2, or as Okta does."""

    def shown(text: str) -> str:
        for secret in secrets:  # before the text is shortened, which could leave a part of one
            text = text.replace(secret, "(not shown)")
        return shown_text(text)

    for code, description in (("error", "error_description"), ("errorCode", "errorSummary")):
        if answer is not None and isinstance(answer.get(code), str):
            texts = [answer[code], answer.get(description)]
            return ": ".join(shown(text) for text in texts if isinstance(text, str) and text)
    return f"no reason in its answer ({content_type})"
