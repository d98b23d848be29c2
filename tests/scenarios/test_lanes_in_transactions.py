"""The data plane in transactions: what it sends by itself, and that each record stays in its transaction."""

from __future__ import annotations

import random
import threading
from collections import Counter
from functools import partial
from typing import Any

import pytest

from kproducer import AbortTransactionError, FencedError, KafkaError, KafkaProducer
from kproducer._core.kernel import data_plane
from kproducer._core.sender import fast_lanes
from kproducer._core.sender.fast_lanes import FastLanes
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios import internals
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.scenarios.transactions import committed, transactional

pytestmark = pytest.mark.skipif(data_plane is None, reason="needs the compiled kernel")

PRODUCE, ADD_PARTITIONS, END = 0, 24, 26


@pytest.fixture(autouse=True)
def _lanes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPRODUCER_FAST_LANE", "1")


@pytest.fixture(params=[1, 2], ids=["version 1", "version 2"])
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def one(stage: Stage, version: int) -> FakeCluster:
    cluster = stage.cluster(1, topics={"t": 2})
    cluster.transaction_version = version
    return cluster


def send(producer: KafkaProducer, value: object, partition: int = 0) -> Any:
    return producer.send("t", str(value).encode(), partition=partition)


def begin_armed(producer: KafkaProducer, cluster: FakeCluster) -> None:
    """Begin a transaction, and have partition 0 armed."""
    producer.begin_transaction()
    for _ in range(2):
        send(producer, "first").result(PATIENCE_S)
    cluster.wait_for(lambda: internals.armed_partitions(producer) == 1, what="it is armed")


