"""Leaders and coordinators die or move during a transaction: it is committed or aborted as a whole."""

from __future__ import annotations

import pytest

from tests.support.kafka.committed_records import read_committed
from tests.support.kafka.topics import create_topic, in_sync_count, partition_leader
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

COORDINATORS = "__transaction_state"


def test_leaders_and_coordinators_fail_during_a_transaction(three_nodes, make_producer):
    servers, topic = three_nodes.bootstrap_servers, "brokers-fail"
    create_topic(servers, topic, 3)
    producer = make_producer(topic)
    expected: list[bytes] = []

    def send(name: str) -> list[bytes]:
        values = [b"%s-%d" % (name.encode(), number) for number in range(100)]
        for value in values:
            for partition in range(3):
                producer.send(topic, value, partition=partition)
        return values

    def with_outage(name: str, action: str) -> None:
        # It also leads one of the topic's three partitions on the three nodes.
        node = three_nodes.nodes[partition_leader(servers, COORDINATORS, 0)]
        for outcome in ("committed", "aborted"):
            producer.begin_transaction()
            values = send(f"{name}-{outcome}-first")
            if outcome == "committed":
                producer.flush()
                getattr(node, action)()
            values += send(f"{name}-{outcome}-second")
            if outcome == "committed":
                producer.commit_transaction()
                expected.extend(values)
            else:
                producer.flush()
                producer.abort_transaction()
        node.start()
        for each in (topic, COORDINATORS):
            wait_until(lambda each=each: in_sync_count(servers, each) == 3)

    with_outage("killed", "kill")
    with_outage("stopped", "stop")
    assert read_committed(servers, topic, 3) == [expected] * 3
