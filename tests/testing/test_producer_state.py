"""Each rule by which a partition leader accepts, recognises or refuses a producer's batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kproducer.testing.fakebroker import FakeCluster, RequestContext, TopicOptions, faults
from kproducer.testing.fakebroker.producer_state import KeptBatch, ProducerStates
from kproducer.testing.fakebroker.transaction_coordinator import (
    NO_PRODUCER,
    PRODUCER_FENCED,
    Producer,
    TransactionCoordinator,
)
from kproducer.testing.fakebroker.transaction_support import verify_partition
from tests.support.raw_client import RawClient, make_batch, produce_request

PRODUCE = 0
PID = 7
OUT_OF_ORDER, INVALID_EPOCH, INVALID_TXN_STATE, UNKNOWN_PRODUCER = 45, 47, 48, 59
LAST_SEQUENCE = 2**31 - 1


def append(
    states: ProducerStates, epoch: int, first: int, count: int = 1, offset: int = 0, *, tx: bool = False
) -> int | KeptBatch:
    found = states.check(PID, epoch, first, count, tx)
    if found == 0:
        states.appended(PID, epoch, first, count, offset, tx)
    return found


@pytest.fixture
def states() -> ProducerStates:
    """The leader knows sequence 0 to 9 of epoch 3, in one batch at offset 0."""
    made = ProducerStates()
    assert append(made, 3, 0, 10) == 0
    return made


# -- sequence and epoch -------------------------------------------------------------------------------


def test_only_the_next_sequence_is_accepted(states: ProducerStates) -> None:
    assert append(states, 3, 11) == OUT_OF_ORDER
    assert append(states, 3, 9) == OUT_OF_ORDER
    assert append(states, 3, 0) == OUT_OF_ORDER
    assert append(states, 3, 10) == 0


def test_an_older_epoch_is_fenced(states: ProducerStates) -> None:
    assert append(states, 2, 10) == INVALID_EPOCH
    assert append(states, 2, 0) == INVALID_EPOCH


def test_a_batch_of_an_older_epoch_is_not_a_duplicate(states: ProducerStates) -> None:
    assert append(states, 4, 0) == 0
    assert append(states, 3, 0, 10) == INVALID_EPOCH


def test_a_new_epoch_begins_at_0(states: ProducerStates) -> None:
    assert append(states, 4, 10) == OUT_OF_ORDER
    assert append(states, 4, 1) == OUT_OF_ORDER
    assert append(states, 4, 0, 10) == 0, "the same range as before, but not a duplicate"
    assert append(states, 4, 10) == 0


@pytest.mark.parametrize("first", [0, 1, 17, LAST_SEQUENCE])
def test_a_producer_without_state_may_begin_anywhere(first: int) -> None:
    states = ProducerStates()
    assert append(states, 3, first) == 0
    assert append(states, 3, (first + 1) % 2**31) == 0


def test_brokers_before_2_5_refuse_a_producer_without_state_that_does_not_begin_at_0() -> None:
    states = ProducerStates(refuses_unknown=True)
    assert append(states, 3, 17) == UNKNOWN_PRODUCER
    assert append(states, 3, 0) == 0


def test_sequences_wrap_around() -> None:
    states = ProducerStates()
    assert append(states, 3, LAST_SEQUENCE - 1, 2) == 0
    assert append(states, 3, LAST_SEQUENCE) == OUT_OF_ORDER
    assert append(states, 3, 0, 5) == 0


def test_a_batch_across_the_wrap_is_recognised() -> None:
    states = ProducerStates()
    assert append(states, 3, LAST_SEQUENCE, 4, offset=50) == 0
    assert append(states, 3, LAST_SEQUENCE, 4) == KeptBatch(LAST_SEQUENCE, 2, 50)
    assert append(states, 3, 3) == 0


# -- duplicates -----------------------------------------------------------------------------------------


def test_the_last_five_batches_are_recognised_and_no_more() -> None:
    states = ProducerStates()
    for sequence in range(7):
        assert append(states, 3, sequence, offset=100 + sequence) == 0
    for sequence in range(2):
        assert append(states, 3, sequence) == OUT_OF_ORDER
    for sequence in range(2, 7):
        assert append(states, 3, sequence) == KeptBatch(sequence, sequence, 100 + sequence)


def test_a_duplicate_has_exactly_the_same_range(states: ProducerStates) -> None:
    assert append(states, 3, 0, 9) == OUT_OF_ORDER
    assert append(states, 3, 0, 11) == OUT_OF_ORDER
    assert append(states, 3, 1, 9) == OUT_OF_ORDER
    assert append(states, 3, 0, 10) == KeptBatch(0, 9, 0)


# -- lost state -------------------------------------------------------------------------------------------


def test_a_clean_restart_keeps_the_last_batch_only() -> None:
    states = ProducerStates()
    for sequence in range(4):
        assert append(states, 3, sequence) == 0
    states.reload_snapshot()
    for sequence in range(3):
        assert append(states, 3, sequence) == OUT_OF_ORDER
    assert isinstance(append(states, 3, 3), KeptBatch)
    assert append(states, 2, 0) == INVALID_EPOCH
    assert append(states, 3, 4) == 0


def test_producers_expire_by_their_record_timestamps() -> None:
    states = ProducerStates()
    states.appended(PID, 3, 0, 1, 0, False, timestamp_ms=1000)
    states.expire(now_ms=2999, expiration_ms=2000)
    assert states.check(PID, 3, 5, 1) == OUT_OF_ORDER
    states.expire(now_ms=3000, expiration_ms=2000)
    assert states.check(PID, 3, 5, 1) == 0


def test_no_producer_expires_in_a_transaction() -> None:
    states = ProducerStates()
    states.appended(PID, 3, 0, 1, 0, True, timestamp_ms=1000)
    states.expire(now_ms=10_000, expiration_ms=1)
    assert states.has_open_transaction(PID, 3)
    states.marked(PID, 3, timestamp_ms=10_000)
    states.expire(now_ms=10_001, expiration_ms=1)
    assert not states.entries


# -- transactions -------------------------------------------------------------------------------------------


def test_after_a_marker_with_a_new_epoch_only_0_is_accepted(states: ProducerStates) -> None:
    states.marked(PID, 4)
    assert append(states, 3, 10) == INVALID_EPOCH
    assert append(states, 4, 10) == OUT_OF_ORDER
    assert append(states, 4, 1) == OUT_OF_ORDER
    assert append(states, 4, 0) == 0


def test_after_a_marker_without_any_batch_only_0_is_accepted() -> None:
    states = ProducerStates()
    states.marked(PID, 3)
    assert append(states, 3, 5) == OUT_OF_ORDER
    assert append(states, 3, 0) == 0


def test_a_marker_of_the_same_epoch_continues_the_sequence() -> None:
    states = ProducerStates()
    assert append(states, 3, 0, 4, tx=True) == 0
    states.marked(PID, 3)
    assert append(states, 3, 0, tx=True) == OUT_OF_ORDER
    assert append(states, 3, 4, tx=True) == 0


@pytest.mark.parametrize(("epoch", "first"), [(3, 1), (4, 0)])
def test_no_plain_batch_within_a_transaction(epoch: int, first: int) -> None:
    states = ProducerStates()
    assert append(states, 3, 0, tx=True) == 0
    assert append(states, epoch, first) == INVALID_TXN_STATE
    assert append(states, epoch, first, tx=True) == 0


def test_protocol_2_begins_at_0_where_the_leader_has_no_state() -> None:
    states = ProducerStates()
    states.verifying(PID, 3, 5, bumps_epoch=True)
    assert append(states, 3, 5, tx=True) == OUT_OF_ORDER
    states.verifying(PID, 3, 0, bumps_epoch=True)
    assert append(states, 3, 0, tx=True) == 0
    assert append(states, 3, 1, tx=True) == 0


def test_protocol_1_begins_anywhere_where_the_leader_has_no_state() -> None:
    states = ProducerStates()
    states.verifying(PID, 3, 5, bumps_epoch=False)
    assert append(states, 3, 5, tx=True) == 0


def test_a_failed_verification_holds_back_later_batches() -> None:
    states = ProducerStates()
    states.verifying(PID, 3, 5, bumps_epoch=False)
    states.verifying(PID, 3, 6, bumps_epoch=False)
    assert append(states, 3, 6, tx=True) == OUT_OF_ORDER
    assert append(states, 3, 5, tx=True) == 0
    assert append(states, 3, 6, tx=True) == 0


def test_a_verification_of_a_newer_epoch_replaces_the_older() -> None:
    states = ProducerStates()
    states.verifying(PID, 3, 5, bumps_epoch=False)
    states.verifying(PID, 4, 9, bumps_epoch=False)
    assert append(states, 4, 10, tx=True) == OUT_OF_ORDER
    assert append(states, 4, 9, tx=True) == 0


def test_a_marker_ends_the_verification_except_that_of_the_next_transaction() -> None:
    states = ProducerStates()
    states.verifying(PID, 3, 0, bumps_epoch=False)
    states.marked(PID, 3)
    assert not states.verifications
    states.verifying(PID, 4, 0, bumps_epoch=True)
    states.marked(PID, 4)
    assert states.verifications


@pytest.fixture
def coordinator() -> TransactionCoordinator:
    return TransactionCoordinator(lambda *_: None)


@pytest.mark.parametrize("adds_partition", [False, True])
def test_the_coordinator_is_asked_until_the_transaction_has_data_in_the_partition(
    coordinator: TransactionCoordinator, adds_partition: bool
) -> None:
    states = ProducerStates()
    producer = coordinator.init_producer_id("tx", 1000, Producer(-1, -1))[1]

    def verify(as_producer: Producer) -> int:
        return verify_partition(
            coordinator, states, "tx", as_producer, 0, ("t", 0), adds_partition=adds_partition
        )

    assert verify(producer) == (0 if adds_partition else 120)
    coordinator.add("tx", producer, [("t", 0)])
    assert verify(producer) == 0
    states.appended(*producer, 0, 1, 0, True)
    coordinator.forget("tx")
    assert verify(producer) == 0, "not asked again"
    states.marked(producer.producer_id, 1)
    assert verify(producer) == INVALID_EPOCH
    assert verify(Producer(producer.producer_id, 1)) == (49 if adds_partition else 120)


def test_a_producer_that_was_fenced_does_not_get_an_epoch_again(coordinator: TransactionCoordinator) -> None:
    """``TransactionMetadata.prepareIncrementProducerEpoch``: a new producer leaves no last epoch."""
    _, fenced = coordinator.init_producer_id("tx", 1000, NO_PRODUCER)
    _, newer = coordinator.init_producer_id("tx", 1000, NO_PRODUCER)
    assert coordinator.init_producer_id("tx", 1000, fenced) == (PRODUCER_FENCED, NO_PRODUCER)
    _, raised = coordinator.init_producer_id("tx", 1000, newer)
    assert coordinator.init_producer_id("tx", 1000, newer) == (0, raised), "the response was lost"


# -- through a broker ---------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as made:
        made.create_topic("t")
        yield made


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[RawClient]:
    with RawClient(cluster.brokers[1].port) as made:
        yield made


def produce(
    client: RawClient, sequence: int, *values: bytes, epoch: int = 0, timestamp_ms: int = 1000
) -> Any:
    batch = make_batch(
        *(values or (b"%d" % sequence,)),
        timestamp_ms=timestamp_ms,
        producer_id=PID,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    answer = client.ask(PRODUCE, 9, produce_request("t", batch))
    entry = answer.responses[0].partition_responses[0]
    return entry if entry.error_code == 0 else entry.error_code


def options(cluster: FakeCluster) -> TopicOptions:
    return cluster.topics["t"].options


def values(cluster: FakeCluster) -> list[bytes | None]:
    return [record.value for record in cluster.records("t")]


def test_a_duplicate_gets_its_offset_and_its_timestamp(cluster: FakeCluster, client: RawClient) -> None:
    assert produce(client, 0, b"a").log_append_time_ms == -1
    produce(client, 1, b"b")
    again = produce(client, 0, b"a")
    assert (again.base_offset, again.log_append_time_ms) == (0, 1000)
    assert values(cluster) == [b"a", b"b"]


def test_too_large_is_checked_before_duplicate(cluster: FakeCluster, client: RawClient) -> None:
    produce(client, 0, b"x" * 500)
    with cluster.log.changed:
        options(cluster).max_message_bytes = 200
    assert produce(client, 0, b"x" * 500) == 10
    with cluster.log.changed:
        options(cluster).max_message_bytes = 2000
    assert produce(client, 0, b"x" * 500).base_offset == 0


@pytest.mark.parametrize(
    ("restriction", "code"),
    [({"min_insync_replicas": 2}, 19), ({"compacted": True}, 87), ({"timestamp_range_ms": (5000, 6000)}, 32)],
)
def test_other_refusals_come_before_duplicate_and_sequence(
    cluster: FakeCluster, client: RawClient, restriction: dict[str, Any], code: int
) -> None:
    produce(client, 0)
    with cluster.log.changed:
        for name, value in restriction.items():
            setattr(options(cluster), name, value)
    assert produce(client, 0) == code
    assert produce(client, 17) == code


def test_a_refused_batch_uses_no_sequence(cluster: FakeCluster, client: RawClient) -> None:
    produce(client, 0)
    cluster.control(PRODUCE, faults.refuse_produce(7))
    assert produce(client, 1) == 7
    assert produce(client, 2) == OUT_OF_ORDER
    assert produce(client, 1).base_offset == 1


def test_after_a_clean_restart_only_the_last_batch_is_a_duplicate(
    cluster: FakeCluster, client: RawClient
) -> None:
    for sequence in range(3):
        produce(client, sequence)
    cluster.restart_cleanly(1)
    with RawClient(cluster.brokers[1].port) as later:
        assert produce(later, 1) == OUT_OF_ORDER
        assert produce(later, 2).base_offset == 2
        assert produce(later, 3).base_offset == 3


def test_after_a_crash_five_batches_are_duplicates(cluster: FakeCluster, client: RawClient) -> None:
    for sequence in range(3):
        produce(client, sequence)
    cluster.kill(1)
    cluster.restart(1)
    with RawClient(cluster.brokers[1].port) as later:
        assert [produce(later, sequence).base_offset for sequence in range(3)] == [0, 1, 2]


def test_a_recreated_topic_knows_no_producer(cluster: FakeCluster, client: RawClient) -> None:
    produce(client, 0)
    cluster.recreate_topic("t")
    assert produce(client, 5, b"new").base_offset == 0
    assert produce(client, 0) == OUT_OF_ORDER
    assert values(cluster) == [b"new"]


def test_producer_id_expiration(cluster: FakeCluster, client: RawClient) -> None:
    with cluster.log.changed:
        cluster.now_ms = lambda: 3000
        cluster.producer_id_expiration_ms = 1000
    produce(client, 0, timestamp_ms=2500)
    assert produce(client, 5, timestamp_ms=2500) == OUT_OF_ORDER
    produce(client, 1, timestamp_ms=2000)
    assert produce(client, 5, timestamp_ms=2500).base_offset == 2, (
        "the producer expired by its record timestamps"
    )


# -- false responses ----------------------------------------------------------------------------------------


def test_a_forged_rejection_appends_nothing(cluster: FakeCluster, client: RawClient) -> None:
    cluster.control(PRODUCE, faults.forge_produce(lambda *_: faults.Forgery(20)))
    assert produce(client, 0) == 20
    assert values(cluster) == []


def test_append_and_answer_with_an_error(cluster: FakeCluster, client: RawClient) -> None:
    cluster.control(PRODUCE, faults.forge_produce(lambda *_: faults.Forgery(20, appended=True)))
    assert produce(client, 0) == 20
    assert values(cluster) == [b"0"]
    assert produce(client, 0).base_offset == 0


def test_append_and_drop_the_response(cluster: FakeCluster, client: RawClient) -> None:
    cluster.control(PRODUCE, faults.close_after())
    with pytest.raises(ConnectionError):
        produce(client, 0)
    assert values(cluster) == [b"0"]


def test_each_request_gets_the_fault_that_is_next(cluster: FakeCluster, client: RawClient) -> None:
    appended = faults.forge_produce(lambda *_: faults.Forgery(7, appended=True))
    for handler in (appended, RequestContext.answer, faults.refuse_produce(19)):
        cluster.control(PRODUCE, handler)
    assert produce(client, 0) == 7
    assert produce(client, 1).base_offset == 1
    assert produce(client, 2) == 19
    assert produce(client, 2).base_offset == 2
    assert values(cluster) == [b"0", b"1", b"2"]


def test_one_partition_may_get_a_false_response(cluster: FakeCluster, client: RawClient) -> None:
    cluster.create_topic("u", 2)
    forged = {("u", 0): faults.Forgery(6), ("u", 1): faults.Forgery(7, appended=True)}
    seen: list[tuple[str, int]] = []

    def decide(topic: str, partition: int) -> faults.Forgery | None:
        seen.append((topic, partition))
        return forged.get((topic, partition))

    cluster.control(PRODUCE, faults.forge_produce(decide), times=None)
    assert produce(client, 0).base_offset == 0
    for partition, code in ((0, 6), (1, 7)):
        answer = client.ask(PRODUCE, 9, produce_request("u", make_batch(b"v"), partition=partition))
        assert answer.responses[0].partition_responses[0].error_code == code
    assert [len(cluster.records("u", partition)) for partition in (0, 1)] == [0, 1]
    assert seen == [("t", 0), ("u", 0), ("u", 1)]