def count_hand_overs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often anything is armed and taken back from here on."""
    counts: Counter[str] = Counter()

    def counting(name: str) -> Any:
        original = getattr(FastLanes, name)

        def count(*arguments: Any) -> Any:
            counts[name] += 1
            return original(*arguments)

        return count

    for name in ("_arm_partition", "_take_back"):
        monkeypatch.setattr(FastLanes, name, counting(name))
    return counts


def test_the_usual_record_of_a_transaction_needs_no_round_of_the_io_thread(
    stage: Stage, one: FakeCluster
) -> None:
    producer = transactional(stage, one)
    begin_armed(producer, one)
    before = stage.polls.count
    for number in range(200):
        send(producer, number).result(PATIENCE_S)
    assert stage.polls.count - before < 10
    producer.commit_transaction()
    assert committed(one)[2:] == [b"%d" % number for number in range(200)]


def test_in_version_2_nothing_is_handed_over_between_transactions(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = stage.cluster(1)
    cluster.transaction_version = 2
    producer = transactional(stage, cluster)
    begin_armed(producer, cluster)
    producer.commit_transaction()
    counts = count_hand_overs(monkeypatch)
    for number in range(50):
        with producer.transaction():
            send(producer, 2 * number)
            send(producer, 2 * number + 1)
        producer.begin_transaction()
        send(producer, "lost").result(PATIENCE_S)
        producer.abort_transaction()
    assert counts == {}
    assert committed(cluster)[2:] == [b"%d" % number for number in range(100)]
    assert {request.api_version for request in cluster.requests(PRODUCE)} <= {12, 13}


def test_a_transaction_without_records_is_not_ended_at_the_coordinator(
    stage: Stage, one: FakeCluster
) -> None:
    producer = transactional(stage, one)
    begin_armed(producer, one)
    producer.commit_transaction()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        end()
    assert len(one.requests(END)) == 1
    producer.begin_transaction()
    send(producer, "last")
    producer.commit_transaction()
    assert len(one.requests(END)) == 2
    assert committed(one) == [b"first", b"first", b"last"]


def test_a_prepared_transaction_that_only_a_lane_has_written_is_not_empty(
    stage: Stage, one: FakeCluster
) -> None:
    producer = transactional(stage, one)
    begin_armed(producer, one)
    producer.commit_transaction()
    producer.begin_transaction()
    send(producer, "prepared")
    assert not producer.prepare().is_empty
    producer.commit_transaction()
    assert committed(one)[2:] == [b"prepared"]


def test_an_abort_ends_what_is_in_flight_and_what_waits(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one, max_in_flight_requests_per_connection=2)
    begin_armed(producer, one)
    gate = one.gate()
    one.control(PRODUCE, faults.hold_before(gate), times=2)
    produced = len(one.requests(PRODUCE))
    sent = [send(producer, "lost") for _ in range(2)]
    one.wait_for_requests(PRODUCE, produced + 1)
    sent += [send(producer, "lost") for _ in range(5)]
    aborting = threading.Thread(target=producer.abort_transaction)
    aborting.start()
    one.wait_for(lambda: internals.is_ending_transaction(producer), what="the abort has begun")
    with pytest.raises(KafkaError):
        send(producer, "late")
    gate.open()
    aborting.join()
    assert all(each.done() for each in sent)
    begin_armed(producer, one)
    producer.commit_transaction()
    assert committed(one) == [b"first", b"first"]


def test_a_commit_waits_for_what_is_in_flight(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one)
    begin_armed(producer, one)
    gate = one.gate()
    one.control(PRODUCE, faults.hold_before(gate), times=1)
    produced = len(one.requests(PRODUCE))
    sent = [send(producer, number) for number in range(5)]
    one.wait_for_requests(PRODUCE, produced + 1)
    committing = threading.Thread(target=producer.commit_transaction)
    committing.start()
    one.wait_for(lambda: internals.is_ending_transaction(producer), what="the commit has begun")
    assert one.requests(END) == []
    gate.open()
    committing.join()
    assert all(each.done() for each in sent)
    assert committed(one)[2:] == [b"%d" % number for number in range(5)]


def test_a_retriable_error_does_not_end_the_transaction(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one)
    begin_armed(producer, one)
    one.control(PRODUCE, faults.refuse_produce(6))
    for number in range(3):
        send(producer, number)
    producer.commit_transaction()
    assert committed(one)[2:] == [b"0", b"1", b"2"]
    begin_armed(producer, one)
    producer.commit_transaction()


def test_a_rejected_record_ends_the_transaction(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one)
    begin_armed(producer, one)
    one.control(PRODUCE, faults.refuse_produce(29))
    assert send(producer, "lost").exception(PATIENCE_S) is not None
    with pytest.raises(AbortTransactionError):
        send(producer, "late")
    with pytest.raises(AbortTransactionError):
        producer.commit_transaction()
    producer.abort_transaction()
    begin_armed(producer, one)
    producer.commit_transaction()
    assert committed(one) == [b"first", b"first"]


def test_a_fenced_producer_can_only_be_closed(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one)
    begin_armed(producer, one)
    transactional(stage, one)
    assert send(producer, "lost").exception(PATIENCE_S) is not None
    with pytest.raises((FencedError, AbortTransactionError)):
        producer.commit_transaction()
    with pytest.raises(KafkaError):
        send(producer, "late")
    assert committed(one) == []


def test_a_new_leader_is_followed_within_a_transaction(stage: Stage, version: int) -> None:
    cluster = stage.cluster(2)
    cluster.transaction_version = version
    producer = transactional(stage, cluster)
    begin_armed(producer, cluster)
    cluster.move_leader("t", 0, 2)
    for number in range(3):
        send(producer, number).result(PATIENCE_S)
    producer.commit_transaction()
    assert committed(cluster)[2:] == [b"0", b"1", b"2"]


def test_another_transactional_id_is_in_the_requests_after_the_change(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one)
    begin_armed(producer, one)
    producer.commit_transaction()
    producer.change_transactional_id("other")
    producer.init_transactions()
    begin_armed(producer, one)
    producer.commit_transaction()
    assert committed(one) == [b"first"] * 4


def test_another_transactional_id_is_known_to_a_lane_that_is_made_after_the_change(
    stage: Stage, one: FakeCluster
) -> None:
    producer = transactional(stage, one)
    producer.begin_transaction()
    gate = one.gate()
    one.control(PRODUCE, faults.hold_before(gate))
    send(producer, "lost")  # to be armed when it is answered
    gate.wait_until_reached()
    aborting = threading.Thread(target=producer.abort_transaction)
    aborting.start()
    gate.open()
    aborting.join(PATIENCE_S)
    producer.change_transactional_id("other")
    producer.init_transactions()
    with producer.transaction():
        send(producer, "kept").result(PATIENCE_S)
    assert committed(one) == [b"kept"]


def test_upgraded_brokers_get_transactions_of_the_next_version(stage: Stage) -> None:
    cluster = stage.cluster(1)
    producer = transactional(stage, cluster)
    cluster.transaction_version = 2
    chosen = (1, 2, 1, 1, 2, 2)
    for version in chosen:
        internals.use_transaction_version(producer, version)
        begin_armed(producer, cluster)
        send(producer, version).result(PATIENCE_S)
        producer.commit_transaction()
    assert committed(cluster) == [each for n in chosen for each in (b"first", b"first", b"%d" % n)]
    versions = [request.api_version for request in cluster.requests(PRODUCE)]
    assert versions == [each for n in chosen for each in [11 if n == 1 else 13] * 3]


def test_in_version_1_a_lane_sends_what_waited_until_its_partition_was_added(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = stage.cluster(1, topics={"t": 2})
    cluster.transaction_version = 1
    producer = transactional(stage, cluster)
    begin_armed(producer, cluster)
    send(producer, "other", partition=1).result(PATIENCE_S)
    producer.commit_transaction()
    sent_by_python: list[Any] = []
    original = FastLanes.note_drained
    monkeypatch.setattr(
        FastLanes, "note_drained", lambda *each: sent_by_python.append(each) or original(*each)
    )
    for number in range(20):
        with producer.transaction():
            for place in range(5):
                send(producer, 5 * number + place)
    assert sent_by_python == []
    # Partition 1 has no record, and is in none of these transactions.
    assert [
        sum(len(topic.partitions) for topic in request.message.v3_and_below_topics)
        for request in cluster.requests(ADD_PARTITIONS)
    ] == [1] * 22
    assert committed(cluster)[2:] == [b"%d" % number for number in range(100)]


def test_a_partition_that_cannot_be_added_gets_nothing_from_the_lane_that_has_had_it(stage: Stage) -> None:
    cluster = stage.cluster(1, topics={"t": 2})
    cluster.transaction_version = 1
    producer = transactional(stage, cluster)
    begin_armed(producer, cluster)
    producer.commit_transaction()
    produced = len(cluster.requests(PRODUCE))
    cluster.control(ADD_PARTITIONS, faults.refuse_coordination(29))
    producer.begin_transaction()
    assert isinstance(send(producer, "lost").exception(PATIENCE_S), KafkaError)
    with pytest.raises(AbortTransactionError):
        send(producer, "late")
    producer.abort_transaction()
    assert len(cluster.requests(PRODUCE)) == produced
    begin_armed(producer, cluster)
    producer.commit_transaction()
    assert committed(cluster) == [b"first"] * 4


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("versions", [[1], [2], [1, 2]])
def test_random_hand_overs_and_faults_change_no_transaction(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, versions: list[int], seed: int
) -> None:
    chooser = random.Random(seed)
    one = stage.cluster(1, topics={"t": 2})
    one.transaction_version = max(versions)
    takes_back = partial(FastLanes, takes_back=lambda: chooser.random() < 0.1)
    monkeypatch.setattr(fast_lanes, "FastLanes", takes_back)

    def maybe_fail(context: Any) -> Any:
        if chooser.random() < 0.03:
            return faults.refuse_produce(chooser.choice([6, 7]))(context)
        return None

    one.control(PRODUCE, maybe_fail, times=None)
    producer = transactional(stage, one, linger_ms=chooser.choice([0, 2]))
    expected: list[list[bytes]] = [[], []]
    for number in range(60):
        internals.use_transaction_version(producer, chooser.choice(versions))
        if chooser.random() < 0.1:
            producer.change_transactional_id(chooser.choice(["tx", "other"]))
            producer.init_transactions()
        producer.begin_transaction()
        values = [b"%d-%d" % (number, record) for record in range(chooser.randrange(30))]
        for place, value in enumerate(values):
            future = send(producer, value.decode(), place % 2)
            if chooser.random() < 0.1:
                future.result(PATIENCE_S)
        if chooser.random() < 0.3:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            for partition in (0, 1):
                expected[partition] += values[partition::2]
    assert committed(one, 0) == expected[0]
    assert committed(one, 1) == expected[1]


def test_records_of_other_threads_end_with_their_transaction(stage: Stage, one: FakeCluster) -> None:
    """Threads send while transactions end."""
    producer = transactional(stage, one)
    current = [0]
    accepted: list[tuple[int, bytes]] = []
    is_over = threading.Event()

    def keep_sending(name: int) -> None:
        number = 0
        while not is_over.is_set():
            before = current[0]
            value = b"%d-%d" % (name, number)
            number += 1
            try:
                producer.send("t", value, partition=0)
            except KafkaError:
                continue
            # Odd numbers: between two transactions.
            if before == current[0] and before % 2 == 0:
                accepted.append((before, value))

    threads = [threading.Thread(target=keep_sending, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    commits = {}
    for number in range(0, 60, 2):
        producer.begin_transaction()
        current[0] = number
        threading.Event().wait(0.002)
        current[0] = number + 1
        commits[number] = number % 3 != 0
        (producer.commit_transaction if commits[number] else producer.abort_transaction)()
    is_over.set()
    for thread in threads:
        thread.join()
    found = set(committed(one))
    assert accepted
    for number, value in accepted:
        assert (value in found) == commits[number], (number, value)
