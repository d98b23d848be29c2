"""TelemetryLink: which broker gets a request, and when it looks again."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from kproducer_messages import GetTelemetrySubscriptionsResponse

from kproducer._core.runtime.clock import NEVER_MS
from kproducer._core.telemetry.client_telemetry import LAST_PUSH_MS, ClientTelemetry
from kproducer._core.telemetry.telemetry_link import TelemetryLink
from tests.support.manual_clock import ManualClock

ID = uuid.UUID(int=7)
INTERVAL_MS = 10_000
BOTH = {71: (0, 0), 72: (0, 0)}


class Client:
    """Stands for NetworkClient: the connections that can take a request, and what was sent."""

    bootstrap_error: Exception | None = None

    def __init__(self) -> None:
        self.ready: list[Any] = []
        self.is_connected = True
        self.sent: list[tuple[str, int, Any]] = []
        self.connections = SimpleNamespace(is_any_connected=lambda: self.is_connected)

    def connect(self, **ranges):
        self.ready = [SimpleNamespace(id=id, versions=SimpleNamespace(ranges=r)) for id, r in ranges.items()]

    def ready_connections(self, now_ms):
        return self.ready

    def send(self, node_id, builder, now_ms, callback):
        self.sent.append((node_id, builder.api_key, callback))


class Bench:
    def __init__(self):
        self.clock = ManualClock()
        self.client = Client()
        payload = SimpleNamespace(build=lambda prefixes, is_delta: b"metrics", accepted=lambda: None)
        self.telemetry = ClientTelemetry(payload, "client")
        self.link = TelemetryLink(self.telemetry, self.client, self.clock)

    def step(self):
        return self.link.step(self.clock.now_ms)

    def subscribe(self):
        self.client.connect(one=BOTH)
        self.step()
        _, api_key, callback = self.client.sent.pop()
        response = GetTelemetrySubscriptionsResponse(
            client_instance_id=ID, push_interval_ms=INTERVAL_MS, requested_metrics=["*"]
        )
        callback(SimpleNamespace(body=response, error=None, request=SimpleNamespace(api_key=api_key)))


@pytest.fixture
def bench():
    return Bench()


def test_the_first_connection_with_the_api_gets_the_request(bench):
    bench.client.connect(old={0: (3, 9)}, one=BOTH, two=BOTH)
    bench.step()
    assert [(node_id, api_key) for node_id, api_key, _ in bench.client.sent] == [("one", 71)]
    assert bench.step() > 10**9  # nothing to do before the response
    assert len(bench.client.sent) == 1


def test_it_ends_if_no_broker_will_ever_be_found(bench):
    bench.client.bootstrap_error = OSError("no name could be resolved")
    assert bench.step() > 10**9
    assert not bench.telemetry.is_open
    assert bench.telemetry.await_instance_id(0) is None


def test_without_the_api_it_looks_again_later(bench):
    bench.client.connect(old={0: (3, 9)})
    wait_ms = bench.step()
    assert 800 <= wait_ms <= 1200
    assert bench.client.sent == []
    bench.client.connect(old={0: (3, 9)}, one=BOTH)
    bench.clock.advance(wait_ms)
    bench.step()
    assert len(bench.client.sent) == 1


def test_without_a_connection_it_waits_for_one(bench):
    bench.client.is_connected = False
    assert bench.step() == NEVER_MS
    assert bench.link.first_ms == NEVER_MS
    bench.client.connect(one=BOTH)
    bench.step()
    assert len(bench.client.sent) == 1


def test_while_brokers_are_busy_it_looks_again_and_then_goes_first(bench):
    for _ in range(3):
        assert bench.step() == 1000
    assert bench.link.first_ms == bench.clock.now_ms + 1000
    bench.clock.advance(1000)
    bench.client.connect(one=BOTH)
    bench.step()
    assert bench.link.first_ms == NEVER_MS


def test_the_next_step_is_when_the_push_is_due(bench):
    bench.subscribe()
    wait_ms = bench.step()
    assert INTERVAL_MS * 0.5 <= wait_ms <= INTERVAL_MS * 1.5
    bench.clock.advance(wait_ms)
    bench.step()
    assert [api_key for _, api_key, _ in bench.client.sent] == [72]


def test_at_close_it_does_not_wait_for_a_connection(bench):
    bench.subscribe()
    bench.client.connect()
    bench.client.is_connected = False
    bench.link.begin_close(bench.clock.now_ms)
    assert bench.step() == 0
    assert not bench.telemetry.is_open


def test_at_close_it_waits_for_a_busy_broker_for_a_limited_time(bench):
    bench.subscribe()
    bench.client.connect()
    bench.link.begin_close(bench.clock.now_ms)
    assert 0 < bench.step() <= LAST_PUSH_MS
    assert bench.telemetry.is_closing
    bench.clock.advance(LAST_PUSH_MS)
    assert bench.step() == 0
    assert not bench.telemetry.is_open


def test_an_error_of_the_client_ends_telemetry(bench):
    bench.client.connect(one=BOTH)
    bench.client.send = lambda *_: 1 / 0
    assert bench.step() == 0
    assert not bench.telemetry.is_open
