"""EngineLifecycle: one engine at a time, through failed starts, forks and closes that are interrupted.

The engine is a stand-in; the scenarios run the real one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.engine import engine_lifecycle
from kproducer._core.engine.engine_lifecycle import EngineLifecycle
from kproducer._core.runtime import fork_and_exit
from kproducer.errors import CloseTimeoutError, ConfigError, IllegalStateError, ProducerClosedError
from tests.support.manual_clock import ManualClock


class Engine:
    """A ``ProducerEngine`` that runs nothing."""

    def __init__(self, bench: Bench, config: ProducerConfig, gate: Callable[[Any, bool], None]) -> None:
        if bench.start_error is not None:
            raise bench.start_error
        self.config = config
        self.calls: list[str] = []
        self.is_io_thread = False
        self.lost = 0
        self.stop_errors: list[BaseException] = []
        self.while_stopping: Callable[[], object] = lambda: None
        self.transactions: Any = SimpleNamespace() if config.transactional_id else None
        self.gate = functools.partial(gate, self)
        self.holds_lock = False
        #: Both are read through the accumulator; each engine has slots of its own.
        self.slots: dict[str, object] = {}
        queues = SimpleNamespace(slots=self.slots, holds_lock=lambda: self.holds_lock)
        self.accumulator = SimpleNamespace(queues=queues, incomplete_record_count=0)
        bench.engines.append(self)

    def stop(self, timeout: float | None, notice: str | None) -> int:
        self.calls.append(f"stop {timeout}")
        self.while_stopping()
        if self.stop_errors:
            raise self.stop_errors.pop(0)
        return self.lost

    def wait_for_end(self, timeout: float | None) -> None:
        self.calls.append(f"wait {timeout}")

    def finish_alone(self) -> None:
        self.calls.append("finish alone")

    def after_fork_in_child(self) -> None:
        self.calls.append("after fork")

    def last_errors(self) -> str:
        return "b:1 is down"


class Bench:
    """A lifecycle, the engines that it has started, and the fast path: its topics, ``None`` if closed."""

    def __init__(self, **settings: Any) -> None:
        self.engines: list[Engine] = []
        self.start_error: BaseException | None = None
        self.open_topics: object = None
        self.closed_objects: list[str] = []
        config = ProducerConfig(bootstrap_servers=("b:1",), **settings)
        objects = [self._closing("first"), self._closing("second", ValueError("no")), self._closing("third")]
        rules: Any = None  # of the engine, which is a stand-in
        self.lifecycle = EngineLifecycle(config, ManualClock(), rules, self, objects)  # type: ignore[arg-type]

    def _closing(self, name: str, error: Exception | None = None) -> Callable[[], None]:
        def close() -> None:
            self.closed_objects.append(name)
            if error is not None:
                raise error

        return close

    @property
    def engine(self) -> Engine:
        return self.engines[-1]

    # -- the fast path

    def open(self, topics: object) -> None:
        self.open_topics = topics

    def close(self) -> None:
        self.open_topics = None


@pytest.fixture
def new_bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(**settings: Any) -> Bench:
        bench = Bench(**settings)
        made.append(bench)
        monkeypatch.setattr(
            engine_lifecycle,
            "ProducerEngine",
            lambda config, clock, rules, gate: Engine(bench, config, gate),
        )
        return bench

    yield make
    for bench in made:
        bench.lifecycle.engine = None  # the end of the process must not close it


def test_a_start_that_fails_closes_each_object_once_and_registers_nothing(
    new_bench: Callable[..., Bench],
) -> None:
    bench = new_bench()
    bench.start_error = ConfigError("no such file")
    with pytest.raises(ConfigError):
        bench.lifecycle.start()
    assert bench.closed_objects == ["first", "second", "third"]
    assert bench.lifecycle not in fork_and_exit.live_producers()
    assert bench.open_topics is None


def test_a_forked_child_starts_its_engine_at_the_first_use_and_leaves_the_parents_alone(
    new_bench: Callable[..., Bench],
) -> None:
    bench = new_bench()
    bench.lifecycle.start()
    parents = bench.engine
    bench.lifecycle.after_fork_in_child()
    # Until then compiled code must not append to batches of the parent.
    assert (bench.open_topics, parents.calls) == (None, ["after fork"])
    assert bench.lifecycle.engine is None
    childs = bench.lifecycle.running_engine()
    assert childs is bench.lifecycle.running_engine()
    assert len(bench.engines) == 2
    assert bench.open_topics is bench.engine.slots
    bench.lifecycle.close(None)
    assert parents.calls == ["after fork"]


def test_a_child_that_never_sent_closes_without_an_engine(new_bench: Callable[..., Bench]) -> None:
    bench = new_bench()
    bench.lifecycle.start()
    bench.lifecycle.after_fork_in_child()
    bench.lifecycle.close(5)
    assert len(bench.engines) == 1
    with pytest.raises(ProducerClosedError):
        bench.lifecycle.running_engine()


def test_the_gate_of_a_transaction_opens_the_fast_path_of_its_own_running_engine_only(
    new_bench: Callable[..., Bench],
) -> None:
    bench = new_bench(transactional_id="x")
    bench.lifecycle.start()
    gate = bench.engine.gate
    assert bench.open_topics is None  # no transaction has begun
    gate(True)
    assert bench.open_topics is bench.engine.slots
    gate(False)
    assert bench.open_topics is None
    bench.lifecycle.after_fork_in_child()
    bench.lifecycle.running_engine()
    gate(True)  # of the parent's engine
    assert bench.open_topics is None
    childs_gate = bench.engine.gate
    childs_gate(True)
    gate(False)
    assert bench.open_topics is bench.engine.slots
    # Another thread begins a transaction.
    bench.engine.while_stopping = lambda: childs_gate(True)
    bench.lifecycle.close(None)
    assert bench.open_topics is None


def test_a_close_that_is_interrupted_lets_the_engine_finish_and_can_be_called_again(
    new_bench: Callable[..., Bench],
) -> None:
    bench = new_bench()
    bench.lifecycle.start()
    bench.engine.stop_errors.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bench.lifecycle.close(None)
    assert bench.engine.calls == ["stop None", "finish alone"]
    assert (bench.open_topics, bench.lifecycle.engine) == (None, bench.engine)
    with pytest.raises(ProducerClosedError):
        bench.lifecycle.running_engine()
    bench.lifecycle.close(0)
    assert bench.engine.calls[2:] == ["stop 0"]
    # Once, although there were two calls, and the second object raises.
    assert bench.closed_objects == ["first", "second", "third"]


def test_a_second_ctrl_c_gives_up_what_is_left(new_bench: Callable[..., Bench]) -> None:
    bench = new_bench()
    bench.lifecycle.start()
    bench.engine.stop_errors.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bench.lifecycle.close_after_interrupt()
    assert bench.engine.calls == ["stop None", "finish alone", "stop 0"]


@pytest.mark.parametrize(("timeout", "is_error"), [(None, False), (0, False), (1.5, True)])
def test_lost_records_are_an_error_only_if_the_caller_has_waited_for_them(
    new_bench: Callable[..., Bench], timeout: float | None, is_error: bool
) -> None:
    bench = new_bench()
    bench.lifecycle.start()
    bench.engine.lost = 3
    if is_error:
        with pytest.raises(CloseTimeoutError, match=r"close\(1.5\): 3 records .*; b:1 is down"):
            bench.lifecycle.close(timeout)
    else:
        bench.lifecycle.close(timeout)
    assert bench.lifecycle.engine is None
    assert bench.closed_objects == ["first", "second", "third"]


def test_a_close_within_a_callback_does_not_wait_and_a_later_one_does(
    new_bench: Callable[..., Bench],
) -> None:
    bench = new_bench()
    bench.lifecycle.start()
    engine = bench.engine
    engine.is_io_thread = True
    bench.lifecycle.close(None)
    bench.lifecycle.close(None)  # another callback
    assert engine.calls == ["stop None"]
    engine.is_io_thread = False
    bench.lifecycle.close(7)
    assert engine.calls == ["stop None", "wait 7"]


def test_a_signal_handler_in_the_middle_of_send_cannot_close(new_bench: Callable[..., Bench]) -> None:
    bench = new_bench()
    bench.lifecycle.start()
    bench.engine.holds_lock = True
    with pytest.raises(IllegalStateError, match=r"in the middle of send"):
        bench.lifecycle.close(None)
    assert not bench.lifecycle.is_closed
    assert bench.open_topics is bench.engine.slots
    bench.engine.holds_lock = False
    bench.lifecycle.close(None)


@pytest.mark.parametrize("is_close_interrupted", [False, True])
def test_a_collected_producer_finishes_alone_once(
    new_bench: Callable[..., Bench], is_close_interrupted: bool
) -> None:
    bench = new_bench(client_id="forgotten")
    bench.lifecycle.start()
    if is_close_interrupted:
        bench.engine.stop_errors.append(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            bench.lifecycle.close(None)
    bench.lifecycle.finish_collected()
    assert bench.engine.calls.count("finish alone") == 1
