"""A minimal model of a producer's I/O thread and its brokers, to drive a TransactionManager step by step.

The brokers are the strict models of ``kproducer.testing.fakebroker``; coordinator requests are encoded and
decoded as in the protocol. The test decides about each response: correct, lost before or after the request
had its effect, or an error.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import attrs

from kproducer._core.client.client_request import ClientRequest, ClientResponse
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.transactions.coordinator_requests import CoordinatorRequest
from kproducer._core.transactions.delivery_knowledge import (
    AttemptEnd,
    Knowledge,
    Verdict,
    attempt_end,
    knowledge_after,
)
from kproducer._core.transactions.partition_sequences import NO_SEQUENCE
from kproducer._core.transactions.transaction_manager import TransactionManager
from kproducer._core.transactions.transaction_state_machine import ProducerHooks
from kproducer.errors import DisconnectedError, KafkaError, Outcome
from kproducer.errors.broker_errors import error_for_code
from kproducer.testing.fakebroker.batch_check import RecordBatch, StoredRecord
from kproducer.testing.fakebroker.connection import HANDLERS
from kproducer.testing.fakebroker.model import Partition, Topic, TopicOptions, Topics
from kproducer.testing.fakebroker.producer_state import KeptBatch
from kproducer.testing.fakebroker.transaction_coordinator import Producer
from kproducer.testing.fakebroker.transaction_support import Coordination, verify_partition
from kproducer.types import TopicPartition

TRANSACTIONAL_ID = "tx"
#: The default backoffs and timeouts.
CONFIG = ProducerConfig(bootstrap_servers=("b1:9092",))


@attrs.define(eq=False)
class Batch:
    """A batch whose records have its number as value and their own numbers as keys."""

    topic_partition: TopicPartition
    record_count: int
    number: int
    first_record: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    ordinal: int = -1
    is_transactional: bool = False
    in_flight: bool = False
    endings: list[KafkaError | None] = attrs.field(factory=list)
    outcomes: list[Outcome | None] = attrs.field(factory=list)
    knowledge: Knowledge = Knowledge.NEVER_SENT

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        assert not self.in_flight, "its bytes may be partly written to a socket"
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.base_sequence, self.is_transactional = base_sequence, is_transactional

    def end(self, error: KafkaError | None, outcome: Outcome | None) -> None:
        """Resolve the batch's futures."""
        self.endings.append(error)
        self.outcomes.append(outcome)

    @property
    def is_done(self) -> bool:
        return bool(self.endings)

    @property
    def records(self) -> range:
        """The numbers of its records."""
        return range(self.first_record, self.first_record + self.record_count)


@attrs.frozen
class Sent:
    """A sent request."""

    batch: Batch
    transactional_id: str | None
    producer: Producer
    base_sequence: int
    version_2: bool


