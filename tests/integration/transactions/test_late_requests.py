"""Requests that arrive after their transaction has ended (KAFKA-14402, KIP-890).

A late batch must not be appended to the next transaction, and must not start one that is never ended. A late
EndTxn must not end the next transaction, and late offsets must not become part of it.
"""

from __future__ import annotations

import threading

import pytest

from kproducer import (
    AbortTransactionError,
    ConsumerGroupMetadata,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kproducer._core.client.api_keys import ApiKey
from tests.support.kafka.committed_records import committed_offset, read_committed
from tests.support.kafka.proxy import Frame, KafkaProxy
from tests.support.kafka.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

#: Request timeout of the client; nothing else depends on it.
REQUEST_TIMEOUT_MS = 500


class LateRequest:
    """Holds the ``nth`` request of an API; ``arrive`` delivers it and waits for the broker's response."""

    def __init__(self, nth: int, api_key: ApiKey = ApiKey.PRODUCE) -> None:
        self.refuses_others = False
        self.is_held = threading.Event()
        self._api_key = api_key
        self._nth = nth
        self._count = 0
        self._let_go = threading.Event()
        self._has_arrived = threading.Event()

    def passes(self, frame: Frame) -> bool:
        if frame.api_key != self._api_key:
            return True
        if frame.is_answer:
            if self._let_go.is_set():
                self._has_arrived.set()
            return True
        self._count += 1
        if self._count == self._nth:
            self.is_held.set()
            self._let_go.wait(60)
            return True
        return not self.refuses_others

    def arrive(self) -> None:
        self._let_go.set()
        assert self._has_arrived.wait(30)


def end(producer: KafkaProducer, commit: bool) -> None:
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


def test_a_late_batch_that_was_retried_and_committed(three_nodes, make_producer, has_protocol_2):
    servers, topic = three_nodes.bootstrap_servers, "late-copy"
    create_topic(servers, topic, 1)
    late = LateRequest(2)
    with KafkaProxy(servers, late.passes) as proxy:
        producer = make_producer(
            topic, bootstrap_servers=proxy.bootstrap_servers, request_timeout_ms=REQUEST_TIMEOUT_MS
        )
        for value in (b"first", b"second"):
            with producer.transaction():
                producer.send(topic, value)
        assert late.is_held.is_set()
        late.arrive()
        try:
            with producer.transaction():
                producer.send(topic, b"third")
        except AbortTransactionError:
            # A protocol 1 leader that got the late batch between two transactions expects the next sequence
            # number and refuses the next batch (OUT_OF_ORDER_SEQUENCE); the new epoch after the abort fixes
            # it.
            assert not has_protocol_2
            with producer.transaction():
                producer.send(topic, b"third")
        producer.close()
    assert read_committed(servers, topic) == [[b"first", b"second", b"third"]]


@pytest.mark.parametrize("next_is_open", [False, True], ids=["between", "within-the-next"])
def test_a_late_batch_of_an_aborted_transaction(three_nodes, make_producer, next_is_open):
    servers, topic = three_nodes.bootstrap_servers, f"late-aborted-{next_is_open}"
    create_topic(servers, topic, 1)
    late = LateRequest(1)
    late.refuses_others = True
    with KafkaProxy(servers, late.passes) as proxy:
        producer = make_producer(
            topic,
            bootstrap_servers=proxy.bootstrap_servers,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            # Short enough for the first record to fail, long enough for the others on a busy machine.
            delivery_timeout_ms=8 * REQUEST_TIMEOUT_MS,
        )
        producer.begin_transaction()
        producer.send(topic, b"late")
        with pytest.raises(AbortTransactionError):
            producer.commit_transaction()
        producer.abort_transaction()
        late.refuses_others = False
        producer.begin_transaction()
        if next_is_open:
            producer.send(topic, b"second")
            producer.flush()
        late.arrive()
        producer.send(topic, b"third")
        producer.commit_transaction()
        producer.close()
    assert read_committed(servers, topic) == [[*([b"second"] * next_is_open), b"third"]]


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_late_end_txn_arrives_within_the_next_transaction(three_nodes, make_producer, commit):
    """A late commit must not expose aborted records, and a late abort must not remove committed ones."""
    servers, topic = three_nodes.bootstrap_servers, f"late-end-{commit}"
    create_topic(servers, topic, 1)
    late = LateRequest(1, ApiKey.END_TXN)
    with KafkaProxy(servers, late.passes) as proxy:
        producer = make_producer(
            topic, bootstrap_servers=proxy.bootstrap_servers, request_timeout_ms=REQUEST_TIMEOUT_MS
        )
        producer.begin_transaction()
        producer.send(topic, b"first")
        producer.flush()
        end(producer, commit)
        assert late.is_held.is_set()
        producer.begin_transaction()
        producer.send(topic, b"second")
        producer.flush()
        late.arrive()
        producer.send(topic, b"third")
        producer.flush()
        end(producer, not commit)
        producer.close()
    assert read_committed(servers, topic) == [[b"first"] if commit else [b"second", b"third"]]


def test_late_offsets_of_an_aborted_transaction_arrive_within_the_next(three_nodes, make_producer):
    """They must not be committed with those of the next transaction, which are for another partition."""
    servers, topic = three_nodes.bootstrap_servers, "late-offsets"
    create_topic(servers, topic, 2)
    group = ConsumerGroupMetadata(topic)
    late = LateRequest(1, ApiKey.TXN_OFFSET_COMMIT)
    with KafkaProxy(servers, late.passes) as proxy:
        producer = make_producer(
            topic, bootstrap_servers=proxy.bootstrap_servers, request_timeout_ms=REQUEST_TIMEOUT_MS
        )
        producer.begin_transaction()
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(5)}, group)
        producer.abort_transaction()
        assert late.is_held.is_set()
        with producer.transaction():
            producer.send_offsets_to_transaction({TopicPartition(topic, 1): OffsetAndMetadata(9)}, group)
            late.arrive()
        producer.close()
    assert [committed_offset(servers, topic, topic, partition) for partition in (0, 1)] == [None, 9]
