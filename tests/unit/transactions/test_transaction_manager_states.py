"""Any life of a transaction manager: nothing is written twice or out of order, no number has two meanings,
every wait ends, and from every state something leads on.
"""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kproducer.errors import AbortTransactionError, FatalProducerError, IllegalStateError, Outcome
from kproducer.testing.fakebroker.transaction_coordinator import NO_PRODUCER, Producer, State
from kproducer.transactions.delivery_knowledge import Knowledge
from kproducer.transactions.sequence_tracker import REMEMBERED_MS
from kproducer.transactions.transaction_arguments import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
)
from kproducer.transactions.transaction_state import PendingOperation, TransactionState
from kproducer.types import TopicPartition
from tests.support.units.transaction_kit import TRANSACTIONAL_ID, Kit

_S = TransactionState
PARTITIONS = 2
#: Answers to Produce that a leader may give at any time without having written the batch, ...
NOT_WRITTEN_CODES = [6, 14, 16, 19, 51, 56]
#: ... perhaps after it has, ...
PERHAPS_WRITTEN_CODES = [7, 20, -1]
#: ... and those that say that it never will.
REFUSED_CODES = [10, 29, 87]
#: States in which nothing of the last transaction is to be seen, unless its commit has succeeded.
_NOT_COMMITTED = (_S.READY, _S.IN_TRANSACTION, _S.ABORTING)
#: Answers of coordinators that tell to ask again.
AGAIN_CODES = [7, 14, 15, 16, 51]


