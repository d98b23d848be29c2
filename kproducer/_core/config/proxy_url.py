"""ProxyUrl: the setting ``proxy_url`` in parts. No error and no repr shows user name and password."""

from __future__ import annotations

import attrs

from kproducer.errors import ConfigError

#: By scheme, named as in curl: whether the proxy looks up the names of brokers.
_SCHEMES = {"socks5": False, "socks5h": True, "http": True}

#: RFC 1929: lengths of user name and password are one byte.
_LONGEST_SOCKS_CREDENTIAL_BYTES = 255

_EXPECTED = "'SCHEME://HOST:PORT' or 'SCHEME://USER:PASSWORD@HOST:PORT'"


@attrs.frozen
class ProxyUrl:
    """The address of a proxy, and who uses it. ``str`` has no credentials.

    Attributes:
        scheme: socks5, socks5h or http.
        host: name or IP address, without brackets.
        port: from 1 to 65535.
        username, password: empty if the proxy needs none.
    """

    scheme: str
    host: str
    port: int
    username: str = attrs.field(repr=False)
    password: str = attrs.field(repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def resolves_names(self) -> bool:
        """Whether the proxy looks up the names of brokers; otherwise this machine does."""
        return _SCHEMES[self.scheme]


def parse_proxy_url(text: str) -> ProxyUrl:
    """Split a proxy's URL. Raises ConfigError, which does not show the URL."""
    # Imported here: most producers use no proxy.
    from urllib.parse import unquote, urlsplit

    def bad(found: str, advice: str) -> ConfigError:
        return ConfigError(f"proxy_url: expected {_EXPECTED}, got {found} (not shown); {advice}")

    scheme, separator, _ = text.partition("://")
    if not separator or scheme.lower() not in _SCHEMES:
        found = f"scheme {scheme!r}" if separator and scheme.isalnum() else "a text without a scheme"
        also = "; proxies that require TLS themselves are not supported" * (scheme.lower() == "https")
        raise bad(found, f"use one of the schemes {', '.join(_SCHEMES)}{also}")
    special = "write special characters of user name and password as %XX, for example %2F for '/'"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise bad("another text", f"the port must be a number from 1 to 65535; {special}") from None
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise bad("something after the port", f"remove it; {special}")
    if not text.isprintable() or " " in text or not parts.hostname:
        raise bad("no host name, or one that is not valid", special)
    if not port:
        raise bad("no port", "write it, for example 1080 for SOCKS or 3128 for HTTP")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(username) != bool(password):
        raise bad("only one of user name and password", "give both, or neither")
    if scheme.lower() == "http":
        if ":" in username:
            raise bad("a user name with ':'", "HTTP allows none in user names")
    elif max(len(username.encode()), len(password.encode())) > _LONGEST_SOCKS_CREDENTIAL_BYTES:
        limit = f"{_LONGEST_SOCKS_CREDENTIAL_BYTES} bytes of UTF-8"
        raise bad("a longer user name or password", f"SOCKS allows {limit} each")
    return ProxyUrl(scheme.lower(), parts.hostname, port, username, password)