class Kit:
    """Brokers, connections, queues and the sender around one manager."""

    def __init__(
        self,
        transactional: bool = True,
        version: int = 2,
        partitions: int = 2,
        init_version: int = 5,
    ) -> None:
        self.now_ms = 0
        self.transaction_version = version
        self.init_version = init_version
        self.topics = Topics()
        self.topics["t"] = Topic(
            "t",
            None,  # type: ignore[arg-type]
            [Partition(i, 1, 0, [1], [1]) for i in range(partitions)],
            TopicOptions(),
        )
        self.brokers = {1: SimpleNamespace(node_id=1, up=True, advertised=("b1", 9092))}
        self.violations: list[str] = []
        #: The APIs of the requests that were answered.
        self.asked: list[int] = []
        self.coordination = Coordination(self.brokers, self.topics, lambda: 0)  # type: ignore[arg-type]
        self.manager = TransactionManager(
            TRANSACTIONAL_ID if transactional else None,
            CONFIG,
            ProducerHooks(
                lambda: self.transaction_version,
                has_incomplete=lambda: self.has_incomplete,
                has_unwritten=lambda: self.has_incomplete,
            ),
            random=random.Random(1),
        )
        self.queues: dict[int, list[Batch]] = {i: [] for i in range(partitions)}
        self.on_the_wire: dict[int, list[Sent]] = {i: [] for i in range(partitions)}
        self.late_requests: list[tuple[int, int, Any]] = []
        self.batches: list[Batch] = []
        self._next_number = 0
        self._next_record = 0
        self.request: CoordinatorRequest | None = None

    note_violation = property(lambda self: self.violations.append)

    # -- application -----------------------------------------------------------------------------------

    def append(self, partition: int = 0, count: int = 1) -> Batch:
        topic_partition = TopicPartition("t", partition)
        if self.manager.state_machine.transactional_id is not None:
            self.manager.state_machine.check_send()
        batch = Batch(topic_partition, count, self._next_number, self._next_record)
        self._next_number += 1
        self._next_record += count
        self.batches.append(batch)
        self.queues[partition].append(batch)
        return batch

    # -- sender ----------------------------------------------------------------------------------------

    @property
    def has_incomplete(self) -> bool:
        return any(not batch.is_done for batch in self.batches)

    def pump(self) -> None:
        """Run the sender once: expire, resolve, drain."""
        error = self.manager.state_machine.error_of_queued_batches()
        if error is not None:
            sent_too = self.manager.state_machine.gives_up_sent_batches
            for queue in self.queues.values():
                for batch in [b for b in queue if sent_too or b.base_sequence == NO_SEQUENCE]:
                    queue.remove(batch)
                    self._fail(batch, error)
        for unsafe in self.manager.sequences.resolve():
            assert isinstance(unsafe, Batch)
            self.queues[unsafe.topic_partition.partition].remove(unsafe)
            unsafe.end(KafkaError("given up"), unsafe.knowledge.outcome)
        for partition, queue in self.queues.items():
            while queue and self.manager.may_drain(queue[0], self.now_ms):
                batch = queue.pop(0)
                self.manager.drained(batch)
                batch.in_flight = True
                producer = Producer(batch.producer_id, batch.producer_epoch)
                sent = Sent(
                    batch,
                    self.manager.state_machine.transactional_id,
                    producer,
                    batch.base_sequence,
                    self.manager.state_machine.uses_version_2,
                )
                self.on_the_wire[partition].append(sent)

    def _fail(self, batch: Batch, error: KafkaError) -> None:
        self.manager.failed(batch, error, batch.knowledge.outcome)
        if not batch.is_done:
            batch.end(error, batch.knowledge.outcome)

    def _requeue(self, batch: Batch) -> None:
        queue = self.queues[batch.topic_partition.partition]
        place = sum(1 for other in queue if other.first_record < batch.first_record)
        queue.insert(place, batch)

    def _succeed(self, batch: Batch) -> None:
        self.manager.sequences.succeeded(batch, self.now_ms)
        if not batch.is_done:
            batch.end(None, None)

    def _failed_attempt(self, batch: Batch, error: KafkaError) -> None:
        batch.in_flight = False
        end = attempt_end(error)
        batch.knowledge = knowledge_after(batch.knowledge, end)
        if batch.is_done:
            if end is AttemptEnd.DUPLICATE:
                self.manager.sequences.succeeded(batch, self.now_ms)
            else:
                self.manager.failed(batch, error, batch.knowledge.outcome)
            return
        verdict = self.manager.sequences.verdict(batch, end, error.retriable)
        if verdict is Verdict.WRITTEN:
            self._succeed(batch)
        elif verdict is Verdict.RETRY and not self.manager.state_machine.gives_up_sent_batches:
            self._requeue(batch)
        else:
            self._fail(batch, error)

    def expire(self, batch: Batch) -> None:
        """Let ``delivery_timeout_ms`` pass."""
        if batch.is_done:
            return
        queue = self.queues[batch.topic_partition.partition]
        if batch in queue:
            queue.remove(batch)
        outcome = Outcome.UNKNOWN if batch.in_flight else batch.knowledge.outcome or Outcome.UNKNOWN
        error = KafkaError("expired")
        batch.end(error, outcome)
        self.manager.failed(batch, error, outcome)

    # -- partition leaders -----------------------------------------------------------------------------

    def partition(self, index: int) -> Partition:
        return self.topics["t"].partitions[index]

    def apply(self, sent: Sent) -> tuple[int, int]:
        """Let the leader process a batch: (error code, offset)."""
        batch = sent.batch
        partition = self.partition(batch.topic_partition.partition)
        found: int | KeptBatch = 0
        if batch.is_transactional:
            found = verify_partition(
                self.coordination.transactions,
                partition.producers,
                sent.transactional_id,
                sent.producer,
                sent.base_sequence,
                ("t", partition.index),
                adds_partition=sent.version_2,
            )
        if found == 0:
            found = partition.producers.check(
                *sent.producer, sent.base_sequence, batch.record_count, batch.is_transactional
            )
        if isinstance(found, KeptBatch):
            return 0, found.base_offset
        if found:
            return found, -1
        offset = partition.next_offset
        records = tuple(
            StoredRecord(offset + i, 0, b"%d" % number, b"%d" % batch.number, ())
            for i, number in enumerate(batch.records)
        )
        stored = RecordBatch(
            0, *sent.producer, sent.base_sequence, batch.is_transactional, 0, records, offset
        )
        partition.batches.append(stored)
        partition.next_offset += batch.record_count
        partition.producers.appended(
            *sent.producer, sent.base_sequence, batch.record_count, offset, batch.is_transactional
        )
        return 0, offset

    def answer(self, partition: int, code: int | None = None) -> None:
        """Answer the oldest Produce request: correctly, or with an error, and without appending."""
        sent = self.on_the_wire[partition].pop(0)
        batch = sent.batch
        if code is None:
            code, _ = self.apply(sent)
        if code == 0:
            batch.in_flight = False
            self._succeed(batch)
            return
        self._failed_attempt(batch, error_for_code(code))

    def disconnect(self, partition: int, applied: int) -> None:
        """Close the connection: the first requests are applied."""
        lost, self.on_the_wire[partition] = self.on_the_wire[partition], []
        for sent in lost[:applied]:
            self.apply(sent)
        for sent in lost:
            self._failed_attempt(sent.batch, DisconnectedError("gone"))

    # -- coordinators ----------------------------------------------------------------------------------

    def ask(self) -> CoordinatorRequest | None:
        """Take the next request if one is due and none is in flight."""
        if self.request is None:
            addressed = self.manager.protocol.next_request(self.now_ms)
            self.request = None if addressed is None else addressed.request
        return self.request

    def do(self, operation: Any) -> None:
        """Settle; raise the operation's error."""
        self.settle()
        assert operation.has_ended
        self.manager.state_machine.acknowledge(operation)
        operation.raise_if_failed()

    def reply(
        self, code: int | None = None, lost: bool = False, applied: bool = True, late: bool = False
    ) -> None:
        """Answer it: correctly; with an error code; or not at all, with the request applied, applied later
        (``late``), or lost."""
        request = self.request
        assert request is not None
        self.asked.append(request.api_key)
        self.request = None
        version = request.latest_version
        if request.api_key == 22:
            version = min(version, self.init_version)
        client_request = ClientRequest("1", request, 1, True, self.now_ms, 30_000)
        client_request.api_version = version
        if version < request.oldest_version:
            failed = error_for_code(35)
            response = ClientResponse(client_request, self.now_ms, error=failed)  # type: ignore[arg-type]
            self.manager.protocol.handle(request, response, self.now_ms)
            return
        message = request.build(version)
        message = type(message).decode(message.encode(version), version)[0]
        body = None
        if late:
            lost, applied = True, False
            self.late_requests.append((request.api_key, version, message))
        if code is not None:
            body = error_body(request, message, code)
        elif applied or not lost:
            body = self.handle(request.api_key, version, message)
        if lost:
            error = DisconnectedError("gone")
            response = ClientResponse(client_request, self.now_ms, disconnected=True, error=error)
        else:
            assert body is not None
            body = type(body).decode(body.encode(version), version)[0]
            response = ClientResponse(client_request, self.now_ms, body=body)
        self.manager.protocol.handle(request, response, self.now_ms)

    def late_request_arrives(self) -> int:
        """Deliver the oldest request whose connection ended before it arrived. Returns its API key."""
        api_key, version, message = self.late_requests.pop(0)
        self.handle(api_key, version, message)
        return api_key

    def handle(self, api_key: int, version: int, message: Any) -> Any:
        """The response of the fake cluster."""
        context = SimpleNamespace(
            message=message, api_version=version, cluster=self, broker=self.brokers[1], logged="request"
        )
        return HANDLERS[api_key](context)

    # -- without faults --------------------------------------------------------------------------------

    def settle(self, rounds: int = 200) -> None:
        """Answer everything without faults until nothing happens any more."""
        for _ in range(rounds):
            self.now_ms += 2000
            before = self._progress()
            self.pump()
            for partition, sent in self.on_the_wire.items():
                while sent:
                    self.answer(partition)
            if self.ask() is not None:
                self.reply()
            elif self._progress() == before and not any(self.queues.values()):
                return
        raise AssertionError(
            f"did not settle: {self.manager.state_machine.state}, queues {self.queues}, {self.request}"
        )

    def _progress(self) -> Any:
        done = sum(batch.is_done for batch in self.batches)
        return (
            done,
            self.manager.state_machine.state,
            sum(len(p.batches) for p in self.topics["t"].partitions),
        )

    def log(self, partition: int = 0) -> list[int]:
        """Numbers of the batches in a partition's log."""
        return [int(batch.records[0].value or b"-1") for batch in self.partition(partition).batches]

    def committed(self, partition: int = 0) -> list[int]:
        """Numbers of the batches that a read_committed consumer sees, with duplicates."""
        seen: list[int] = []
        for record in self.partition(partition).committed_records:
            number = int(record.value or b"-1")
            if record.offset == 0 or not seen or seen[-1] != number:
                seen.append(number)
        return seen


def error_body(request: CoordinatorRequest, message: Any, code: int) -> Any:
    """A response with this error and nothing else."""
    from kproducer_messages import RESPONSES
    from kproducer_messages.add_partitions_to_txn_response import (
        AddPartitionsToTxnPartitionResult,
        AddPartitionsToTxnTopicResult,
    )
    from kproducer_messages.find_coordinator_response import Coordinator
    from kproducer_messages.txn_offset_commit_response import (
        TxnOffsetCommitResponsePartition,
        TxnOffsetCommitResponseTopic,
    )

    body = RESPONSES[request.api_key]()
    if request.api_key == 10:
        key = message.coordinator_keys[0]
        body.coordinators = [Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)]
    elif request.api_key == 24:
        for topic in message.v3_and_below_topics:
            results = [
                AddPartitionsToTxnPartitionResult(partition_index=i, partition_error_code=code)
                for i in topic.partitions
            ]
            body.results_by_topic_v3_and_below.append(
                AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results)
            )
    elif request.api_key == 28:
        for topic in message.topics:
            partitions = [
                TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                for p in topic.partitions
            ]
            body.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    else:
        body.error_code = code
        if request.api_key == 22:
            body.producer_id, body.producer_epoch = -1, -1
    return body