class ProducerMachine(RuleBasedStateMachine):
    """What both kinds of producers meet: leaders, connections, time."""

    transactional = False
    kit: Kit

    # -- sender and network ----------------------------------------------------------------------------

    @rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 3))
    def append(self, partition: int, count: int) -> None:
        self.kit.append(partition, count)

    @rule()
    def pump(self) -> None:
        self.kit.pump()

    @rule(ms=st.integers(1, 500))
    def time_passes(self, ms: int) -> None:
        self.kit.now_ms += ms

    @precondition(lambda self: any(self.kit.on_the_wire.values()))
    @rule(data=st.data())
    def a_leader_answers(self, data: Any) -> None:
        self.kit.answer(self._waiting_partition(data))

    @precondition(lambda self: any(self.kit.on_the_wire.values()))
    @rule(data=st.data(), code=st.sampled_from(NOT_WRITTEN_CODES))
    def a_leader_puts_off(self, data: Any, code: int) -> None:
        self.kit.answer(self._waiting_partition(data), code)

    @precondition(lambda self: any(self.kit.on_the_wire.values()))
    @rule(data=st.data(), code=st.sampled_from(PERHAPS_WRITTEN_CODES), applied=st.booleans())
    def a_leader_does_not_know(self, data: Any, code: int, applied: bool) -> None:
        self.kit.answer(self._waiting_partition(data), code, applied)

    @precondition(lambda self: any(self.kit.on_the_wire.values()))
    @rule(data=st.data(), code=st.sampled_from(REFUSED_CODES))
    def a_leader_refuses(self, data: Any, code: int) -> None:
        self.kit.answer(self._waiting_partition(data), code)

    @precondition(lambda self: any(self.kit.on_the_wire.values()))
    @rule(data=st.data(), applied=st.integers(0, 5), late=st.integers(0, 5))
    def a_connection_ends(self, data: Any, applied: int, late: int) -> None:
        self.kit.disconnect(self._waiting_partition(data), applied, late)

    @precondition(lambda self: any(self.kit.on_the_wire.values()))
    @rule(data=st.data(), code=st.sampled_from([None, *NOT_WRITTEN_CODES]))
    def another_leader_answers_first(self, data: Any, code: int | None) -> None:
        """The leader has moved between two batches: they are on two connections."""
        partition = self._waiting_partition(data)
        place = data.draw(st.integers(0, len(self.kit.on_the_wire[partition]) - 1))
        self.kit.answer(partition, code, place=place)

    @precondition(lambda self: any(self.kit.on_the_wire.values()))
    @rule(data=st.data())
    def a_request_is_not_transmitted(self, data: Any) -> None:
        partition = self._waiting_partition(data)
        self.kit.not_transmitted(partition, len(self.kit.on_the_wire[partition]) - 1)

    @precondition(lambda self: self.kit.late)
    @rule()
    def a_request_arrives_late(self) -> None:
        self.kit.late_arrival()

    @precondition(lambda self: self.kit.has_incomplete)
    @rule(data=st.data())
    def a_batch_expires(self, data: Any) -> None:
        open_batches = [batch for batch in self.kit.batches if not batch.is_done]
        self.kit.expire(data.draw(st.sampled_from(open_batches[:4])))

    # -- coordinators ----------------------------------------------------------------------------------

    @rule()
    def the_coordinator_answers(self) -> None:
        if self.kit.ask() is not None:
            self.kit.reply()

    @rule(code=st.sampled_from(AGAIN_CODES))
    def the_coordinator_puts_off(self, code: int) -> None:
        if self.kit.ask() is not None:
            self.kit.reply(code)

    @rule(applied=st.booleans())
    def the_coordinators_connection_ends(self, applied: bool) -> None:
        if self.kit.ask() is not None:
            self.kit.reply(lost=True, applied=applied)

    @rule()
    def a_request_to_a_coordinator_is_delayed(self) -> None:
        if self.kit.ask() is not None:
            self.kit.reply(late=True)

    @precondition(lambda self: self.kit.late_requests)
    @rule()
    def a_delayed_request_arrives(self) -> None:
        self.kit.late_request_arrives()

    def _waiting_partition(self, data: Any) -> int:
        waiting = [partition for partition, sent in self.kit.on_the_wire.items() if sent]
        return int(data.draw(st.sampled_from(waiting)))

    # -- what always holds -----------------------------------------------------------------------------

    @invariant()
    def a_number_means_one_batch(self) -> None:
        for index in range(PARTITIONS):
            meanings: dict[tuple[int, int, int], bytes | None] = {}
            for stored in self.kit.partition(index).batches:
                key = (stored.producer_id, stored.producer_epoch, stored.base_sequence)
                assert meanings.setdefault(key, stored.records[0].value) == stored.records[0].value

    @invariant()
    def nothing_is_written_twice_or_out_of_order(self) -> None:
        for index in range(PARTITIONS):
            log = self.kit.record_log(index)
            assert log == sorted(set(log))

    @invariant()
    def what_succeeded_is_written(self) -> None:
        for batch in self.kit.batches:
            assert len(batch.endings) <= 1
            if batch.endings == [None]:
                assert set(batch.records) <= set(self.kit.record_log(batch.topic_partition.partition))

    @invariant()
    def what_failed_for_certain_is_not_written(self) -> None:
        for batch in self.kit.batches:
            if batch.endings and batch.outcomes[0] in (Outcome.REJECTED, Outcome.NOT_SENT):
                log = self.kit.record_log(batch.topic_partition.partition)
                assert not set(batch.records) & set(log)

    @invariant()
    def five_batches_of_a_partition_are_open_at_most(self) -> None:
        for sent in self.kit.on_the_wire.values():
            assert len(sent) <= 5


