"""A replaced producer: its requests have no effect, and it gets an error."""

from __future__ import annotations

import pickle
import threading

import pytest

from kproducer import (
    AbortTransactionError,
    ConsumerGroupMetadata,
    FatalProducerError,
    FencedError,
    OffsetAndMetadata,
    TopicPartition,
    TransactionAbortedError,
)
from kproducer._core.client.api_keys import ApiKey
from tests.support.kafka.committed_records import await_no_open_transaction, committed_offset, read_committed
from tests.support.kafka.proxy import Frame, KafkaProxy
from tests.support.kafka.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

#: Long enough for a transaction on a busy machine.
OUT_OF_TIME_MS = 4000

_HELD = [
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
]


@pytest.mark.parametrize("held", _HELD, ids=lambda each: each.name)
def test_a_request_of_the_old_epoch_arrives_after_the_new_producer(
    three_nodes, make_producer, has_protocol_2, held
):
    """Like a process that was frozen: its request is held, and delivered when it is too late."""
    servers, topic = three_nodes.bootstrap_servers, f"zombie-{held.name}"
    create_topic(servers, topic, 1)
    is_awaited, is_held, let_go = threading.Event(), threading.Event(), threading.Event()

    def hold(frame: Frame) -> bool:
        if is_awaited.is_set() and not is_held.is_set() and (frame.api_key, frame.is_answer) == (held, False):
            is_held.set()
            let_go.wait(60)
        return True

    errors: list[BaseException] = []

    def work(zombie: object, name: bytes, offset: int) -> None:
        zombie.begin_transaction()
        zombie.send(topic, name)
        zombie.flush()
        zombie.send_offsets_to_transaction(
            {TopicPartition(topic, 0): OffsetAndMetadata(offset)}, ConsumerGroupMetadata(f"{topic}-group")
        )
        zombie.commit_transaction()

    def work_as_zombie(zombie: object) -> None:
        try:
            work(zombie, b"zombie", 6)
        except BaseException as error:
            errors.append(error)

    with KafkaProxy(servers, hold) as proxy:
        zombie = make_producer(topic, bootstrap_servers=proxy.bootstrap_servers)
        work(zombie, b"first", 5)
        is_awaited.set()
        thread = threading.Thread(target=work_as_zombie, args=(zombie,))
        thread.start()
        if has_protocol_2 and held in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN):
            # This protocol has no such request.
            thread.join()
            assert errors == []
            assert not is_held.is_set()
            return
        assert is_held.wait(30)
        newer = make_producer(topic)
        with newer.transaction():
            newer.send(topic, b"newer")
        let_go.set()
        thread.join()
        # A leader or group coordinator only sees an old epoch; the transaction coordinator explains it.
        assert isinstance(errors[0], (FencedError, AbortTransactionError))
        if isinstance(errors[0], AbortTransactionError):
            with pytest.raises(FencedError):
                zombie.abort_transaction()
        with pytest.raises(FencedError):
            zombie.begin_transaction()
        zombie.close()
    with newer.transaction():
        newer.send(topic, b"newest")
    assert read_committed(servers, topic) == [[b"first", b"newer", b"newest"]]
    assert committed_offset(servers, f"{topic}-group", topic) == 5


def test_a_transaction_that_timed_out(three_nodes, make_producer, has_protocol_2):
    servers, topic = three_nodes.bootstrap_servers, "out-of-time"
    create_topic(servers, topic, 1)
    late = make_producer(topic, transaction_timeout_ms=OUT_OF_TIME_MS)
    late.begin_transaction()
    late.send(topic, b"late")
    late.flush()
    # Records of other producers behind it become readable after the abort.
    other = make_producer("another")
    with other.transaction():
        other.send(topic, b"other")
    await_no_open_transaction(servers, topic, [0])
    with pytest.raises(AbortTransactionError if has_protocol_2 else FencedError):
        late.commit_transaction()
    if has_protocol_2:
        late.abort_transaction()
        with late.transaction():
            late.send(topic, b"again")
    else:
        late.close()
        again = make_producer(topic)
        with again.transaction():
            again.send(topic, b"again")
    assert read_committed(servers, topic) == [[b"other", b"again"]]


def test_records_that_arrive_after_the_transaction_timed_out(three_nodes, make_producer, has_protocol_2):
    servers, topic = three_nodes.bootstrap_servers, "after-time"
    create_topic(servers, topic, 2)
    late = make_producer(topic, transaction_timeout_ms=OUT_OF_TIME_MS)
    late.begin_transaction()
    late.send(topic, b"late", partition=0).result(30)
    await_no_open_transaction(servers, topic, [0, 1])
    late.send(topic, b"later", partition=0)

    def send_another_and_commit() -> None:
        late.send(topic, b"later", partition=1)  # raises if the answer to the other one has arrived
        late.commit_transaction()

    with pytest.raises((AbortTransactionError, FencedError)) as caught:
        send_another_and_commit()
    if isinstance(caught.value, AbortTransactionError) and has_protocol_2:
        late.abort_transaction()
    elif isinstance(caught.value, AbortTransactionError):
        with pytest.raises(FatalProducerError):
            late.abort_transaction()
    if not has_protocol_2:
        late.close()
        late = make_producer(topic)
    with late.transaction():
        late.send(topic, b"in time", partition=0)
    assert read_committed(servers, topic, 2) == [[b"in time"], []]


def test_prepared_in_one_process_and_committed_in_another(three_nodes, make_producer, start_script):
    servers, topic = three_nodes.bootstrap_servers, "prepared"
    create_topic(servers, topic, 2)
    lost = []

    def lose_the_first_end(frame: Frame) -> bool:
        if frame.api_key == ApiKey.END_TXN and frame.is_answer and not lost:
            lost.append(frame)
            return False
        return True

    child = start_script("prepare", servers, topic, topic)
    prepared = pickle.loads(bytes.fromhex(child.stdout.readline()))
    child.kill()
    with KafkaProxy(servers, lose_the_first_end) as proxy:
        finisher = make_producer(topic, init=False, bootstrap_servers=proxy.bootstrap_servers)
        finisher.commit_prepared(prepared)
        finisher.close()
    assert lost
    # As after a crash of the committing process: a third one repeats the commit.
    make_producer(topic, init=False).commit_prepared(prepared)
    expected = [b"handed over-%d" % number for number in range(20)]
    assert read_committed(servers, topic, 2) == [expected, expected]

    child = start_script("prepare", servers, topic, topic)
    prepared = pickle.loads(bytes.fromhex(child.stdout.readline()))
    child.kill()
    newer = make_producer(topic)
    with newer.transaction():
        newer.send(topic, b"newer", partition=0)
    with pytest.raises((FencedError, TransactionAbortedError)):
        make_producer(topic, init=False).commit_prepared(prepared)
    assert read_committed(servers, topic, 2) == [[*expected, b"newer"], expected]
