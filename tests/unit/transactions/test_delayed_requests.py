"""Requests to coordinators that were given up and arrive in the next transaction.

Protocol 1 gives both transactions the same epoch, unless the producer asks for the next one in between.
"""

from __future__ import annotations

from typing import Any

import pytest

from kproducer._core.transactions.transaction_arguments import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer._core.transactions.transaction_manager import TransactionManager
from kproducer._core.transactions.transaction_state import TransactionState
from kproducer.errors import FatalProducerError, FencedError, IllegalStateError
from kproducer.types import TopicPartition
from tests.support.units.transaction_kit import CONFIG, Kit

_S = TransactionState
TP = TopicPartition("t", 0)
FIND, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 10, 22, 24, 25, 26, 28
GROUP = ConsumerGroupMetadata("g")


class Stage(Kit):
    """A kit with an initialized producer, that answers requests to coordinators one by one."""

    def __init__(self, version: int = 1, **options: Any) -> None:
        super().__init__(version=version, **options)
        self.do(self.manager.state_machine.begin_initialize())

    def reply_to(self, api_key: int, **how: Any) -> None:
        """Let all go well up to the next request of an API, and answer that one so."""
        for _ in range(50):
            self.now_ms += 2000
            self.pump()
            for partition, sent in self.on_the_wire.items():
                while sent:
                    self.answer(partition)
            request = self.ask()
            if request is None:
                continue
            if request.api_key == api_key:
                self.reply(**how)
                return
            self.reply()
        raise AssertionError(f"API {api_key} was not asked; {self.asked}, {self.manager.state_machine.state}")

    def end(self, commit: bool) -> Any:
        return (
            self.manager.state_machine.begin_commit() if commit else self.manager.state_machine.begin_abort()
        )

    def send_offset(self, offset: int) -> Any:
        return self.manager.state_machine.send_offsets({TP: OffsetAndMetadata(offset)}, GROUP)

    @property
    def committed_offset(self) -> int:
        return self.coordination.group("g").committed["t", 0].offset


def commit_without_answer(kit: Stage) -> Any:
    """Write one record and commit; the coordinator commits, and its answer is lost."""
    kit.manager.state_machine.begin_transaction()
    kit.append()
    operation = kit.end(True)
    kit.reply_to(END, lost=True)
    return operation


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("api_key", [ADD_PARTITIONS, ADD_OFFSETS, COMMIT_OFFSETS, END])
def test_after_an_unanswered_request_the_next_transaction_has_another_epoch(
    api_key: int, commit: bool
) -> None:
    kit = Stage()
    first = kit.manager.sequences.producer
    kit.manager.state_machine.begin_transaction()
    kit.append()
    offsets = kit.send_offset(5)
    if api_key != END:
        kit.reply_to(api_key, lost=True)
    kit.do(offsets)
    kit.asked.clear()
    operation = kit.end(commit)
    if api_key == END:
        kit.reply_to(END, lost=True)
    kit.do(operation)
    assert kit.asked[-2:] == [END, INIT]
    assert kit.manager.sequences.producer == first.raised()


def test_where_everything_is_answered_the_epoch_stays() -> None:
    kit = Stage()
    first = kit.manager.sequences.producer
    for commit in (True, False, True):
        kit.manager.state_machine.begin_transaction()
        kit.append()
        kit.do(kit.send_offset(5))
        kit.do(kit.end(commit))
    assert kit.manager.sequences.producer == first
    assert kit.asked.count(INIT) == 1


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_delayed_end_by_whom_it_was_handed_to_does_not_end_the_next(commit: bool) -> None:
    """It was sent by another process; nobody here knows whether it was answered."""
    kit = Stage()
    kit.manager.state_machine.begin_transaction()
    kit.append()
    kit.settle()
    handed = kit.manager.state_machine.prepare()
    other = TransactionManager(handed.transactional_id, CONFIG)
    other.state_machine.take_over(handed, "abort_prepared")
    operation = other.state_machine.begin_commit() if commit else other.state_machine.begin_abort()
    mine, kit.manager = kit.manager, other
    kit.reply_to(END, late=True)
    kit.do(operation)
    kit.manager = mine
    kit.do(kit.end(commit))
    kit.manager.state_machine.begin_transaction()
    kit.append()
    kit.settle()
    assert kit.late_request_arrives() == END
    assert kit.committed() == [0] * commit
    kit.do(kit.end(True))
    assert kit.committed() == [*[0] * commit, 1]


def test_a_committed_transaction_is_a_success_even_if_the_next_epoch_is_refused() -> None:
    kit = Stage()
    operation = commit_without_answer(kit)
    kit.reply_to(END)
    assert not operation.has_ended
    kit.reply_to(INIT, code=90)
    kit.do(operation)
    assert kit.committed() == [0]
    with pytest.raises(FencedError):
        kit.manager.state_machine.begin_transaction()


def test_where_the_next_epoch_may_be_asked_for_later_the_error_names_why() -> None:
    kit = Stage()
    operation = commit_without_answer(kit)
    kit.reply_to(INIT, code=53)
    kit.do(operation)
    with pytest.raises(IllegalStateError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        kit.manager.state_machine.begin_transaction()
    kit.do(kit.manager.state_machine.begin_initialize())
    kit.manager.state_machine.begin_transaction()
    kit.append()
    kit.do(kit.end(True))
    assert kit.committed() == [0, 1]


def test_a_coordinator_that_wants_an_abort_after_the_commit_ends_the_producer_only() -> None:
    kit = Stage()
    operation = commit_without_answer(kit)
    kit.reply_to(END)
    # Its connection ends, so that the coordinator is looked up before the next attempt.
    kit.reply_to(INIT, lost=True)
    kit.reply_to(FIND, code=120)
    kit.do(operation)
    assert kit.manager.state_machine.state is _S.FATAL_ERROR
    with pytest.raises(FatalProducerError):
        kit.manager.state_machine.begin_transaction()


def test_brokers_that_cannot_raise_the_epoch_go_on_with_the_same() -> None:
    kit = Stage(init_version=1)
    first = kit.manager.sequences.producer
    operation = commit_without_answer(kit)
    kit.do(operation)
    assert kit.manager.sequences.producer == first
