"""Tokens for a registry: from a token endpoint, a file, an identity; refreshed; in a forked child."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import threading
import time
import warnings

import confluent_kafka.schema_registry as peer
import pytest

from kproducer import ConfigError
from kproducer._core.security import oauth_tokens as refreshing
from kproducer.schema_registry import SchemaRegistryClient, SchemaRegistryError
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.aws import KEY, SECRET, running_aws
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, json_answer
from tests.support.loopback import closed_port
from tests.support.secrets_in_errors import places_of
from tests.support.waiting import wait_until

TOKEN = "opaque-token-7"
QUERY = "api-version=2018-02-01&resource=api://registry"
SOURCE = "bearer.auth.credentials.source"
POOL = {"bearer.auth.logical.cluster": "lsrc-1", "bearer.auth.identity.pool.id": "pool-1"}


@pytest.fixture(scope="module")
def registry():
    with FakeSchemaRegistry(bearer_token=TOKEN) as running:
        yield running


def oauth(idp):
    return {
        SOURCE: "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": idp.token_url,
        "bearer.auth.client.id": CLIENT_ID,
        "bearer.auth.client.secret": CLIENT_SECRET,
        "bearer.auth.scope": "schemas",
        **POOL,
    }


def imds(idp):
    return {
        SOURCE: "OAUTHBEARER_AZURE_IMDS",
        "bearer.auth.issuer.endpoint.url": f"{idp.imds_url}?replaced=1",
        "bearer.auth.issuer.endpoint.query": QUERY,
        **POOL,
    }


def answer(token=TOKEN, **others):
    return json_answer(200, access_token=token, expires_in=3600, **others)


@pytest.mark.parametrize("conf", [oauth, imds])
def test_the_requests_are_those_of_confluent_kafka(idp, registry, conf):
    # Its HTTP library encodes other characters than those of ASCII in another way.
    given = {"url": registry.url, **conf(idp)}
    given |= {"bearer.auth.client.secret": "a+b/c"} if conf is oauth else {}
    seen = []
    for kind in (peer.SchemaRegistryClient, SchemaRegistryClient):
        idp.answer_next(answer(expires_on=int(time.time()) + 3600, token_type="Bearer"))
        client = kind(given)
        assert client.get_subjects() == []
        method, target, headers, form = idp.exchanges[-1]
        headers = {name: headers[name] for name in ("Authorization", "Metadata") if name in headers}
        seen.append((method, target, headers, form))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # that of confluent-kafka cannot be closed
            del client
            gc.collect()
    assert seen[0] == seen[1]


def test_a_token_is_kept_and_replaced_ahead_of_its_expiry(idp, registry, monkeypatch):
    monkeypatch.setattr(refreshing, "_LEAST_WAIT_S", 0.01)
    before = len(idp.exchanges)
    idp.answer_next(json_answer(200, access_token=TOKEN, expires_in=0.2), answer())
    with SchemaRegistryClient({"url": registry.url, **oauth(idp)}) as client:
        client.get_subjects()
        wait_until(lambda: len(idp.exchanges) == before + 2)
        for _ in range(3):
            client.get_subjects()
    assert len(idp.exchanges) == before + 2


def test_a_token_from_a_file(registry, idp, tmp_path):
    path = tmp_path / "token"
    path.write_text(idp.new_token())
    with FakeSchemaRegistry(bearer_token=idp.issued[-1]) as own:
        conf = {SOURCE: "OAUTHBEARER", "bearer.auth.issuer.endpoint.url": f"file://{path}"}
        with SchemaRegistryClient({"url": own.url, **conf}) as client:
            assert client.get_subjects() == []


def test_a_workload_identity(registry, idp, monkeypatch, tmp_path):
    (tmp_path / "federated").write_text("assertion")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "federated"))
    monkeypatch.setenv("AZURE_CLIENT_ID", "c")
    monkeypatch.setenv("AZURE_TENANT_ID", "t")
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", idp.token_url.removesuffix("token"))
    conf = {SOURCE: "OAUTHBEARER_AZURE_WORKLOAD_IDENTITY", "bearer.auth.scope": "api://registry/.default"}
    idp.answer_next(answer())
    with SchemaRegistryClient({"url": registry.url, **conf}) as client:
        assert client.get_subjects() == []
    assert idp.exchanges[-1][3]["client_assertion"] == "assertion"


def test_a_token_of_aws_sts(registry, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with running_aws() as aws:
        aws.web_token = TOKEN
        parameters = f"region=eu-west-1,audience=https://registry.test,sts_endpoint={aws.url}"
        conf = {SOURCE: "OAUTHBEARER_AWS_IAM", "bearer.auth.aws.config": parameters}
        with SchemaRegistryClient({"url": registry.url, **conf}) as client:
            assert client.get_subjects() == []
    assert aws.requests[0]["Action"] == "GetWebIdentityToken"


def test_a_refused_client_is_an_error_in_the_names_of_the_registry(idp, registry):
    conf = {**oauth(idp), "bearer.auth.client.secret": f"{CLIENT_SECRET}x"}
    client = SchemaRegistryClient({"url": registry.url, **conf})
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_subjects()
    client.close()
    assert str(caught.value).startswith(
        f"there is no token for the schema registry: the token endpoint {idp.token_url}"
        " (bearer.auth.issuer.endpoint.url) answered with HTTP status 401: invalid_client"
    )
    assert not caught.value.is_temporary
    assert places_of(CLIENT_SECRET, caught.value) == []


def test_an_endpoint_that_does_not_answer_in_time(idp, registry):
    may_answer = threading.Event()
    idp.answer_next(lambda _: may_answer.wait(60) and answer())
    with SchemaRegistryClient({"url": registry.url, "max.block.ms": 500, **imds(idp)}) as client:
        with pytest.raises(SchemaRegistryError, match=r"endpoint\.url\) has not answered") as caught:
            client.get_subjects()
        may_answer.set()
    assert caught.value.is_temporary


def test_an_endpoint_that_cannot_be_reached_is_a_temporary_error_in_the_names_of_the_registry(
    monkeypatch, caplog, registry
):
    schedule = refreshing.RefreshSchedule(retry_max_ms=1)
    new_source = functools.partial(refreshing.TokenSource, schedule=schedule)
    monkeypatch.setattr(refreshing, "TokenSource", new_source)
    with closed_port() as port:
        conf = {
            SOURCE: "OAUTHBEARER_AZURE_IMDS",
            "bearer.auth.issuer.endpoint.url": f"http://127.0.0.1:{port}/",
            "bearer.auth.issuer.endpoint.query": QUERY,
            "max.retries": 0,
        }
        with (
            SchemaRegistryClient({"url": registry.url, **conf}) as client,
            pytest.raises(SchemaRegistryError, match="cannot be reached") as caught,
        ):
            client.get_subjects()
    assert caught.value.is_temporary
    assert "(bearer.auth.issuer.endpoint.url) cannot be reached" in caplog.text
    assert "sasl_" not in caplog.text


def test_the_text_of_an_endpoint_is_not_translated(idp, registry):
    said = "prompt=none sasl_oauthbearer_scope"
    idp.answer_next(json_answer(400, error="invalid_request", error_description=said))
    with (
        SchemaRegistryClient({"url": registry.url, **oauth(idp)}) as client,
        pytest.raises(SchemaRegistryError, match=said),
    ):
        client.get_subjects()


def test_a_closed_client_requests_no_token(idp, registry):
    before = len(idp.exchanges)
    client = SchemaRegistryClient({"url": registry.url, **imds(idp)})
    client.close()
    with pytest.raises(SchemaRegistryError, match="the SchemaRegistryClient was closed") as caught:
        client.get_subjects()
    assert not caught.value.is_temporary
    assert len(idp.exchanges) == before


def test_a_call_may_wait_for_its_token_as_long_as_the_setting_allows(idp, registry):
    idp.answer_next(answer())
    conf = {"url": registry.url, "max.block.ms": 2**63 - 1, **imds(idp)}
    with SchemaRegistryClient(conf) as client:
        assert client.get_subjects() == []


def test_the_thread_ends_with_the_client(idp, registry):
    def threads():
        return {each for each in threading.enumerate() if each.name == "kproducer-oauth"}

    before = threads()
    idp.answer_next(answer())
    client = SchemaRegistryClient({"url": registry.url, **imds(idp)})
    client.get_subjects()
    assert threads() - before
    del client
    gc.collect()
    wait_until(lambda: not threads() - before)


def test_a_forked_child_requests_a_token_of_its_own(idp, registry):
    idp.answer_next(answer())
    with SchemaRegistryClient({"url": registry.url, **imds(idp)}) as client:
        client.get_subjects()
        idp.answer_next(answer())
        before = len(idp.exchanges)
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                os._exit(client.get_subjects() != [])
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(idp.exchanges) == before + 1


@pytest.mark.parametrize(
    ("conf", "complaint"),
    [
        ({SOURCE: "OAUTHBEARER"}, "bearer.auth.issuer.endpoint.url is missing"),
        (
            {
                SOURCE: "OAUTHBEARER",
                "bearer.auth.issuer.endpoint.url": "http://a/",
                "bearer.auth.client.id": "c",
            },
            "bearer.auth.client.secret is missing",
        ),
        (
            {SOURCE: "OAUTHBEARER", "bearer.auth.issuer.endpoint.url": "file:///no/such"},
            "bearer.auth.issuer.endpoint.url: cannot read",
        ),
        (
            {SOURCE: "OAUTHBEARER_AZURE_IMDS"},
            "bearer.auth.issuer.endpoint.query is missing: bearer.auth.credentials.source=OAUTHBEARER_AZ",
        ),
        (
            {SOURCE: "OAUTHBEARER_AZURE_IMDS", "bearer.auth.client.secret": CLIENT_SECRET},
            "bearer.auth.client.secret: has no effect with bearer.auth.credentials.source=OAUTHBEARER_AZURE",
        ),
        (
            {SOURCE: "OAUTHBEARER_AZURE_WORKLOAD_IDENTITY"},
            "the environment variable AZURE_CLIENT_ID is miss",
        ),
        ({SOURCE: "OAUTHBEARER_AWS_IAM"}, "bearer.auth.aws.config: region is missing"),
        (
            {SOURCE: "STATIC_TOKEN", "bearer.auth.token": "t", "bearer.auth.scope": "s"},
            "bearer.auth.scope: has no effect with bearer.auth.credentials.source=STATIC_TOKEN",
        ),
        (
            {"https.ca.location": "/a.pem"},
            "https.ca.location: has no effect without bearer.auth.credentials.source",
        ),
        ({"bearer.auth.scope": "s"}, "bearer.auth.scope: set bearer.auth.credentials.source, too"),
        (
            {SOURCE: "OAUTHBEARER_AWS_IAM", "bearer.auth.token": CLIENT_SECRET},
            "bearer.auth.token: has no effect with bearer.auth.credentials.source=OAUTHBEARER_AWS_IAM",
        ),
        (
            {SOURCE: "OAUTHBEARER", "bearer.auth.custom.provider.function": print},
            "bearer.auth.custom.provider.function: has no effect with bearer.auth.credentials.source=OAUTH",
        ),
        ({SOURCE: ["OAUTHBEARER"]}, "bearer.auth.credentials.source: expected STATIC_TOKEN or CUSTOM or"),
        (
            {SOURCE: "OAUTHBEARER_AZURE_IMDS", "bearer.auth.issuer.endpoint.query": "a=b c"},
            "bearer.auth.issuer.endpoint.query: expected printable ASCII without spaces; write a space as",
        ),
    ],
)
def test_settings_that_are_missing_or_without_effect(conf, complaint):
    with pytest.raises(ConfigError) as caught:
        SchemaRegistryClient({"url": "http://a", **conf})
    assert str(caught.value).startswith(complaint)
    assert places_of(CLIENT_SECRET, caught.value) == []
