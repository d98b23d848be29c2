"""examples/consume_transform_produce.py is killed or fenced, and started again, on Apache Kafka.

Not on the mock cluster, which does not fence producers.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kproducer import KafkaProducer
from kproducer._core.client.api_keys import ApiKey
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.committed_records import committed_offset, read_committed
from tests.support.kafka.proxy import Frame, KafkaProxy
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka

EXAMPLE = Path(__file__).parents[2] / "examples" / "consume_transform_produce.py"
#: More than two transactions of the example, which takes 500 orders at most.
ORDERS = 1200


class Copy(NamedTuple):
    """One input with its output. ``name``: of the group, and the beginning of the topics' names."""

    servers: str
    name: str

    @property
    def orders(self) -> str:
        return f"{self.name}-orders"

    @property
    def invoices(self) -> str:
        return f"{self.name}-invoices"

    @contextmanager
    def running(self, servers: str | None = None) -> Iterator[subprocess.Popen[str]]:
        """The example as a process."""
        topics = ["--input", self.orders, "--partition", "0", "--output", self.invoices, "--group", self.name]
        with subprocess.Popen(
            [sys.executable, "-W", "error", str(EXAMPLE), "--bootstrap", servers or self.servers, *topics],
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def run_until(self, api_key: ApiKey, is_answer: bool, nth: int) -> None:
        """Kill the example (SIGKILL) before a request reaches the broker, or a response the example."""
        child: subprocess.Popen[str]
        count = 0

        def passes(frame: Frame) -> bool:
            nonlocal count
            count += (frame.api_key, frame.is_answer) == (api_key, is_answer)
            if count == nth:
                child.kill()
            return count < nth

        with KafkaProxy(self.servers, passes) as proxy, self.running(proxy.bootstrap_servers) as child:
            _, log = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL, log

    def finish(self, process: subprocess.Popen[str]) -> None:
        """End the example once it has committed the offset behind the last order."""
        read_committed(self.servers, self.orders)
        end = read_topic(self.servers, self.orders)[-1].offset + 1
        wait_until(
            lambda: (
                committed_offset(self.servers, self.name, self.orders) == end or process.poll() is not None
            )
        )
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0, log

    def read_invoices(self) -> list[Any]:
        return [json.loads(value or b"") for value in read_committed(self.servers, self.invoices)[0]]


@pytest.fixture
def copy(kafka: KafkaCluster, request: pytest.FixtureRequest) -> Copy:
    copy = Copy(kafka.bootstrap_servers, request.node.name)
    create_topic(copy.servers, copy.orders, 1)
    create_topic(copy.servers, copy.invoices, 1)
    return copy


def order(number: int) -> str:
    return json.dumps({"order": number, "quantity": 2, "price": number})


def invoices(count: int) -> list[Any]:
    return [{"order": number, "total": 2 * number} for number in range(count)]


def test_each_order_has_one_invoice_although_the_process_is_killed_repeatedly(copy: Copy) -> None:
    orders = [order(number) for number in range(ORDERS)]
    with KafkaProducer(copy.servers, transactional_id=f"{copy.name}-source") as source:
        source.init_transactions()
        with source.transaction():
            source.send_many(copy.orders, orders[:700])
            source.send(copy.orders, "not an order")
        source.begin_transaction()
        source.send(copy.orders, order(-1))
        source.flush()
        source.abort_transaction()
        with source.transaction():
            source.send_many(copy.orders, orders[700:])
    copy.run_until(ApiKey.PRODUCE, is_answer=True, nth=1)
    copy.run_until(ApiKey.END_TXN, is_answer=False, nth=2)
    copy.run_until(ApiKey.END_TXN, is_answer=True, nth=1)
    with copy.running() as process:
        copy.finish(process)
    assert copy.read_invoices() == invoices(ORDERS)


def test_a_second_process_for_the_partition_fences_the_first(copy: Copy) -> None:
    count = 0
    with copy.running() as first, copy.running() as second, KafkaProducer(copy.servers) as source:
        processes = {first, second}
        # They get their epochs in any order; the one with the earlier epoch fails at its next transaction.
        while not (ended := {each for each in processes if each.poll() is not None}):
            source.send(copy.orders, order(count)).result(60)
            count += 1
        (fenced,) = ended
        (other,) = processes - ended
        copy.finish(other)
        assert fenced.returncode == 1
        log = fenced.communicate()[1]
        # The first request that is refused may be that of a record or one to the coordinator.
        assert re.search("^(AbortTransactionError|FencedError): ", log, re.MULTILINE), log
    assert copy.read_invoices() == invoices(count)
