"""Requests are lost before, or responses after, the broker has acted: no duplicates, no gaps."""

from __future__ import annotations

from itertools import chain

import pytest

from kproducer import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from kproducer._core.client.api_keys import ApiKey
from tests.support.kafka.committed_records import committed_offset, read_committed
from tests.support.kafka.proxy import Frame, KafkaProxy
from tests.support.kafka.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def test_each_kind_of_request_and_response_is_lost_once(three_nodes, make_producer, has_protocol_2):
    servers, topic = three_nodes.bootstrap_servers, "lost-once"
    create_topic(servers, topic, 1)
    kinds = [
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.PRODUCE,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        *(() if has_protocol_2 else (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN)),
    ]
    losses = list(chain.from_iterable(((kind, False), (kind, True)) for kind in kinds))
    to_lose: set[tuple[int, bool]] = set()

    def cut(frame: Frame) -> bool:
        event = (frame.api_key, frame.is_answer)
        if event not in to_lose:
            return True
        to_lose.discard(event)
        return False

    with KafkaProxy(servers, cut) as proxy:
        for number, loss in enumerate(losses):
            # A new producer each time, so that it looks up coordinator and id, and fences the previous one.
            to_lose.add(loss)
            producer = make_producer(topic, bootstrap_servers=proxy.bootstrap_servers)
            for outcome in (b"kept", b"aborted", b"last"):
                producer.begin_transaction()
                producer.send(topic, outcome + b"-%d" % number)
                producer.send_offsets_to_transaction(
                    {TopicPartition(topic, 0): OffsetAndMetadata(2 * number + (outcome == b"last"))},
                    ConsumerGroupMetadata("lost-group"),
                )
                producer.flush()
                if outcome == b"aborted":
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
            assert not to_lose, f"no {loss}"
            producer.close()
    expected = [outcome + b"-%d" % number for number in range(len(losses)) for outcome in (b"kept", b"last")]
    assert read_committed(servers, topic) == [expected]
    assert committed_offset(servers, "lost-group", topic) == 2 * len(losses) - 1


def test_the_response_to_an_abort_is_lost(three_nodes, make_producer):
    servers, topic = three_nodes.bootstrap_servers, "lost-abort"
    create_topic(servers, topic, 1)
    ends = 0

    def cut(frame: Frame) -> bool:
        nonlocal ends
        if frame.api_key != ApiKey.END_TXN:
            return True
        ends += 1
        return ends not in (1, 4)

    with KafkaProxy(servers, cut) as proxy:
        producer = make_producer(topic, bootstrap_servers=proxy.bootstrap_servers)
        for _ in range(3):
            producer.begin_transaction()
            producer.send(topic, b"aborted")
            producer.flush()
            producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"kept")
        producer.close()
    assert ends > 4
    assert read_committed(servers, topic) == [[b"kept"]]
