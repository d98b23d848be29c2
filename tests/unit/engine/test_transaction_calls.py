"""TransactionCalls: what a caller learns from a step that ends, fails or takes too long, and what is aborted.

The states themselves are tested in ``unit/transactions``; here each step ends as the test says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.engine.transaction_calls import TransactionCalls
from kproducer._core.metrics.call_times import CallTimes
from kproducer._core.transactions.transaction_state import PendingOperation
from kproducer.errors import (
    FatalProducerError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    TransactionAbortedError,
)


class Bench:
    """The calls over an engine and a state that note what they hear. A step without a result continues."""

    def __init__(self, **results: KafkaError | None) -> None:
        self.results = results
        self.events: list[str] = []
        self.is_io_thread = False
        self.flushed: object = object()
        self.config = ProducerConfig(bootstrap_servers=("b:1",), transactional_id="x", max_block_ms=1)
        self.call_times = CallTimes()
        self.transaction_manager = SimpleNamespace(
            protocol=SimpleNamespace(waits_for="EndTxn waits for broker 1")
        )
        self.accumulator = SimpleNamespace(await_completion=lambda pending, timeout_ms: self.flushed)
        self.transactions: Any = self
        self.calls = TransactionCalls(self)  # type: ignore[arg-type]

    # -- lifecycle and engine

    def running_engine(self) -> Bench:
        return self

    def check_may_wait(self, call: str) -> None:
        if self.is_io_thread:
            raise IllegalStateError(f"{call} would deadlock")

    @contextlib.contextmanager
    def flushing(self) -> Iterator[None]:
        self.events.append("flush")
        yield
        self.events.append("flushed")

    def last_errors(self) -> str:
        return "b:1 is down"

    # -- the state of transactions

    def begin_transaction(self) -> None:
        self.events.append("begin")

    def begin_commit(self) -> PendingOperation:
        return self._begin("commit")

    def begin_abort(self) -> PendingOperation:
        return self._begin("abort")

    def acknowledge(self, operation: PendingOperation) -> None:
        self.events.append(f"{operation.name} acknowledged")

    def prepare(self) -> str:
        self.events.append("prepare")
        return "prepared"

    def _begin(self, name: str) -> PendingOperation:
        self.events.append(name)
        operation = PendingOperation(name)
        if name in self.results:
            operation.end(self.results[name])
        return operation


def test_a_step_that_takes_too_long_is_not_acknowledged_and_names_what_it_waits_for() -> None:
    bench = Bench()
    with pytest.raises(KafkaTimeoutError) as caught:
        bench.calls.commit(0.001)
    for part in ("commit_transaction: not done within 0.001 s", "EndTxn waits for broker 1", "b:1 is down"):
        assert part in str(caught.value)
    # Without the acknowledgement the state lets the same call wait for the same step again.
    assert bench.events == ["commit", "flush", "flushed"]
    assert bench.call_times.values()["txn-commit-time-ns-total"] > 0


def test_without_a_timeout_a_step_waits_for_max_block_ms() -> None:
    with pytest.raises(KafkaTimeoutError, match=r"abort_transaction: not done within 0.001 s"):
        Bench().calls.abort(None)


def test_an_outcome_is_acknowledged_when_it_is_seen_and_each_caller_gets_a_copy() -> None:
    error = TransactionAbortedError("the broker has aborted it")
    bench = Bench(commit=error)
    for _ in range(2):
        bench.events.clear()
        see = bench.calls.commit(1)
        assert bench.events == ["commit", "flush", "flushed"]
        with pytest.raises(TransactionAbortedError, match="the broker has aborted it") as caught:
            see()
        assert caught.value is not error
        assert bench.events[3:] == ["commit acknowledged"]


def test_a_call_that_may_not_wait_begins_nothing() -> None:
    bench = Bench(commit=None, abort=None)
    bench.is_io_thread = True
    for call in (bench.calls.commit, bench.calls.abort, bench.calls.prepare):
        with pytest.raises(IllegalStateError, match="would deadlock"):
            call(1)  # type: ignore[operator]
    with pytest.raises(IllegalStateError, match="would deadlock"), bench.calls.block():
        pass
    assert bench.events == []


def test_without_a_transactional_id_every_call_names_the_setting() -> None:
    bench = Bench()
    bench.transactions = None
    for call in (bench.calls.commit, bench.calls.abort, bench.calls.prepare):
        with pytest.raises(IllegalStateError, match="set transactional_id"):
            call(1)  # type: ignore[operator]


def test_records_that_are_not_written_in_time_leave_the_transaction_unprepared() -> None:
    bench = Bench()
    bench.flushed = None
    with pytest.raises(KafkaTimeoutError, match="not everything was written"):
        bench.calls.prepare(1)
    assert "prepare" not in bench.events
    bench.flushed = object()
    assert bench.calls.prepare(1) == "prepared"


def names(bench: Bench) -> list[str]:
    """The steps that were begun."""
    return [each for each in bench.events if each in ("begin", "commit", "abort")]


def test_a_block_commits() -> None:
    bench = Bench(commit=None)
    with bench.calls.block():
        pass
    assert names(bench) == ["begin", "commit"]


@pytest.mark.parametrize("failure", [ValueError("mine"), KeyboardInterrupt(), SystemExit(1)])
@pytest.mark.parametrize("of_abort", [None, FatalProducerError("fenced"), KafkaError("broker")])
def test_a_block_that_raises_aborts_and_the_abort_does_not_hide_the_reason(
    failure: BaseException, of_abort: KafkaError | None
) -> None:
    bench = Bench(abort=of_abort)
    with pytest.raises(type(failure)) as caught, bench.calls.block():
        raise failure
    assert caught.value is failure
    assert names(bench) == ["begin", "abort"]


@pytest.mark.parametrize(
    ("of_commit", "steps"),
    [
        (TransactionAbortedError("aborted"), ["begin", "commit", "abort"]),
        # There is nothing left that could be aborted.
        (FatalProducerError("fenced"), ["begin", "commit"]),
    ],
)
def test_a_commit_that_fails_is_aborted_unless_the_producer_has_failed(
    of_commit: KafkaError, steps: list[str]
) -> None:
    bench = Bench(commit=of_commit, abort=None)
    with pytest.raises(type(of_commit)), bench.calls.block():
        pass
    assert names(bench) == steps


def test_a_commit_that_takes_too_long_continues_and_is_not_aborted() -> None:
    bench = Bench(abort=None)
    with pytest.raises(KafkaTimeoutError), bench.calls.block():
        pass
    assert names(bench) == ["begin", "commit"]
