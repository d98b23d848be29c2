"""TokenSource: keeps an OAuth token fresh, on a thread of its own.

The I/O thread takes the current token and never waits: a slow token endpoint delays nothing while the old
token is valid. The thread starts with the first use, refreshes each token ahead of its expiry, and tries
again after a failure. Source: Kafka class ``ExpiringCredentialRefreshingLogin``.
"""

from __future__ import annotations

import inspect
import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kproducer._core.runtime.clock import ExponentialBackoff
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.errors import AuthenticationError, KafkaError, NetworkError

_log = GuardedLogger(__name__)

#: The shortest pause between two requests for a token: for tokens that live shorter, or are late for their
#: refresh.
_LEAST_WAIT_S = 1.0
_LONGEST_WAIT_S = 30.0
#: The latest expiry that is believed. A later one was probably given in milliseconds, and the token would
#: never be replaced.
_LATEST_EXPIRY_S = 1e11
#: The longest sleep, because ``threading`` refuses very long ones: the thread looks at its token again and
#: goes on sleeping.
_LONGEST_SLEEP_S = 3600.0


@attrs.frozen
class OAuthToken:
    """A bearer token.

    Attributes:
        value: the token.
        expires_at: when it expires, in seconds since 1970 (``time.time()``).
        extensions: SASL extensions to send with it.
    """

    value: str = attrs.field(repr=False)
    expires_at: float
    extensions: Mapping[str, str] = attrs.field(factory=dict, repr=False)


class RetriableTokenError(Exception):
    """There is no token now, but the same request may succeed: network errors, overloaded endpoints."""


@attrs.frozen
class RefreshSchedule:
    """When to replace a token, and when to repeat a request that failed.

    Attributes:
        factor: part of its life after which a token is replaced.
        jitter: largest random part that is added to it.
        min_period_s: a token is used at least this long.
        buffer_s: a token is replaced at least this long before its end. This and ``min_period_s`` do not
            apply to tokens that live shorter than the two together.
        retry_ms: wait before a failed request is repeated; doubles with each attempt.
        retry_max_ms: after this time, the request has failed.
    """

    factor: float = 0.8
    jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300
    retry_ms: int = 100
    retry_max_ms: int = 10_000

    def refresh_after_s(self, lifetime_s: float) -> float:
        """Seconds until a token is to be replaced that expires in ``lifetime_s`` seconds."""
        after_s = lifetime_s * min(self.factor + random.uniform(0, self.jitter), 1)
        if self.min_period_s + self.buffer_s > lifetime_s:
            return after_s
        return min(max(after_s, self.min_period_s), lifetime_s - self.buffer_s)


