"""TokenSource: refresh ahead of expiry, failures, and providers of every kind."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from kproducer._core.security import oauth_tokens
from kproducer._core.security.oauth_tokens import (
    OAuthToken,
    RefreshSchedule,
    RetriableTokenError,
    TokenSource,
    as_token,
)
from kproducer.errors import AuthenticationError, NetworkError
from tests.support.waiting import wait_until


@pytest.fixture
def quick(monkeypatch):
    """Tokens and pauses of milliseconds."""
    monkeypatch.setattr(oauth_tokens, "_LEAST_WAIT_S", 0.01)


def source_of(provider, **others):
    changed = threading.Event()
    return TokenSource(provider, changed.set, **others), changed


def test_the_first_use_requests_a_token_and_does_not_wait():
    may_return = threading.Event()

    def provider():
        may_return.wait(10)
        return "t", time.time() + 60

    source, changed = source_of(provider)
    assert source.current() is None
    may_return.set()
    assert changed.wait(10)
    assert source.current().value == "t"
    source.close()


def test_what_a_source_waits_for_names_the_last_failure_of_a_request_that_is_repeated():
    failed, may_return = threading.Event(), threading.Event()

    def provider():
        if not failed.is_set():
            failed.set()
            raise RetriableTokenError("the endpoint is busy")
        may_return.wait(10)
        return "t", time.time() + 60

    source, changed = source_of(provider, unanswered="the endpoint has not answered")
    assert source.waits_for() == "the endpoint has not answered"
    assert source.current() is None
    wait_until(lambda: source.waits_for() == "the endpoint is busy (attempts: 1)")
    may_return.set()
    assert changed.wait(10)
    assert source.waits_for() == ""
    source.close()


@pytest.mark.parametrize("answer", ["hunter2", ("hunter2", 5), ("hunter2", "soon")])
def test_no_traceback_of_an_error_has_the_token(answer):
    source, changed = source_of(lambda: answer)
    assert source.current() is None
    assert changed.wait(10)
    with pytest.raises(AuthenticationError, match="sasl_oauth_token_provider") as caught:
        source.current()
    # Tools that report errors show the local variables of every frame, also of causes.
    assert caught.value.__cause__ is None
    source.close()


def test_a_token_is_refreshed_before_it_expires(monkeypatch):
    monkeypatch.setattr(oauth_tokens, "_LONGEST_SLEEP_S", 0.01)  # the thread notices that the clock has moved
    now = [1000.0]
    requested_at = []

    def provider():
        requested_at.append(now[0])
        return f"t{len(requested_at)}", now[0] + 600

    source, _ = source_of(provider, wall_s=lambda: now[0])
    wait_until(lambda: source.current() is not None)
    for number in (1, 2, 3):
        assert source.current().value == f"t{number}"
        now[0] += 299
        assert source.current().value == f"t{number}"
        now[0] += 1  # the token is valid for 300 s
        wait_until(lambda number=number: source.current().value == f"t{number + 1}")
    source.close()
    assert requested_at == [1000.0, 1300.0, 1600.0, 1900.0]


def test_the_old_token_is_used_while_it_is_valid_and_refreshes_fail(monkeypatch):
    monkeypatch.setattr(oauth_tokens, "_LONGEST_SLEEP_S", 0.01)
    monkeypatch.setattr(oauth_tokens, "_LEAST_WAIT_S", 0.0)
    now = [1000.0]
    calls = []
    may_go_on = threading.Event()

    def provider():
        calls.append(1)
        if len(calls) == 1:
            return "old", 1600.0
        if len(calls) == 4:
            may_go_on.wait(60)
        raise OSError

    source, _ = source_of(provider, wall_s=lambda: now[0])
    wait_until(lambda: source.current() is not None)
    now[0] = 1300.0
    wait_until(lambda: len(calls) == 4)  # it has failed twice
    assert source.current().value == "old"
    now[0] = 1600.0
    with pytest.raises(AuthenticationError, match="OSError"):
        source.current()
    source.close()
    may_go_on.set()


def test_a_provider_that_recovers(quick):
    results = iter([OSError("no route"), OSError("no route"), ("t", time.time() + 60)])

    def provider():
        result = next(results)
        if isinstance(result, OSError):
            raise result
        return result

    source, changed = source_of(provider)
    source.current()
    assert changed.wait(10)

    texts = set()

    def has_token():
        try:
            return source.current() is not None
        except AuthenticationError as error:
            texts.add(str(error))
            return False

    wait_until(has_token)
    # Not the text of the provider's error, which may quote a request with its secret.
    assert texts <= {"sasl_oauth_token_provider raised OSError"}
    source.close()


def test_a_request_that_may_succeed_is_repeated_before_anything_fails():
    outcomes = [RetriableTokenError("503")] * 3 + [("t", time.time() + 60)]

    def provider():
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    source, changed = source_of(provider, schedule=RefreshSchedule(retry_ms=1, retry_max_ms=60_000))
    assert source.current() is None
    assert changed.wait(10)
    assert source.current().value == "t"
    source.close()


def test_repeated_requests_end_with_the_last_error():
    def provider():
        raise RetriableTokenError("the endpoint answered 503")

    source, changed = source_of(provider, schedule=RefreshSchedule(retry_ms=1, retry_max_ms=20))
    assert source.current() is None
    assert changed.wait(10)
    with pytest.raises(AuthenticationError, match=r"answered 503 \(attempts: \d"):
        source.current()
    source.close()


def test_close_ends_the_wait_between_repeated_requests():
    asked = threading.Event()

    def provider():
        asked.set()
        raise RetriableTokenError("503")

    source, _ = source_of(provider, schedule=RefreshSchedule(retry_ms=60_000, retry_max_ms=600_000))
    source.current()
    assert asked.wait(10)
    source.close()
    wait_until(lambda: not source._thread.is_alive())


@pytest.mark.parametrize(
    ("schedule", "lifetime_s", "least_s", "most_s"),
    [
        (RefreshSchedule(), 3600, 2880, 3060),
        (RefreshSchedule(), 600, 300, 300),  # 300 s before the end
        (RefreshSchedule(), 360, 60, 60),  # not before 60 s
        (RefreshSchedule(), 359, 287.2, 305.15),  # both cannot be
        (RefreshSchedule(), 4, 3.2, 3.4),
        (RefreshSchedule(factor=1.0, jitter=0.25, min_period_s=0, buffer_s=0), 100, 100, 100),
        (RefreshSchedule(factor=0.5, jitter=0, min_period_s=900, buffer_s=0), 1000, 900, 900),
    ],
)
def test_when_a_token_is_replaced(schedule, lifetime_s, least_s, most_s):
    for _ in range(50):
        assert least_s <= schedule.refresh_after_s(lifetime_s) <= most_s


def test_an_async_provider():
    async def provider():
        return "t", time.time() + 60, {"pool": "p"}

    source, changed = source_of(provider)
    source.current()
    assert changed.wait(10)
    assert source.current().extensions == {"pool": "p"}
    source.close()


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (("t", time.time() - 1), "sasl_oauth_token_provider returned a token that has expired already"),
        (("t", 3600), r"expiry is 3600, and now is \d+; return .*time\.time\(\) \+ lifetime"),
        (("t", time.time() * 1000), "expires in more than 3,000 years: its expiry is .*return seconds"),
        (OAuthToken("t", time.time() - 1), "^the OAuth token that was received has expired already"),
    ],
)
def test_an_expiry_that_cannot_be_right_is_a_failure(result, message):
    source, changed = source_of(lambda: result)
    source.current()
    assert changed.wait(10)
    with pytest.raises(AuthenticationError, match=message):
        source.current()
    source.close()


def test_close_ends_the_thread():
    source, changed = source_of(lambda: ("t", time.time() + 60))
    source.current()
    assert changed.wait(10)
    source.close()
    wait_until(lambda: not source._thread.is_alive())
    closed, _ = source_of(lambda: ("t", time.time() + 60))
    closed.close()
    assert closed.current() is None
    assert closed._thread is None


@pytest.mark.parametrize(
    "result",
    [
        None,
        "secret-token",
        ("secret-token",),
        ("secret-token", "soon"),
        ("secret-token", float("nan")),
        ("secret-token", float("inf")),
        (b"secret-token", 1e12),
        ("secret-token", 1e12, {"a": 1}),
        ("secret-token", 1e12, {}, {}),
    ],
)
def test_a_result_of_the_wrong_form_is_refused_and_not_shown(result):
    with pytest.raises(AuthenticationError, match="must return") as caught:
        as_token(result)
    assert "secret" not in str(caught.value)


def test_a_provider_that_is_cancelled_is_called_again(quick):
    results = [asyncio.CancelledError(), ("t", time.time() + 60)]

    async def provider():
        result = results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    source, _ = source_of(provider)

    def has_token():
        try:
            return source.current() is not None
        except AuthenticationError:
            return False

    wait_until(has_token)
    source.close()


def test_a_token_that_expired_while_the_machine_was_suspended_is_replaced_at_once():
    now = [1000.0]
    tokens = iter("ab")
    source, changed = source_of(lambda: (next(tokens), now[0] + 600), wall_s=lambda: now[0])
    assert source.current() is None
    assert changed.wait(10)
    assert source.current().value == "a"
    changed.clear()
    now[0] += 5000  # the clock that waits use stood still
    assert source.current() is None
    assert changed.wait(10)
    assert source.current().value == "b"
    source.close()


def test_a_tuple_of_the_wrong_types_is_described():
    with pytest.raises(AuthenticationError, match=r"it returned \(bytes, float\)"):
        as_token((b"secret-token", 1e9))


def test_without_a_thread_the_next_use_tries_again(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    source, changed = source_of(lambda: ("t", time.time() + 60))
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NetworkError, match="can't start new thread"):
            source.current()
    assert source.current() is None
    assert changed.wait(10)
    assert source.current().value == "t"
    source.close()
