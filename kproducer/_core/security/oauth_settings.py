"""From settings to what returns OAuth tokens: an application's function, a token endpoint, or a file.

Names of settings and options, and which of them select what, are those of Java's clients; librdkafka's names
are aliases. Source: Kafka classes ``OAuthBearerLoginCallbackHandler``, ``DefaultJwtRetriever`` and
``ClientCredentialsRequestFormatterFactory``; KIP-768, KIP-1139, KIP-1258.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kproducer._core.config.producer_config import SETTINGS, ProducerConfig
from kproducer._core.runtime.extra_packages import need_package
from kproducer._core.security import key_stores
from kproducer._core.security.assertions import KEY_FILE, KEY_TEXT, AssertionFile, SignedAssertion
from kproducer._core.security.endpoint_settings import (
    CLIENT_ID,
    SCOPE,
    SECRET,
    SETTING_OF_OPTION,
    URL,
    checked_url,
    tls_of_endpoint,
)
from kproducer._core.security.oauth_tokens import RefreshSchedule, TokenSource
from kproducer._core.security.platform_identity import PARAMETERS, TYPE, identity_provider, pairs_of
from kproducer._core.security.sasl_mechanisms import OAuthBearerMechanism, extension_mistake
from kproducer._core.security.token_endpoint import (
    Assertion,
    ClientAssertionGrant,
    ClientSecretGrant,
    JwtBearerGrant,
    TokenEndpoint,
    TokenFile,
    TokenRequest,
)
from kproducer.errors import ConfigError

_RETRIEVER = "sasl_oauthbearer_jwt_retriever_class"
_EXTENSIONS = "sasl_oauthbearer_extensions"
_ASSERTION_FILE = "sasl_oauthbearer_assertion_file"
#: Settings that do not contradict ``sasl_oauth_token_provider``: they have no effect, or apply to its tokens
#: as well.
_FOR_ANY_TOKEN = (
    _EXTENSIONS,
    "sasl_oauthbearer_sub_claim_name",
    "sasl_oauthbearer_scope_claim_name",
    "sasl_oauthbearer_jwt_validator_class",
)
_EXTENSION_OPTION = "extension_"


def _settings_given(config: ProducerConfig) -> list[str]:
    """The settings that are only for built-in ways to get a token, and differ from their defaults."""
    names = (name for name in SETTINGS if name.startswith(("sasl_oauthbearer_", "https_")))
    return [name for name in names if config.is_set(name)]


def oauth_bearer_mechanism(
    config: ProducerConfig, options: Mapping[str, str], wakeup: Callable[[], object]
) -> OAuthBearerMechanism:
    """OAUTHBEARER with its tokens.

    Args:
        options: of ``OAuthBearerLoginModule`` in ``sasl_jaas_config``.
        wakeup: see ``SaslMechanism``.

    Raises:
        ConfigError: settings are missing or contradict each other; names them and the fix.
    """
    extensions = {**_extensions_of_setting(config), **_extensions_of_options(options)}
    schedule = RefreshSchedule(
        factor=config.sasl_login_refresh_window_factor,
        jitter=config.sasl_login_refresh_window_jitter,
        min_period_s=config.sasl_login_refresh_min_period_seconds,
        buffer_s=config.sasl_login_refresh_buffer_seconds,
        retry_ms=config.sasl_login_retry_backoff_ms,
        retry_max_ms=config.sasl_login_retry_backoff_max_ms,
    )
    provider: Any = token_provider(config, options)
    where = "sasl_oauth_token_provider"
    if config.sasl_oauth_token_provider is None:
        where = provider.where
    tokens = TokenSource(provider, wakeup, schedule=schedule, unanswered=f"{where} has not answered")
    return OAuthBearerMechanism(tokens, extensions)


def token_provider(config: ProducerConfig, options: Mapping[str, str]) -> Callable[[], Any]:
    """What ``TokenSource`` calls for a token. Arguments and errors: see ``oauth_bearer_mechanism``."""
    given = [name for name in _settings_given(config) if name not in _FOR_ANY_TOKEN]
    if config.sasl_oauth_token_provider is not None:
        others = [*given, *(f"option {name!r} of sasl_jaas_config" for name in options if _is_for_oidc(name))]
        if others:
            raise ConfigError(
                f"{others[0]} cannot be used with sasl_oauth_token_provider; remove one of them"
            )
        provider: Callable[[], Any] = config.sasl_oauth_token_provider
        return provider
    if config.sasl_oauthbearer_metadata_authentication_type != "none":
        return identity_provider(config, options, given)
    if PARAMETERS in given:
        raise ConfigError(f"{PARAMETERS}: has no effect without {TYPE}; set it, or remove {PARAMETERS}")
    url = config.sasl_oauthbearer_token_endpoint_url.strip()
    if not url:
        raise ConfigError(
            f"{URL} is missing: sasl_mechanism=OAUTHBEARER needs the URL of a token endpoint or the file:///"
            f"URL of a token, or {TYPE}, or else sasl_oauth_token_provider, a callable that returns (token,"
            " expiry in seconds since 1970)"
        )
    retriever = config.sasl_oauthbearer_jwt_retriever_class
    scheme, location = checked_url(url, URL, f"set {CLIENT_ID} and {SECRET}")
    if scheme == "file":
        unused = [name for name in given if name not in (URL, _RETRIEVER, "sasl_oauthbearer_method")]
        if unused or retriever not in ("DefaultJwtRetriever", "FileJwtRetriever"):
            name = unused[0] if unused else f"{_RETRIEVER}={retriever}"
            raise ConfigError(f"{name}: has no effect because {URL} is a file; remove one of them")
        key_stores.read_file(URL, location)
        return TokenFile(location)
    if retriever == "FileJwtRetriever":
        raise ConfigError(f"{URL}: expected a file:/// URL with {_RETRIEVER}={retriever}, got {scheme}://")
    return TokenEndpoint(
        url,
        _grant(config, options),
        tls_of_endpoint(config, options, scheme),
        config.sasl_login_connect_timeout_ms,
        config.sasl_login_read_timeout_ms,
    )


def _is_for_oidc(option: str) -> bool:
    return option in SETTING_OF_OPTION or option.startswith("ssl.")


def _grant(config: ProducerConfig, options: Mapping[str, str]) -> Callable[[], TokenRequest]:
    client_id, secret, scope = (
        (getattr(config, setting) or options.get(option, "")).strip()
        for option, setting in SETTING_OF_OPTION.items()
    )
    for value in (client_id, secret, scope):
        if "\0" in value:
            raise ConfigError(f"{CLIENT_ID}, {SECRET}, {SCOPE}: expected texts without NUL characters")
    assertion = _assertion(config)
    if config.sasl_oauthbearer_jwt_retriever_class == "JwtBearerJwtRetriever":
        if assertion is None:
            raise ConfigError(
                f"{KEY_FILE} is missing: {_RETRIEVER}=JwtBearerJwtRetriever needs it, or {_ASSERTION_FILE}"
            )
        if client_id or secret:
            raise ConfigError(
                f"{CLIENT_ID if client_id else SECRET}: has no effect with"
                f" {_RETRIEVER}=JwtBearerJwtRetriever, which sends only the assertion; remove one of them"
            )
        return JwtBearerGrant(assertion, scope)
    if assertion is not None:
        return ClientAssertionGrant(client_id, assertion, scope)
    for value, name, option in ((client_id, CLIENT_ID, "clientId"), (secret, SECRET, "clientSecret")):
        if not value:
            raise ConfigError(
                f"{name} is missing: a token endpoint needs it (or option {option!r} of"
                f" OAuthBearerLoginModule in sasl_jaas_config), or {KEY_FILE} or {_ASSERTION_FILE}"
            )
    return ClientSecretGrant(client_id, secret, scope, config.sasl_oauthbearer_header_urlencode)


def _assertion(config: ProducerConfig) -> Assertion | None:
    given = [name for name in _settings_given(config) if name.startswith("sasl_oauthbearer_assertion_")]
    if not given:
        return None
    if _ASSERTION_FILE in given:
        others = [name for name in given if name != _ASSERTION_FILE]
        if others:
            raise ConfigError(
                f"{others[0]}: has no effect with {_ASSERTION_FILE}, which has a finished assertion; remove"
                " one of them"
            )
        key_stores.read_file(_ASSERTION_FILE, config.sasl_oauthbearer_assertion_file)
        return AssertionFile(config.sasl_oauthbearer_assertion_file)
    keys = [name for name in (KEY_FILE, KEY_TEXT) if name in given]
    if not keys:
        raise ConfigError(f"{KEY_FILE} is missing: {given[0]} needs a private key that signs the assertion")
    if len(keys) == 2:
        raise ConfigError(f"{KEY_TEXT}: contradicts {KEY_FILE}; set only one of them")
    need_package(f"{keys[0]}: signing", "joserfc", "joserfc", "oauth")
    signed = SignedAssertion(config)
    signed()  # signs once, so that an unusable key or template is an error now
    return signed


def _extensions_of_setting(config: ProducerConfig) -> dict[str, str]:
    extensions: dict[str, str] = {}
    for name, value in pairs_of(_EXTENSIONS, config.sasl_oauthbearer_extensions).items():
        _add_extension(extensions, name, value, _EXTENSIONS)
    return extensions


def _extensions_of_options(options: Mapping[str, str]) -> dict[str, str]:
    extensions: dict[str, str] = {}
    for option, value in options.items():
        if option.startswith(_EXTENSION_OPTION):
            _add_extension(extensions, option.removeprefix(_EXTENSION_OPTION), value, "sasl_jaas_config")
        elif not _is_for_oidc(option):
            raise ConfigError(
                f"sasl_jaas_config: option {option!r} of OAuthBearerLoginModule is not supported; these are:"
                f" {', '.join(SETTING_OF_OPTION)}, {_EXTENSION_OPTION}NAME, ssl.*"
            )
    return extensions


def _add_extension(extensions: dict[str, str], name: str, value: str, where: str) -> None:
    if mistake := extension_mistake(name, value):
        raise ConfigError(f"{where}: {mistake}")
    if name in extensions:
        raise ConfigError(f"{where}: the SASL extension {name!r} is there twice")
    extensions[name] = value