@attrs.define(eq=False, repr=False)
class TokenSource:
    """The token that a provider returns, refreshed ahead of its expiry. Thread-safe.

    Args:
        provider: returns an ``OAuthToken``, or what ``sasl_oauth_token_provider`` may: (token, expiry),
            (token, expiry, extensions), or an awaitable of that. Called on this object's thread.
        wakeup: called on that thread when ``current`` would return something else than before.
        wall_s: seconds since 1970.
        schedule: when to request tokens.
        unanswered: what ``waits_for`` returns while the first request has neither failed nor succeeded.
    """

    _provider: Callable[[], Any]
    _wakeup: Callable[[], object]
    _wall_s: Callable[[], float] = time.time
    _schedule: RefreshSchedule = attrs.field(factory=RefreshSchedule)
    _unanswered: str = "sasl_oauth_token_provider has not answered"
    _changed: threading.Condition = attrs.field(init=False, factory=threading.Condition)
    # Guarded by _changed.
    _token: OAuthToken | None = attrs.field(init=False, default=None)
    _failure: AuthenticationError | None = attrs.field(init=False, default=None)
    _last_failed_attempt: str = attrs.field(init=False, default="")
    _thread: threading.Thread | None = attrs.field(init=False, default=None)
    _closed: bool = attrs.field(init=False, default=False)

    def current(self) -> OAuthToken | None:
        """The current token; ``None`` while the first one is being requested. Never blocks.

        Raises AuthenticationError if there is no valid token, and the last attempt to get one failed;
        NetworkError if the thread cannot be started, which the next use tries again.
        """
        with self._changed:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run, name="kproducer-oauth", daemon=True)
                try:
                    thread.start()
                except RuntimeError as cause:  # the process has too many threads, or is ending
                    raise NetworkError(f"no OAuth token can be requested: {cause}") from None
                self._thread = thread
            if self._token is not None and self._wall_s() < self._token.expires_at:
                return self._token
            # The clock of waits stands still while a machine is suspended, so the thread may not know that it
            # is late: wake it.
            self._changed.notify_all()
            if self._failure is not None:
                # Each caller gets its own instance, because it adds where the error happened.
                raise self._failure.copy()
            return None

    def wait_for_current(self, timeout_s: float) -> OAuthToken | None:
        """``current``, but blocks while a token is being requested, for at most ``timeout_s`` seconds."""
        token = self.current()
        if token is None:
            with self._changed:
                self._changed.wait_for(self._is_decided, timeout_s)
            token = self.current()
        return token

    def _is_decided(self) -> bool:
        is_valid = self._token is not None and self._wall_s() < self._token.expires_at
        return is_valid or self._failure is not None or self._closed

    def waits_for(self) -> str:
        """Why there is no token, in words; empty: there is one. Any thread."""
        with self._changed:
            if self._token is not None and self._wall_s() < self._token.expires_at:
                return ""
            return str(self._failure or self._last_failed_attempt or self._unanswered)

    @property
    def is_retriable(self) -> bool:
        """Whether the last request failed with a ``RetriableTokenError``. Any thread."""
        with self._changed:
            return bool(self._last_failed_attempt)

    def close(self) -> None:
        """End the thread, without waiting for a provider that is running. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        failures = 0
        while (result := self._request_repeatedly()) is not None:
            now_s = self._wall_s()
            if isinstance(result, OAuthToken):
                failures = 0
                lifetime_s = result.expires_at - now_s
                wait_s = max(self._schedule.refresh_after_s(lifetime_s), _LEAST_WAIT_S)
                with self._changed:
                    self._token, self._failure, self._last_failed_attempt = result, None, ""
                    self._changed.notify_all()
            else:
                wait_s = min(_LEAST_WAIT_S * 2 ** min(failures, 10), _LONGEST_WAIT_S)
                failures += 1
                _log.error("No new OAuth token, next attempt in %.0f s: %s", wait_s, result)
                with self._changed:
                    self._failure = result
                    self._changed.notify_all()
            self._wakeup()
            if self._wait_until(now_s + wait_s):
                return

    def _request_repeatedly(self) -> OAuthToken | AuthenticationError | None:
        """A token, or why there is none; ``None``: closed."""
        backoff = ExponentialBackoff(self._schedule.retry_ms, self._schedule.retry_max_ms)
        end_s = self._wall_s() + self._schedule.retry_max_ms / 1000
        attempts = 0
        while True:
            try:
                return self._request()
            except RetriableTokenError as error:
                wait_s = backoff.backoff_ms(attempts) / 1000
                attempts += 1
                text = f"{error} (attempts: {attempts})"
                with self._changed:
                    self._last_failed_attempt = text
                if self._wall_s() + wait_s > end_s:
                    return AuthenticationError(text)
                _log.debug("The request for an OAuth token is repeated in %.3f s: %s", wait_s, error)
            except BaseException as error:  # asyncio.CancelledError, too: only ``close`` ends this thread
                # Our own error is not the cause: the frames of its traceback have the token or the secret.
                text, cause = str(error), error.__cause__
                if not isinstance(error, KafkaError):
                    # The text of the application's error may quote a request with its secret.
                    text, cause = f"sasl_oauth_token_provider raised {type(error).__name__}", error
                failure = AuthenticationError(text)
                failure.__cause__ = cause
                with self._changed:
                    self._last_failed_attempt = ""
                return failure
            if self._wait_until(self._wall_s() + wait_s):
                return None

    def _wait_until(self, end_s: float) -> bool:
        """Wait; ``True``: closed."""
        with self._changed:
            while not self._closed and (left_s := end_s - self._wall_s()) > 0:
                self._changed.wait(min(left_s, _LONGEST_SLEEP_S))
            return self._closed

    def _request(self) -> OAuthToken:
        result = self._provider()
        if inspect.isawaitable(result):
            import asyncio  # few providers need it, and it takes long to import

            async def awaited() -> Any:
                return await result

            result = asyncio.run(awaited())
        now_s = self._wall_s()
        if isinstance(result, OAuthToken):
            if result.expires_at <= now_s:
                raise AuthenticationError("the OAuth token that was received has expired already")
            return result
        token = as_token(result)
        if token.expires_at <= now_s or token.expires_at > _LATEST_EXPIRY_S:
            found = "has expired already" if token.expires_at <= now_s else "expires in more than 3,000 years"
            raise AuthenticationError(
                f"sasl_oauth_token_provider returned a token that {found}: its expiry is"
                f" {token.expires_at:.0f}, and now is {now_s:.0f}; return seconds since 1970, for example"
                " time.time() + lifetime"
            )
        return token


def as_token(result: Any) -> OAuthToken:
    """Check what a provider has returned. Raises AuthenticationError, which never shows it."""
    if isinstance(result, tuple) and len(result) in (2, 3):
        value, expires_at, *rest = result
        extensions = rest[0] if rest and rest[0] is not None else {}
        if (
            isinstance(value, str)
            and isinstance(expires_at, (int, float))
            and math.isfinite(expires_at)
            and isinstance(extensions, Mapping)
            and all(isinstance(text, str) for pair in extensions.items() for text in pair)
        ):
            return OAuthToken(value, float(expires_at), dict(extensions))
    found = type(result).__name__
    if isinstance(result, tuple):
        found = f"({', '.join(type(each).__name__ for each in result)})"
    raise AuthenticationError(
        "sasl_oauth_token_provider must return (token, expiry in seconds since 1970) or (token, expiry,"
        f" SASL extensions), of the types (str, float) or (str, float, dict of str); it returned {found}"
    )
