"""Consumed records are written exactly once, however often the copying process is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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

RECORDS = 100


def fill(servers, topic):
    """Write values in separate transactions, with aborted ones between them that must not be copied."""
    create_topic(servers, topic, 1)
    create_topic(servers, f"{topic}-copy", 1)
    values = [b"%d" % number for number in range(RECORDS)]
    with KafkaProducer(bootstrap_servers=servers, transactional_id=f"{topic}-source") as source:
        source.init_transactions()
        with source.transaction():
            source.send_many(topic, values)
        source.begin_transaction()
        source.send(topic, b"aborted")
        source.flush()
        source.abort_transaction()
    read_committed(servers, topic)
    return values


def copy_until(death, servers, topic, start_script):
    """Kill the copying process at this moment; returns its exit code and errors."""
    count = 0
    child = None

    def kill(frame: Frame) -> bool:
        nonlocal count
        count += (frame.api_key, frame.is_answer) == death[:2]
        if count == death[2]:
            child.kill()
        return count < death[2]

    with KafkaProxy(servers, kill) as proxy:
        child = start_script("copy", proxy.bootstrap_servers, topic, topic)
        _, errors = child.communicate(timeout=60)
    return child.returncode, errors


def test_the_copying_process_is_killed_repeatedly(three_nodes, start_script):
    servers, topic = three_nodes.bootstrap_servers, "copied"
    values = fill(servers, topic)
    deaths = [
        (ApiKey.END_TXN, True, 2),
        (ApiKey.PRODUCE, True, 2),
        (ApiKey.END_TXN, False, 3),
    ]
    for death in deaths:
        assert copy_until(death, servers, topic, start_script) == (-9, "")
    child = start_script("copy", servers, topic, topic)
    assert child.communicate(timeout=60)[1] == ""
    assert child.returncode == 0
    assert read_committed(servers, f"{topic}-copy") == [values]
    assert committed_offset(servers, f"{topic}-group", topic) == RECORDS


@contextmanager
def group_member(servers: str, topic: str, group: str) -> Iterator[ConsumerGroupMetadata]:
    """The group metadata of a member that was assigned the topic's partition; it leaves at the end."""
    command = [sys.executable, "-m", "tests.integration.transactions.group_member", servers, topic, group]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            generation, member_id = json.loads(child.stdout.readline())
            yield ConsumerGroupMetadata(group, generation, member_id)
            child.communicate(timeout=60)
            assert child.returncode == 0
        finally:
            child.kill()


def test_a_member_that_lost_its_partitions_commits_nothing(three_nodes, make_producer):
    """With the group's generation, the broker notices that the partitions have moved (KIP-447)."""
    servers, topic, group = three_nodes.bootstrap_servers, "rebalanced", "rebalanced-group"
    fill(servers, topic)
    producer = make_producer(topic)
    place = TopicPartition(topic, 0)
    with group_member(servers, topic, group) as member, producer.transaction():
        producer.send(f"{topic}-copy", b"owner")
        producer.send_offsets_to_transaction({place: OffsetAndMetadata(7)}, member)
    producer.begin_transaction()
    producer.send(f"{topic}-copy", b"no owner any more")
    with pytest.raises(AbortTransactionError):
        producer.send_offsets_to_transaction({place: OffsetAndMetadata(8)}, member)
    producer.abort_transaction()
    assert read_committed(servers, f"{topic}-copy") == [[b"owner"]]
    assert committed_offset(servers, group, topic) == 7
