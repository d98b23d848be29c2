"""Tokens for the identity that a platform gives to a machine or a workload: no secret is a setting.

``sasl_oauthbearer_metadata_authentication_type`` selects one. Names and parameters are librdkafka's and
confluent-kafka's; the environment variables are those that Azure's and AWS's packages read.
Source: librdkafka's CONFIGURATION.md (2.15); "Workload identity federation" of Microsoft Entra.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.security import key_stores
from kproducer._core.security.assertions import AssertionFile
from kproducer._core.security.endpoint_settings import (
    CLIENT_ID,
    SCOPE,
    SETTING_OF_OPTION,
    URL,
    checked_url,
    tls_of_endpoint,
)
from kproducer._core.security.token_endpoint import (
    ClientAssertionGrant,
    EndpointNames,
    TokenEndpoint,
    TokenRequest,
)
from kproducer.errors import ConfigError, printable

TYPE = "sasl_oauthbearer_metadata_authentication_type"
PARAMETERS = "sasl_oauthbearer_config"
_IMDS_URL = "http://169.254.169.254/metadata/identity/oauth2/token"
_AUTHORITY = "https://login.microsoftonline.com"
_FILE = "sasl_oauthbearer_assertion_file"
#: Settings that have an effect with each type, beside those for any token.
_USED = {
    "azure_imds": (URL, PARAMETERS, "https_"),
    "azure_workload_identity": (URL, CLIENT_ID, SCOPE, _FILE, "https_"),
    "aws_iam": (PARAMETERS,),
}
_PAIR = re.compile(r"(?:\\.|[^,\\])+", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "0": "\0"}


def identity_provider(
    config: ProducerConfig, options: Mapping[str, str], given: list[str]
) -> Callable[[], Any]:
    """What returns tokens for the identity of this machine or workload.

    Args:
        config: with another type than ``none``.
        options: of ``OAuthBearerLoginModule`` in ``sasl_jaas_config``.
        given: the settings for tokens that were set.

    Raises:
        ConfigError: settings or environment variables are missing, or have no effect.
    """
    kind = config.sasl_oauthbearer_metadata_authentication_type
    used = ("sasl_oauthbearer_method", TYPE, *_USED[kind])
    unused = [name for name in given if not name.startswith(used)]
    for option, name in SETTING_OF_OPTION.items():
        if option in options and name not in used:
            unused.append(f"option {option!r} of sasl_jaas_config")
    if "https_" not in used:
        unused += [f"option {name!r} of sasl_jaas_config" for name in options if name.startswith("ssl.")]
    if unused:
        raise ConfigError(f"{unused[0]}: has no effect with {TYPE}={kind}; remove one of them")
    if kind == "azure_imds":
        return _azure_imds(config, options)
    if kind == "azure_workload_identity":
        return _azure_workload_identity(config, options)
    # Imported here, because most producers do not need it.
    from kproducer._core.security.aws_web_identity import aws_web_identity

    return aws_web_identity(pairs_of(PARAMETERS, config.sasl_oauthbearer_config), config)


def pairs_of(setting: str, text: str) -> dict[str, str]:
    """Reads ``name=value,name=value``, in which ``\\,`` is a comma of a value, as librdkafka does.

    Raises:
        ConfigError: a part has no ``=``, or a name is there twice. Shows no value.
    """
    pairs: dict[str, str] = {}
    for part in filter(None, map(str.strip, _PAIR.findall(text))):
        plain = re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), part, flags=re.DOTALL)
        name, equals, value = plain.partition("=")
        if not equals or not name:
            raise ConfigError(f"{setting}: expected name=value,name=value, got a part without '='")
        if name in pairs:
            raise ConfigError(f"{setting}: {printable(name)!r} is there twice")
        pairs[name] = value
    return pairs


def _azure_imds(config: ProducerConfig, options: Mapping[str, str]) -> TokenEndpoint:
    parameters = pairs_of(PARAMETERS, config.sasl_oauthbearer_config)
    query = parameters.pop("query", "")
    if parameters:
        raise ConfigError(
            f"{PARAMETERS}: azure_imds has the parameter 'query', got {printable(next(iter(parameters)))!r};"
            " put '\\' before commas of the query"
        )
    url, source = config.sasl_oauthbearer_token_endpoint_url.strip(), URL
    if not url and not query:
        raise ConfigError(
            f"{PARAMETERS} is missing: {TYPE}=azure_imds needs the URL's query, such as"
            " query=api-version=2018-02-01&resource=https://NAMESPACE.servicebus.windows.net"
        )
    if not url:
        url, source = _IMDS_URL, f"{TYPE}=azure_imds"
    scheme, _ = checked_url(url, source)
    if not all("!" <= each <= "~" for each in query):
        raise ConfigError(
            f"{PARAMETERS}: query: expected printable ASCII without spaces; write a space as %20"
        )
    if query:
        url = url.partition("#")[0]
        url += ("&" if "?" in url else "?") + query
    if scheme == "file":
        raise ConfigError(
            f"{URL}: expected the URL of a metadata service with {TYPE}=azure_imds, got file://"
        )
    return TokenEndpoint(
        url,
        TokenRequest,
        tls_of_endpoint(config, options, scheme),
        config.sasl_login_connect_timeout_ms,
        config.sasl_login_read_timeout_ms,
        EndpointNames(source),
        is_metadata_service=True,
    )


def _azure_workload_identity(config: ProducerConfig, options: Mapping[str, str]) -> TokenEndpoint:
    """The client authenticates with a token of its platform, such as that of a service account."""
    client_id = _one_of(
        CLIENT_ID,
        config.sasl_oauthbearer_client_credentials_client_id or options.get("clientId", ""),
        "AZURE_CLIENT_ID",
    )
    scope = (config.sasl_oauthbearer_scope or options.get("scope", "")).strip()
    if not scope:
        raise ConfigError(
            f"{SCOPE} is missing: {TYPE}=azure_workload_identity needs it, such as"
            " https://NAMESPACE.servicebus.windows.net/.default"
        )
    file_source = _FILE if config.sasl_oauthbearer_assertion_file else "AZURE_FEDERATED_TOKEN_FILE"
    path = _one_of(_FILE, config.sasl_oauthbearer_assertion_file, file_source)
    key_stores.read_file(file_source, path)
    url, source = config.sasl_oauthbearer_token_endpoint_url.strip(), URL
    if not url:
        tenant = _one_of(URL, "", "AZURE_TENANT_ID")
        authority = os.environ.get("AZURE_AUTHORITY_HOST", "").strip().rstrip("/") or _AUTHORITY
        if "://" not in authority:
            authority = f"https://{authority}"
        url, source = f"{authority}/{tenant}/oauth2/v2.0/token", "AZURE_AUTHORITY_HOST, AZURE_TENANT_ID"
    scheme, _ = checked_url(url, source)
    if scheme == "file":
        raise ConfigError(
            f"{source}: expected http or https with {TYPE}=azure_workload_identity, got file://"
        )
    return TokenEndpoint(
        url,
        ClientAssertionGrant(client_id, AssertionFile(path, file_source), scope),
        tls_of_endpoint(config, options, scheme),
        config.sasl_login_connect_timeout_ms,
        config.sasl_login_read_timeout_ms,
        EndpointNames(source),
    )


def _one_of(setting: str, value: str, variable: str) -> str:
    """The value of a setting, or else that of an environment variable. Raises ConfigError: neither is set."""
    found = value.strip() or os.environ.get(variable, "").strip()
    if not found:
        raise ConfigError(
            f"the environment variable {variable} is missing: {TYPE}=azure_workload_identity needs it, or"
            f" {setting}"
        )
    return found
