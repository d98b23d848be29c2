"""The names of the settings for TLS, SASL and proxies in Java's producer, librdkafka and kafka-python.

``codegen.from_tables`` writes docs/reference/security-names.md with it. The names come from the tables with
which ``from_config`` and the adapters translate them. Knows nothing of message specs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from codegen.java_settings import JAVA_DEFAULTS
from kproducer._core.config.producer_config import DOTTED_NAMES, SETTINGS
from kproducer.compat.confluent_kafka import settings as librdkafka
from kproducer.compat.kafka import settings as kafka_python
from kproducer.errors.suggestions import instead_of, own_name

#: How the names of these settings begin.
_PREFIXES: Final = ("security_", "ssl_", "sasl_", "https_", "proxy_")

#: Options of the login module in ``sasl.jaas.config``, by the setting that means the same.
_LOGIN_OPTIONS: Final = {
    "https_ca_location": "ssl.truststore.location",
    "https_ca_pem": "ssl.truststore.certificates",
    "sasl_kerberos_keytab": "keyTab",
    "sasl_kerberos_principal": "principal",
    "sasl_kerberos_service_name": "serviceName",
    "sasl_oauthbearer_client_credentials_client_id": "clientId",
    "sasl_oauthbearer_client_credentials_client_secret": "clientSecret",
    "sasl_oauthbearer_extensions": "extension_NAME",
    "sasl_oauthbearer_scope": "scope",
    "sasl_plain_password": "password",
    "sasl_plain_username": "username",
}

#: Names that the adapters convert together with the value.
_CONVERTED: Final = {"ssl_ciphers": "ssl_cipher_suites"}

#: By setting: what differs besides the name.
_NOTES: Final = {
    "sasl_oauth_token_provider": "a function that returns the token and its expiry; in Java a class in "
    "`sasl.login.callback.handler.class`",
    "ssl_cipher_suites": "librdkafka and kafka-python separate the names with colons",
    "ssl_context": "for what has no setting here",
    "ssl_endpoint_identification_algorithm": "librdkafka's `none` is the empty text here",
    "ssl_key_password": "`ssl_password` with `ssl_keyfile`",
}

_OUR_NAMES: Final = {dotted: name for name, dotted in DOTTED_NAMES.items()}
_OWN_SPELLING: Final = {name: name for name in SETTINGS}


class SecurityNames(NamedTuple):
    """One row of the page.

    Attributes:
        ours: our setting.
        login_option: what Java has in ``sasl.jaas.config`` for it; may be empty.
        java, librdkafka, kafka_python: names that mean the same in these clients.
    """

    ours: str
    login_option: str
    java: list[str]
    librdkafka: list[str]
    kafka_python: list[str]


def security_names() -> list[SecurityNames]:
    """The rows of all settings that another client has, in their order in ``ProducerConfig``."""
    clients = (_java(), _librdkafka(), _kafka_python())
    rows = []
    for ours in SETTINGS:
        if ours.startswith(_PREFIXES):
            names = ([name for name, own in client.items() if own == ours] for client in clients)
            rows.append(SecurityNames(ours, _LOGIN_OPTIONS.get(ours, ""), *names))
    return [row for row in rows if any(row[1:])]


def _java() -> dict[str, str | None]:
    return {name: _OUR_NAMES.get(name) or _context(instead_of(name, _OWN_SPELLING)) for name in JAVA_DEFAULTS}


def _librdkafka() -> dict[str, str | None]:
    names = dict(librdkafka.RENAMED)
    names.update({alias: names[name] for alias, name in librdkafka.ALIASES.items() if name in names})
    others = sorted(librdkafka.CONVERTED | librdkafka.OF_THE_ADAPTER)
    refused = {name: _context(advice) for name, (advice, _) in librdkafka.REFUSED.items()}
    return {**names, **{name: _OUR_NAMES.get(name) or own_name(name) for name in others}, **refused}


def _kafka_python() -> dict[str, str | None]:
    return {
        name: name if name in SETTINGS else _CONVERTED.get(name) or own_name(name)
        for name in kafka_python.DEFAULT_CONFIG
    }


def _context(advice: str) -> str | None:
    return "ssl_context" if "ssl_context" in advice else None


def security_names_page() -> str:
    """The page of the documentation, without the line that says that it is generated."""
    lines = ["| kproducer | Java | librdkafka | kafka-python | notes |", "| --- | --- | --- | --- | --- |"]
    for row in security_names():
        java = _code(row.java)
        if row.login_option:
            java = ", ".join(filter(None, (java, f"`{row.login_option}` in `sasl.jaas.config`")))
        cells = (java, _code(row.librdkafka), _code(row.kafka_python), _NOTES.get(row.ours, ""))
        lines.append(f"| `{row.ours}` | {' | '.join(cells)} |")
    return _PAGE.format(rows="\n".join(lines))


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_PAGE = """\
# Names of security settings

The settings for TLS, SASL and proxies, and their names in other clients.
[Configuration](configuration.md#connections-and-tls) says what they mean, and
[Settings of Java's producer](java-settings.md#not-supported) what to do instead of those that are not here.

{rows}
"""