class IdempotentMachine(ProducerMachine):
    """A producer without transactional id."""

    @initialize(first_epoch=st.sampled_from([0, 32767, 32766]), max_attempts=st.sampled_from([50, 2]))
    def start(self, first_epoch: int, max_attempts: int) -> None:
        self.kit = Kit(transactional=False)
        self.kit.max_attempts = max_attempts
        # Kafka gives 0; the epochs that are left are then used up much later.
        self.kit.coordination.transactions.first_epoch = first_epoch
        #: Partitions whose leader has forgotten the producer at a moment when it could do harm.
        self.forgotten: set[int] = set()

    @rule()
    def the_coordinator_refuses(self) -> None:
        if self.kit.ask() is not None:
            self.kit.reply(31)

    @precondition(lambda self: any(self.kit.on_the_wire.values()))
    @rule(data=st.data(), code=st.sampled_from([45, 47, 59]))
    def a_leader_lost_track(self, data: Any, code: int) -> None:
        """As after an unclean election; it has not written the batch."""
        self.kit.answer(self._waiting_partition(data), code)

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def a_leader_restarts_cleanly(self, partition: int) -> None:
        """Its snapshot has only the last batch of each producer."""
        self.kit.partition(partition).producers.reload_snapshot()

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def a_leader_forgets_an_idle_producer(self, partition: int) -> None:
        """``producer.id.expiration.ms``, while nothing is under way that could be written a second time."""
        kit = self.kit
        if kit.on_the_wire[partition] or kit.late or self._may_have_been_written(partition):
            return
        kit.now_ms += REMEMBERED_MS
        kit.partition(partition).producers.forget()

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def a_leader_forgets_the_producer_at_once(self, partition: int) -> None:
        """As when a topic is recreated: what may have been written can then be written again."""
        if partition not in self.forgotten:
            self.forgotten.add(partition)
            self.kit.partition(partition).producers.forget()

    def _may_have_been_written(self, partition: int) -> bool:
        return any(
            batch.knowledge is Knowledge.UNKNOWN
            for batch in self.kit.batches
            if batch.topic_partition.partition == partition and not batch.is_done
        )

    @invariant()
    def nothing_is_written_twice_or_out_of_order(self) -> None:
        if not hasattr(self, "kit"):
            return
        for index in range(PARTITIONS):
            log = self.kit.record_log(index)
            if index in self.forgotten:
                # The first time that each was written is in order; only what was UNKNOWN came again.
                again = [number for place, number in enumerate(log) if number in log[:place]]
                unknown = {n for batch in self.kit.batches if batch.was_unknown for n in batch.records}
                assert set(again) <= unknown
                log = list(dict.fromkeys(log))
            assert log == sorted(set(log))

    def teardown(self) -> None:
        if not hasattr(self, "kit"):
            return
        self.kit.settle()
        assert not self.kit.has_incomplete
        # After all of this, the next record of each partition is written.
        last = [self.kit.append(partition) for partition in range(PARTITIONS)]
        self.kit.settle()
        assert [batch.endings for batch in last] == [[None]] * PARTITIONS
        self.nothing_is_written_twice_or_out_of_order()


