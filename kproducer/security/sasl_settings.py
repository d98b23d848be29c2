"""From settings to the SASL mechanism of a producer.

Settings that contradict each other are a ConfigError here, before any connection is opened. No error shows
the value of a secret setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kproducer.errors import ConfigError
from kproducer.security.jaas import LoginModule, parse_jaas_config
from kproducer.security.oauth_tokens import TokenSource
from kproducer.security.sasl_mechanisms import OAuthBearerMechanism, PlainMechanism, extension_mistake
from kproducer.security.scram import SCRAM_MECHANISMS, ScramMechanism

SaslMechanism = PlainMechanism | ScramMechanism | OAuthBearerMechanism

_LOGIN_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": SCRAM_MECHANISMS,
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
}
_EXTENSION = "extension_"


class SaslSettings(Protocol):
    """The settings that are needed here; ``ProducerConfig`` has them."""

    @property
    def security_protocol(self) -> str: ...
    @property
    def sasl_mechanism(self) -> str: ...
    @property
    def sasl_plain_username(self) -> str: ...
    @property
    def sasl_plain_password(self) -> str: ...
    @property
    def sasl_jaas_config(self) -> str: ...
    @property
    def sasl_oauth_token_provider(self) -> Callable[[], Any] | None: ...


def sasl_mechanism_of(settings: SaslSettings) -> SaslMechanism | None:
    """The mechanism with its credentials; ``None`` without SASL.

    Raises:
        ConfigError: settings are missing or contradict each other; names them and the fix.
    """
    given = [
        name
        for name in (
            "sasl_plain_username",
            "sasl_plain_password",
            "sasl_jaas_config",
            "sasl_oauth_token_provider",
        )
        if getattr(settings, name)
    ]
    mechanism = settings.sasl_mechanism
    if not settings.security_protocol.startswith("SASL_"):
        if mechanism != "none" or given:
            name = "sasl_mechanism" if mechanism != "none" else given[0]
            raise ConfigError(
                f"security_protocol: expected SASL_SSL or SASL_PLAINTEXT with {name}, got"
                f" {settings.security_protocol}; set it, or remove {name}"
            )
        return None
    if mechanism == "none":
        raise ConfigError(
            f"sasl_mechanism is missing: security_protocol={settings.security_protocol} needs one of"
            f" PLAIN, {', '.join(SCRAM_MECHANISMS)}, OAUTHBEARER"
        )
    options = _jaas_options(settings) if settings.sasl_jaas_config else None
    if mechanism == "OAUTHBEARER":
        _refuse_others(given, ("sasl_oauth_token_provider", "sasl_jaas_config"), mechanism)
        return _oauth_bearer(settings.sasl_oauth_token_provider, options or {})
    if options is None:
        _refuse_others(given, ("sasl_plain_username", "sasl_plain_password"), mechanism)
        username, password = settings.sasl_plain_username, settings.sasl_plain_password
        names = ("sasl_plain_username", "sasl_plain_password")
        instead = " (or sasl_jaas_config)"
    else:
        _refuse_others(given, ("sasl_jaas_config",), mechanism)
        username, password = options.get("username", ""), options.get("password", "")
        names = ("sasl_jaas_config: option 'username'", "sasl_jaas_config: option 'password'")
        instead = ""
    for name, value in zip(names, (username, password), strict=True):
        if not value:
            raise ConfigError(f"{name} is missing: sasl_mechanism={mechanism} needs it{instead}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{name}: expected a text that UTF-8 can encode (not shown)") from None
        if "\0" in value:
            raise ConfigError(f"{name}: expected a text without NUL characters (not shown)")
    if mechanism == "PLAIN":
        return PlainMechanism(username, password)
    is_token = (options or {}).get("tokenauth", "").lower() == "true"
    return ScramMechanism(mechanism, username, password, is_token)


def _refuse_others(given: list[str], wanted: tuple[str, ...], mechanism: str) -> None:
    for name in given:
        if name not in wanted:
            own = f"sasl_mechanism={mechanism}"
            if "sasl_jaas_config" in given and "sasl_jaas_config" in wanted and mechanism != "OAUTHBEARER":
                own = "sasl_jaas_config, which has the credentials"
            raise ConfigError(f"{name} cannot be used with {own}; remove one of them")


def _jaas_options(settings: SaslSettings) -> Mapping[str, str]:
    module: LoginModule = parse_jaas_config("sasl_jaas_config", settings.sasl_jaas_config)
    mechanisms = _LOGIN_MODULES.get(module.class_name)
    if mechanisms is None:
        known = ", ".join(name.rpartition(".")[2] for name in _LOGIN_MODULES)
        raise ConfigError(
            f"sasl_jaas_config: expected one of the login modules {known}, got {module.simple_name!r}"
        )
    if settings.sasl_mechanism not in mechanisms:
        raise ConfigError(
            f"sasl_jaas_config: {module.simple_name} is for sasl_mechanism={' or '.join(mechanisms)}, got"
            f" {settings.sasl_mechanism}"
        )
    return module.options


def _oauth_bearer(provider: Callable[[], Any] | None, options: Mapping[str, str]) -> OAuthBearerMechanism:
    if provider is None:
        raise ConfigError(
            "sasl_oauth_token_provider is missing: sasl_mechanism=OAUTHBEARER needs a callable that returns"
            " (token, expiry in seconds since 1970); the options of a login module cannot replace it yet"
        )
    extensions: dict[str, str] = {}
    for option, value in options.items():
        if not option.startswith(_EXTENSION):
            raise ConfigError(
                f"sasl_jaas_config: option {option!r} of OAuthBearerLoginModule is not supported, only"
                f" {_EXTENSION}NAME; get the token in sasl_oauth_token_provider"
            )
        name = option.removeprefix(_EXTENSION)
        if mistake := extension_mistake(name, value):
            raise ConfigError(f"sasl_jaas_config: {mistake}")
        extensions[name] = value
    return OAuthBearerMechanism(TokenSource(provider), extensions)
