"""A short form of ``make exactly-once-chaos``, and that its verdict can be a bad one.

A streaming query whose processes are killed at named steps of the protocol; each row has to be in the topic
once. It runs with the native core alone: what is killed here are the steps, and they are the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.spark.conftest import require_java
from tests.support.kafka.cluster import KafkaCluster
from tests.support.spark.exactly_once_chaos import ExactlyOnceChaos
from tests.support.spark.exactly_once_query import ExactlyOnceQuery
from tests.support.spark.exactly_once_variants import VARIANTS

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(420),
    pytest.mark.skipif(
        os.environ.get("KPRODUCER_KERNEL") == "pure",
        reason="killed Spark drivers take a minute, and the kernel has no part in the protocol",
    ),
]

NewQuery = Callable[..., ExactlyOnceQuery]


@pytest.fixture
def new_query(kafka: KafkaCluster) -> Iterator[NewQuery]:
    """Make queries, ``new_query(topic, breakage=None)``; they end with the test."""
    require_java()
    queries: list[ExactlyOnceQuery] = []

    def make(topic: str, breakage: str | None = None) -> ExactlyOnceQuery:
        variant = next(each for each in VARIANTS if each.name == "avro")
        query = ExactlyOnceQuery(
            kafka, topic, "local[2,4]", variant=variant, breakage=breakage, lifetime_seconds=400
        )
        queries.append(query)
        return query

    yield make
    for query in queries:
        query.close()
        query.remove_folder()


def test_rows_are_there_once_whatever_is_killed(kafka: KafkaCluster, new_query: NewQuery) -> None:
    query = new_query("killed-once")
    chaos = ExactlyOnceChaos(kafka, query, seed=1)
    query.start_driver()
    query.await_batch(1)
    chaos.kill_one_at("prepare")
    chaos.kill_one_at("prepared")
    query.await_batch(query.batch + 1)
    # With the first task committed and the others not; the query fails and is started again.
    chaos.kill_one_at("commit_rest")
    query.await_batch(query.batch + 1)
    chaos.kill_all_at("committed")
    query.await_batch(query.batch + 1)
    query.finish()
    judgement = query.judge()
    assert judgement.is_good, judgement
    assert query.runs == 2
    assert query.failures.total() >= 1


def test_without_markers_rows_are_doubled(kafka: KafkaCluster, new_query: NewQuery) -> None:
    query = new_query("killed-without-markers", breakage="markers")
    query.start_driver()
    query.await_batch(0)
    ExactlyOnceChaos(kafka, query, seed=1).kill_all_at("committed")
    query.finish()
    judgement = query.judge()
    for verdict in judgement.final.values():
        assert verdict.duplicates > 0
        assert verdict.lost == 0
    assert not judgement.is_good
