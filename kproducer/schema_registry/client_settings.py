"""Settings of a schema registry client, with the names that confluent-kafka uses.

=========================================  ==============================================================
Setting                                    Meaning
=========================================  ==============================================================
``url``                                    required; several with commas between them: the next one is
                                           used if one fails
``basic.auth.user.info``                   ``user:password``; may also be in the URL
``bearer.auth.credentials.source``         ``STATIC_TOKEN``, ``CUSTOM``; ``OAUTHBEARER``: of a token endpoint;
                                           ``OAUTHBEARER_AZURE_IMDS``, ``OAUTHBEARER_AWS_IAM``,
                                           ``OAUTHBEARER_AZURE_WORKLOAD_IDENTITY``: of an identity, as for
                                           :doc:`brokers </security>`
``bearer.auth.token``                      the token of ``STATIC_TOKEN``
``bearer.auth.custom.provider.function``   of ``CUSTOM``: called for every request, so it should keep its
                                           token; returns a dictionary with ``bearer.auth.token``
``bearer.auth.custom.provider.config``     of ``CUSTOM``: what the function gets
``bearer.auth.issuer.endpoint.url``        of ``OAUTHBEARER``: the token endpoint, or the file with the token
                                           (``file:///path``), which is read again for each refresh
``bearer.auth.client.id``                  of ``OAUTHBEARER``
``bearer.auth.client.secret``              of ``OAUTHBEARER``
``bearer.auth.scope``                      of the requested tokens
``bearer.auth.issuer.endpoint.query``      of ``OAUTHBEARER_AZURE_IMDS``: replaces the query of the URL
``bearer.auth.aws.config``                 of ``OAUTHBEARER_AWS_IAM``: ``region=REGION,audience=AUDIENCE``
``https.ca.location``                      PEM file with the certificates to trust at the token endpoint
``bearer.auth.logical.cluster``            for Confluent Cloud
``bearer.auth.identity.pool.id``           for Confluent Cloud
``ssl.ca.location``                        file or folder with certificates of authorities (PEM); default:
                                           what the system trusts; ``False``: accept any certificate
``ssl.certificate.location``               client certificate (mTLS), in PEM format
``ssl.key.location``                       its key, in PEM format
``ssl.key.password``                       of the key
``proxy``                                  URL of a proxy, such as ``http://proxy.example.com:3128``;
                                           ``socks5://`` needs ``pip install -e '.[proxy]'``; default:
                                           ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY``, ``NO_PROXY``
``timeout``                                seconds for one HTTP request, from connecting to the end of the
                                           response; default 10
``max.block.ms``                           milliseconds for one call, and for all requests of the look-up
                                           for a topic together, with retries and references, also if a
                                           server answers byte by byte; default 60000. Only the operating
                                           system's look-up of a host name, and a function of ``CUSTOM``,
                                           can take longer
``max.retries``                            attempts after the first; default 3
``retries.wait.ms``                        the first random wait between attempts; default 1000
``retries.max.wait.ms``                    the longest; default 20000
``cache.capacity``                         answers that are kept; default 1000
``cache.latest.ttl.sec``                   how long the latest version is kept; default: for ever
=========================================  ==============================================================

The token, cluster and pool are sent as header fields: printable ASCII, without the line break at the end of a
file.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import attrs

from kproducer.errors import ConfigError
from kproducer.errors.suggestions import nearest_name
from kproducer.schema_registry import oauth_tokens
from kproducer.schema_registry.oauth_tokens import RegistryTokens

_BEARER_SOURCES = ("STATIC_TOKEN", "CUSTOM", *oauth_tokens.SOURCES)
#: Settings of STATIC_TOKEN and CUSTOM.
_OTHER_SOURCES = (
    "bearer.auth.token",
    "bearer.auth.custom.provider.function",
    "bearer.auth.custom.provider.config",
)
#: Java's names have this prefix.
_JAVA_PREFIX = "schema.registry."
#: Settings of other clients, and what to do instead.
_ADVICE = {
    "basic.auth.credentials.source": "remove it: basic.auth.user.info is used, or what the url has",
}
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
#: The settings that are numbers; below, all settings.
NUMBER_SETTINGS = (
    "timeout",
    "max.block.ms",
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
    "cache.capacity",
    "cache.latest.ttl.sec",
)
SETTING_NAMES = (
    "url",
    "ssl.ca.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.certificate.location",
    "basic.auth.user.info",
    "bearer.auth.credentials.source",
    "bearer.auth.token",
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
    "bearer.auth.custom.provider.function",
    "bearer.auth.custom.provider.config",
    *oauth_tokens.SETTING_NAMES,
    "proxy",
    *NUMBER_SETTINGS,
)

#: Returns header fields for a request.
HeaderSource = Callable[[], Mapping[str, str]]


@attrs.frozen
class ClientSettings:
    """The settings of a ``SchemaRegistryClient``, checked.

    Attributes:
        urls: base URLs without credentials, in the order of use.
        basic_auth: user and password, or ``None``.
        bearer_headers: called for each request; ``None`` without bearer authentication. Raises ConfigError or
            SchemaRegistryError, and any error of the function of ``CUSTOM``.
        tokens: of an OAuth server; ``None``: not used.
        ssl_context: for https; ``None`` if no URL is https.
        proxy: URL of a proxy, or ``None``.
        request_timeout_s: limit for one HTTP request, from connecting to the end of the response.
        max_block_ms: limit for one call, with all its attempts.
        max_retries: attempts after the first one, for each URL.
        retry_wait_ms, retry_max_wait_ms: first and longest wait between attempts.
        cache_capacity: schemas that are kept.
        latest_ttl_s: how long the latest version of a subject is kept; ``None``: for ever.
    """

    urls: tuple[str, ...]
    basic_auth: tuple[str, str] | None = attrs.field(repr=False)
    bearer_headers: HeaderSource | None = attrs.field(repr=False)
    tokens: RegistryTokens | None = attrs.field(repr=False)
    ssl_context: ssl.SSLContext | None = attrs.field(repr=False)
    proxy: str | None = attrs.field(repr=False)
    request_timeout_s: float
    max_block_ms: float
    max_retries: int
    retry_wait_ms: float
    retry_max_wait_ms: float
    cache_capacity: int
    latest_ttl_s: float | None

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> ClientSettings:
        """Check the settings of an application.

        Raises:
            ConfigError: a setting is unknown, missing or wrong, or contradicts another one.
        """
        if not isinstance(conf, Mapping):
            raise ConfigError(
                "SchemaRegistryClient: expected a dictionary such as {'url': 'https://example.com'}, "
                f"got {type(conf).__name__}"
            )
        for name in conf:
            if name not in SETTING_NAMES:
                raise ConfigError(
                    f"SchemaRegistryClient: unknown setting {str(name)!r}; {_advice(str(name))}"
                )
        urls, url_auth = _urls(conf.get("url"))
        basic_auth = _basic_auth(conf, url_auth)
        timeout_s = _number(conf, "timeout", 10, "seconds", above_zero=True)
        tokens = _tokens(conf, timeout_s)
        bearer_headers = _bearer_headers(conf, tokens)
        if basic_auth and bearer_headers:
            raise ConfigError("basic.auth.user.info and bearer.auth.credentials.source exclude each other")
        ttl = conf.get("cache.latest.ttl.sec")
        return cls(
            urls=urls,
            basic_auth=basic_auth,
            bearer_headers=bearer_headers,
            tokens=tokens,
            ssl_context=_ssl_context(conf) if any(url.startswith("https:") for url in urls) else None,
            proxy=_proxy(conf),
            request_timeout_s=timeout_s,
            max_block_ms=_number(conf, "max.block.ms", 60_000, "milliseconds", above_zero=True),
            max_retries=int(_number(conf, "max.retries", 3, "attempts")),
            retry_wait_ms=_number(conf, "retries.wait.ms", 1_000, "milliseconds"),
            retry_max_wait_ms=_number(conf, "retries.max.wait.ms", 20_000, "milliseconds"),
            cache_capacity=int(_number(conf, "cache.capacity", 1_000, "schemas", above_zero=True)),
            latest_ttl_s=None if ttl is None else _number(conf, "cache.latest.ttl.sec", 0, "seconds"),
        )


def _advice(name: str) -> str:
    """What to do instead of giving an unknown setting."""
    advice = _ADVICE.get(name.removeprefix(_JAVA_PREFIX))
    if advice is not None:
        return advice
    near = nearest_name(name.removeprefix(_JAVA_PREFIX), SETTING_NAMES)
    return f"did you mean {near!r}?" if near else f"known are {', '.join(SETTING_NAMES)}"


def _number(
    conf: Mapping[str, Any], name: str, default: float, unit: str, *, above_zero: bool = False
) -> float:
    value = conf.get(name)
    if value is None:
        return default
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not value >= 0
        or value == float("inf")
    ):
        raise ConfigError(f"{name}: expected a number of {unit}, got {value!r}")
    if above_zero and not value:
        raise ConfigError(f"{name}: expected more than 0 {unit}")
    return value


def _text(conf: Mapping[str, Any], name: str, *, is_secret: bool = False) -> str | None:
    value = conf.get(name)
    if value is None or (isinstance(value, str) and value):
        return value
    found = type(value).__name__ if is_secret or value != "" else "an empty text"
    raise ConfigError(f"{name}: expected a text, got {found}")


def _urls(given: object) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """Base URLs without credentials, and the credentials of the first one that has some."""
    if not isinstance(given, str) or not given.strip():
        raise ConfigError("url: expected the URL of a schema registry, or several with commas between them")
    urls: list[str] = []
    auth: tuple[str, str] | None = None
    for number, text in enumerate(given.split(",")):
        try:
            parts = urlsplit(text.strip())
            port = parts.port
            host = _ascii_host(parts.hostname or "")
        except ValueError:
            parts, port, host = urlsplit(""), None, ""
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            # The text itself may contain a password.
            begins = text.strip().startswith(("http://", "https://"))
            found = "is not a URL" if begins else "does not begin with http:// or https://; expected a URL"
            raise ConfigError(f"url: number {number + 1} {found} such as https://registry.example.com:8081")
        if parts.username is not None and auth is None:
            auth = unquote(parts.username), unquote(parts.password or "")
        location = host if port is None else f"{host}:{port}"
        path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        urls.append(urlunsplit((parts.scheme, location, path, "", "")))
    return tuple(urls), auth


def _ascii_host(name: str) -> str:
    """A host as HTTP sends it. Raises ValueError: it cannot be one."""
    if ":" in name:
        return f"[{name}]"
    host = name.encode("idna").decode()
    if not host.isprintable() or " " in host:
        raise ValueError
    return host


def _proxy(conf: Mapping[str, Any]) -> str | None:
    text = _text(conf, "proxy")
    return None if text is None else checked_proxy("proxy", text)


def checked_proxy(name: str, text: str) -> str:
    """Check the URL of a proxy.

    Args:
        name: where it is from, for the error.
        text: the URL.

    Raises:
        ConfigError: it is not one; does not show it.
    """
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_place = False
    # A character of the password that is not quoted ends the host or begins a path.
    if (
        not has_place
        or parts.scheme not in _PROXY_SCHEMES
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or not _is_header_text(text)
    ):
        # The text itself may contain a password.
        raise ConfigError(f"{name}: expected a URL such as http://proxy.example.com:3128")
    return text


def _basic_auth(conf: Mapping[str, Any], url_auth: tuple[str, str] | None) -> tuple[str, str] | None:
    given = _text(conf, "basic.auth.user.info", is_secret=True)
    if given is None:
        return url_auth
    if url_auth is not None:
        raise ConfigError("basic.auth.user.info: the url has credentials, too; give them in one place only")
    user, colon, password = given.partition(":")
    if not colon:
        raise ConfigError("basic.auth.user.info: expected user:password; there is no colon")
    return user, password


def _tokens(conf: Mapping[str, Any], timeout_s: float) -> RegistryTokens | None:
    given = {
        name: text
        for name in oauth_tokens.SETTING_NAMES
        if (text := _text(conf, name, is_secret=True)) is not None
    }
    source = conf.get("bearer.auth.credentials.source")
    if source is None:
        if oauth_tokens.AUTHORITIES in given:
            raise ConfigError(
                f"{oauth_tokens.AUTHORITIES}: has no effect without bearer.auth.credentials.source, because"
                " it is for the token endpoint; for the registry, set ssl.ca.location"
            )
        return None
    # A tuple, because the value may be anything, also what cannot be hashed.
    is_oauth = source in tuple(oauth_tokens.SOURCES)
    unused = [name for name in _OTHER_SOURCES if conf.get(name) is not None] if is_oauth else list(given)
    if unused:
        raise ConfigError(f"{unused[0]}: has no effect with bearer.auth.credentials.source={source}")
    return RegistryTokens(source, given, timeout_s) if is_oauth else None


def _bearer_headers(conf: Mapping[str, Any], tokens: RegistryTokens | None) -> HeaderSource | None:
    source = conf.get("bearer.auth.credentials.source")
    if source is None:
        given = [name for name in conf if name.startswith("bearer.auth.")]
        if given:
            raise ConfigError(
                f"{given[0]}: set bearer.auth.credentials.source, too ({' or '.join(_BEARER_SOURCES)})"
            )
        return None
    if source not in _BEARER_SOURCES:
        raise ConfigError(
            f"bearer.auth.credentials.source: expected {' or '.join(_BEARER_SOURCES)}, got {source!r}; "
            "with CUSTOM, a function of yours gets tokens from anywhere"
        )
    fields = {
        name: text
        for name in ("bearer.auth.logical.cluster", "bearer.auth.identity.pool.id")
        if (text := _text(conf, name)) is not None
    }
    if tokens is not None:
        return lambda: _bearer_fields({"bearer.auth.token": tokens.current(), **fields})
    if source == "STATIC_TOKEN":
        token = _text(conf, "bearer.auth.token", is_secret=True)
        if token is None:
            raise ConfigError("bearer.auth.token: missing; STATIC_TOKEN needs it")
        headers = _bearer_fields({"bearer.auth.token": token, **fields})
        return lambda: headers
    function = conf.get("bearer.auth.custom.provider.function")
    if not callable(function):
        raise ConfigError("bearer.auth.custom.provider.function: expected a function; CUSTOM needs it")
    argument = conf.get("bearer.auth.custom.provider.config", {})
    return lambda: _bearer_fields(function(argument))


def _bearer_fields(fields: Mapping[str, str]) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {_header_text(fields, 'bearer.auth.token')}"}
    if fields.get("bearer.auth.logical.cluster"):
        headers["target-sr-cluster"] = _header_text(fields, "bearer.auth.logical.cluster")
    if fields.get("bearer.auth.identity.pool.id"):
        headers["Confluent-Identity-Pool-Id"] = _header_text(fields, "bearer.auth.identity.pool.id")
    return headers


def _header_text(fields: Mapping[str, str], name: str) -> str:
    text = fields[name]
    if not _is_header_text(text):
        # The error does not show the text, which may be a secret. The HTTP client's own error would quote it.
        raise ConfigError(f"{name}: expected printable ASCII without spaces or line breaks around it")
    return text


def _is_header_text(text: object) -> bool:
    """Whether it is printable ASCII without white space around it."""
    return (
        isinstance(text, str)
        and text.isascii()
        and text.isprintable()
        and text == text.strip()
        and text != ""
    )


def _ssl_context(conf: Mapping[str, Any]) -> ssl.SSLContext:
    authorities = conf.get("ssl.ca.location")
    certificate = _text(conf, "ssl.certificate.location")
    key = _text(conf, "ssl.key.location")
    password = _text(conf, "ssl.key.password", is_secret=True)
    if certificate is None and (key or password):
        raise ConfigError("ssl.key.location and ssl.key.password need ssl.certificate.location")
    name = f"ssl.ca.location={authorities!r}"
    try:
        if authorities is False:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif authorities is None:
            context = ssl.create_default_context()
        elif isinstance(authorities, str) and os.path.isdir(authorities):
            context = ssl.create_default_context(capath=authorities)
        elif isinstance(authorities, str):
            context = ssl.create_default_context(cafile=authorities)
        else:
            raise ConfigError(f"ssl.ca.location: expected a path or False, got {type(authorities).__name__}")
        if certificate is not None:
            # The password is not shown.
            name = f"ssl.certificate.location={certificate!r}, ssl.key.location={key!r}, ssl.key.password"
            context.load_cert_chain(certificate, key, password or "")
    except OSError as error:  # also ssl.SSLError
        raise ConfigError(
            f"{name}: {error.strerror or type(error).__name__} (PEM files are expected)"
        ) from error
    return context
