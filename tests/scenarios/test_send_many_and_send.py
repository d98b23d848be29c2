"""``send_many`` and ``send`` are equivalent: any mix of plain and unusual rows has the same results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kproducer import KafkaError, KafkaProducer, MetadataTimeoutError, TopicPartition
from kproducer._core.kernel import data_plane
from kproducer.testing.fakebroker import FakeCluster
from tests.scenarios import internals
from tests.scenarios.harness import PATIENCE_S

PARTITION_COUNT = 3
_topics = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    made = FakeCluster()
    yield made
    made.close()
    assert made.violations == []


#: Whether the partitions of ``test_any_rows`` are armed before.
ARMED = "armed"


@pytest.fixture(scope="module", params=["none", "gzip", ARMED, "gzip, " + ARMED])
def kafka(cluster: FakeCluster, request: pytest.FixtureRequest) -> Iterator[KafkaProducer]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KPRODUCER_FAST_LANE", "1")
        yield from opened(cluster, request.param)


def opened(cluster: FakeCluster, param: str) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(
        cluster.bootstrap_servers,
        linger_ms=1,
        batch_size=300,
        max_block_ms=2000,
        max_request_size=400,
        compression_type="gzip" if "gzip" in param else "none",
        client_id=param,
    )
    yield producer
    producer.close(PATIENCE_S)


texts = st.sampled_from(["", "text", "é" * 5, "\udc80", "x" * 150])
odd = st.sampled_from([3, 1.5, bytearray(b"array"), memoryview(b"view"), [b"list"], b"x" * 500])
datas = st.one_of(st.none(), st.binary(max_size=80), st.binary(max_size=80), texts, odd)
header_values = st.one_of(st.none(), st.binary(max_size=5), texts, st.just(7))
pairs = st.tuples(st.one_of(texts, st.just(b"name")), header_values)
headers = st.one_of(
    st.none(),
    st.lists(pairs, max_size=3),
    st.lists(pairs, max_size=3).map(tuple),
    st.just({"mapping": b"v"}),
    st.sampled_from(["text", 5, [("one",)], [["a", b"b"]], [None]]),
)
# Only existing partitions: the producer would wait for others.
partitions = st.one_of(st.integers(0, PARTITION_COUNT - 1), st.sampled_from([-1, "0", True, 1.0]))
times = st.one_of(st.none(), st.integers(0, 2**63 - 1), st.sampled_from([-1, 2**63, "now", True, 1.0]))
rows = st.tuples(datas, datas, headers, partitions, times)
plain_rows = st.tuples(
    st.binary(max_size=80),
    st.none() | st.binary(max_size=9),
    st.none(),
    st.integers(0, 2),
    st.integers(0, 99),
)


def arm(kafka: KafkaProducer, topics: list[str]) -> None:
    """Send as many records to each partition of them; new metadata take all partitions back."""
    places = [TopicPartition(topic, number) for topic in topics for number in range(PARTITION_COUNT)]
    for _ in range(100):
        for future in [kafka.send(place.topic, b"-", None, None, place.partition, 5) for place in places]:
            future.result(PATIENCE_S)
        if all(internals.is_armed(kafka, place) for place in places):
            return
    raise AssertionError("the partitions are not armed")


def one_by_one(kafka: KafkaProducer, topic: str, given_rows: list[Any]) -> list[Any]:
    outcomes: list[Any] = []
    for value, key, header, partition, time in given_rows:
        try:
            outcomes.append(kafka.send(topic, value, key, header, partition, time))
        except KafkaError as error:
            outcomes.append(error)
    return outcomes


def logs(cluster: FakeCluster, topic: str) -> list[Any]:
    return [cluster.records(topic, partition) for partition in range(PARTITION_COUNT)]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(rows, plain_rows, plain_rows), min_size=1, max_size=40), st.booleans())
def test_any_rows(kafka: KafkaProducer, cluster: FakeCluster, given_rows: list[Any], keyed: bool) -> None:
    many, singly = (f"{kind}-{next(_topics)}" for kind in ("many", "singly"))
    if keyed:
        # Rows without a partition have a key; without one, the partition would be random.
        given_rows = [
            (value, b"k" if key is None else key, header, None, 5 if time is None else time)
            for value, key, header, _, time in given_rows
        ]
    else:
        given_rows = [(*row[:4], 5 if row[4] is None else row[4]) for row in given_rows]
    for topic in (many, singly):
        cluster.create_topic(topic, PARTITION_COUNT)
    if ARMED in kafka.config.client_id and data_plane is not None:
        arm(kafka, [many, singly])
    result = kafka.send_many(many, *map(list, zip(*given_rows, strict=True)))
    outcomes = one_by_one(kafka, singly, given_rows)
    failures = dict(result.failures(PATIENCE_S))
    for row, (outcome, future) in enumerate(zip(outcomes, result, strict=True)):
        if isinstance(outcome, KafkaError):
            assert type(failures[row]) is type(outcome)
            assert str(failures[row]) == str(outcome).replace(singly, many)
            assert failures[row].outcome is outcome.outcome
            continue
        metadata = outcome.result(PATIENCE_S)
        assert future.result() == metadata._replace(topic=many)
    assert logs(cluster, many) == logs(cluster, singly)


def test_without_key_and_partition_every_row_arrives_once_and_in_order(
    kafka: KafkaProducer, cluster: FakeCluster
) -> None:
    cluster.create_topic("sticky", PARTITION_COUNT)
    sent = [b"%05d" % number + b"x" * (number % 50) for number in range(5000)]
    result = kafka.send_many("sticky", sent, partitions=[None] * 5000)
    assert result.failures(PATIENCE_S) == []
    stored = {(p, r.offset): r.value for p in range(PARTITION_COUNT) for r in cluster.records("sticky", p)}
    assert [stored[place] for place in zip(result.partitions(), result.offsets(), strict=True)] == sent
    assert len(stored) == 5000
    for partition in range(PARTITION_COUNT):
        log = [record.value for record in cluster.records("sticky", partition)]
        assert log == sorted(log, key=lambda value: value[:5])


def test_a_partition_that_appears_meanwhile_is_waited_for(kafka: KafkaProducer, cluster: FakeCluster) -> None:
    topic = f"missing-{next(_topics)}"
    cluster.create_topic(topic, 1)
    result = kafka.send_many(topic, [b"v"] * 3, partitions=[0, 1, 0])
    assert [type(error) for _, error in result.failures(PATIENCE_S)] == [MetadataTimeoutError]
    cluster.recreate_topic(topic, 2)
    result = kafka.send_many(topic, [b"v"] * 3, partitions=[0, 1, 0])
    assert result.failures(PATIENCE_S) == []
