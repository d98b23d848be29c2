"""ClientTelemetry: which telemetry request is due when, and what its outcome changes.

Sans I/O: ``TelemetryLink`` sends the requests. At first, and after most errors, the subscription is needed:
which metrics the cluster wants, and how often. Then the metrics are pushed at that interval, and once more
when the producer closes. A broker whose subscriptions have changed refuses a push with
UNKNOWN_SUBSCRIPTION_ID, and the subscription is needed again.

Source: KIP-714; Kafka classes ``ClientTelemetryReporter``, ``ClientTelemetryState`` and
``ClientTelemetryUtils``. Differs from Kafka: after a lost connection telemetry continues, with a backoff; a
payload above the broker's limit is not sent; intervals and the number of prefixes have limits; the
terminating push waits for the response to the push before it, so that no change of a counter is pushed twice.
"""

from __future__ import annotations

import contextlib
import random as random_module
import threading
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kproducer_messages import ZERO_UUID

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.records.compression import Compression, CompressionType
from kproducer._core.runtime.clock import NEVER_MS, ExponentialBackoff
from kproducer._core.runtime.guarded_logger import GuardedLogger, LogRepeats, error_fields
from kproducer._core.telemetry.metrics_payload import MetricsPayload
from kproducer.errors import ConfigError, KafkaError
from kproducer.errors.broker_errors import error_for_code

if TYPE_CHECKING:
    from kproducer_messages import (
        GetTelemetrySubscriptionsRequest,
        GetTelemetrySubscriptionsResponse,
        PushTelemetryRequest,
        PushTelemetryResponse,
    )

_log = GuardedLogger(__name__)

#: The interval when no broker has named one.
DEFAULT_PUSH_INTERVAL_MS = 300_000
#: The shortest ``interval.ms`` that brokers accept in a subscription. A shorter one in a response is a bug of
#: the broker, and would keep the I/O thread busy (docs/decisions/0051-limits-for-peers.md).
SHORTEST_PUSH_INTERVAL_MS = 100
#: The most prefixes of a subscription that are used. Even with one prefix per metric, no client needs more.
MOST_PREFIXES = 1000
#: Equal messages are logged once in this time.
_QUIET_MS = 3_600_000
#: How long ``close`` may wait for the terminating push. Brokers answer in milliseconds, and the metrics are
#: not worth more of the application's time.
LAST_PUSH_MS = 1000
#: After a change of the subscription, the first push comes after the interval times a factor between these,
#: so that clients which were started together do not push together.
_JITTER = (0.5, 1.5)
#: The wait after the first lost connection, or if no connected broker has the API.
_RETRY_MS = 1000

_UNSUPPORTED_COMPRESSION_TYPE = 76
_THROTTLING_QUOTA_EXCEEDED = 89
_UNKNOWN_SUBSCRIPTION_ID = 117
_TELEMETRY_TOO_LARGE = 118
#: Errors after which a new subscription is requested at once: it may help.
_OUTDATED = (_UNKNOWN_SUBSCRIPTION_ID, _UNSUPPORTED_COMPRESSION_TYPE)
#: Errors after which the next attempt, after the interval, may succeed. All other errors end telemetry.
_TEMPORARY = (_TELEMETRY_TOO_LARGE, _THROTTLING_QUOTA_EXCEEDED)


class Subscription(NamedTuple):
    """What the cluster wants from this client, as a broker has answered.

    Attributes:
        id: pushes repeat it.
        push_interval_ms: time between pushes; at least ``SHORTEST_PUSH_INTERVAL_MS``.
        compression: the codec of payloads.
        max_bytes: largest payload that the broker accepts; 0: it names no limit.
        is_delta: counters are pushed as changes.
        prefixes: of the wanted metrics' names, at most ``MOST_PREFIXES``; none: no metric is wanted.
    """

    id: int
    push_interval_ms: int
    compression: Compression
    max_bytes: int
    is_delta: bool
    prefixes: tuple[str, ...]


