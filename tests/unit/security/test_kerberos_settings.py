"""GSSAPI: which settings belong together. Needs neither Kerberos nor the package gssapi."""

from __future__ import annotations

import sys
import types

import pytest

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.security.sasl_settings import sasl_mechanism_of
from kproducer.errors import ConfigError

JAAS = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.fixture
def logins(monkeypatch):
    """The arguments of every KerberosLogin that is created instead of a real one."""
    created: list[tuple[str, ...]] = []
    module = types.ModuleType("kproducer._core.security.kerberos")
    module.KerberosLogin = lambda *arguments: created.append(arguments)
    module.GssapiMechanism = lambda login, wakeup: login
    monkeypatch.setitem(sys.modules, "kproducer._core.security.kerberos", module)
    return created


@pytest.fixture
def keytab(tmp_path):
    path = tmp_path / "alice.keytab"
    path.write_bytes(b"\x05\x02and more")
    return str(path)


def use(**settings):
    chosen = {"bootstrap_servers": "b1:9092", "security_protocol": "SASL_PLAINTEXT", **settings}
    return sasl_mechanism_of(ProducerConfig(sasl_mechanism="GSSAPI", **chosen))


def test_where_the_ticket_comes_from(logins, keytab):
    use()
    use(sasl_kerberos_service_name="broker", sasl_kerberos_domain_name="kafka.example.com")
    use(sasl_kerberos_keytab=keytab, sasl_kerberos_principal="alice@A")
    use(sasl_jaas_config=f"{JAAS} useTicketCache=true renewTGT=true doNotPrompt=true;")
    use(sasl_jaas_config=f'{JAAS} useTicketCache=true ticketCache="/tmp/c" principal="bob@A";')
    use(sasl_jaas_config=f'{JAAS} useKeyTab=true storeKey=true keyTab="{keytab}" principal="alice@A";')
    use(sasl_jaas_config=f"kafkashaded.{JAAS} useTicketCache=true serviceName=bootstrap;")
    use(sasl_jaas_config=f"{JAAS} useTicketCache=true;", sasl_kerberos_service_name="other")
    assert logins == [
        ("kafka", "", "", "", ""),
        ("broker", "kafka.example.com", "", "", ""),
        ("kafka", "", "alice@A", keytab, ""),
        ("kafka", "", "", "", ""),
        ("kafka", "", "bob@A", "", "/tmp/c"),
        ("kafka", "", "alice@A", keytab, ""),
        ("bootstrap", "", "", "", ""),
        ("other", "", "", "", ""),
    ]


def test_the_names_of_librdkafka(logins, keytab):
    config = ProducerConfig.from_dotted(
        {
            "bootstrap.servers": "b1:9092",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka2",
            "sasl.kerberos.keytab": keytab,
            "sasl.kerberos.principal": "alice@A",
        }
    )
    sasl_mechanism_of(config)
    assert logins == [("kafka2", "", "alice@A", keytab, "")]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"sasl_kerberos_keytab": "/none.keytab"},
            "sasl_kerberos_keytab: cannot read '/none.keytab': No such",
        ),
        ({"sasl_kerberos_keytab": "/"}, "sasl_kerberos_keytab: cannot read '/': Is a directory"),
        ({"sasl_kerberos_keytab": __file__}, "is not a keytab"),
        ({"sasl_kerberos_service_name": ""}, "sasl_kerberos_service_name is missing"),
        ({"sasl_plain_password": "x"}, "sasl_plain_password cannot be used with sasl_mechanism=GSSAPI"),
        ({"sasl_jaas_config": f"{JAAS};"}, "would ask for a password"),
        ({"sasl_jaas_config": f"{JAAS} useKeyTab=true;"}, "'keyTab' is missing"),
        ({"sasl_jaas_config": f"{JAAS} useTicketCache=true keyTab=x;"}, "'keyTab' needs useKeyTab=true"),
        ({"sasl_jaas_config": f"{JAAS} useKeyTab=yes;"}, "'useKeyTab': expected true or false"),
        ({"sasl_jaas_config": f"{JAAS} useTicketCache=true x=y;"}, "'x' of Krb5LoginModule is not supported"),
        (
            {"sasl_jaas_config": f"{JAAS} useTicketCache=true;", "sasl_kerberos_principal": "alice"},
            "sasl_kerberos_principal cannot be used with sasl_jaas_config",
        ),
        (
            {
                "sasl_jaas_config": f"{JAAS} useTicketCache=true serviceName=a;",
                "sasl_kerberos_service_name": "b",
            },
            "'serviceName' in sasl_jaas_config is 'a'; remove one",
        ),
        ({"sasl_jaas_config": "a.PlainLoginModule required;"}, "Krb5LoginModule.*got 'a.PlainLoginModule'"),
    ],
)
def test_contradictions_are_refused_before_any_connection(logins, settings, complaint):
    with pytest.raises(ConfigError, match=complaint):
        use(**settings)
    assert logins == []


def test_other_mechanisms_refuse_kerberos_settings():
    config = ProducerConfig(
        bootstrap_servers="b1:9092",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_kerberos_principal="alice",
    )
    with pytest.raises(ConfigError, match="sasl_kerberos_principal cannot be used with sasl_mechanism=PLAIN"):
        sasl_mechanism_of(config)


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "kproducer._core.security.kerberos", raising=False)
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"pip install 'kproducer\[gssapi\]'.*libkrb5-dev"):
        use()
