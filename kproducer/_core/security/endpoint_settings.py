"""From settings to the URL of a token endpoint, and to what connections to it trust.

Errors show neither the URL, which may have a password or a key, nor any secret.
"""

from __future__ import annotations

import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.clock import SystemClock
from kproducer.errors import ConfigError

URL = "sasl_oauthbearer_token_endpoint_url"
CLIENT_ID = "sasl_oauthbearer_client_credentials_client_id"
SECRET = "sasl_oauthbearer_client_credentials_client_secret"
SCOPE = "sasl_oauthbearer_scope"
#: The options of ``OAuthBearerLoginModule`` that are settings as well.
SETTING_OF_OPTION = {"clientId": CLIENT_ID, "clientSecret": SECRET, "scope": SCOPE}


def checked_url(url: str, source: str, advice: str = "remove what is before '@'") -> tuple[str, str]:
    """The scheme, and the path of a file or the host.

    Args:
        url: of a token endpoint.
        source: the setting, or what else names it.
        advice: what to do if it has a user name or a password.

    Raises:
        ConfigError: it is not a URL of http, https or a file.
    """
    right = "https://host/path, http://host/path or file:///path"
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname
        _ = parts.port  # checks the port: may raise ValueError
    except ValueError:
        raise ConfigError(f"{source}: expected {right}, got a URL that is not valid") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"{source}: expected {right}, got one with '@' (not shown because it may contain a password);"
            f" {advice}"
        )
    if parts.scheme == "file" and host in (None, "localhost") and parts.path:
        return "file", urllib.request.url2pathname(parts.path)
    if parts.scheme in ("http", "https") and host and all("!" <= each <= "~" for each in url):
        return parts.scheme, host
    raise ConfigError(f"{source}: expected {right}, got another URL (not shown because it may contain a key)")


def tls_of_endpoint(
    config: ProducerConfig, options: Mapping[str, str], scheme: str
) -> Callable[[], ssl.SSLContext] | None:
    """What connections to the token endpoint trust and present. The settings for brokers do not apply.

    Args:
        config: with ``https_ca_location`` or ``https_ca_pem``.
        options: of ``OAuthBearerLoginModule`` in ``sasl_jaas_config``: those that begin with ``ssl.``.
        scheme: of the endpoint's URL; ``None`` is returned if it is not https.

    Raises:
        ConfigError: settings contradict each other, or a file cannot be used.
    """
    if scheme != "https":
        return None
    from kproducer._core.security.tls_settings import TlsSettings

    own = {name: value for name, value in options.items() if name.startswith("ssl.")}
    location = "" if config.https_ca_location == "probe" else config.https_ca_location
    given = [
        name
        for name, value in (("https_ca_location", location), ("https_ca_pem", config.https_ca_pem))
        if value
    ]
    if len(given) + bool(own) > 1:
        other = given[1] if len(given) == 2 else f"option {next(iter(own))!r} of sasl_jaas_config"
        raise ConfigError(f"{other}: contradicts {given[0]}; set only one of them")
    settings = {"bootstrap.servers": "unused:1", "security.protocol": "SSL", **own}
    if location:
        settings["ssl.cafile"] = location
    if config.https_ca_pem:
        settings["ssl.truststore.certificates"] = config.https_ca_pem
    try:
        return TlsSettings(ProducerConfig.from_dotted(settings), SystemClock()).context
    except ConfigError as error:
        where = given[0] if given else "sasl_jaas_config"
        raise ConfigError(f"{where}: for the token endpoint: {error}") from error.__cause__
