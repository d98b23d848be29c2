"""Shared by the scenarios of transactions: an initialized producer, and what readers see."""

from __future__ import annotations

from typing import Any

from kproducer import KafkaProducer
from kproducer.testing.fakebroker import FakeCluster, Reply, RequestContext
from kproducer.testing.fakebroker.actions import Action, Handler
from tests.scenarios.conftest import Stage


def transactional(stage: Stage, cluster: FakeCluster, **config: Any) -> KafkaProducer:
    kafka = stage.producer(cluster, **{"transactional_id": "tx", "max_block_ms": 20_000, **config}).kafka
    kafka.init_transactions()
    return kafka


def committed(cluster: FakeCluster, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in cluster.committed_records("t", partition)]


def answer_code(code: int) -> Handler:
    """Process the request and answer with this error; for requests where that has no effect."""

    def refuse(context: RequestContext) -> Action:
        answer = context.apply()
        answer.error_code = code
        return Reply(answer)

    return refuse
