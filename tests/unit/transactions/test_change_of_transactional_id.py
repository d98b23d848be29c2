"""One producer, several transactional ids one after the other: nothing of the one before is left."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kproducer._core.transactions.coordinator_link import CoordinatorCache
from kproducer._core.transactions.coordinator_requests import Coordinator, CoordinatorKind
from kproducer._core.transactions.transaction_manager import TransactionManager
from kproducer._core.transactions.transaction_state import TransactionState
from kproducer.errors import (
    AbortTransactionError,
    FatalProducerError,
    FencedError,
    IllegalStateError,
    KafkaError,
)
from kproducer.testing.fakebroker.transaction_coordinator import NO_PRODUCER
from kproducer.types import Node
from tests.support.units.transaction_kit import CONFIG, Kit

_S = TransactionState
FIND, INIT = 10, 22


class Stage(Kit):
    """A kit that notes who asked coordinators for what."""

    def __init__(self, version: int = 2, **options: Any) -> None:
        super().__init__(version=version, **options)
        self.looked_up: list[tuple[int, str]] = []

    def reply(self, code: int | None = None, lost: bool = False, applied: bool = True) -> None:
        assert self.request is not None
        message = self.request.build(self.request.latest_version)
        if self.request.api_key in (FIND, INIT):
            name = message.coordinator_keys[0] if self.request.api_key == FIND else message.transactional_id
            self.looked_up.append((self.request.api_key, name))
        super().reply(code, lost, applied)

    def initialize(self, transactional_id: str) -> None:
        self.manager.state_machine.change_transactional_id(transactional_id)
        assert self.manager.state_machine.state is _S.UNINITIALIZED
        self.do(self.manager.state_machine.begin_initialize())

    def write(self) -> None:
        """A transaction with a batch in each partition, as far as everything is written."""
        self.manager.state_machine.begin_transaction()
        for partition in (0, 1):
            self.append(partition)
        self.settle()

    @property
    def epochs(self) -> dict[str, tuple[int, int]]:
        return {
            name: tuple(its.producer) for name, its in self.coordination.transactions.transactions.items()
        }


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_what_was_handed_over_under_one_id_stays_good_under_the_next(version: int) -> None:
    kit = Stage(version)
    handed = []
    for number in range(3):
        kit.initialize(f"id-{number}")
        kit.write()
        handed.append(pickle.loads(pickle.dumps(kit.manager.state_machine.prepare())))
    assert [each.transactional_id for each in handed] == ["id-0", "id-1", "id-2"]
    assert len({each.producer_id for each in handed}) == 3
    assert kit.committed() == []
    for each in handed:
        other = TransactionManager(each.transactional_id, CONFIG)
        other.state_machine.take_over(each, "commit_prepared")
        kit.manager, writer = other, kit.manager
        kit.do(other.state_machine.begin_commit())
        kit.manager = writer
    assert kit.committed() == [0, 2, 4]
    # Each sequence began at 0, and the first batch of each partition was the only one on its way.
    assert {batch.base_sequence for batch in kit.batches} == {0}


def test_the_same_id_again_raises_the_epoch_and_ends_what_was_handed_over(version: int) -> None:
    kit = Stage(version)
    kit.initialize("again")
    kit.write()
    handed = kit.manager.state_machine.prepare()
    kit.initialize("again")
    assert kit.manager.sequences.producer.producer_id == handed.producer_id
    assert kit.manager.sequences.producer.epoch > handed.epoch
    kit.write()
    kit.do(kit.manager.state_machine.begin_commit())
    assert kit.committed() == [2]


def test_a_coordinator_is_looked_up_once_for_each_id(version: int) -> None:
    kit = Stage(version)
    for name in ("a", "b", "a", "b"):
        kit.initialize(name)
    assert kit.looked_up == [(FIND, "a"), (INIT, "a"), (FIND, "b"), (INIT, "b"), (INIT, "a"), (INIT, "b")]


def test_a_refusal_under_one_id_says_nothing_about_the_next() -> None:
    kit = Stage()
    kit.manager.state_machine.change_transactional_id("forbidden")
    operation = kit.manager.state_machine.begin_initialize()
    kit.ask()
    kit.reply()
    kit.ask()
    kit.reply(code=53)
    assert operation.error is not None
    assert kit.manager.state_machine.state is _S.UNINITIALIZED
    kit.initialize("allowed")
    kit.write()
    kit.do(kit.manager.state_machine.begin_commit())
    assert kit.committed() == [0]
    assert kit.epochs.keys() == {"allowed"}


def test_pauses_after_failures_end_with_the_id() -> None:
    kit = Stage()
    kit.manager.state_machine.change_transactional_id("troubled")
    kit.manager.state_machine.begin_initialize()
    for _ in range(5):
        kit.now_ms += 2000
        kit.ask()
        kit.reply(code=15)
    kit.now_ms += 2000
    kit.ask()
    kit.reply(code=53)
    kit.manager.state_machine.change_transactional_id("next")
    kit.manager.state_machine.begin_initialize()
    assert kit.ask() is not None


@pytest.mark.parametrize("step", ["initializing", "open", "committing", "aborting"])
def test_it_is_refused_while_something_is_open(step: str) -> None:
    kit = Stage()
    kit.manager.state_machine.change_transactional_id("first")
    operation = kit.manager.state_machine.begin_initialize()
    if step != "initializing":
        kit.do(operation)
        kit.write()
    if step == "committing":
        kit.manager.state_machine.begin_commit()
    elif step == "aborting":
        kit.manager.state_machine.begin_abort()
    before = kit.manager.state_machine.state
    with pytest.raises(IllegalStateError):
        kit.manager.state_machine.change_transactional_id("second")
    assert (kit.manager.state_machine.transactional_id, kit.manager.state_machine.state) == ("first", before)
    if step == "open":
        kit.do(kit.manager.state_machine.begin_commit())
        kit.initialize("second")


def test_an_abort_that_is_due_comes_first() -> None:
    kit = Stage()
    kit.initialize("first")
    kit.write()
    kit.manager.state_machine.send_failed(KafkaError("too large"))
    with pytest.raises(AbortTransactionError):
        kit.manager.state_machine.change_transactional_id("second")
    kit.do(kit.manager.state_machine.begin_abort())
    kit.initialize("second")


def test_a_producer_that_was_fenced_is_to_be_discarded() -> None:
    kit = Stage()
    kit.initialize("first")
    kit.write()
    kit.coordination.transactions.init_producer_id("first", 60_000, NO_PRODUCER)
    with pytest.raises(FencedError):
        kit.do(kit.manager.state_machine.begin_commit())
    with pytest.raises(FatalProducerError):
        kit.manager.state_machine.change_transactional_id("second")


def test_records_are_refused_until_the_next_transaction() -> None:
    kit = Stage()
    opened: list[bool] = []
    state_machine = kit.manager.state_machine
    state_machine.hooks = state_machine.hooks._replace(gate=opened.append)
    kit.initialize("first")
    kit.write()
    kit.manager.state_machine.prepare()
    kit.manager.state_machine.change_transactional_id("second")
    assert opened == [True, False]
    assert not kit.manager.state_machine.uses_version_2
    with pytest.raises(IllegalStateError):
        kit.append()
    kit.do(kit.manager.state_machine.begin_initialize())
    kit.manager.state_machine.begin_transaction()
    assert opened == [True, False, True]


def test_each_id_has_the_version_that_the_cluster_has_by_then() -> None:
    kit = Stage(1)
    kit.initialize("old")
    kit.write()
    assert kit.manager.state_machine.prepare().transaction_version == 1
    kit.transaction_version = 2
    kit.initialize("new")
    kit.write()
    assert kit.manager.state_machine.prepare().transaction_version == 2


def test_epochs_that_are_used_up_are_followed_by_another_producer_id(version: int) -> None:
    kit = Stage(version)
    kit.coordination.transactions.newest_epoch = 3
    ids = set()
    for number in range(8):
        kit.initialize("worn")
        ids.add(kit.manager.sequences.producer.producer_id)
        kit.write()
        if number % 2:
            kit.manager.state_machine.prepare()
        else:
            kit.do(kit.manager.state_machine.begin_commit())
    assert len(ids) > 1
    kit.initialize("worn")
    assert kit.committed() == [0, 4, 8, 12]


def test_coordinators_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproducer._core.transactions.coordinator_link._MOST_COORDINATORS", 2)
    known = CoordinatorCache()
    names = [Coordinator(CoordinatorKind.TRANSACTION, f"id-{number}") for number in range(3)]
    for name in names:
        known.found(name, Node(1, "b", 9092))
    assert [name in known for name in names] == [False, True, True]
