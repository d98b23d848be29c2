"""TokenSource: keeps an OAuth token fresh, on a thread of its own.

The I/O thread takes the current token and never waits: a slow token endpoint delays nothing while the old
token is valid. The thread starts with the first use, refreshes each token when four fifths of its life have
passed, and tries again after a failure. Source: Kafka class ``ExpiringCredentialRefreshingLogin``.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kproducer.errors import AuthenticationError, KafkaError
from kproducer.runtime.guarded_logger import GuardedLogger

_log = GuardedLogger(__name__)

_REFRESH_AFTER_SHARE = 0.8
#: A token that lives shorter than this, or is past its time of refresh, is not asked for more often.
_LEAST_WAIT_S = 1.0
_LONGEST_WAIT_S = 30.0
#: ``threading`` refuses longer waits; the thread just looks at its token again.
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


class TokenSource:
    """The token that a provider returns, refreshed ahead of its expiry. Thread-safe.

    Args:
        provider: ``sasl_oauth_token_provider``: returns (token, expiry) or (token, expiry, extensions), or an
            awaitable of that. Called on this object's thread.
        wakeup: called on that thread when ``current`` would return something else than before.
        wall_s: seconds since 1970.
    """

    def __init__(
        self,
        provider: Callable[[], Any],
        wakeup: Callable[[], object] = lambda: None,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._provider = provider
        self.wakeup = wakeup
        self._wall_s = wall_s
        self._changed = threading.Condition()
        # Guarded by _changed.
        self._token: OAuthToken | None = None
        self._failure: AuthenticationError | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def current(self) -> OAuthToken | None:
        """The current token; ``None`` while the first one is being requested. Never blocks.

        Raises AuthenticationError if there is no valid token, and the last attempt to get one failed.
        """
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="kproducer-oauth", daemon=True)
                self._thread.start()
            if self._token is not None and self._wall_s() < self._token.expires_at:
                return self._token
            if self._failure is not None:
                # The callers get an instance of their own: each adds where it happened.
                error = AuthenticationError(str(self._failure))
                error.__cause__ = self._failure.__cause__
                raise error
            return None

    def close(self) -> None:
        """End the thread, without waiting for a provider that is running. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        failures = 0
        while True:
            try:
                token = self._request()
            except Exception as error:
                failures += 1
                # The text of the application's error may quote a request with its secret; it is the cause.
                text = f"sasl_oauth_token_provider raised {type(error).__name__}"
                failure = AuthenticationError(str(error) if isinstance(error, KafkaError) else text)
                failure.__cause__ = error
                wait_s = min(_LEAST_WAIT_S * 2 ** min(failures - 1, 10), _LONGEST_WAIT_S)
                _log.error("No new OAuth token, next attempt in %.0f s: %s", wait_s, failure)
                with self._changed:
                    self._failure = failure
            else:
                failures = 0
                lifetime_s = token.expires_at - self._wall_s()
                wait_s = max(lifetime_s * _REFRESH_AFTER_SHARE, _LEAST_WAIT_S)
                with self._changed:
                    self._token, self._failure = token, None
            self.wakeup()
            if self._wait(wait_s):
                return

    def _wait(self, wait_s: float) -> bool:
        """Wait; ``True``: closed."""
        end_s = self._wall_s() + wait_s
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
        token = as_token(result)
        if token.expires_at <= self._wall_s():
            raise AuthenticationError("sasl_oauth_token_provider returned a token that has expired already")
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
    raise AuthenticationError(
        "sasl_oauth_token_provider must return (token, expiry in seconds since 1970) or (token, expiry,"
        f" SASL extensions); it returned {type(result).__name__}"
    )
