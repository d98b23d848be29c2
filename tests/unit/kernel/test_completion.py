"""From a batch's outcome to its records, for each twin: metadata, what a future says, delivery callbacks."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import threading
import typing
import weakref
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer.errors import KafkaError
from kproducer.types import INT64_MAX, RecordMetadata, TopicPartition

TP = TopicPartition("topic", 3)


def settled(kernel: ModuleType, base_offset: int = 100, error: KafkaError | None = None) -> Any:
    outcome = kernel.BatchOutcome(TP, RecordMetadata)
    outcome.base_offset = base_offset
    outcome.error = error
    outcome.settled = outcome.done = True
    return outcome


def make_future(kernel: ModuleType, outcome: Any) -> Any:
    class Future(kernel.RecordFuture):  # type: ignore[name-defined]
        @kernel.fast_done  # type: ignore[untyped-decorator]
        def done(self) -> str:
            return "general"

        @kernel.fast_result  # type: ignore[untyped-decorator]
        def result(self, timeout: float | None = None) -> Any:
            """Docstring."""
            return "general", timeout

        @kernel.fast_exception  # type: ignore[untyped-decorator]
        def exception(self, timeout: float | None = None) -> Any:
            return "general", timeout

    return Future(object(), outcome, 2, 1000, 5, -1)


def run(deliveries: Any, outcome: Any) -> int:
    def unexpected(*_: object) -> None:
        raise AssertionError(sys.exc_info()[1])

    raised: int = deliveries.run(outcome, unexpected, unexpected)
    return raised


def test_metadata_is_what_its_own_constructor_makes(kernel: ModuleType) -> None:
    made = settled(kernel).metadata(2, 1_700_000_000_000, 300, 400)
    usual = RecordMetadata("topic", 3, 102, 1_700_000_000_000, 300, 400)
    assert type(made) is RecordMetadata
    assert made == usual
    assert hash(made) == hash(usual) == hash(tuple(made))
    assert {usual: 1}[made] == 1
    assert repr(made) == repr(usual)
    assert (made.topic, made.serialized_value_size, made[2:4]) == ("topic", 400, usual[2:4])
    assert made._asdict() == usual._asdict()
    assert made._replace(offset=7) == usual._replace(offset=7)
    assert sys.getsizeof(made) == sys.getsizeof(usual)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.dumps(made, protocol) == pickle.dumps(usual, protocol)
        assert pickle.loads(pickle.dumps(made, protocol)) == usual
    assert type(copy.deepcopy(made)) is RecordMetadata


def test_metadata_is_freed_with_its_last_reference(kernel: ModuleType) -> None:
    outcome = settled(kernel)
    references = sys.getrefcount(RecordMetadata)
    kept = [outcome.metadata(index, 1000, 1, 1) for index in range(1000)]
    assert sys.getrefcount(RecordMetadata) >= references
    del kept
    gc.collect()
    assert sys.getrefcount(RecordMetadata) == references


class Leading(str):
    """A topic that leads back to what refers to it."""

    back: Any = None


def test_the_collector_finds_a_cycle_through_metadata(kernel: ModuleType) -> None:
    class Precious:
        metadata: Any = None

    topic = Leading("topic")
    topic.back = precious = Precious()
    outcome = kernel.BatchOutcome(TopicPartition(topic, 3), RecordMetadata)
    precious.metadata = outcome.metadata(0, 0, 0, 0)
    alive = weakref.ref(precious)
    del topic, precious, outcome
    gc.collect()
    assert alive() is None


numbers = st.one_of(st.integers(-1, 3), st.integers(-1, INT64_MAX // 2))


@given(base=numbers, appended=numbers, index=st.integers(0, 2**31 - 1), sent=numbers, failed=st.booleans())
def test_twins_make_the_same_metadata(base: int, appended: int, index: int, sent: int, failed: bool) -> None:
    native = pytest.importorskip("kproducer._core.kernel.native.twin", exc_type=ImportError)
    from kproducer._core.kernel import pure

    made = []
    for twin in (pure, native):
        outcome = settled(twin, base, KafkaError("no") if failed else None)
        outcome.log_append_time_ms = appended
        made.append(outcome.metadata(index, sent, 5, -1))
    assert made[0] == made[1]


def is_compiled(kernel: ModuleType) -> bool:
    return not kernel.__name__.endswith("pure")


def test_compiled_code_answers_for_a_delivered_record(kernel: ModuleType) -> None:
    future = make_future(kernel, settled(kernel))
    if not is_compiled(kernel):
        assert (future.done(), future.result(5), future.exception(5)) == (
            "general",
            ("general", 5),
            ("general", 5),
        )
        return
    assert future.done() is True
    assert future.result() == future.result(0) == future.result(timeout=1) == ("topic", 3, 102, 1000, 5, -1)
    assert future.exception() is future.exception(0) is future.exception(timeout=1) is None


def test_the_general_method_handles_everything_else(kernel: ModuleType) -> None:
    pending = kernel.BatchOutcome(TP, RecordMetadata)
    failed = settled(kernel, error=KafkaError("no"))
    split = settled(kernel)
    split.is_split = True
    firing_elsewhere = kernel.BatchOutcome(TP, RecordMetadata)
    firing_elsewhere.settled = True
    firing_elsewhere.firing_thread_id = threading.get_ident() + 1
    for outcome, done in [(pending, False), (failed, True), (split, "general"), (firing_elsewhere, False)]:
        future = make_future(kernel, outcome)
        assert future.done() == (done if is_compiled(kernel) else "general")
        assert future.result(5) == future.result(timeout=5) == ("general", 5)
        assert future.exception() == ("general", None)


def test_in_delivery_callbacks_the_outcome_is_known(kernel: ModuleType) -> None:
    outcome = kernel.BatchOutcome(TP, RecordMetadata)
    outcome.base_offset = 100
    outcome.settled = True
    outcome.firing_thread_id = threading.get_ident()
    assert outcome.is_readable()
    if is_compiled(kernel):
        future = make_future(kernel, outcome)
        assert (future.done(), future.result().offset, future.exception()) == (True, 102, None)


def test_callbacks_are_called_once_in_order(kernel: ModuleType) -> None:
    deliveries = kernel.Deliveries()
    got: list[Any] = []
    for index in range(0, 1000, 3):
        deliveries.add(lambda *told, index=index: got.append((index, *told)), index, 5, 6, 7)
    assert len(deliveries) == 334
    assert run(deliveries, settled(kernel)) == 0
    assert got == [(i, RecordMetadata("topic", 3, 100 + i, 5, 6, 7), None) for i in range(0, 1000, 3)]
    assert len(deliveries) == 0
    assert run(deliveries, settled(kernel)) == 0
    assert len(got) == 334


def test_each_callback_of_a_failed_batch_gets_its_own_error(kernel: ModuleType) -> None:
    deliveries = kernel.Deliveries()
    got: list[Any] = []
    for index in range(3):
        deliveries.add(lambda metadata, error: got.append((metadata.offset, error)), index, 5, 6, 7)
    failed = settled(kernel, error=KafkaError("batch"))
    assert deliveries.run(failed, lambda index: f"error {index}", got.clear) == 0
    assert got == [(-1, "error 0"), (-1, "error 1"), (-1, "error 2")]


@pytest.mark.parametrize("exception", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_callbacks_raise_is_reported_once_and_stops_nobody(
    kernel: ModuleType, exception: type[BaseException]
) -> None:
    deliveries = kernel.Deliveries()
    called: list[int] = []
    reported: list[Any] = []

    def on_delivery(metadata: RecordMetadata, error: object) -> None:
        called.append(metadata.offset)
        if metadata.offset != 101:
            raise exception(metadata.offset)

    for index in range(4):
        deliveries.add(on_delivery, index, 5, 6, 7)
    deliveries.add(None, 4, 5, 6, 7)
    assert deliveries.run(settled(kernel), None, lambda: reported.append(repr(sys.exc_info()[1]))) == 4
    assert called == [100, 101, 102, 103]
    assert reported == [f"{exception.__name__}(100)"]
    assert sys.exc_info() == (None, None, None)


def test_callbacks_are_let_go_run_or_not(kernel: ModuleType) -> None:
    class Callback:
        def __call__(self, *_: object) -> None:
            pass

    alive = []
    for runs in (True, False):
        deliveries = kernel.Deliveries()
        for index in range(200):
            callback = Callback()
            alive.append(weakref.ref(callback))
            deliveries.add(callback, index, 5, 6, 7)
        del callback
        if runs:
            run(deliveries, settled(kernel))
        else:
            assert all(found() is not None for found in alive[200:])
        del deliveries
    assert not any(found() for found in alive)


def test_a_callback_may_use_the_same_deliveries(kernel: ModuleType) -> None:
    deliveries = kernel.Deliveries()
    got: list[int] = []

    def on_delivery(metadata: RecordMetadata, error: object) -> None:
        got.append(metadata.offset)
        run(deliveries, settled(kernel))
        if metadata.offset < 103:
            deliveries.add(on_delivery, metadata.offset - 99, 5, 6, 7)

    deliveries.add(on_delivery, 0, 5, 6, 7)
    deliveries.add(on_delivery, 10, 5, 6, 7)
    run(deliveries, settled(kernel))
    assert got == [100, 110, 101]
    assert len(deliveries) == 1
    run(deliveries, settled(kernel))
    assert got == [100, 110, 101, 102]


def test_parts_of_a_split_batch_get_their_callbacks(kernel: ModuleType) -> None:
    deliveries = kernel.Deliveries()
    called: list[tuple[int, int]] = []
    for index in (0, 4, 5, 9):
        deliveries.add(
            lambda metadata, _, index=index: called.append((index, metadata.offset)), index, 5, 6, 7
        )
    parts = deliveries.split([0, 5, 8, 9])
    assert [len(part) for part in parts] == [2, 1, 0, 1]
    for part in parts:
        run(part, settled(kernel))
    assert called == [(0, 100), (4, 104), (5, 100), (9, 100)]
    assert len(deliveries) == 4
    got: list[Any] = []
    again = kernel.Deliveries()
    again.add(lambda metadata, error: got.append(metadata), 7, 1234, 6, -1)
    run(again.split([0, 5])[1], settled(kernel))
    assert got == [RecordMetadata("topic", 3, 102, 1234, 6, -1)]


def test_help_and_signatures_are_those_of_the_general_method() -> None:
    for name in ("done", "result", "exception"):
        method = getattr(FutureRecordMetadata, name)
        general = getattr(method, "__wrapped__", method)
        assert method.__doc__ == general.__doc__
        assert method.__doc__
        assert inspect.signature(method) == inspect.signature(general)
    assert typing.get_type_hints(FutureRecordMetadata.result)["return"] is RecordMetadata
