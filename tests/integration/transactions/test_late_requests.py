"""Requests of the same producer that arrive when their transaction has ended (KAFKA-14402, KIP-890).

A batch must not be written into the next transaction, and must not leave one open that nobody ends. An EndTxn
must not end the next transaction, and offsets must not become part of it.
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
from kproducer.protocol.registry import ApiKey
from tests.support.kafka.committed_records import committed_offset, read_committed
from tests.support.kafka.proxy import Frame, KafkaProxy
from tests.support.kafka.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

#: The client gives up waiting after this; nothing else depends on it.
REQUEST_TIMEOUT_MS = 500


class LateRequest:
    """Holds the ``nth`` request of an API; ``arrive`` lets it go and waits until a broker has answered it."""

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


def test_it_was_sent_again_and_committed_meanwhile(three_nodes, make_producer, has_protocol_2):
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
            # A leader of protocol 1 that got the late one between two transactions may wait for its number
            # to come again, and refuses the next (OUT_OF_ORDER_SEQUENCE); the epoch after the abort mends it.
            assert not has_protocol_2
            with producer.transaction():
                producer.send(topic, b"third")
        producer.close()
    assert read_committed(servers, topic) == [[b"first", b"second", b"third"]]


@pytest.mark.parametrize("next_is_open", [False, True], ids=["between", "within-the-next"])
def test_its_transaction_was_aborted_meanwhile(three_nodes, make_producer, next_is_open):
    servers, topic = three_nodes.bootstrap_servers, f"late-aborted-{next_is_open}"
    create_topic(servers, topic, 1)
    late = LateRequest(1)
    late.refuses_others = True
    with KafkaProxy(servers, late.passes) as proxy:
        producer = make_producer(
            topic,
            bootstrap_servers=proxy.bootstrap_servers,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            # For the first record to fail within, and for the others to get through on a busy machine.
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
def test_the_end_of_a_transaction_arrives_within_the_next(three_nodes, make_producer, commit):
    """A late commit must not expose what is aborted then, a late abort not remove what is committed."""
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


def test_offsets_of_an_aborted_transaction_arrive_within_the_next(three_nodes, make_producer):
    """They must not be committed with the next one's, which are of another partition of the group."""
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
