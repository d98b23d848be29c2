"""From settings to the SASL mechanism of a producer.

Settings that contradict each other are a ConfigError here, before any connection is opened. No error shows
the value of a secret setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kproducer._core.config.producer_config import SETTINGS, ProducerConfig
from kproducer._core.security.jaas import LoginModule, parse_jaas_config
from kproducer._core.security.sasl_mechanisms import PlainMechanism, SaslMechanism, shown_text
from kproducer._core.security.scram import SCRAM_MECHANISMS, ScramMechanism
from kproducer.errors import ConfigError, printable

_LOGIN_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": SCRAM_MECHANISMS,
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
    "com.sun.security.auth.module.Krb5LoginModule": ("GSSAPI",),
    "software.amazon.msk.auth.iam.IAMLoginModule": ("AWS_MSK_IAM",),
}
#: The class that Java clients need for AWS_MSK_IAM: accepted, and without effect.
_MSK_IAM_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"


def sasl_mechanism_of(config: ProducerConfig, wakeup: Callable[[], object] = lambda: None) -> SaslMechanism:
    """The mechanism with its credentials, for settings with ``uses_sasl``.

    Args:
        wakeup: see ``SaslMechanism``; not needed to check settings.

    Raises:
        ConfigError: settings are missing or contradict each other; names them and the fix.
    """
    mechanism = config.sasl_mechanism
    if mechanism == "none":
        raise ConfigError(
            f"sasl_mechanism is missing: security_protocol={config.security_protocol} needs one of"
            f" {', '.join(_MECHANISMS)}"
        )
    options = _jaas_options(config) if config.sasl_jaas_config else None
    own_settings, build = _MECHANISMS[mechanism]
    for name in SETTINGS:
        if name.startswith(_CREDENTIALS) and not name.startswith(own_settings) and config.is_set(name):
            raise ConfigError(f"{name} cannot be used with sasl_mechanism={mechanism}; remove one of them")
    return build(config, options, wakeup)


def _jaas_options(config: ProducerConfig) -> Mapping[str, str]:
    module: LoginModule = parse_jaas_config("sasl_jaas_config", config.sasl_jaas_config)
    mechanisms = _LOGIN_MODULES.get(module.class_name)
    if mechanisms is None:
        known, found = ", ".join(_LOGIN_MODULES), printable(module.class_name)
        raise ConfigError(f"sasl_jaas_config: expected one of the login modules {known}, got {found!r}")
    if config.sasl_mechanism not in mechanisms:
        raise ConfigError(
            f"sasl_jaas_config: {module.simple_name} is for sasl_mechanism={' or '.join(mechanisms)}, got"
            f" {config.sasl_mechanism}"
        )
    return module.options


def _with_password(
    config: ProducerConfig, options: Mapping[str, str] | None, wakeup: Callable[[], object]
) -> SaslMechanism:
    given = {name: getattr(config, name) for name in ("sasl_plain_username", "sasl_plain_password")}
    instead = " (or sasl_jaas_config)"
    if options is not None:
        for name in filter(given.get, given):
            raise ConfigError(
                f"{name} cannot be used with sasl_jaas_config, which has the credentials; remove one of them"
            )
        names = ("username", "password")
        given = {f"sasl_jaas_config: option {name!r}": options.get(name, "") for name in names}
        instead = ""
    mechanism = config.sasl_mechanism
    for name, value in given.items():
        if not value:
            raise ConfigError(f"{name} is missing: sasl_mechanism={mechanism} needs it{instead}")
        if "\0" in value:
            raise ConfigError(f"{name}: expected a text without NUL characters (not shown)")
    username, password = given.values()
    if mechanism == "PLAIN":
        return PlainMechanism(username, password)
    is_token = (options or {}).get("tokenauth", "").lower() == "true"
    return ScramMechanism(mechanism, username, password, is_token)


# Each of these imports the module of its mechanism, which most producers do not need.
def _oauth_bearer(
    config: ProducerConfig, options: Mapping[str, str] | None, wakeup: Callable[[], object]
) -> SaslMechanism:
    from kproducer._core.security.oauth_settings import oauth_bearer_mechanism

    return oauth_bearer_mechanism(config, options or {}, wakeup)


def _gssapi(
    config: ProducerConfig, options: Mapping[str, str] | None, wakeup: Callable[[], object]
) -> SaslMechanism:
    from kproducer._core.security.kerberos_settings import gssapi_mechanism

    return gssapi_mechanism(config, options, wakeup)


def _aws_msk_iam(
    config: ProducerConfig, options: Mapping[str, str] | None, wakeup: Callable[[], object]
) -> SaslMechanism:
    if not config.uses_tls:
        raise ConfigError(
            "security_protocol: expected SASL_SSL with sasl_mechanism=AWS_MSK_IAM, got"
            f" {config.security_protocol}; without encryption, others could use the token"
        )
    if config.sasl_client_callback_handler_class not in ("", _MSK_IAM_HANDLER):
        raise ConfigError(
            f"sasl_client_callback_handler_class: expected {_MSK_IAM_HANDLER} or nothing, got"
            f" {shown_text(config.sasl_client_callback_handler_class)}"
        )
    from kproducer._core.security.aws_msk_iam import aws_msk_iam_mechanism

    return aws_msk_iam_mechanism(config.sasl_aws_region, config.bootstrap_servers, options or {}, wakeup)


_Builder = Callable[[ProducerConfig, Mapping[str, str] | None, Callable[[], object]], SaslMechanism]
#: Each mechanism's own settings (prefixes of names), which other mechanisms refuse, and its constructor.
_MECHANISMS: dict[str, tuple[tuple[str, ...], _Builder]] = {
    **dict.fromkeys(("PLAIN", *SCRAM_MECHANISMS), (("sasl_jaas_", "sasl_plain_"), _with_password)),
    "OAUTHBEARER": (
        ("sasl_jaas_", "sasl_oauth", "sasl_login_callback_handler_class", "https_"),
        _oauth_bearer,
    ),
    "GSSAPI": (("sasl_jaas_", "sasl_kerberos_"), _gssapi),
    "AWS_MSK_IAM": (("sasl_jaas_", "sasl_aws_", "sasl_client_callback_handler_class"), _aws_msk_iam),
}
_CREDENTIALS = tuple(prefix for own_settings, _ in _MECHANISMS.values() for prefix in own_settings)
