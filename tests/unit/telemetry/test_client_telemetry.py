"""ClientTelemetry: which request is due when, for every outcome of the requests before it."""

from __future__ import annotations

import logging
import random
import uuid

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kproducer_messages import (
    ZERO_UUID,
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.records.compression import Compression, CompressionType
from kproducer._core.runtime.clock import NEVER_MS
from kproducer._core.telemetry import client_telemetry
from kproducer._core.telemetry.client_telemetry import (
    DEFAULT_PUSH_INTERVAL_MS,
    LAST_PUSH_MS,
    MOST_PREFIXES,
    SHORTEST_PUSH_INTERVAL_MS,
    ClientTelemetry,
)
from kproducer.errors import DisconnectedError

ID = uuid.UUID(int=7)
INTERVAL_MS = 1000
UNSUPPORTED_VERSION, INVALID_REQUEST, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD = 35, 42, 76, 87
THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID, TELEMETRY_TOO_LARGE = 89, 117, 118
FATAL = (UNSUPPORTED_VERSION, INVALID_REQUEST, INVALID_RECORD, -1, 29)
TEMPORARY = (THROTTLING_QUOTA_EXCEEDED, TELEMETRY_TOO_LARGE)
OUTDATED = (UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE)


class Payload:
    """Stands for MetricsPayload: notes what it is told."""

    def __init__(self):
        self.data = b"metrics " * 10
        self.built = []
        self.accepted_count = 0
        self.reset_count = 0

    def build(self, prefixes, *, is_delta):
        self.built.append((prefixes, is_delta))
        return self.data

    def accepted(self):
        self.accepted_count += 1

    def reset(self):
        self.reset_count += 1


class Bench:
    """Telemetry with a clock of its own."""

    def __init__(self):
        self.payload = Payload()
        self.telemetry = ClientTelemetry(self.payload, "client", random.Random(1))
        self.now_ms = 50_000

    @property
    def wait_ms(self):
        return self.telemetry.due_ms - self.now_ms

    def request(self, kind):
        """Wait until the next request is due, and take it."""
        self.now_ms = max(self.now_ms, self.telemetry.due_ms)
        request = self.telemetry.next_request(self.now_ms)
        assert type(request) is kind
        assert self.telemetry.due_ms >= self.now_ms
        assert self.telemetry.next_request(self.now_ms) is None
        return request

    def answer_subscription(self, **fields):
        values = {
            "client_instance_id": ID,
            "subscription_id": 5,
            "push_interval_ms": INTERVAL_MS,
            "telemetry_max_bytes": 10_000,
            "delta_temporality": True,
            "requested_metrics": ["*"],
        }
        response = GetTelemetrySubscriptionsResponse(**{**values, **fields})
        self.telemetry.handle_subscription(response, self.now_ms)

    def subscribe(self, **fields):
        request = self.request(GetTelemetrySubscriptionsRequest)
        self.answer_subscription(**fields)
        return request

    def answer_push(self, error_code=0):
        self.telemetry.handle_push(PushTelemetryResponse(error_code=error_code), self.now_ms)

    def push(self, error_code=0):
        request = self.request(PushTelemetryRequest)
        self.answer_push(error_code)
        return request


@pytest.fixture
def bench():
    return Bench()


def test_the_first_request_is_due_at_once_and_has_no_id(bench):
    assert bench.telemetry.due_ms <= bench.now_ms
    assert bench.telemetry.next_api_key is ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
    assert bench.subscribe().client_instance_id == ZERO_UUID
    assert bench.telemetry.instance_id == ID


def test_the_first_push_is_spread_and_later_ones_are_regular(bench):
    waits = set()
    for seed in range(50):
        bench.telemetry = ClientTelemetry(bench.payload, "client", random.Random(seed))
        bench.subscribe()
        waits.add(bench.wait_ms)
        bench.push()
        assert bench.wait_ms == INTERVAL_MS
    assert INTERVAL_MS * 0.5 <= min(waits) < INTERVAL_MS * 0.6
    assert INTERVAL_MS * 1.4 < max(waits) <= INTERVAL_MS * 1.5


@pytest.mark.parametrize("codec", CompressionType)
def test_a_push_is_compressed_as_the_broker_prefers(bench, codec):
    bench.subscribe(accepted_compression_types=[99, codec, *CompressionType], delta_temporality=False)
    request = bench.push()
    assert (request.client_instance_id, request.subscription_id, request.terminating) == (ID, 5, False)
    assert request.compression_type == codec
    assert Compression(codec).decompress(request.metrics) == bench.payload.data
    assert bench.payload.built == [(("*",), False)]
    assert bench.payload.accepted_count == 1


@pytest.mark.parametrize("codecs", [[], [99, -1]])
def test_without_a_known_codec_nothing_is_compressed(bench, codecs):
    bench.subscribe(accepted_compression_types=codecs)
    assert bench.push().compression_type == 0


def test_if_nothing_is_wanted_the_subscription_is_asked_for_again(bench):
    for _ in range(3):
        bench.subscribe(requested_metrics=[])
        assert bench.wait_ms == INTERVAL_MS
    assert bench.payload.built == []
    assert bench.telemetry.instance_id == ID


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_an_interval_that_is_none_is_replaced(bench, interval_ms):
    bench.subscribe(push_interval_ms=interval_ms, requested_metrics=[])
    assert bench.wait_ms == DEFAULT_PUSH_INTERVAL_MS


@pytest.mark.parametrize("metrics", [["*"], []])
def test_an_interval_that_brokers_do_not_accept_is_lengthened(bench, metrics):
    for _ in range(3):
        bench.subscribe(push_interval_ms=1, requested_metrics=metrics)
        if metrics:
            assert bench.wait_ms >= SHORTEST_PUSH_INTERVAL_MS / 2  # jitter
            bench.push(UNKNOWN_SUBSCRIPTION_ID)
        else:
            assert bench.wait_ms == SHORTEST_PUSH_INTERVAL_MS
    bench.subscribe(push_interval_ms=1)
    bench.push()
    assert bench.wait_ms == SHORTEST_PUSH_INTERVAL_MS


def test_the_number_of_prefixes_is_limited(bench, caplog):
    caplog.set_level(logging.INFO)
    prefixes = [f"org.apache.kafka.{number}" for number in range(MOST_PREFIXES + 1)]
    for _ in range(3):
        bench.subscribe(requested_metrics=prefixes)
        bench.push(UNKNOWN_SUBSCRIPTION_ID)
    assert bench.payload.built == [(tuple(prefixes[:-1]), True)] * 3
    assert caplog.text.count(f"{MOST_PREFIXES + 1} prefixes") == 1


def test_codecs_that_are_repeated_are_looked_at_once(bench, monkeypatch):
    tried = []

    def unknown(number):
        tried.append(number)
        raise ValueError

    monkeypatch.setattr(client_telemetry, "CompressionType", unknown)
    bench.subscribe(accepted_compression_types=[99] * 1000)
    assert tried == [99]


@pytest.mark.parametrize("code", FATAL)
def test_errors_that_end_telemetry(bench, code):
    bench.request(GetTelemetrySubscriptionsRequest)
    bench.answer_subscription(error_code=code)
    assert bench.telemetry.due_ms == NEVER_MS
    assert not bench.telemetry.is_open
    other = Bench()
    other.subscribe()
    other.push(code)
    assert other.telemetry.due_ms == NEVER_MS
    assert other.payload.accepted_count == 0


@pytest.mark.parametrize("code", OUTDATED)
def test_errors_after_which_the_subscription_is_asked_for_at_once(bench, code):
    bench.subscribe()
    bench.push(code)
    assert bench.wait_ms == 0
    assert bench.payload.accepted_count == 0
    assert bench.subscribe(subscription_id=6).client_instance_id == ID
    assert bench.push().subscription_id == 6


@pytest.mark.parametrize("code", TEMPORARY)
def test_errors_after_which_telemetry_waits_for_an_interval(bench, code):
    bench.subscribe()
    bench.push(code)
    assert bench.wait_ms == INTERVAL_MS
    bench.request(GetTelemetrySubscriptionsRequest)


@pytest.mark.parametrize("code", [*TEMPORARY, *OUTDATED])
def test_a_broker_that_always_refuses_is_not_asked_all_the_time(bench, code):
    for _ in range(3):
        bench.request(GetTelemetrySubscriptionsRequest)
        bench.answer_subscription(error_code=code)
        assert bench.wait_ms == DEFAULT_PUSH_INTERVAL_MS


def test_a_payload_that_is_too_large_is_not_sent(bench, caplog):
    caplog.set_level(logging.INFO)
    bench.subscribe(telemetry_max_bytes=len(bench.payload.data) - 1)
    bench.now_ms = bench.telemetry.due_ms
    assert bench.telemetry.next_request(bench.now_ms) is None
    assert bench.wait_ms == INTERVAL_MS
    for _ in range(5):
        bench.subscribe(telemetry_max_bytes=len(bench.payload.data) - 1)
        bench.now_ms = bench.telemetry.due_ms
        assert bench.telemetry.next_request(bench.now_ms) is None
    assert caplog.text.count("are not pushed") == 1
    bench.subscribe(telemetry_max_bytes=len(bench.payload.data))
    bench.push()


def test_an_instance_id_that_always_changes_is_not_always_logged(bench, caplog):
    caplog.set_level(logging.INFO)
    for number in range(1, 20):
        bench.subscribe(client_instance_id=uuid.UUID(int=number))
        bench.push(UNKNOWN_SUBSCRIPTION_ID)
    assert caplog.text.count("by the client instance id") == 1


def test_a_change_of_temporality_counts_from_the_start(bench):
    bench.subscribe()
    bench.push(UNKNOWN_SUBSCRIPTION_ID)
    bench.subscribe(subscription_id=6)
    assert bench.payload.reset_count == 0
    bench.push(UNKNOWN_SUBSCRIPTION_ID)
    bench.subscribe(subscription_id=7, delta_temporality=False)
    assert bench.payload.reset_count == 1


def test_lost_connections_before_the_first_subscription_are_followed_by_growing_waits(bench):
    waits = []
    for _ in range(12):
        bench.request(GetTelemetrySubscriptionsRequest)
        bench.telemetry.handle_failure(DisconnectedError("gone"), bench.now_ms)
        waits.append(bench.wait_ms)
    assert waits[0] <= 1200
    assert max(waits) <= DEFAULT_PUSH_INTERVAL_MS
    assert waits[-1] > 100 * waits[0]
    bench.subscribe()


def test_after_a_lost_push_the_next_request_comes_an_interval_later(bench):
    bench.subscribe()
    bench.request(PushTelemetryRequest)
    bench.telemetry.handle_failure(DisconnectedError("gone"), bench.now_ms)
    # The broker may have it: nothing is counted twice.
    assert bench.payload.accepted_count == 1
    assert bench.wait_ms == INTERVAL_MS
    bench.subscribe()
    bench.push()


def test_without_a_broker_that_has_the_api_it_looks_again_less_and_less_often(bench):
    waits = []
    for _ in range(12):
        bench.telemetry.not_supported(bench.now_ms)
        waits.append(bench.wait_ms)
        bench.now_ms = bench.telemetry.due_ms
    assert waits[0] <= 1200
    assert DEFAULT_PUSH_INTERVAL_MS * 0.8 <= waits[-1] <= DEFAULT_PUSH_INTERVAL_MS
    bench.subscribe()


def test_closing_between_pushes_sends_the_last_one_at_once(bench):
    bench.subscribe()
    bench.push()
    bench.telemetry.begin_close(bench.now_ms)
    assert bench.telemetry.is_closing
    assert bench.wait_ms == 0
    assert bench.push().terminating
    assert not bench.telemetry.is_closing
    assert bench.telemetry.due_ms == NEVER_MS


def test_closing_during_a_push_waits_for_its_response(bench):
    bench.subscribe()
    bench.request(PushTelemetryRequest)
    bench.telemetry.begin_close(bench.now_ms)
    bench.now_ms += 10
    bench.answer_push()
    assert bench.push().terminating
    assert bench.payload.accepted_count == 2


def test_closing_while_a_changed_subscription_is_on_its_way(bench):
    bench.subscribe()
    bench.push(UNKNOWN_SUBSCRIPTION_ID)
    bench.request(GetTelemetrySubscriptionsRequest)
    bench.telemetry.begin_close(bench.now_ms)
    assert bench.telemetry.is_closing
    bench.answer_subscription(subscription_id=6)
    request = bench.push()
    assert (request.terminating, request.subscription_id) == (True, 6)


@pytest.mark.parametrize("is_asked", [False, True])
def test_closing_without_a_subscription_pushes_nothing(bench, is_asked):
    if is_asked:
        bench.request(GetTelemetrySubscriptionsRequest)
    bench.telemetry.begin_close(bench.now_ms)
    assert not bench.telemetry.is_open
    bench.answer_subscription()  # too late
    assert bench.telemetry.due_ms == NEVER_MS


@pytest.mark.parametrize("code", [*FATAL, *TEMPORARY, *OUTDATED])
def test_closing_ends_with_any_answer(bench, code):
    bench.subscribe()
    bench.telemetry.begin_close(bench.now_ms)
    bench.push(code)
    assert not bench.telemetry.is_open


@pytest.mark.parametrize("pushing", [False, True])
def test_closing_does_not_wait_long_for_an_answer(bench, pushing):
    bench.subscribe()
    if pushing:
        bench.request(PushTelemetryRequest)
    bench.telemetry.begin_close(bench.now_ms)
    if not pushing:
        bench.request(PushTelemetryRequest)
    assert bench.wait_ms == LAST_PUSH_MS
    bench.now_ms += LAST_PUSH_MS - 1
    bench.telemetry.end_if_late(bench.now_ms)
    assert bench.telemetry.is_closing
    bench.now_ms += 1
    bench.telemetry.end_if_late(bench.now_ms)
    assert not bench.telemetry.is_open
    bench.answer_push()  # too late
    assert not bench.telemetry.is_open
    assert bench.telemetry.due_ms == NEVER_MS


def test_the_instance_id_is_waited_for(bench):
    assert bench.telemetry.await_instance_id(0) is None
    bench.subscribe(requested_metrics=[])
    assert bench.telemetry.await_instance_id(0) == ID


def test_the_end_ends_the_wait_for_the_instance_id(bench):
    bench.telemetry.end()
    assert bench.telemetry.await_instance_id(None) is None


class AnyOrder(RuleBasedStateMachine):
    """Every order of answers, failures, time and close."""

    def __init__(self):
        super().__init__()
        self.bench = Bench()
        self.pending = None
        self.closed_ms = None

    @property
    def telemetry(self):
        return self.bench.telemetry

    @rule(ms=st.integers(0, 3 * INTERVAL_MS))
    def time_passes(self, ms):
        self.bench.now_ms += ms
        self.telemetry.end_if_late(self.bench.now_ms)

    @precondition(lambda self: self.telemetry.is_open)
    @rule()
    def step(self):
        request = self.telemetry.next_request(self.bench.now_ms)
        if request is None:
            return
        assert self.pending is None
        self.pending = request
        if type(request) is PushTelemetryRequest:
            assert request.terminating == (self.closed_ms is not None)

    @precondition(lambda self: self.pending is not None)
    @rule(code=st.sampled_from((0, 0, 0, *OUTDATED, *TEMPORARY, INVALID_REQUEST)), wanted=st.booleans())
    def answer(self, code, wanted):
        pending, self.pending = self.pending, None
        if type(pending) is PushTelemetryRequest:
            self.bench.answer_push(code)
        else:
            metrics = ["*"] if wanted else []
            self.bench.answer_subscription(error_code=code, requested_metrics=metrics)

    @precondition(lambda self: self.pending is not None)
    @rule()
    def fail(self):
        self.pending = None
        self.telemetry.handle_failure(DisconnectedError("gone"), self.bench.now_ms)

    @precondition(lambda self: self.closed_ms is None)
    @rule()
    def close(self):
        self.closed_ms = self.bench.now_ms
        self.telemetry.begin_close(self.bench.now_ms)

    @invariant()
    def something_is_always_due_or_pending(self):
        if self.telemetry.is_open and self.pending is None:
            assert self.telemetry.due_ms <= self.bench.now_ms + DEFAULT_PUSH_INTERVAL_MS
        if not self.telemetry.is_open:
            assert self.telemetry.due_ms == NEVER_MS

    @invariant()
    def closing_ends(self):
        if self.closed_ms is not None and self.bench.now_ms >= self.closed_ms + LAST_PUSH_MS:
            self.telemetry.end_if_late(self.bench.now_ms)
            assert not self.telemetry.is_open


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
