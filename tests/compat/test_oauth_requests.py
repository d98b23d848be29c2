"""The adapter and confluent-kafka with the same settings for OAUTHBEARER: the same requests for tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import confluent_kafka as peer
import pytest

from kproducer import ConfigError
from kproducer.compat import confluent_kafka as adapter
from kproducer.compat.confluent_kafka import settings
from kproducer.testing.fakebroker import FakeCluster
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from tests.support.aws import KEY, SECRET, running_aws
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, JWT_BEARER, IdentityProvider

PATIENCE_S = 20
QUERY = "api-version=2018-02-01&resource=https://ns.servicebus.windows.net&client_id=c-1"


@pytest.fixture
def cluster(shared_provider: IdentityProvider) -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        running.sasl = SaslListener(accepts_token=shared_provider.issued.__contains__)
        running.create_topic("t", 1)
        yield running


def authenticate(client: ModuleType, cluster: FakeCluster, **conf: str) -> None:
    """Ask the cluster, which wants a token, for a topic."""
    producer = client.Producer(
        {
            "bootstrap.servers": ",".join(cluster.bootstrap_servers),
            "log_level": 0,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            **{name.replace("_", "."): value for name, value in conf.items()},
        }
    )
    producer.poll(0)  # which calls a function for tokens
    assert "t" in producer.list_topics("t", PATIENCE_S).topics
    producer.close()


def azure_imds(shared_provider: IdentityProvider) -> dict[str, str]:
    return {
        "sasl_oauthbearer_metadata_authentication_type": "azure_imds",
        "sasl_oauthbearer_config": f"query={QUERY}",
        "sasl_oauthbearer_token_endpoint_url": shared_provider.imds_url,
        "sasl_oauthbearer_extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
    }


def client_credentials(shared_provider: IdentityProvider) -> dict[str, str]:
    return {
        "sasl_oauthbearer_token_endpoint_url": shared_provider.token_url,
        "sasl_oauthbearer_client_id": CLIENT_ID,
        "sasl_oauthbearer_client_secret": CLIENT_SECRET,
        "sasl_oauthbearer_scope": "kafka",
    }


@pytest.mark.parametrize("conf", [azure_imds, client_credentials])
def test_both_clients_send_the_same_requests(
    shared_provider: IdentityProvider,
    cluster: FakeCluster,
    conf: Callable[[IdentityProvider], dict[str, str]],
) -> None:
    requests = []
    for client in (peer, adapter):
        count = len(shared_provider.exchanges)
        authenticate(client, cluster, **conf(shared_provider))
        assert len(shared_provider.exchanges) > count
        requests.append(shared_provider.exchanges[-1])
    assert requests[0] == requests[1]


def test_both_clients_send_the_same_assertion(
    shared_provider: IdentityProvider, cluster: FakeCluster, tmp_path: Any
) -> None:
    key = shared_provider.write_client_key(tmp_path)
    forms = []
    for client in (peer, adapter):
        conf = {
            "sasl_oauthbearer_grant_type": JWT_BEARER,
            "sasl_oauthbearer_token_endpoint_url": shared_provider.token_url,
            "sasl_oauthbearer_assertion_private_key_file": key,
            "sasl_oauthbearer_assertion_claim_iss": CLIENT_ID,
            "sasl_oauthbearer_assertion_claim_sub": CLIENT_ID,
            "sasl_oauthbearer_assertion_claim_aud": shared_provider.token_url,
            "sasl_oauthbearer_scope": "kafka",
        }
        authenticate(client, cluster, **conf)
        method, target, headers, form = shared_provider.exchanges[-1]
        assert form.pop("assertion").count(".") == 2
        forms.append((method, target, headers, form))
    assert forms[0] == forms[1]


def test_both_clients_send_the_same_request_to_sts(
    shared_provider: IdentityProvider, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    requests = []
    with running_aws() as aws:
        aws.web_token = shared_provider.new_token()
        for client in (peer, adapter):
            aws.requests.clear()
            authenticate(
                client,
                cluster,
                sasl_oauthbearer_metadata_authentication_type="aws_iam",
                sasl_oauthbearer_config="region=eu-west-1,audience=https://kafka.test,duration_seconds=600,"
                f"tag_team=a,sts_endpoint={aws.url}",
            )
            (request, *_) = aws.requests
            requests.append(request)
    assert requests[0] == requests[1]


TYPE = "sasl.oauthbearer.metadata.authentication.type"
FUNCTION: dict[str, Any] = {"oauth_cb": lambda _: ("token", 1e10)}
AZURE: dict[str, Any] = {
    TYPE: "azure_imds",
    "sasl.oauthbearer.config": f"query={QUERY}",
    "sasl.oauthbearer.token.endpoint.url": "http://localhost:1/",
}
OIDC: dict[str, Any] = {"sasl.oauthbearer.method": "oidc"}
AWS: dict[str, Any] = {
    TYPE: "aws_iam",
    "sasl.oauthbearer.config": "region=eu-west-1,audience=https://kafka.test",
}


@pytest.mark.parametrize(
    ("given", "is_accepted"),
    [
        ({**FUNCTION, **OIDC}, False),
        ({**FUNCTION, **AZURE}, True),
        ({**FUNCTION, **AZURE, **OIDC}, True),
        ({**FUNCTION, **AWS}, True),
        ({**FUNCTION, **AWS, **OIDC}, True),
        ({**AZURE, **OIDC}, True),
        (AWS, False),
    ],
)
def test_both_clients_accept_or_refuse_settings(given: dict[str, Any], is_accepted: bool) -> None:
    conf = {
        "bootstrap.servers": "localhost:1",
        "log_level": 0,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        **given,
    }
    accepted = []
    for client in (peer, adapter):
        try:
            client.Producer(conf).close()
            accepted.append(True)
        except (ValueError, peer.KafkaException, adapter.KafkaException):
            accepted.append(False)
    assert accepted == [is_accepted, is_accepted]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (AWS, f"{TYPE}=aws_iam: needs sasl.oauthbearer.method=oidc"),
        # librdkafka accepts it, and asks no metadata service.
        (AZURE, f"{TYPE}=azure_imds: needs sasl.oauthbearer.method=oidc"),
        (
            {"sasl.oauthbearer.config": "a=b"},
            f"sasl.oauthbearer.config: has no effect without oauth_cb or {TYPE}; set one of them",
        ),
    ],
)
def test_settings_without_effect_are_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings.translated({"bootstrap.servers": "localhost:1", **given})
    assert complaint in str(caught.value)


def test_a_function_goes_before_the_identity() -> None:
    given = {
        "bootstrap.servers": "localhost:1",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.metadata.authentication.type": "aws_iam",
        "sasl.oauthbearer.config": "region=eu-west-1",
        "oauth_cb": lambda config: (config, 1.0),
    }
    own = settings.translated(given).own
    assert own["sasl_oauth_token_provider"]() == ("region=eu-west-1", 1.0)
    assert not [name for name in own if name.startswith("sasl_oauthbearer_")]
