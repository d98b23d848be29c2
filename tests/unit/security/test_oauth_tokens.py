"""TokenSource: refresh ahead of expiry, failures, and providers of every kind."""

from __future__ import annotations

import threading
import time

import pytest

from kproducer.errors import AuthenticationError
from kproducer.security import oauth_tokens
from kproducer.security.oauth_tokens import TokenSource, as_token
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


def test_a_token_is_refreshed_before_it_expires(quick):
    numbers = iter(range(1000))
    source, _ = source_of(lambda: (f"t{next(numbers)}", time.time() + 2.5))
    wait_until(lambda: source.current() is not None)
    seen = set()
    end_s = time.monotonic() + 5.5
    while time.monotonic() < end_s:
        seen.add(source.current().value)  # never None, and never expired
        time.sleep(0.01)
    assert {"t0", "t1", "t2"} <= seen
    assert len(seen) <= 5
    source.close()


def test_the_old_token_is_used_while_it_is_valid_and_refreshes_fail(quick):
    outcomes = iter([("old", time.time() + 1.0)])
    calls = []

    def provider():
        calls.append(1)
        return next(outcomes)

    source, _ = source_of(provider)
    wait_until(lambda: source.current() is not None)
    wait_until(lambda: len(calls) > 3)
    assert source.current().value == "old"
    time.sleep(0.6)
    with pytest.raises(AuthenticationError, match="StopIteration"):
        source.current()
    source.close()


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


def test_an_async_provider():
    async def provider():
        return "t", time.time() + 60, {"pool": "p"}

    source, changed = source_of(provider)
    source.current()
    assert changed.wait(10)
    assert source.current().extensions == {"pool": "p"}
    source.close()


def test_an_expired_token_is_a_failure():
    source, changed = source_of(lambda: ("t", time.time() - 1))
    source.current()
    assert changed.wait(10)
    with pytest.raises(AuthenticationError, match="expired already"):
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
