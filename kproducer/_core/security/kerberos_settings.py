"""From settings, and the options of Java's ``Krb5LoginModule``, to the mechanism GSSAPI.

Source: Kafka ``SaslConfigs``, Java class ``Krb5LoginModule``, librdkafka's ``sasl.kerberos.`` settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kproducer._core.config.producer_config import SETTINGS, ProducerConfig
from kproducer._core.security import key_stores
from kproducer._core.security.sasl_mechanisms import SaslMechanism
from kproducer.errors import ConfigError, printable

_FLAGS = ("useKeyTab", "useTicketCache")
_TEXTS = ("keyTab", "ticketCache", "principal", "serviceName")
#: Options about passwords, keys and messages that only Java uses.
_IGNORED = (
    *("doNotPrompt", "storeKey", "storePass", "clearPass", "useFirstPass", "tryFirstPass"),
    *("renewTGT", "refreshKrb5Config", "isInitiator", "debug"),
)
#: The first byte of every keytab.
_KEYTAB_MAGIC = b"\x05"


def gssapi_mechanism(
    config: ProducerConfig, options: Mapping[str, str] | None, wakeup: Callable[[], object]
) -> SaslMechanism:
    """The mechanism for ``sasl_mechanism="GSSAPI"``. Reads the keytab; no network.

    Args:
        options: of ``Krb5LoginModule`` in ``sasl_jaas_config``; ``None``: there is none.
        wakeup: see ``SaslMechanism``.

    Raises:
        ConfigError: settings contradict each other, the keytab cannot be read, or the package is missing.
    """
    service_name = config.sasl_kerberos_service_name
    principal, keytab, ticket_cache = config.sasl_kerberos_principal, config.sasl_kerberos_keytab, ""
    keytab_name = "sasl_kerberos_keytab"
    if options is not None:
        for name in ("sasl_kerberos_principal", "sasl_kerberos_keytab"):
            if getattr(config, name):
                raise ConfigError(
                    f"{name} cannot be used with sasl_jaas_config, which has the credentials; remove one"
                )
        _check_options(options)
        principal, ticket_cache = options.get("principal", ""), options.get("ticketCache", "")
        keytab = options.get("keyTab", "") if _is_true(options, "useKeyTab") else ""
        keytab_name = "sasl_jaas_config: option 'keyTab'"
        service_name = _service_name(config, options)
    if not service_name:
        raise ConfigError(
            "sasl_kerberos_service_name is missing: the brokers' principals begin with it (kafka/host@REALM)"
        )
    if keytab:
        _check_keytab(keytab_name, keytab)
    try:
        from kproducer._core.security.kerberos import GssapiMechanism, KerberosLogin
    except (ImportError, OSError) as error:  # the package is missing, or the library that it needs
        raise ConfigError(
            f"sasl_mechanism=GSSAPI needs the package gssapi: pip install 'kproducer[gssapi]' ({error}); it"
            " is compiled with Kerberos' headers (Debian and Ubuntu: libkrb5-dev, Red Hat: krb5-devel)"
        ) from None
    login = KerberosLogin(service_name, config.sasl_kerberos_domain_name, principal, keytab, ticket_cache)
    return GssapiMechanism(login, wakeup)


def _check_options(options: Mapping[str, str]) -> None:
    where = "sasl_jaas_config: option"
    for name, value in options.items():
        if name in _FLAGS and value.lower() not in ("true", "false"):
            raise ConfigError(f"{where} {name!r}: expected true or false")
        if name not in (*_FLAGS, *_TEXTS, *_IGNORED):
            known = ", ".join((*_FLAGS, *_TEXTS))
            raise ConfigError(
                f"{where} {printable(name)!r} of Krb5LoginModule is not supported; supported are {known}"
            )
    for flag, name in (("useKeyTab", "keyTab"), ("useTicketCache", "ticketCache")):
        if name in options and not _is_true(options, flag):
            raise ConfigError(f"{where} {name!r} needs {flag}=true")
    if _is_true(options, "useKeyTab") and "keyTab" not in options:
        raise ConfigError(f"{where} 'keyTab' is missing: useKeyTab=true needs it")
    if not any(_is_true(options, flag) for flag in _FLAGS):
        raise ConfigError(
            "sasl_jaas_config: Krb5LoginModule would ask for a password; add useKeyTab=true with keyTab and"
            " principal, or useTicketCache=true"
        )


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _service_name(config: ProducerConfig, options: Mapping[str, str]) -> str:
    given, in_options = config.sasl_kerberos_service_name, options.get("serviceName", "")
    if in_options and given not in (in_options, SETTINGS["sasl_kerberos_service_name"].default):
        raise ConfigError(
            f"sasl_kerberos_service_name is {given!r}, but option 'serviceName' in sasl_jaas_config is"
            f" {printable(in_options)!r}; remove one of them"
        )
    return in_options or given


def _check_keytab(name: str, path: str) -> None:
    if not key_stores.read_file(name, path).startswith(_KEYTAB_MAGIC):
        raise ConfigError(f"{name}: {path!r} is not a keytab")
