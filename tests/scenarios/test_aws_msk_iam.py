"""AWS_MSK_IAM against brokers that check signatures as Amazon MSK does. No network but loopback."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kproducer.errors import AuthenticationError
from kproducer.testing.fakebroker import FakeCluster
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from tests.scenarios.conftest import Stage
from tests.support.aws import KEY, SECRET, FakeAws, is_signed_by, running_aws
from tests.support.certificates import Authority


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, object]:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "AWS_MSK_IAM",
        "sasl_aws_region": "eu-central-1",
    }


def secured(stage: Stage, settings: dict[str, object], tmp_path: Path, listener: SaslListener) -> FakeCluster:
    """A cluster of two brokers with TLS; adds the authority to the settings."""
    cluster, authority = stage.cluster(2, {"t": 4}), Authority()
    cluster.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    cluster.tls.load_cert_chain(*authority.issue().write(tmp_path, "broker"))
    cluster.sasl = listener
    settings["ssl_cafile"] = authority.write(tmp_path)
    return cluster


def test_sessions_are_renewed_with_signed_tokens(
    stage: Stage, settings: dict[str, object], tmp_path: Path
) -> None:
    listener = SaslListener(
        accepts_token=lambda token: is_signed_by(token, KEY, SECRET), session_lifetime_ms=1000
    )
    cluster = secured(stage, settings, tmp_path, listener)
    producer = stage.producer(cluster, **settings)
    producer.send_until(lambda: listener.authentications - cluster.accepted_count() > 4, partitions=4)
    assert listener.refusals == 0


def test_every_connection_uses_the_same_temporary_credentials(
    stage: Stage, settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with running_aws() as aws:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", aws.url)
        listener = SaslListener(
            accepts_token=lambda token: is_signed_by(token, "ASIAINSTANCE", "instance-secret")
        )
        producer = stage.producer(secured(stage, settings, tmp_path, listener), **settings)
        for partition in range(4):
            producer.send(partition=partition).metadata()
        assert listener.authentications >= 3
        assert asked_for_credentials(aws) == 1


def asked_for_credentials(aws: FakeAws) -> int:
    return sum(str(request).endswith("/instance-role") for request in aws.requests)


def test_a_signature_that_is_refused_is_an_authentication_error(
    stage: Stage, settings: dict[str, object], tmp_path: Path
) -> None:
    listener = SaslListener(accepts_token=lambda token: is_signed_by(token, KEY, "another secret"))
    producer = stage.producer(secured(stage, settings, tmp_path, listener), **settings)
    error = producer.failing_send()
    assert isinstance(error, AuthenticationError)
    assert "AWS_MSK_IAM credentials" in str(error)
    assert listener.refusals > 0


def test_without_credentials_the_records_fail_with_the_places_where_they_were_looked_for(
    stage: Stage, settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    producer = stage.producer(secured(stage, settings, tmp_path, SaslListener()), **settings)
    error = producer.failing_send()
    assert isinstance(error, AuthenticationError)
    assert "no AWS credentials found in the environment variables AWS_ACCESS_KEY_ID" in str(error)
