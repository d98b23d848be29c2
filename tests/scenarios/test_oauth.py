"""OAUTHBEARER with a token endpoint that is slow or fails, against brokers that know its tokens."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator

import pytest

from kproducer._core.security import oauth_settings, oauth_tokens
from kproducer._core.security.oauth_tokens import TokenSource
from kproducer.errors import AuthenticationError, MetadataTimeoutError
from kproducer.testing.fakebroker import FakeCluster
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from tests.scenarios.conftest import Stage
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, json_answer
from tests.support.waiting import wait_until


@pytest.fixture
def provider(shared_provider: IdentityProvider) -> Iterator[IdentityProvider]:
    lifetime_s = shared_provider.lifetime_s
    yield shared_provider
    shared_provider.lifetime_s = lifetime_s
    shared_provider.answer_as_usual()


def settings(provider: IdentityProvider, **others: object) -> dict[str, object]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": provider.token_url,
        "sasl_oauthbearer_client_credentials_client_id": CLIENT_ID,
        "sasl_oauthbearer_client_credentials_client_secret": CLIENT_SECRET,
        **others,
    }


def secured(stage: Stage, provider: IdentityProvider, session_lifetime_ms: int = 0) -> FakeCluster:
    cluster = stage.cluster()
    cluster.sasl = SaslListener(
        accepts_token=provider.issued.__contains__, session_lifetime_ms=session_lifetime_ms
    )
    return cluster


def test_a_slow_endpoint_delays_nothing_while_the_old_token_is_valid(
    stage: Stage, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_s = 0
    token_source = functools.partial(TokenSource, wall_s=lambda: time.time() + ahead_s)
    monkeypatch.setattr(oauth_settings, "TokenSource", token_source)
    monkeypatch.setattr(oauth_tokens, "_LONGEST_SLEEP_S", 0.01)  # it notices that the clock has moved
    cluster = secured(stage, provider, session_lifetime_ms=300)
    producer = stage.producer(cluster, **settings(provider))
    may_answer = threading.Event()

    def slowly(_: object) -> tuple[int, str, bytes]:
        may_answer.wait(60)
        return json_answer(200, access_token=provider.new_token())

    provider.lifetime_s = 3600
    count = len(provider.requests)
    producer.send().metadata()
    provider.lifetime_s = 7200
    provider.answer_next(slowly)
    ahead_s = 3400
    wait_until(lambda: len(provider.requests) == count + 2)
    before = cluster.sasl.authentications
    while cluster.sasl.authentications < before + 1:  # with the old token
        producer.send().metadata()
    ahead_s = 3600
    # The session cannot be renewed before there is a new token.
    late = [producer.send() for _ in range(5)]
    may_answer.set()
    for each in late:
        each.metadata()
    assert len(provider.requests) == count + 2


def test_an_endpoint_that_fails_and_recovers(stage: Stage, provider: IdentityProvider) -> None:
    provider.answer_next(*[json_answer(503, error="busy")] * 100)
    quick = {"sasl_login_retry_backoff_ms": 1, "sasl_login_retry_backoff_max_ms": 50}
    producer = stage.producer(secured(stage, provider), **settings(provider, **quick))
    with pytest.raises(AuthenticationError, match=r"HTTP status 503: busy \(attempts: "):
        producer.kafka.partitions_for("t")
    assert isinstance(producer.failing_send(), AuthenticationError)
    provider.answer_as_usual()
    producer.send_until_it_works()


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_call_that_ends_before_the_endpoint_was_given_up_names_it(
    stage: Stage, provider: IdentityProvider, is_silent: bool
) -> None:
    may_answer = threading.Event()

    def late(_: object) -> tuple[int, str, bytes]:
        may_answer.wait(60)
        return json_answer(503, error="busy")

    provider.answer_next(*[late if is_silent else json_answer(503, error="busy")] * 100)
    producer = stage.producer(secured(stage, provider), max_block_ms=500, **settings(provider))
    with pytest.raises(MetadataTimeoutError) as caught:
        producer.kafka.partitions_for("t")
    may_answer.set()
    url = f"the token endpoint {provider.token_url} (sasl_oauthbearer_token_endpoint_url)"
    assert f"{url} {'has not answered' if is_silent else 'answered with HTTP status 503'}" in str(
        caught.value
    )
