"""A driver and its workers: one producer writes transactions of many ids, a session ends them at once."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kproducer import (
    ConsumerGroupMetadata,
    FencedError,
    IllegalStateError,
    OffsetAndMetadata,
    ProducerConfig,
    TopicPartition,
    TransactionAbortedError,
)
from kproducer._core.transactions.coordinator_session import CoordinatorSession
from tests.integration.transactions.scripted_transactions import TASKS
from tests.support.kafka.committed_records import await_no_open_transaction, committed_offset, read_committed
from tests.support.kafka.proxy import Frame, KafkaProxy
from tests.support.kafka.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

PATIENCE_S = 60
OUT_OF_TIME_MS = 4000


@pytest.fixture
def session(three_nodes: Any) -> Iterator[CoordinatorSession]:
    with contextlib.closing(open_session(three_nodes.bootstrap_servers)) as made:
        yield made


def open_session(servers: str) -> CoordinatorSession:
    return CoordinatorSession(ProducerConfig(bootstrap_servers=servers, retry_backoff_ms=20))


def write(producer: Any, transactional_id: str, topic: str, value: bytes) -> None:
    producer.change_transactional_id(transactional_id)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, value, partition=0)


def test_micro_batches_of_a_worker_are_committed_by_the_driver(three_nodes, start_script, session):
    """The driver decides and commits each one; the worker's process is killed before the last commit."""
    servers, topic = three_nodes.bootstrap_servers, "micro-batches"
    create_topic(servers, topic, 2)
    names = [f"{topic}-{task}" for task in range(TASKS)]
    driver, place = f"{topic}-driver", TopicPartition(topic, 0)
    child = start_script("tasks", servers, "set by each task", topic)
    session.fence([driver], PATIENCE_S)
    for batch in range(3):
        child.stdin.write("go on\n")
        child.stdin.flush()
        prepared = [pickle.loads(bytes.fromhex(child.stdout.readline())) for _ in range(TASKS)]
        if batch == 2:
            child.kill()
        before = session.committed_offsets([driver], place, PATIENCE_S)[driver]
        assert (before.offset if before else None) == (batch - 1 if batch else None)
        session.write_offsets(driver, driver, {place: OffsetAndMetadata(batch, metadata="M=5")}, PATIENCE_S)
        assert session.end(prepared, True, PATIENCE_S) == [None] * TASKS
        marks = session.committed_offsets([driver, *names], place, PATIENCE_S)
        assert marks.pop(driver) == OffsetAndMetadata(batch, metadata="M=5")
        assert marks == {
            name: OffsetAndMetadata(batch, metadata=f"task {task}") for task, name in enumerate(names)
        }
    expected = [[b"%d-%d" % (batch, task) for batch in range(3) for task in of] for of in ((0, 2, 4), (1, 3))]
    assert [sorted(values) for values in read_committed(servers, topic, 2)] == expected
    assert committed_offset(servers, driver, topic) == 2


def test_fifty_transactions_are_committed_at_once_despite_lost_responses(three_nodes, make_producer):
    servers, topic = three_nodes.bootstrap_servers, "fifty"
    create_topic(servers, topic, 1)
    producer = make_producer("set by each", init=False)
    prepared = []
    for number in range(50):
        write(producer, f"{topic}-{number}", topic, b"%d" % number)
        prepared.append(producer.prepare())
    answers = []

    def lose_a_few(frame: Frame) -> bool:
        """Close the connection at the tenth and thirtieth response; other requests on it are lost, too."""
        if frame.api_key == 26 and frame.is_answer:
            answers.append(frame)
            return len(answers) not in (10, 30)
        return True

    with (
        KafkaProxy(servers, lose_a_few) as proxy,
        contextlib.closing(open_session(proxy.bootstrap_servers)) as session,
    ):
        assert session.end(prepared, True, PATIENCE_S) == [None] * 50
        assert session.end(prepared, True, PATIENCE_S) == [None] * 50
    assert len(answers) > 30
    (values,) = read_committed(servers, topic)
    assert sorted(values, key=int) == [b"%d" % number for number in range(50)]


def test_each_transaction_gets_its_own_result(three_nodes, make_producer, has_protocol_2, session):
    servers, topic = three_nodes.bootstrap_servers, "told"
    create_topic(servers, topic, 1)
    producer = make_producer("set by each", init=False, transaction_timeout_ms=60_000)
    prepared = []
    for name in ("committed", "aborted", "replaced", "kept"):
        write(producer, f"{topic}-{name}", topic, name.encode())
        prepared.append(producer.prepare())
    was_committed, aborted, replaced, kept = prepared
    late = make_producer("set later", init=False, transaction_timeout_ms=OUT_OF_TIME_MS)
    session.end([was_committed], True, PATIENCE_S)
    session.end([aborted], False, PATIENCE_S)
    session.fence([replaced.transactional_id], PATIENCE_S)
    results = session.end([*prepared, was_committed], True, PATIENCE_S)
    kinds = [type(error) if error else None for error in results]
    assert kinds == [None, TransactionAbortedError, FencedError, None, None]
    (error,) = session.end([kept], False, PATIENCE_S)
    assert isinstance(error, IllegalStateError)
    assert session.end([aborted], False, PATIENCE_S) == [None]
    write(late, f"{topic}-late", topic, b"late")
    timed_out = late.prepare()
    await_no_open_transaction(servers, topic, [0])
    (error,) = session.end([timed_out], True, PATIENCE_S)
    assert isinstance(error, TransactionAbortedError if has_protocol_2 else FencedError)
    assert [sorted(values) for values in read_committed(servers, topic)] == [[b"committed", b"kept"]]


def test_fencing_ends_open_transactions_and_the_newer_driver_wins(three_nodes, make_producer, session):
    servers, topic = three_nodes.bootstrap_servers, "fenced-by-session"
    create_topic(servers, topic, 1)
    place = TopicPartition(topic, 0)
    producer = make_producer("set below", init=False)
    write(producer, f"{topic}-0", topic, b"in vain")
    mark = {place: OffsetAndMetadata(7)}
    producer.send_offsets_to_transaction(mark, ConsumerGroupMetadata(f"{topic}-0"))
    producer.flush()
    session.fence([f"{topic}-{number}" for number in range(3)], PATIENCE_S)
    # The transaction has ended: it no longer delays readers of records or offsets.
    assert session.committed_offsets([f"{topic}-0"], place, PATIENCE_S / 4) == {f"{topic}-0": None}
    with pytest.raises(FencedError):
        producer.commit_transaction()
    session.write_offsets(f"{topic}-0", f"{topic}-0", {place: OffsetAndMetadata(8)}, PATIENCE_S)
    with contextlib.closing(open_session(servers)) as newer:
        newer.fence([f"{topic}-0"], PATIENCE_S)
        with pytest.raises(FencedError):
            session.write_offsets(f"{topic}-0", f"{topic}-0", {place: OffsetAndMetadata(9)}, PATIENCE_S)
        assert newer.committed_offsets([f"{topic}-0"], place, PATIENCE_S)[f"{topic}-0"].offset == 8
    assert read_committed(servers, topic) == [[]]
