"""A Sender for unit tests: everything below it is real except the network and the clock."""

from __future__ import annotations

from random import Random
from typing import Any

from kproducer_messages import MetadataResponse
from kproducer_messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from kproducer import (
    KafkaError,
    ProducerConfig,
)
from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer._core.accumulator.record_accumulator import RecordAccumulator
from kproducer._core.client.metadata import Metadata
from kproducer._core.sender.sender import Sender
from kproducer._core.transactions.partition_sequences import ProducerIdAndEpoch
from kproducer._core.transactions.transaction_manager import TransactionManager
from kproducer._core.transactions.transaction_state import TransactionState
from kproducer._core.transactions.transaction_state_machine import ProducerHooks
from tests.support.manual_clock import ManualClock
from tests.support.units.appending import append_value
from tests.support.units.scripted_client import ScriptedClient, SentRequest


class Bench:
    """A Sender in which everything except the network and the clock is real."""

    def __init__(
        self,
        *,
        node_count: int = 2,
        partition_count: int = 4,
        version: int = 12,
        transactions: TransactionManager | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        defaults: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 100, "delivery_timeout_ms": 60000}
        defaults.update(settings)
        self.config = ProducerConfig(bootstrap_servers=("127.0.0.1:9092",), **defaults)
        self.clock = ManualClock()
        self.client = ScriptedClient(version)
        self.pool = BufferPool.of(self.config, self.clock, lambda: self.sender.wakeup())
        self.transactions = transactions
        self.accumulator = RecordAccumulator(
            self.config, self.pool, self.clock, random=random, transaction_manager=transactions
        )
        self.metadata = Metadata(self.config)
        self.sender = Sender(
            self.client,  # type: ignore[arg-type]
            self.metadata,
            self.accumulator,
            self.config,
            self.clock,
            transaction_manager=transactions,
        )
        if transactions is not None:
            state_machine = transactions.state_machine
            state_machine.hooks = state_machine.hooks._replace(
                wakeup=self.sender.wakeup,
                has_incomplete=lambda: self.accumulator.incomplete_count > 0,
                has_unwritten=lambda: len(self.accumulator.incomplete_batches()) > 0,
            )
        self.deliveries: list[tuple[Any, KafkaError | None]] = []
        self.node_count = node_count
        self.partition_count = partition_count
        self.metadata.add("t", self.clock.now_ms)
        self.learn()

    def learn(self, *, leaders: dict[int, int] | None = None, epoch: int = 1) -> None:
        """Process a metadata response: by default, node p modulo the number of nodes leads partition p."""
        leaders = leaders or {}
        brokers = [MetadataResponseBroker(node_id=n, host=f"b{n}", port=9092) for n in range(self.node_count)]
        partitions = [
            MetadataResponsePartition(
                partition_index=p, leader_id=leaders.get(p, p % self.node_count), leader_epoch=epoch
            )
            for p in range(self.partition_count)
        ]
        topic = MetadataResponseTopic(name="t", partitions=partitions)
        wanted = self.metadata.new_metadata_request_and_version(self.clock.now_ms)
        response = MetadataResponse(brokers=brokers, topics=[topic])
        self.metadata.update(wanted._replace(is_partial=False), response, self.clock.now_ms)

    def send(self, partition: int = 0, value: bytes = b"v") -> FutureRecordMetadata:
        future, _ = append_value(
            self.accumulator,
            "t",
            partition,
            value,
            self.metadata.snapshot,
            on_delivery=lambda metadata, error: self.deliveries.append((metadata, error)),
        )
        return future

    def step(self, advance_ms: int = 0) -> list[SentRequest]:
        """Run the sender once; returns the requests it sent."""
        before = len(self.client.sent)
        self.clock.advance(advance_ms)
        self.sender.run_once(self.clock.now_ms)
        return self.client.sent[before:]

    def step_one(self, advance_ms: int = 0) -> SentRequest:
        """Run the sender once; it must send exactly one request."""
        (sent,) = self.step(advance_ms)
        return sent

    def retry_delay(self) -> int:
        """Longer than any backoff with these settings."""
        return 1300

    def assert_clean(self) -> None:
        """Nothing is incomplete, nothing is in flight, and all memory is free."""
        assert self.accumulator.incomplete_count == 0
        assert not self.sender.in_flight._node_of_batch
        assert self.pool.available_bytes == self.config.buffer_memory


def initialized_manager(transactional_id: str | None = None) -> TransactionManager:
    """A manager with a producer id; with a transactional id, in a transaction of protocol 2."""
    manager = TransactionManager(
        transactional_id, ProducerConfig(bootstrap_servers=("b1:9092",)), ProducerHooks(lambda: 2)
    )
    life = manager.state_machine
    life.move_to(TransactionState.INITIALIZING)
    life.initialized(ProducerIdAndEpoch(7, 0))
    if transactional_id is not None:
        manager.state_machine.begin_transaction()
    return manager


def error_of(future: FutureRecordMetadata) -> KafkaError:
    error = future.exception(0)
    assert isinstance(error, KafkaError)
    return error
