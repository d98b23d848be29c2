"""From settings to the SASL mechanism of a producer.

Settings that contradict each other are a ConfigError here, before any connection is opened. No error shows
the value of a secret setting.
"""

from __future__ import annotations

from collections.abc import Mapping

from kproducer.config.producer_config import SETTINGS, ProducerConfig
from kproducer.errors import ConfigError, printable
from kproducer.security.jaas import LoginModule, parse_jaas_config
from kproducer.security.sasl_mechanisms import (
    OAuthBearerMechanism,
    PlainMechanism,
    SaslMechanism,
    shown_text,
)
from kproducer.security.scram import SCRAM_MECHANISMS, ScramMechanism

_LOGIN_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": SCRAM_MECHANISMS,
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
    "com.sun.security.auth.module.Krb5LoginModule": ("GSSAPI",),
    "software.amazon.msk.auth.iam.IAMLoginModule": ("AWS_MSK_IAM",),
}
#: Java clients need this class for AWS_MSK_IAM.
_MSK_IAM_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
#: The settings of which each mechanism needs some and refuses the others.
_FOR_OAUTH_BEARER = ("sasl_jaas_", "sasl_oauth", "sasl_login_callback_handler_class", "https_")
_FOR_GSSAPI = ("sasl_jaas_", "sasl_kerberos_")
_CREDENTIALS = (
    *_FOR_OAUTH_BEARER,
    *_FOR_GSSAPI,
    "sasl_plain_",
    "sasl_aws_",
    "sasl_client_callback_handler_class",
)


def sasl_mechanism_of(config: ProducerConfig) -> SaslMechanism:
    """The mechanism with its credentials, for settings with ``uses_sasl``.

    Raises:
        ConfigError: settings are missing or contradict each other; names them and the fix.
    """
    given = [name for name in SETTINGS if name.startswith(_CREDENTIALS) and config.is_set(name)]
    mechanism = config.sasl_mechanism
    if mechanism == "none":
        raise ConfigError(
            f"sasl_mechanism is missing: security_protocol={config.security_protocol} needs one of"
            f" PLAIN, {', '.join(SCRAM_MECHANISMS)}, OAUTHBEARER, GSSAPI, AWS_MSK_IAM"
        )
    options = _jaas_options(config) if config.sasl_jaas_config else None
    if mechanism == "OAUTHBEARER":
        _refuse_others([name for name in given if not name.startswith(_FOR_OAUTH_BEARER)], (), mechanism)
        # Imported here, because other mechanisms need no HTTP.
        from kproducer.security.oauth_settings import oauth_bearer_mechanism

        return oauth_bearer_mechanism(config, options or {})
    if mechanism == "GSSAPI":
        _refuse_others([name for name in given if not name.startswith(_FOR_GSSAPI)], (), mechanism)
        # Imported here, because other mechanisms do not need it.
        from kproducer.security.kerberos_settings import gssapi_mechanism

        return gssapi_mechanism(config, options)
    if mechanism == "AWS_MSK_IAM":
        wanted = ("sasl_jaas_config", "sasl_aws_region", "sasl_client_callback_handler_class")
        _refuse_others(given, wanted, mechanism)
        return _aws_msk_iam(config, options or {})
    if options is None:
        _refuse_others(given, ("sasl_plain_username", "sasl_plain_password"), mechanism)
        username, password = config.sasl_plain_username, config.sasl_plain_password
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
            if "sasl_jaas_config" in given and wanted == ("sasl_jaas_config",):
                own = "sasl_jaas_config, which has the credentials"
            raise ConfigError(f"{name} cannot be used with {own}; remove one of them")


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


def _aws_msk_iam(config: ProducerConfig, options: Mapping[str, str]) -> OAuthBearerMechanism:
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
    from kproducer.security.aws_msk_iam import aws_msk_iam_mechanism

    return aws_msk_iam_mechanism(config.sasl_aws_region, config.bootstrap_servers, options)