class TransactionalMachine(ProducerMachine):
    """A producer with transactions, of either protocol."""

    @initialize(version=st.sampled_from([1, 2]), settling=st.integers(0, 2))
    def start(self, version: int, settling: int) -> None:
        self.kit = Kit(version=version, partitions=PARTITIONS)
        self.kit.coordination.transactions.settling = settling
        self.operation: PendingOperation | None = self.kit.manager.lifecycle.begin_initialize()
        self.number = 0
        self.committed: set[int] = set()
        self.operations: list[PendingOperation] = []
        #: Whether anything happened after which a producer may be given up.
        self.may_be_fatal = False
        #: Handed over, with the number of the transaction.
        self.prepared: list[tuple[PreparedTransaction, int]] = []

    @property
    def manager(self) -> Any:
        return self.kit.manager

    def append(self, partition: int, count: int) -> None:
        if self.manager.lifecycle.state is _S.IN_TRANSACTION:
            self.kit.append(partition, count, self.number)
            return
        for error in self._refusal("send", lambda: self.kit.append(partition, count)):
            assert not isinstance(error, IllegalStateError) or self.manager.lifecycle.state not in (
                _S.FATAL_ERROR,
                _S.ABORTABLE_ERROR,
            )

    # Hypothesis finds rules by attribute: the override needs the decoration again.
    append = rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 3))(append)  # type: ignore[assignment]

    @rule()
    def begin(self) -> None:
        if self.manager.lifecycle.state is _S.READY and (self.operation is None or self.operation.has_ended):
            self._note_end()
            self.number += 1
            self.manager.lifecycle.begin_transaction()
        else:
            assert self._refusal("begin", self.manager.lifecycle.begin_transaction)

    @rule()
    def commit(self) -> None:
        if self.manager.lifecycle.state is _S.IN_TRANSACTION:
            self._start(self.manager.lifecycle.begin_commit())

    @rule()
    def abort(self) -> None:
        if self.manager.lifecycle.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR):
            self._start(self.manager.lifecycle.begin_abort())

    @precondition(lambda self: not self.kit.late_requests)
    @rule(commit=st.booleans())
    def the_first_end_is_delayed_until_a_record_of_the_next_is_written(self, commit: bool) -> None:
        """Found too rarely, step by step."""
        kit = self.kit
        if self.manager.lifecycle.state in (_S.INITIALIZING, _S.READY):
            kit.settle()
            self.begin()
        if self.manager.lifecycle.state is not _S.IN_TRANSACTION:
            return
        kit.append(0, 1, self.number)
        self._start(self.manager.lifecycle.begin_commit() if commit else self.manager.lifecycle.begin_abort())
        for _ in range(20):
            kit.now_ms += 2000
            kit.pump()
            for partition, sent in kit.on_the_wire.items():
                while sent:
                    kit.answer(partition)
            request = kit.ask()
            if request is not None:
                kit.reply(late=request.api_key == 26)
            if kit.late_requests:
                break
        kit.settle()
        if self.manager.lifecycle.state is _S.READY:
            self.begin()
            if self.manager.lifecycle.state is _S.IN_TRANSACTION:
                kit.append(0, 1, self.number)
                kit.settle()
        if kit.late_requests:
            self.a_delayed_request_arrives()

    @precondition(
        lambda self: self.manager.lifecycle.state is _S.IN_TRANSACTION and not self.kit.has_incomplete
    )
    @rule()
    def prepare(self) -> None:
        if all(operation.has_ended for operation in self.operations):
            self.prepared.append((self.manager.lifecycle.prepare(), self.number))

    @rule(which=st.integers(0, 2))
    def another_transactional_id(self, which: int) -> None:
        """Never refused where it is allowed: nothing is on its way then."""
        if self.manager.lifecycle.state in (_S.UNINITIALIZED, _S.READY, _S.PREPARED):
            self._note_end()
            self.manager.lifecycle.change_transactional_id(f"{TRANSACTIONAL_ID}-{which}")
            self._start(self.manager.lifecycle.begin_initialize())
        else:
            assert self._refusal("change", lambda: self.manager.lifecycle.change_transactional_id("never"))

    @precondition(lambda self: self.prepared)
    @rule(commit=st.booleans())
    def somebody_ends_what_was_handed_over(self, commit: bool) -> None:
        self.what_was_handed_over_is_ended(commit)

    def what_was_handed_over_is_ended(self, commit: bool) -> None:
        handed, number = self.prepared.pop(0)
        if handed.is_empty:
            return
        code = 51
        while code == 51:
            code, _ = self.kit.coordination.transactions.end(
                handed.transactional_id,
                Producer(handed.producer_id, handed.epoch),
                commit=commit,
                version_2=handed.transaction_version >= 2,
            )
        if code == 0 and commit:
            self.committed.add(number)

    @rule(offset=st.integers(0, 100))
    def send_offsets(self, offset: int) -> None:
        if self.manager.lifecycle.state is _S.IN_TRANSACTION:
            offsets = {TopicPartition("t", 0): OffsetAndMetadata(offset)}
            self.operations.append(self.manager.lifecycle.send_offsets(offsets, ConsumerGroupMetadata("g")))

    @rule()
    def send_fails(self) -> None:
        self.manager.lifecycle.send_failed(KeyErrorLike())

    @rule(code=st.sampled_from([120, 29, 30]))
    def a_coordinator_wants_an_abort(self, code: int) -> None:
        request = self.kit.ask()
        # TOPIC_AUTHORIZATION_FAILED and GROUP_AUTHORIZATION_FAILED come from requests that name such a thing.
        if request is None or (code != 120 and request.api_key not in {29: (24, 28), 30: (25, 28)}[code]):
            return
        if request.api_key in (10, 26, 22):
            self.may_be_fatal = True
        self.kit.reply(code)

    @precondition(lambda self: self._is_ongoing())
    @rule()
    def the_transaction_times_out(self) -> None:
        version_2 = self.kit.transaction_version >= 2
        # The coordinator answers offsets with PRODUCER_FENCED then, in both versions.
        transaction = self.manager.lifecycle.transaction
        self.may_be_fatal |= not version_2 or bool(transaction and transaction.offsets)
        self.kit.coordination.transactions.time_out(self.manager.lifecycle.transactional_id, version_2)

    @rule()
    def another_producer_takes_over(self) -> None:
        transactions = self.kit.coordination.transactions
        if self.manager.lifecycle.transactional_id in transactions.transactions:
            self.may_be_fatal = True
            transactions.init_producer_id(self.manager.lifecycle.transactional_id, 60_000, NO_PRODUCER)

    @precondition(lambda self: self.kit.late_requests)
    @rule()
    def a_delayed_request_arrives(self) -> None:
        # A delayed InitProducerId ends the transaction that is open then, and fences its producer.
        self.may_be_fatal |= self.kit.late_request_arrives() == 22

    @precondition(lambda self: any(self.kit.on_the_wire.values()))
    @rule(data=st.data(), code=st.sampled_from([45, 47, 48, 49, 59, 120]))
    def a_leader_wants_an_abort(self, data: Any, code: int) -> None:
        self.kit.answer(self._waiting_partition(data), code)

    def _is_ongoing(self) -> bool:
        known = self.kit.coordination.transactions.transactions.get(self.manager.lifecycle.transactional_id)
        return known is not None and known.state is State.ONGOING

    def _start(self, operation: PendingOperation) -> None:
        self._note_end()
        self.operation = operation
        self.operations.append(operation)

    def _note_end(self) -> None:
        operation = self.operation
        if operation is None or not operation.has_ended:
            return
        self.manager.lifecycle.acknowledge(operation)
        if operation.name == "commit_transaction" and operation.error is None:
            self.committed.add(self.number)
        self.operation = None

    def _refusal(self, what: str, call: Any) -> list[Exception]:
        try:
            call()
        except (IllegalStateError, AbortTransactionError, FatalProducerError) as error:
            return [error]
        raise AssertionError(f"{what} was allowed while {self.manager.lifecycle.state}")

    @invariant()
    def only_committed_transactions_are_seen(self) -> None:
        if not hasattr(self, "kit"):
            return
        self._note_end()
        for index in range(PARTITIONS):
            seen = set(self.kit.committed(index))
            for batch in self.kit.batches:
                if batch.topic_partition.partition != index:
                    continue
                if batch.transaction in self.committed:
                    assert batch.endings == [None]
                    # Readers wait for what was handed over and is open.
                    assert batch.number in seen or self.prepared or self.may_be_fatal
                elif batch.transaction < self.number or self.manager.lifecycle.state in _NOT_COMMITTED:
                    assert batch.number not in seen or self.may_be_fatal

    def teardown(self) -> None:
        if not hasattr(self, "kit"):
            return
        self.kit.settle()
        if self.manager.lifecycle.state is _S.IN_TRANSACTION:
            self.commit()
            self.kit.settle()
        if self.manager.lifecycle.state is _S.ABORTABLE_ERROR:
            self.abort()
            self.kit.settle()
        while self.prepared:
            self.what_was_handed_over_is_ended(True)
        if self.manager.lifecycle.state is _S.PREPARED:
            self.another_transactional_id(0)
            self.kit.settle()
        self._note_end()
        assert not self.kit.has_incomplete
        assert all(operation.has_ended for operation in self.operations)
        assert self.manager.lifecycle.state in (_S.READY, _S.FATAL_ERROR, _S.UNINITIALIZED)
        if self.manager.lifecycle.state is not _S.READY:
            assert self.may_be_fatal
        elif not self.may_be_fatal:
            self._one_more_transaction()

    def _one_more_transaction(self) -> None:
        self.begin()
        batches = [self.kit.append(partition, 1, self.number) for partition in range(PARTITIONS)]
        self.commit()
        self.kit.settle()
        assert self.manager.lifecycle.state is _S.READY
        for batch in batches:
            assert batch.number in self.kit.committed(batch.topic_partition.partition)


def KeyErrorLike() -> Any:  # noqa: N802
    """A failure of ``send`` that has nothing to do with brokers."""
    from kproducer.errors import SerializationError

    return SerializationError("no")


_SETTINGS = settings(
    max_examples=60, stateful_step_count=50, deadline=None, phases=set(Phase) - {Phase.explain}
)
TestIdempotent = IdempotentMachine.TestCase
TestIdempotent.settings = _SETTINGS
TestTransactional = TransactionalMachine.TestCase
TestTransactional.settings = _SETTINGS
