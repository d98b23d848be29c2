"""Code of ours that fails at any point of a round: every record gets an outcome, every partition goes on."""

from __future__ import annotations

from typing import Any

import pytest

from kproducer import FatalProducerError, IllegalStateError, Outcome
from kproducer._core.accumulator.partition_queue import PartitionQueue
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.accumulator.ready_batches import ReadyBatches
from kproducer._core.accumulator.record_accumulator import RecordAccumulator
from kproducer._core.sender.produce_requests import InFlightBatches
from kproducer._core.sender.produce_responses import BatchCompletion
from kproducer._core.sender.sender import Sender
from kproducer._core.transactions.sequence_tracker import SequenceTracker
from kproducer._core.transactions.transaction_manager import TransactionManager
from kproducer._core.transactions.transaction_state import TransactionState
from tests.support.units.sender_bench import Bench, error_of, initialized_manager

MESSAGE_TOO_LARGE = 10


def _once(monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str, after: bool) -> None:
    """Have a method raise the next time, before or after it does its work."""
    original = getattr(owner, name)

    def fail(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(owner, name, original)
        if after:
            original(*arguments, **options)
        raise RuntimeError("a bug")

    monkeypatch.setattr(owner, name, fail)


PLACES: dict[str, tuple[type[Any], str, bool]] = {
    "before a number": (TransactionManager, "drained", False),
    "after a number": (TransactionManager, "drained", True),
    "after one node was drained": (ReadyBatches, "_drain_node", True),
    "after all were drained": (ReadyBatches, "drain", True),
    "before the registration": (InFlightBatches, "add_all", False),
    "after the registration": (InFlightBatches, "add_all", True),
    "before a partition is muted": (RecordAccumulator, "mute_partition", False),
    "before the request is made": (Sender, "_send_request", False),
}


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_failure_between_queue_and_request_strands_no_batch_and_no_partition(
    monkeypatch: pytest.MonkeyPatch, place: str, numbered: bool
) -> None:
    if "number" in place and not numbered:
        pytest.skip("batches without numbers")
    bench = Bench(
        transactions=initialized_manager() if numbered else None,
        max_in_flight_requests_per_connection=1,
        batch_size=0,
    )
    futures = [bench.send(partition) for partition in range(4)]
    _once(monkeypatch, *PLACES[place])
    bench.sender._run_guarded()
    futures += [bench.send(partition) for partition in range(4)]
    _answer_all(bench)
    assert all(future.done() for future in futures)
    failed = [future for future in futures if future.exception(0) is not None]
    assert failed
    for future in failed:
        assert "a bug" in str(error_of(future))
        assert error_of(future).outcome in (Outcome.NOT_SENT, Outcome.UNKNOWN)
    assert all(future.exception(0) is None for future in futures[4:])
    bench.assert_clean()


def test_a_failure_with_one_expired_batch_does_not_strand_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(delivery_timeout_ms=30_000)
    bench.client.ready_nodes = set()
    futures = [bench.send(partition) for partition in range(4)]
    bench.step()
    _once(monkeypatch, BatchCompletion, "expire", False)
    bench.clock.advance(30_000)
    bench.sender._run_guarded()
    assert all(future.done() for future in futures)
    bench.assert_clean()


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (SequenceTracker, "split"),
        (PartitionQueue, "put_back"),
        (RecordAccumulator, "deallocate"),
        (ProducerBatch, "close_for_appends"),
    ],
)
def test_a_split_that_fails_halfway_leaves_no_future_open(
    monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str, after: bool, numbered: bool
) -> None:
    if name == "split" and not numbered:
        pytest.skip("batches without numbers")
    bench = Bench(transactions=initialized_manager() if numbered else None, linger_ms=5)
    futures = [bench.send(value=b"x" * 50) for _ in range(4)]
    bench.client.answer_all(bench.step_one(5), bench.clock.now_ms, MESSAGE_TOO_LARGE)
    _once(monkeypatch, owner, name, after)
    bench.sender._run_guarded()
    _answer_all(bench)
    assert all(future.done() for future in futures)
    later = bench.send()
    bench.clock.advance(5)
    _answer_all(bench)
    assert later.exception(0) is None
    bench.assert_clean()


@pytest.mark.parametrize("transactional_id", [None, "tx"])
def test_an_illegal_state_on_the_io_thread_is_fatal(transactional_id: str | None) -> None:
    manager = initialized_manager(transactional_id)
    bench = Bench(transactions=manager)

    def move() -> None:
        bench.client.on_poll = None
        manager.state_machine.move_to(
            TransactionState.PREPARED if transactional_id is None else TransactionState.READY
        )

    bench.client.on_poll = move
    bench.sender._run_guarded()
    assert manager.state_machine.state is TransactionState.FATAL_ERROR
    with pytest.raises(FatalProducerError, match="cannot be"):
        manager.state_machine.check_send()


@pytest.mark.parametrize("place", ["succeeded", "verdict", "failed"])
def test_an_illegal_state_that_a_batch_meets_is_fatal(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    manager = initialized_manager("tx")
    bench = Bench(transactions=manager)
    future, other = bench.send(0), bench.send(1)

    def fail(*_: Any) -> Any:
        monkeypatch.undo()
        raise IllegalStateError("it cannot be that next")

    sent, another = bench.step()
    monkeypatch.setattr(manager if place == "failed" else manager.sequences, place, fail)
    bench.client.answer_all(sent, bench.clock.now_ms, 0 if place == "succeeded" else MESSAGE_TOO_LARGE)
    bench.step()
    assert manager.state_machine.state is TransactionState.FATAL_ERROR
    assert "cannot be that next" in str(error_of(future))
    with pytest.raises(FatalProducerError, match="cannot be that next"):
        manager.state_machine.begin_commit()
    bench.client.answer_all(another, bench.clock.now_ms)
    bench.step()
    assert other.done()


@pytest.mark.parametrize("place", ["handle", "_choose_next_request"])
def test_a_failure_with_a_request_to_a_coordinator_ends_the_producer(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The caller that waits for the commit gets the error; the request is neither lost nor repeated."""
    manager = initialized_manager("tx")
    bench = Bench(transactions=manager)
    bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms)
    bench.step()
    operation = manager.state_machine.begin_commit()

    def fail(*_: Any) -> Any:
        raise IllegalStateError("it cannot be that next")

    monkeypatch.setattr(manager.protocol, place, fail)
    if place == "_choose_next_request":
        bench.step()
    else:
        request = _next_request(bench, manager)
        link = bench.sender._coordinators
        assert link is not None
        callbacks: list[Any] = []
        monkeypatch.setattr(
            bench.client, "send", lambda node_id, builder, now_ms, callback: callbacks.append(callback)
        )
        link._send(request, bench.metadata.snapshot.nodes[0], bench.clock.now_ms)
        callbacks[0](None)
    assert manager.state_machine.state is TransactionState.FATAL_ERROR
    assert isinstance(operation.error, FatalProducerError)
    assert "cannot be that next" in str(operation.error)


def _next_request(bench: Bench, manager: TransactionManager) -> Any:
    addressed = manager.protocol.next_request(bench.clock.now_ms)
    assert addressed is not None
    return addressed.request


def _answer_all(bench: Bench) -> None:
    for _ in range(20):
        for sent in bench.client.unanswered():
            bench.client.answer_all(sent, bench.clock.now_ms)
        bench.sender._run_guarded()
