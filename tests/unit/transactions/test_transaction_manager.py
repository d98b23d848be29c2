"""A transaction's life, one situation at a time: legal calls, both protocols, what each error code does."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from kproducer._core.transactions.coordinator_requests import Result
from kproducer._core.transactions.transaction_arguments import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
)
from kproducer._core.transactions.transaction_state import LEGAL_TRANSITIONS, TransactionState
from kproducer.errors import (
    AbortTransactionError,
    FatalProducerError,
    FencedError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    Outcome,
    ProducerClosedError,
    TransactionAbortedError,
)
from kproducer.errors.broker_errors import (
    InvalidTransactionTimeoutError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kproducer.testing.fakebroker.group_offsets import Member
from kproducer.testing.fakebroker.transaction_coordinator import NO_PRODUCER, State
from kproducer.types import TopicPartition
from tests.support.units.transaction_kit import TRANSACTIONAL_ID, Kit

_S = TransactionState
TP = TopicPartition("t", 0)
FIND, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 10, 22, 24, 25, 26, 28
GROUP = ConsumerGroupMetadata("g")
OFFSETS = {TP: OffsetAndMetadata(5)}


class Stage(Kit):
    """A kit that notes the requests to coordinators."""

    def __init__(self, version: int = 2, begin: bool = True, **options: Any) -> None:
        super().__init__(version=version, **options)
        if begin:
            self.do(self.manager.state_machine.begin_initialize())
            self.manager.state_machine.begin_transaction()
            self.asked.clear()

    def commit(self) -> None:
        self.do(self.manager.state_machine.begin_commit())

    def abort(self) -> None:
        self.do(self.manager.state_machine.begin_abort())

    def answer_next(self, api_key: int, code: int | None = None, **how: Any) -> None:
        """Let all go well up to the next request of an API, and answer that one so."""
        for _ in range(50):
            self.now_ms += 2000
            self.pump()
            if self.ask() is None:
                for partition, sent in self.on_the_wire.items():
                    if sent:
                        self.answer(partition)
                continue
            assert self.request is not None
            if self.request.api_key == api_key:
                self.reply(code, **how)
                return
            self.reply()
        raise AssertionError(f"API {api_key} was not asked; {self.asked}, {self.manager.state_machine.state}")

    @property
    def transaction(self) -> Any:
        return self.coordination.transactions.transactions[TRANSACTIONAL_ID]


# -- the state machine -----------------------------------------------------------------------------------


def test_from_each_state_something_leads_on_and_the_end_is_an_end() -> None:
    for state, following in LEGAL_TRANSITIONS.items():
        assert bool(following) is (state is not _S.FATAL_ERROR)
        assert state not in following
    reached = {_S.UNINITIALIZED}
    while True:
        more = reached | {later for state in reached for later in LEGAL_TRANSITIONS[state]}
        if more == reached:
            break
        reached = more
    assert reached == set(_S)


def test_calls_out_of_order_are_refused_and_change_nothing() -> None:
    kit = Stage(begin=False)
    manager = kit.manager
    state_machine = manager.state_machine
    in_transaction = (
        state_machine.check_send,
        state_machine.begin_commit,
        state_machine.begin_abort,
        state_machine.prepare,
    )
    for call in (state_machine.begin_transaction, *in_transaction):
        with pytest.raises(IllegalStateError, match=r"not initialized; call init_transactions\(\) once"):
            call()
    kit.do(state_machine.begin_initialize())
    with pytest.raises(IllegalStateError, match="called before"):
        state_machine.begin_initialize()
    for call in in_transaction:
        with pytest.raises(IllegalStateError, match=r"call begin_transaction\(\) first"):
            call()
    state_machine.begin_transaction()
    with pytest.raises(
        IllegalStateError, match=r"open transaction; end it first, with commit_transaction\(\)"
    ):
        state_machine.begin_transaction()
    kit.append()
    kit.commit()
    assert kit.committed() == [0]


def test_a_call_that_timed_out_is_taken_up_again_by_the_same_call_only() -> None:
    kit = Stage()
    kit.append()
    operation = kit.manager.state_machine.begin_commit()
    assert kit.manager.state_machine.begin_commit() is operation
    for call in (kit.manager.state_machine.begin_abort, kit.manager.state_machine.begin_transaction):
        with pytest.raises(IllegalStateError, match="commit_transaction is not done yet"):
            call()
    kit.settle()
    assert kit.manager.state_machine.begin_commit() is operation
    kit.manager.state_machine.acknowledge(operation)
    with pytest.raises(IllegalStateError):
        kit.manager.state_machine.begin_commit()


def test_one_request_to_a_coordinator_is_under_way_at_a_time() -> None:
    kit = Stage(begin=False)
    kit.manager.state_machine.begin_initialize()
    assert kit.ask() is not None
    assert not kit.manager.protocol.next_request(kit.now_ms + 60_000)


def test_the_response_to_the_request_under_way_comes_before_the_end() -> None:
    kit = Stage(version=1)
    kit.append()
    kit.pump()
    assert kit.ask() is not None
    kit.manager.state_machine.begin_abort()
    assert not kit.manager.protocol.next_request(kit.now_ms)
    assert kit.manager.state_machine.state is _S.ABORTING
    kit.reply()
    kit.settle()
    assert kit.manager.state_machine.state is _S.READY


def test_once_an_abort_has_begun_only_batches_that_were_sent_before_are_sent() -> None:
    kit = Stage()
    batch = kit.append()
    assert kit.manager.may_drain(batch, kit.now_ms)
    kit.manager.state_machine.begin_abort()
    assert not kit.manager.may_drain(batch, kit.now_ms)


def test_closing_ends_every_wait() -> None:
    kit = Stage(version=1)
    kit.append()
    offsets = kit.manager.state_machine.send_offsets(OFFSETS, GROUP)
    commit = kit.manager.state_machine.begin_commit()
    kit.manager.state_machine.close()
    assert isinstance(offsets.error, ProducerClosedError)
    assert isinstance(commit.error, ProducerClosedError)
    with pytest.raises(FatalProducerError):
        kit.manager.state_machine.begin_transaction()
    assert kit.ask() is None


# -- both protocols --------------------------------------------------------------------------------------


def test_protocol_1_adds_partitions_together_and_once() -> None:
    kit = Stage(version=1)
    epoch = kit.manager.sequences.producer
    for partition in (0, 1, 0):
        kit.append(partition)
    kit.commit()
    kit.manager.state_machine.begin_transaction()
    kit.append()
    kit.commit()
    assert kit.asked == [ADD_PARTITIONS, END, ADD_PARTITIONS, END]
    assert kit.manager.sequences.producer == epoch
    assert [b.base_sequence for b in kit.partition(0).batches] == [0, 1, 2]


def test_protocol_1_sends_nothing_to_a_partition_before_it_is_added() -> None:
    kit = Stage(version=1)
    kit.append()
    kit.pump()
    assert not kit.on_the_wire[0]
    kit.ask()
    kit.append(1)
    kit.reply()
    kit.pump()
    assert (len(kit.on_the_wire[0]), len(kit.on_the_wire[1])) == (1, 0)
    kit.commit()
    assert kit.committed(1) == [1]


def test_protocol_2_adds_nothing_and_takes_the_next_epoch_from_the_end() -> None:
    kit = Stage(version=2)
    before = kit.manager.sequences.producer
    kit.append()
    kit.manager.state_machine.send_offsets(OFFSETS, GROUP)
    kit.commit()
    assert kit.asked == [FIND, COMMIT_OFFSETS, END]
    assert kit.manager.sequences.producer == before.raised()
    kit.manager.state_machine.begin_transaction()
    kit.append()
    kit.commit()
    assert [(b.producer_epoch - before.epoch, b.base_sequence) for b in kit.partition(0).batches] == [
        (0, 0),
        (1, 0),
    ]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_an_empty_transaction_asks_nobody(version: int, ending: str) -> None:
    kit = Stage(version=version)
    getattr(kit, ending)()
    assert kit.asked == []
    assert kit.manager.state_machine.state is _S.READY


def test_the_protocol_is_chosen_when_a_transaction_begins() -> None:
    kit = Stage(version=1)
    kit.transaction_version = 2
    kit.append()
    assert not kit.manager.state_machine.uses_version_2
    kit.commit()
    kit.manager.state_machine.begin_transaction()
    assert kit.manager.state_machine.uses_version_2


@pytest.mark.parametrize("version", [1, 2])
def test_an_abort_gives_up_what_was_not_sent_and_hides_what_was(version: int) -> None:
    kit = Stage(version=version)
    sent = kit.append()
    if version == 1:
        kit.answer_next(ADD_PARTITIONS)
    kit.pump()
    waiting = kit.append()
    kit.abort()
    assert sent.endings == [None]
    assert isinstance(waiting.endings[0], TransactionAbortedError)
    assert (kit.log(), kit.committed()) == ([0], [])
    assert kit.manager.state_machine.state is _S.READY


@pytest.mark.parametrize("version", [1, 2])
def test_the_end_waits_for_the_records(version: int) -> None:
    kit = Stage(version=version)
    kit.append()
    operation = kit.manager.state_machine.begin_commit()
    if version == 1:
        kit.answer_next(ADD_PARTITIONS)
    kit.pump()
    assert kit.ask() is None
    kit.answer(0)
    kit.settle()
    assert operation.has_ended


def test_the_end_waits_for_a_record_that_is_sent_just_before_it() -> None:
    """Another thread sends and commits while the I/O thread looks for records."""
    kit = Stage()
    kit.append()
    kit.settle()
    threads: list[threading.Thread] = []

    def send_and_commit() -> None:
        kit.append()
        kit.manager.state_machine.begin_commit()

    def has_incomplete() -> bool:
        found = kit.has_incomplete
        if not threads:
            threads.append(threading.Thread(target=send_and_commit))
            threads[0].start()
            threads[0].join(0.2)
        return found

    kit.manager.state_machine.hooks = kit.manager.state_machine.hooks._replace(has_incomplete=has_incomplete)
    assert not kit.manager.protocol.next_request(kit.now_ms)
    threads[0].join()
    kit.settle()
    assert kit.manager.state_machine.state is _S.READY
    assert kit.committed() == [0, 1]


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_are_committed_with_the_transaction(version: int) -> None:
    kit = Stage(version=version)
    operation = kit.manager.state_machine.send_offsets(OFFSETS, GROUP)
    kit.settle()
    operation.raise_if_failed()
    group = kit.coordination.group("g")
    assert (group.committed, len(group.pending)) == ({}, 1)
    kit.commit()
    assert {place: position.offset for place, position in group.committed.items()} == {("t", 0): 5}
    kit.manager.state_machine.begin_transaction()
    kit.do(kit.manager.state_machine.send_offsets({TP: OffsetAndMetadata(9)}, GROUP))
    kit.abort()
    assert group.committed["t", 0].offset == 5


def test_offsets_without_any_are_no_work_and_bad_ones_are_refused() -> None:
    kit = Stage()
    assert kit.manager.state_machine.send_offsets({}, GROUP).has_ended
    for offsets, group in (
        (OFFSETS, None),
        (OFFSETS, ConsumerGroupMetadata("")),
        ({TP: OffsetAndMetadata(-1)}, GROUP),
        (OFFSETS, ConsumerGroupMetadata("g", generation_id=1)),
    ):
        with pytest.raises(InvalidArgumentError):
            kit.manager.state_machine.send_offsets(offsets, group)  # type: ignore[arg-type]
    assert kit.ask() is None


@pytest.mark.parametrize(
    ("group", "code"),
    [
        (ConsumerGroupMetadata("g", 3, "other"), 25),
        (ConsumerGroupMetadata("g", 2, "member"), 22),
        (ConsumerGroupMetadata("g", 3, "other", "static"), 82),
    ],
)
def test_offsets_of_a_stale_member_end_the_transaction(group: ConsumerGroupMetadata, code: int) -> None:
    kit = Stage()
    kit.coordination.group("g").member = Member("member", 3, "static")
    operation = kit.manager.state_machine.send_offsets(OFFSETS, group)
    kit.settle()
    assert isinstance(operation.error, AbortTransactionError)
    assert operation.error.__cause__.code == code  # type: ignore[union-attr]
    kit.abort()
    assert kit.manager.state_machine.state is _S.READY


# -- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("how", [14, 15, 16, 51, "lost", "not applied"])
def test_coordinators_are_asked_until_they_answer(version: int, how: Any) -> None:
    """Each request of a whole life is answered once with a passing error, or its connection ends."""
    kit = Stage(version=version, begin=False)

    def disturb(api_key: int) -> None:
        if how == "lost":
            kit.answer_next(api_key, lost=True)
        elif how == "not applied":
            kit.answer_next(api_key, lost=True, applied=False)
        else:
            kit.answer_next(api_key, how)

    initialize = kit.manager.state_machine.begin_initialize()
    disturb(FIND)
    disturb(INIT)
    kit.do(initialize)
    kit.manager.state_machine.begin_transaction()
    kit.append()
    if version == 1:
        disturb(ADD_PARTITIONS)
    offsets = kit.manager.state_machine.send_offsets(OFFSETS, GROUP)
    if version == 1:
        disturb(ADD_OFFSETS)
    disturb(COMMIT_OFFSETS)
    kit.settle()
    offsets.raise_if_failed()
    commit = kit.manager.state_machine.begin_commit()
    disturb(END)
    kit.do(commit)
    assert kit.committed() == [0]
    assert kit.coordination.group("g").committed["t", 0].offset == 5


def test_concurrent_transactions_on_the_first_partitions_costs_20_ms_only() -> None:
    kit = Stage(version=1)
    kit.append()
    kit.pump()
    kit.ask()
    kit.reply(51)
    assert kit.ask() is None
    assert 0 < kit.manager.protocol.delay_ms(kit.now_ms) <= 20
    kit.now_ms += 20
    assert kit.ask() is not None


def test_a_look_up_that_fails_pauses_although_another_request_is_wanted() -> None:
    kit = Stage(version=1)
    kit.append()
    kit.answer_next(ADD_PARTITIONS, 16)
    kit.answer_next(FIND, 15)
    # The next request has one more partition, and goes to the same coordinator.
    kit.append(1)
    kit.pump()
    assert kit.ask() is None
    assert kit.manager.protocol.delay_ms(kit.now_ms) > 50
    kit.answer_next(FIND, 15)
    assert kit.ask() is None
    assert kit.manager.protocol.delay_ms(kit.now_ms) > 150


def test_a_crashed_predecessor_is_waited_out() -> None:
    kit = Stage()
    kit.append()
    kit.pump()
    kit.answer(0)
    newer = Stage(begin=False)
    newer.coordination, newer.topics = kit.coordination, kit.topics
    kit.coordination.transactions.settling = 3
    newer.do(newer.manager.state_machine.begin_initialize())
    assert newer.asked.count(INIT) == 5
    assert kit.committed() == []


@pytest.mark.parametrize("code", [90, 47])
@pytest.mark.parametrize(
    ("version", "api_key"),
    [(1, ADD_PARTITIONS), (1, ADD_OFFSETS)] + [(v, k) for v in (1, 2) for k in (INIT, COMMIT_OFFSETS, END)],
)
def test_fencing_ends_the_producer(version: int, code: int, api_key: int) -> None:
    kit = Stage(version=version, begin=False)
    operation = kit.manager.state_machine.begin_initialize()
    if api_key != INIT:
        kit.do(operation)
        kit.manager.state_machine.begin_transaction()
        kit.append()
        kit.manager.state_machine.send_offsets(OFFSETS, GROUP)
        operation = kit.manager.state_machine.begin_commit()
    kit.answer_next(api_key, code)
    assert isinstance(operation.error, FencedError)
    kit.manager.state_machine.acknowledge(operation)
    for call in (
        kit.manager.state_machine.begin_transaction,
        kit.manager.state_machine.begin_commit,
        kit.manager.state_machine.begin_abort,
    ):
        with pytest.raises(FencedError):
            call()
    kit.settle()
    assert not kit.has_incomplete
    kit.manager.state_machine.close()


def test_the_older_of_two_producers_is_fenced_and_its_data_never_seen() -> None:
    kit = Stage()
    kit.append()
    kit.pump()
    kit.answer(0)
    kit.coordination.transactions.init_producer_id(TRANSACTIONAL_ID, 1000, NO_PRODUCER)
    kit.append()
    operation = kit.manager.state_machine.begin_commit()
    kit.settle()
    assert operation.error is not None
    assert kit.committed() == []


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("code", [45, 47, 48, 49, 59, 87, 120])
def test_a_failed_batch_allows_an_abort_only_and_then_another_transaction(version: int, code: int) -> None:
    kit = Stage(version=version)
    batch = kit.append()
    if version == 1:
        kit.answer_next(ADD_PARTITIONS)
    kit.pump()
    before = kit.manager.sequences.producer
    kit.answer(0, code)
    assert kit.manager.state_machine.state is _S.ABORTABLE_ERROR
    assert batch.endings[0] is not None
    for call in (
        kit.manager.state_machine.begin_commit,
        lambda: kit.append(),
        kit.manager.state_machine.begin_transaction,
    ):
        with pytest.raises(AbortTransactionError) as caught:
            call()
        assert caught.value.__cause__ is batch.endings[0]
    kit.abort()
    assert kit.manager.sequences.producer == before.raised()
    kit.manager.state_machine.begin_transaction()
    kit.append()
    kit.commit()
    assert kit.committed() == [1]


@pytest.mark.parametrize("code", [31, 53, 90])
def test_some_answers_to_batches_end_the_producer(code: int) -> None:
    kit = Stage()
    kit.append()
    kit.pump()
    kit.answer(0, code)
    assert kit.manager.state_machine.state is _S.FATAL_ERROR


def test_a_send_that_raised_forbids_the_commit() -> None:
    kit = Stage()
    kit.manager.state_machine.send_failed(KafkaError("too large"))
    with pytest.raises(AbortTransactionError, match="too large"):
        kit.manager.state_machine.begin_commit()
    kit.abort()
    assert kit.manager.state_machine.state is _S.READY


def test_a_denied_topic_adds_no_partition_and_allows_an_abort() -> None:
    kit = Stage(version=1)
    batch = kit.append()
    kit.answer_next(ADD_PARTITIONS, 29)
    kit.pump()
    assert isinstance(batch.endings[0], AbortTransactionError)
    assert kit.transaction.state is State.EMPTY
    kit.abort()
    assert END not in kit.asked


@pytest.mark.parametrize("denied", [0, 1, 2])
def test_a_denied_topic_is_the_reason_and_not_the_partitions_that_were_left_out_for_it(denied: int) -> None:
    kit = Stage(version=1, partitions=3)
    for partition in range(3):
        kit.append(partition)
    kit.pump()
    request = kit.ask()
    assert request is not None
    codes = {TopicPartition("t", i): Result(29 if i == denied else 55) for i in range(3)}
    request.parse = lambda body: codes  # type: ignore[method-assign, assignment]
    kit.reply()
    assert isinstance(kit.manager.state_machine.cause, TopicAuthorizationFailedError)


@pytest.mark.parametrize("busy", [0, 1])
def test_a_busy_coordinator_shortens_the_pause_whatever_else_the_response_has(
    busy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = Stage(version=1)
    kit.append(0)
    kit.append(1)
    kit.pump()
    request = kit.ask()
    assert request is not None
    codes = {TopicPartition("t", i): Result(51 if i == busy else 3) for i in range(2)}
    monkeypatch.setattr(type(request), "parse", lambda self, body: codes)
    kit.reply()
    assert kit.ask() is None
    assert 0 < kit.manager.protocol.delay_ms(kit.now_ms) <= 20


def test_the_lost_answer_that_may_have_begun_a_transaction_is_no_obstacle_to_an_abort() -> None:
    kit = Stage(version=1)
    kit.append()
    kit.answer_next(ADD_PARTITIONS, lost=True, applied=False)
    kit.abort()
    assert kit.asked[-2:] == [END, INIT]
    assert kit.manager.state_machine.state is _S.READY


def test_transaction_abortable_while_aborting_ends_the_producer() -> None:
    kit = Stage()
    kit.append()
    kit.pump()
    kit.answer(0)
    operation = kit.manager.state_machine.begin_abort()
    kit.answer_next(END, 120)
    assert isinstance(operation.error, FatalProducerError)


def test_a_coordinator_that_forgot_us_leaves_nothing_to_abort() -> None:
    kit = Stage(version=1)
    kit.append()
    kit.settle()
    kit.coordination.transactions.forget(TRANSACTIONAL_ID)
    kit.abort()
    assert kit.manager.state_machine.state is _S.READY
    kit.manager.state_machine.begin_transaction()
    kit.append()
    kit.commit()
    assert 1 in kit.log()


def test_a_broker_that_cannot_raise_epochs_ends_a_producer_that_lost_track() -> None:
    kit = Stage(version=1, init_version=2)
    batch = kit.append()
    kit.answer_next(ADD_PARTITIONS)
    kit.pump()
    kit.disconnect(0, applied=0)
    kit.expire(batch)
    operation = kit.manager.state_machine.begin_abort()
    kit.settle()
    assert isinstance(operation.error, FatalProducerError)
    assert "raise the epoch" in str(operation.error)


@pytest.mark.parametrize("code", [31, 53])
def test_missing_rights_refuse_the_initialization_and_it_may_be_repeated(code: int) -> None:
    kit = Stage(begin=False)
    operation = kit.manager.state_machine.begin_initialize()
    kit.answer_next(INIT, code)
    kit.manager.state_machine.acknowledge(operation)
    with pytest.raises(type(operation.error)):  # type: ignore[arg-type]
        operation.raise_if_failed()
    assert kit.manager.state_machine.state is _S.UNINITIALIZED
    kit.do(kit.manager.state_machine.begin_initialize())
    assert kit.manager.state_machine.state is _S.READY


def test_missing_rights_to_the_id_are_noticed_when_the_coordinator_is_looked_up() -> None:
    kit = Stage(begin=False)
    operation = kit.manager.state_machine.begin_initialize()
    kit.answer_next(FIND, 53)
    assert isinstance(operation.error, TransactionalIdAuthorizationFailedError)
    assert kit.manager.state_machine.state is _S.UNINITIALIZED


def test_a_timeout_above_the_brokers_maximum_is_fatal() -> None:
    kit = Stage(begin=False)
    kit.coordination.transactions.max_timeout_ms = 1000
    operation = kit.manager.state_machine.begin_initialize()
    kit.settle()
    assert isinstance(operation.error, FatalProducerError)
    assert isinstance(operation.error.__cause__, InvalidTransactionTimeoutError)


def test_protocol_2_goes_on_after_a_timeout() -> None:
    kit = Stage(version=2)
    kit.append()
    kit.settle()
    kit.coordination.transactions.time_out(TRANSACTIONAL_ID, version_2=True)
    operation = kit.manager.state_machine.begin_commit()
    kit.settle()
    assert isinstance(operation.error, AbortTransactionError)
    assert isinstance(operation.error.__cause__, TransactionAbortedError)
    kit.abort()
    kit.manager.state_machine.begin_transaction()
    kit.append()
    kit.commit()
    assert kit.committed() == [1]


def test_protocol_1_is_fenced_by_a_timeout() -> None:
    kit = Stage(version=1)
    kit.append()
    kit.settle()
    kit.coordination.transactions.time_out(TRANSACTIONAL_ID, version_2=False)
    operation = kit.manager.state_machine.begin_commit()
    kit.settle()
    assert isinstance(operation.error, FencedError)
    assert kit.committed() == []


# -- hand-over -------------------------------------------------------------------------------------------


def prepared(kit: Stage) -> PreparedTransaction:
    kit.append()
    kit.settle()
    handed = kit.manager.state_machine.prepare()
    return pickle.loads(pickle.dumps(handed))


def finisher(kit: Stage, handed: PreparedTransaction) -> Stage:
    other = Stage(version=1, begin=False)
    other.coordination, other.topics, other.transaction_version = kit.coordination, kit.topics, 2
    other.manager.state_machine.take_over(handed, "commit_prepared")
    return other


@pytest.mark.parametrize("version", [1, 2])
def test_another_process_commits_and_may_do_so_twice(version: int) -> None:
    kit = Stage(version=version)
    handed = prepared(kit)
    assert handed.transaction_version == version
    with pytest.raises(IllegalStateError, match="handed over"):
        kit.append()
    assert kit.committed() == []
    for _ in range(2):
        other = finisher(kit, handed)
        other.commit()
        assert other.manager.state_machine.state is _S.UNINITIALIZED
    assert kit.committed() == [0]


@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_after_an_abort_is_told_apart(version: int) -> None:
    kit = Stage(version=version)
    handed = prepared(kit)
    finisher(kit, handed).abort()
    with pytest.raises(TransactionAbortedError):
        finisher(kit, handed).commit()
    assert kit.committed() == []


@pytest.mark.parametrize(("version", "error"), [(1, FencedError), (2, TransactionAbortedError)])
def test_a_commit_after_a_timeout_is_told_apart(version: int, error: type[KafkaError]) -> None:
    kit = Stage(version=version)
    handed = prepared(kit)
    kit.coordination.transactions.time_out(TRANSACTIONAL_ID, version_2=version == 2)
    with pytest.raises(error):
        finisher(kit, handed).commit()


def test_the_same_process_may_end_what_it_prepared() -> None:
    kit = Stage()
    prepared(kit)
    kit.commit()
    assert kit.committed() == [0]
    assert kit.manager.state_machine.state is _S.READY


def test_a_hand_over_may_be_repeated_where_it_was_prepared() -> None:
    kit = Stage()
    handed = prepared(kit)
    assert kit.manager.state_machine.prepare() == handed
    other = finisher(kit, handed)
    with pytest.raises(IllegalStateError, match="prepare: the producer is in a transaction that was handed"):
        other.manager.state_machine.prepare()


def test_the_end_of_a_taken_over_transaction_is_not_requested_twice() -> None:
    """A call that is repeated because it was cancelled has the same outcome, also if it has ended meanwhile.

    The broker could only answer for the transaction that it knows now.
    """
    kit = Stage()
    handed = prepared(kit)
    other = finisher(kit, handed)
    operation = other.manager.state_machine.begin_commit("commit_prepared")
    other.settle()
    assert operation.has_ended
    requests = list(other.asked)
    again = other.manager.state_machine.take_over(handed, "commit_prepared").begin_commit("commit_prepared")
    assert again is operation
    other.settle()
    assert other.asked == requests
    other.manager.state_machine.acknowledge(operation)
    # The outcome is known now, so this is another call.
    assert other.manager.state_machine.take_over(handed, "commit_prepared").state is _S.PREPARED


def test_an_outcome_is_that_of_the_same_taken_over_transaction() -> None:
    kit = Stage()
    first = prepared(kit)
    other = finisher(kit, first)
    other.manager.state_machine.begin_commit("commit_prepared")
    other.settle()
    second = first._replace(epoch=first.epoch + 1)
    assert other.manager.state_machine.take_over(second, "commit_prepared").state is _S.PREPARED
    assert other.manager.state_machine.operation is None


def test_an_empty_transaction_can_be_handed_over() -> None:
    kit = Stage()
    handed = kit.manager.state_machine.prepare()
    assert handed.is_empty
    other = finisher(kit, handed)
    other.commit()
    assert other.asked == []


def test_a_transaction_is_handed_over_while_memory_of_written_batches_is_in_use() -> None:
    """As just after a flush, before the I/O thread has gone on."""
    kit = Stage()
    kit.append()
    kit.settle()
    kit.manager.state_machine.hooks = kit.manager.state_machine.hooks._replace(has_incomplete=lambda: True)
    assert not kit.manager.state_machine.prepare().is_empty


def test_nothing_is_handed_over_that_is_not_written() -> None:
    kit = Stage()
    kit.append()
    with pytest.raises(IllegalStateError, match="flush first"):
        kit.manager.state_machine.prepare()
    kit.commit()
    assert kit.committed() == [0]


def test_only_ones_own_id_is_taken_over() -> None:
    kit = Stage()
    handed = prepared(kit)._replace(transactional_id="other")
    with pytest.raises(InvalidArgumentError):
        finisher(kit, handed)


def test_another_id_that_is_refused_is_asked_for_again_after_a_pause() -> None:
    """The other partitions go on with the id that the producer has."""
    kit = Kit(transactional=False)
    kit.coordination.transactions.first_epoch = 32767
    kit.append()
    kit.settle()
    known, refused, behind = kit.append(), kit.append(), kit.append()
    kit.pump()
    kit.answer(0)
    kit.pump()
    kit.answer(0, 87)
    kit.answer(0)
    kit.pump()
    assert kit.ask() is not None
    kit.reply(31)
    other = kit.append(1)
    kit.pump()
    assert kit.ask() is None
    assert 0 < kit.manager.protocol.delay_ms(kit.now_ms) < 10_000
    kit.answer(1)
    assert other.endings == [None]
    kit.settle()
    assert known.endings == behind.endings == [None]
    assert refused.outcomes == [Outcome.REJECTED]
    assert kit.log(0) == [known.number - 1, known.number, behind.number]


class Plane:
    """Stands for the compiled data plane."""

    def __init__(self) -> None:
        self.transaction: Any = None
        self.has_sent = False
        self.numbers: list[tuple[int, int]] = []

    def begin_transaction(self, transaction: Any, adds_partitions: bool) -> None:
        self.transaction = transaction

    def end_transaction(self) -> None:
        self.transaction = None

    def number(self, producer_id: int, epoch: int) -> None:
        self.numbers.append((producer_id, epoch))


@pytest.mark.parametrize("unwritten", [False, True])
def test_the_data_plane_takes_no_record_while_prepare_looks_for_unwritten_ones(unwritten: bool) -> None:
    stage = Stage(begin=False)
    life, plane = stage.manager.state_machine, Plane()
    life.data_plane = plane
    seen: list[Any] = []

    def has_unwritten() -> bool:
        seen.append(plane.transaction)
        return unwritten

    life.hooks = life.hooks._replace(has_unwritten=has_unwritten)
    stage.do(life.begin_initialize())
    life.begin_transaction()
    assert plane.numbers == [life.sequences.producer]
    if unwritten:
        with pytest.raises(IllegalStateError):
            life.prepare()
        assert plane.transaction is life.transaction
    else:
        plane.has_sent = True
        assert not life.prepare().is_empty
        assert plane.transaction is None
    assert seen == [None]
