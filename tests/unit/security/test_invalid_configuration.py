"""Contradicting security settings are refused by the constructor, before any connection or name lookup."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from kproducer import ConfigError, KafkaProducer, ProducerConfig
from tests.support.certificates import Authority

USER = {"sasl_plain_username": "alice"}
SECRET = "hunter2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority()
    ca = authority.write(folder)
    authority.issue("client").write(folder, "client", SECRET)
    Path(folder, "both.pem").write_text(Path(ca).read_text() + Path(folder, "client.key").read_text())
    return folder


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    # security_protocol, settings, the setting that the error names, what to do
    ("SASL_SSL", {}, "sasl_mechanism", "one of PLAIN"),
    ("SASL_PLAINTEXT", {}, "sasl_mechanism", "one of PLAIN"),
    ("SASL_SSL", {"sasl_mechanism": "PLAIN"}, "sasl_plain_username", "sasl_jaas_config"),
    ("SASL_SSL", {"sasl_mechanism": "SCRAM-SHA-512", **USER}, "sasl_plain_password", "sasl_jaas_config"),
    ("SASL_SSL", {"sasl_mechanism": "OAUTHBEARER"}, "sasl_oauth_token_provider", "callable"),
    ("SASL_SSL", {"sasl_mechanism": "OAUTHBEARER", **USER}, "sasl_plain_username", "remove"),
    ("PLAINTEXT", {"sasl_mechanism": "PLAIN"}, "security_protocol", "SASL_SSL or SASL_PLAINTEXT"),
    ("SSL", USER, "security_protocol", "SASL_SSL or SASL_PLAINTEXT"),
    ("SSL", {"ssl_certfile": "client.pem"}, "ssl_certfile", "ssl_keyfile"),
    ("SSL", {"ssl_keyfile": "client.key"}, "ssl_keyfile", "ssl_certfile"),
    ("SSL", {"ssl_certfile": "client.pem", "ssl_keyfile": "client.key"}, "ssl_password", "set its password"),
    (
        "SSL",
        {"ssl_certfile": "client.pem", "ssl_keyfile": "client.key", "ssl_password": SECRET + "x"},
        "ssl_password",
        "may be wrong",
    ),
    ("SSL", {"ssl_cafile": "both.pem"}, "ssl_cafile", "belong into ssl_certfile and ssl_keyfile"),
    ("SSL", {"ssl_truststore_location": "both.pem"}, "ssl_truststore_location", "belong into ssl_certfile"),
    ("SSL", {"ssl_cafile": "missing.pem"}, "ssl_cafile", "No such file"),
    (
        "SSL",
        {"ssl_cafile": "ca.pem", "ssl_truststore_location": "ca.pem"},
        "ssl_truststore_location",
        "only one",
    ),
]


@pytest.mark.parametrize(("protocol", "settings", "setting", "remedy"), CASES)
def test_a_contradiction_names_the_setting_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    protocol: str,
    settings: dict[str, Any],
    setting: str,
    remedy: str,
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(socket.socket, "connect_ex", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    if protocol.endswith("SSL") and "ssl_truststore_location" not in settings:
        settings = {"ssl_cafile": "ca.pem", **settings}
    with pytest.raises(ConfigError) as caught:
        KafkaProducer("localhost:9092", security_protocol=protocol, **settings)
    assert setting in str(caught.value).split(";")[0]
    assert remedy in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile without effect: security_protocol=PLAINTEXT"),
        ({"ssl_cafile": "ca.pem", "ssl_check_hostname": True}, "ssl_cafile without effect"),
        ({"ssl_check_hostname": False}, "Set it to SSL"),
        ({"ssl_endpoint_identification_algorithm": "https"}, ""),
        ({}, ""),
    ],
)
def test_certificates_without_encryption_are_warned_about(
    caplog: pytest.LogCaptureFixture, settings: dict[str, Any], expected: str
) -> None:
    ProducerConfig.from_keywords({"bootstrap_servers": "localhost:9092", **settings})
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == bool(expected)
    assert expected in "".join(warnings)


@pytest.mark.parametrize(
    "setting",
    ["ssl_cafile", "ssl_keyfile", "ssl_keystore_location", "sasl_oauthbearer_assertion_private_key_file"],
)
def test_a_pem_text_in_place_of_a_path_is_not_shown(setting: str) -> None:
    text = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"
    with pytest.raises(ConfigError, match=f"{setting}: expected the path of a file") as caught:
        KafkaProducer("localhost:1", **{"security_protocol": "SSL", setting: text})
    assert SECRET not in str(caught.value)