class ClientTelemetry:
    """The telemetry of one producer. I/O thread only, except ``await_instance_id``.

    Args:
        payload: makes the content of pushes.
        client_id: of the producer, for the log.
        random: for jitter.

    Attributes:
        client_id: as given.
        is_open: whether there will be another request or response. Any thread.
        next_api_key: the API of the request that is in progress, or else comes next.
        subscription: the latest one, if any.
        instance_id: assigned by the first broker that answered; ``None`` before. Any thread.
        due_ms: when to call ``next_request`` (monotonic); ``NEVER_MS`` while a request is in progress and
            when telemetry has ended. While the producer closes: at the latest ``close_ends_ms``.
        close_ends_ms: when the producer stops waiting for the terminating push; ``NEVER_MS`` if it is open.
    """

    def __init__(
        self, payload: MetricsPayload, client_id: str, random: random_module.Random | None = None
    ) -> None:
        # Fixed after construction.
        self.client_id = client_id
        self._payload = payload
        self._random = random if random is not None else random_module.Random()
        self._backoff = ExponentialBackoff(_RETRY_MS, DEFAULT_PUSH_INTERVAL_MS, self._random)
        # Written by the I/O thread.
        self.is_open = True
        self.next_api_key = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
        self._is_in_progress = False
        self.subscription: Subscription | None = None
        self.instance_id: UUID | None = None
        self.due_ms = 0
        self._failures = 0
        self._repeats = LogRepeats(_QUIET_MS)
        self._is_closing = False
        self._is_last_push = False
        self.close_ends_ms = NEVER_MS
        #: Set when ``instance_id`` is known, and when it is clear that it never will be.
        self._is_known = threading.Event()

    # -- any thread --------------------------------------------------------------------------------------

    def await_instance_id(self, timeout_s: float | None) -> UUID | None:
        """The id that the brokers know this client by; ``None``: not known in time, or never.

        Args:
            timeout_s: in seconds; ``None``: no limit.
        """
        self._is_known.wait(timeout_s)
        return self.instance_id

    # -- requests ----------------------------------------------------------------------------------------

    def next_request(self, now_ms: int) -> GetTelemetrySubscriptionsRequest | PushTelemetryRequest | None:
        """The request to send now; ``None``: none is due. Each ends in one of the methods below."""
        if self._is_in_progress or now_ms < self.due_ms:
            return None
        if self.next_api_key is ApiKey.PUSH_TELEMETRY:
            return self._push(now_ms)
        # Imported here, because few clusters have the API.
        from kproducer_messages import GetTelemetrySubscriptionsRequest

        self._begin()
        return GetTelemetrySubscriptionsRequest(client_instance_id=self.instance_id or ZERO_UUID)

    def _push(self, now_ms: int) -> PushTelemetryRequest | None:
        # Imported here, because few clusters want metrics.
        from kproducer_messages import PushTelemetryRequest

        subscription = self.subscription
        assert subscription is not None
        assert self.instance_id is not None
        metrics = self._payload.build(subscription.prefixes, is_delta=subscription.is_delta)
        compressed = subscription.compression.compress(metrics)
        if 0 < subscription.max_bytes < len(compressed):
            self._inform(
                "too large",
                now_ms,
                "The metrics of %s are not pushed: %d bytes, and brokers accept %d (telemetry.max.bytes)%s",
                len(compressed),
                subscription.max_bytes,
            )
            self._subscription_needed(now_ms + subscription.push_interval_ms)
            return None
        self._begin()
        self._is_last_push = self._is_closing
        return PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=subscription.id,
            terminating=self._is_last_push,
            compression_type=subscription.compression.type,
            metrics=compressed,
        )

    # -- outcomes of requests ----------------------------------------------------------------------------

    def handle_subscription(self, response: GetTelemetrySubscriptionsResponse, now_ms: int) -> None:
        """The response to a GetTelemetrySubscriptionsRequest."""
        if not self._succeeded(response.error_code, now_ms):
            return
        before = self.subscription
        interval_ms = response.push_interval_ms
        prefixes = response.requested_metrics
        if len(prefixes) > MOST_PREFIXES:
            self._inform(
                "prefixes",
                now_ms,
                "A telemetry subscription for %s has %d prefixes; the first %d are used%s",
                len(prefixes),
                MOST_PREFIXES,
            )
        self.subscription = subscription = Subscription(
            response.subscription_id,
            max(interval_ms, SHORTEST_PUSH_INTERVAL_MS) if interval_ms > 0 else DEFAULT_PUSH_INTERVAL_MS,
            _preferred(response.accepted_compression_types),
            max(response.telemetry_max_bytes, 0),
            response.delta_temporality,
            tuple(prefixes[:MOST_PREFIXES]),
        )
        if before is not None and before.is_delta != subscription.is_delta:
            self._payload.reset()
        if response.client_instance_id != ZERO_UUID and response.client_instance_id != self.instance_id:
            self.instance_id = response.client_instance_id
            text = "Brokers know the metrics of %s by the client instance id %s%s"
            self._inform("id", now_ms, text, self.instance_id)
        self._is_known.set()
        _log.debug("Telemetry subscription: %s", subscription)
        if self.instance_id is None or not subscription.prefixes:
            self._subscription_needed(now_ms + subscription.push_interval_ms)
        else:
            interval_ms = round(subscription.push_interval_ms * self._random.uniform(*_JITTER))
            self._push_after(interval_ms, now_ms)

    def handle_push(self, response: PushTelemetryResponse, now_ms: int) -> None:
        """The response to a PushTelemetryRequest."""
        if not self._succeeded(response.error_code, now_ms):
            return
        self._payload.accepted()
        assert self.subscription is not None
        if self._is_last_push:
            self.end()
        else:
            self._push_after(self.subscription.push_interval_ms, now_ms)

    def _succeeded(self, error_code: int, now_ms: int) -> bool:
        """Whether to use a response: telemetry has not ended, and the response is not an error."""
        if not self.is_open:
            return False
        self._failures = 0
        if error_code:
            self._handle_error(error_code, now_ms)
        return not error_code

    def handle_failure(self, error: KafkaError | None, now_ms: int) -> None:
        """The request has no response, for example because the connection ended."""
        if not self.is_open:
            return
        _log.debug("A telemetry request has failed: %s", error)
        if self.next_api_key is ApiKey.PUSH_TELEMETRY:
            # The broker may have the metrics. A gap is better than a change that is counted twice.
            self._payload.accepted()
        if self.subscription is None:
            delay_ms = self._backoff.backoff_ms(self._failures)
        else:
            delay_ms = self.subscription.push_interval_ms  # brokers refuse a request that comes earlier
        self._failures += 1
        self._subscription_needed(now_ms + delay_ms)

    def not_supported(self, now_ms: int) -> None:
        """No connected broker has the API: look again later, when others may be connected, or upgraded."""
        if self._is_closing:
            self.end()
        else:
            self.due_ms = now_ms + self._backoff.backoff_ms(self._failures)
            self._failures += 1

    def _handle_error(self, code: int, now_ms: int) -> None:
        error = error_for_code(code)
        if code not in _OUTDATED and code not in _TEMPORARY:
            _log.info(
                "A broker has refused the telemetry of %s, which ends: %s",
                self.client_id,
                error,
                extra={"client_id": self.client_id, **error_fields(error)},
            )
            self.end()
            return
        _log.debug("A broker has refused a telemetry request: %s", error)
        subscription = self.subscription
        interval_ms = DEFAULT_PUSH_INTERVAL_MS if subscription is None else subscription.push_interval_ms
        is_outdated = code in _OUTDATED and self.next_api_key is ApiKey.PUSH_TELEMETRY
        self._subscription_needed(now_ms if is_outdated else now_ms + interval_ms)

    # -- the end -----------------------------------------------------------------------------------------

    def begin_close(self, now_ms: int) -> None:
        """The producer has nothing left to send: push the metrics once more, if they are wanted."""
        self._is_closing = True
        self.close_ends_ms = now_ms + LAST_PUSH_MS
        is_push = self.next_api_key is ApiKey.PUSH_TELEMETRY
        are_wanted = self.subscription is not None and bool(self.subscription.prefixes)
        if self.is_open and (is_push or (self._is_in_progress and are_wanted)):
            # If a request is in progress, the terminating push is sent when its response has arrived.
            self.due_ms = self.close_ends_ms if self._is_in_progress else now_ms
        else:
            self.end()

    @property
    def is_closing(self) -> bool:
        """Whether the producer is being closed, and waits for the terminating push."""
        return self._is_closing and self.is_open

    def end_if_late(self, now_ms: int) -> None:
        """Stop waiting for the terminating push once its time has passed."""
        if self.is_open and now_ms >= self.close_ends_ms:
            _log.debug("The terminating push has not ended within %d ms", LAST_PUSH_MS)
            self.end()

    def end(self) -> None:
        """Nothing more is sent. Idempotent."""
        self.is_open = False
        self.due_ms = NEVER_MS
        self._is_known.set()

    def end_after_fork(self) -> None:
        """In a forked child: the telemetry is the parent's. Another thread may have held the event's lock."""
        self._is_known = threading.Event()
        self.end()

    def _inform(self, kind: str, now_ms: int, text: str, *arguments: object) -> None:
        """Log a message, unless one of this kind was logged recently.

        Args:
            kind: of the message.
            now_ms: monotonic.
            text: formats the client's id, the arguments, and how many messages were suppressed.
        """
        suffix = self._repeats.suffix(kind, now_ms)
        if suffix is not None:
            _log.info(text, self.client_id, *arguments, suffix, extra={"client_id": self.client_id})

    def _subscription_needed(self, due_ms: int) -> None:
        """Ask for the subscription at this time; nothing more is sent if the producer is being closed."""
        if self._is_closing:
            self.end()
        else:
            self._next(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, due_ms)

    def _push_after(self, interval_ms: int, now_ms: int) -> None:
        """Push after the interval, or at once if the producer is being closed."""
        self._next(ApiKey.PUSH_TELEMETRY, now_ms if self._is_closing else now_ms + interval_ms)

    def _begin(self) -> None:
        self._is_in_progress = True
        self.due_ms = self.close_ends_ms

    def _next(self, api_key: ApiKey, due_ms: int) -> None:
        self._is_in_progress = False
        self.next_api_key = api_key
        self.due_ms = min(due_ms, self.close_ends_ms)


def _preferred(accepted: list[int]) -> Compression:
    """The first of the broker's codecs that this client has; none of them: no compression."""
    for number in dict.fromkeys(accepted):
        # Skip numbers that are no known codec, and codecs whose package is not installed.
        with contextlib.suppress(ValueError, ConfigError):
            return Compression.of(CompressionType(number).name)
    return Compression()
