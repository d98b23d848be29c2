"""Text from brokers appears in errors and logs on one line, without terminal control sequences."""

from __future__ import annotations

import pytest

from kproducer.testing.fakebroker import FakeCluster, Reply, RequestContext, faults
from tests.scenarios.conftest import Stage

PRODUCE, METADATA = 0, 3
HOSTILE = "x\n2026-01-01 CRITICAL forged\x1b[2J\u202e"


def name_hostile_things(context: RequestContext) -> Reply:
    answer = context.apply()
    answer.cluster_id = HOSTILE
    for broker in answer.brokers:
        broker.host, broker.rack = HOSTILE, HOSTILE
    return Reply(answer)


def assert_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("kproducer")]
    assert messages
    assert [text for text in messages if not text.isprintable()] == []


def test_hosts_racks_and_the_cluster_id(
    stage: Stage, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    cluster.control(METADATA, name_hostile_things, times=None)
    producer = stage.producer(cluster, request_timeout_ms=300, delivery_timeout_ms=2000)
    error = producer.send().error()
    assert "forged" in str(error)
    assert str(error).isprintable()
    assert_one_line_each(caplog)


def test_messages_of_errors(stage: Stage, cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    cluster.control(PRODUCE, faults.forge_produce(lambda *_: faults.Forgery(87, False, HOSTILE)))
    error = stage.producer(cluster).send().error()
    assert "forged" in str(error)
    assert str(error).isprintable()
    assert_one_line_each(caplog)
