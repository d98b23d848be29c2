"""Ctrl-C at any point of close() and flush(): later calls work as usual."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading

import pytest

from kproducer import CloseTimeoutError, KafkaProducer, ProducerClosedError
from kproducer._core.accumulator.partition_queue import PartitionQueues
from kproducer._core.accumulator.record_accumulator import RecordAccumulator
from kproducer._core.engine import producer_engine
from kproducer._core.engine.engine_lifecycle import EngineLifecycle
from kproducer._core.engine.producer_engine import ProducerEngine
from kproducer._core.sender.sender import Sender
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios import internals
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.support.interruption import interrupt_after

HOURS_MS = 3_600_000
CLOSING = {
    EngineLifecycle.close.__code__,
    ProducerEngine.stop.__code__,
    ProducerEngine.wait_for_end.__code__,
    Sender.initiate_close.__code__,
    RecordAccumulator.close.__code__,
    PartitionQueues.close.__code__,
}
FLUSHING = {KafkaProducer.flush.__code__, RecordAccumulator.begin_flush.__code__}


class Closed:
    """An interceptor that counts the calls of its ``close``."""

    def __init__(self) -> None:
        self.count = 0

    def on_acknowledgement(self, *_: object) -> None:
        """Does nothing, but an interceptor needs at least one hook."""

    def close(self) -> None:
        self.count += 1


def test_close_works_after_a_close_that_was_interrupted_anywhere(stage: Stage, cluster: FakeCluster) -> None:
    for instructions in itertools.count(1):
        hook = Closed()
        producer = stage.producer(
            cluster, linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS, interceptors=[hook]
        )
        producer.kafka.partitions_for("t")
        sent = producer.send()
        interrupted = interrupt_after(instructions, CLOSING, producer.kafka.close, as_signals_do=True)
        closer = threading.Thread(target=producer.close, daemon=True)
        closer.start()
        closer.join(PATIENCE_S)
        assert not closer.is_alive(), f"close() hangs after an interruption at instruction {instructions}"
        assert sent.metadata().topic == "t"
        assert not internals.io_thread(producer.kafka).is_alive()
        assert hook.count == 1
        if not interrupted:
            break
    assert instructions > 5


def test_close_times_out_after_an_interrupted_close(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(0, faults.stall_before(), times=None)
    interrupted = True
    for instructions in itertools.count(1):
        producer = stage.producer(cluster, delivery_timeout_ms=2 * HOURS_MS)
        sent = producer.send()
        # close() blocks when it waits for the record: every instruction before that is interrupted once.
        codes = CLOSING - {ProducerEngine.stop.__code__, ProducerEngine.wait_for_end.__code__}
        close = functools.partial(producer.kafka.close, 0.01)
        with contextlib.suppress(CloseTimeoutError):
            interrupted = False
            interrupted = interrupt_after(instructions, codes, close, as_signals_do=True)
        if not interrupted:
            break
        with contextlib.suppress(CloseTimeoutError):
            producer.close(0.01)
        assert sent.future.done(), f"after an interruption at instruction {instructions}"
        assert isinstance(sent.error(), ProducerClosedError)
    assert instructions > 5


def test_a_second_ctrl_c_gives_up_at_any_point_of_the_close(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.control(0, faults.stall_before(), times=None)
    waits: list[float | None] = []
    wait_for_end = ProducerEngine.wait_for_end

    def interrupted_wait(engine: ProducerEngine, timeout_s: float | None) -> bool:
        if timeout_s is None:
            waits.append(timeout_s)
            raise KeyboardInterrupt
        return wait_for_end(engine, timeout_s)

    monkeypatch.setattr(ProducerEngine, "wait_for_end", interrupted_wait)
    monkeypatch.setattr(producer_engine, "_SILENT_WAIT_S", 0.0)
    for instructions in itertools.count(1):
        producer = stage.producer(cluster, delivery_timeout_ms=2 * HOURS_MS)
        sent = producer.send()
        leave = functools.partial(producer.kafka.__exit__, KeyboardInterrupt, KeyboardInterrupt(), None)
        assert interrupt_after(instructions, CLOSING, leave, as_signals_do=True)
        if waits:
            # The close has come to its wait, and a third Ctrl-C to the code that gives up.
            producer.close(0)
        assert sent.future.done(), f"after an interruption at instruction {instructions}"
        assert isinstance(sent.error(), ProducerClosedError)
        assert not internals.io_thread(producer.kafka).is_alive()
        assert repr(producer.kafka).endswith("closed>")
        if waits:
            break
    assert instructions > 5


def test_an_interrupted_flush_is_no_longer_in_progress(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    producer.send().metadata()
    accumulator = internals.accumulator(producer.kafka)
    for number in itertools.count(1):
        interrupted = interrupt_after(number, FLUSHING, producer.kafka.flush, as_signals_do=True)
        assert not accumulator._flushes, f"after interruption {number}"
        if not interrupted:
            break
    assert number > 3
