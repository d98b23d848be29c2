"""Transactional calls that are refused, raise or are interrupted, and the state that they leave."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kproducer import (
    BufferExhaustedError,
    ConsumerGroupMetadata,
    DeliveryTimeoutError,
    FatalProducerError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaProducer,
    KafkaTimeoutError,
    MetadataTimeoutError,
    OffsetAndMetadata,
    TopicPartition,
)
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer.testing.fakebroker import FakeCluster, RequestContext, faults
from kproducer.testing.fakebroker.actions import Action
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.scenarios.internals import is_ending_transaction
from tests.scenarios.transactions import committed, transactional
from tests.support.waiting import wait_until

INIT, ADD_OFFSETS, END, COMMIT_OFFSETS = 22, 25, 26, 28
GROUP = ConsumerGroupMetadata("g")
PLACE = TopicPartition("in", 0)
OFFSETS = {PLACE: OffsetAndMetadata(7, "meta", 3)}


def ends(cluster: FakeCluster) -> list[bool]:
    """For each EndTxn request, whether it commits."""
    return [request.message.committed for request in cluster.requests(END)]


# -- arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offsets", "group"),
    [
        ({PLACE: OffsetAndMetadata(7, b"meta")}, GROUP),
        ({PLACE: OffsetAndMetadata(7, 3, "meta")}, GROUP),
        ({PLACE: OffsetAndMetadata(2**63)}, GROUP),
        ({PLACE: OffsetAndMetadata(7.0)}, GROUP),
        ({PLACE: OffsetAndMetadata("7")}, GROUP),
        ({PLACE: 7}, GROUP),
        ({TopicPartition("in", "0"): OffsetAndMetadata(7)}, GROUP),
        (OFFSETS, ConsumerGroupMetadata("g", "3", "m")),
        (OFFSETS, ConsumerGroupMetadata("g", member_id=None)),
        (OFFSETS, "g"),
    ],
    ids=lambda value: repr(value)[:90],
)
def test_invalid_offsets_are_refused_and_the_transaction_continues(
    stage: Stage, one: FakeCluster, offsets: Any, group: Any
) -> None:
    producer = transactional(stage, one)
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    with pytest.raises(InvalidArgumentError):
        producer.send_offsets_to_transaction(offsets, group)
    assert not one.requests(COMMIT_OFFSETS)
    assert not one.requests(ADD_OFFSETS)
    producer.send_offsets_to_transaction(OFFSETS, GROUP)
    producer.commit_transaction()
    assert committed(one) == [b"1"]
    written = one.requests(COMMIT_OFFSETS)[-1].message.topics[0].partitions[0]
    assert (written.committed_offset, written.committed_metadata, written.committed_leader_epoch) == (
        7,
        "meta",
        3,
    )


def calls(producer: KafkaProducer, **how: Any) -> dict[str, Callable[[], object]]:
    """Every call that waits for the I/O thread and would otherwise be valid."""
    return {
        "prepare": lambda: producer.prepare(**how),
        "send_offsets": lambda: producer.send_offsets_to_transaction(OFFSETS, GROUP, **how),
        "abort": lambda: producer.abort_transaction(**how),
        "commit": lambda: producer.commit_transaction(**how),
    }


@pytest.mark.parametrize("timeout", ["1", float("nan"), True], ids=repr)
def test_a_wrong_timeout_is_refused_before_anything_begins(
    stage: Stage, one: FakeCluster, timeout: Any
) -> None:
    producer = transactional(stage, one)
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    for call in calls(producer, timeout=timeout).values():
        with pytest.raises(InvalidArgumentError, match="timeout"):
            call()
    producer.commit_transaction()
    assert (ends(one), one.requests(COMMIT_OFFSETS), committed(one)) == ([True], [], [b"1"])


@pytest.mark.parametrize("change", [{"producer_id": -1}, {"producer_id": 2**63}, {"epoch": 2**15}, None])
def test_unprepared_transactions_are_refused_without_an_effect(
    stage: Stage, one: FakeCluster, change: dict[str, int] | None
) -> None:
    writer = transactional(stage, one)
    writer.begin_transaction()
    writer.send("t", b"1", partition=0)
    handed = writer.prepare()
    wrong: Any = handed._replace(**change) if change else list(handed)
    ender = stage.producer(one, transactional_id="tx").kafka
    for call in (ender.commit_prepared, ender.abort_prepared):
        for each in (wrong, None):
            with pytest.raises(InvalidArgumentError):
                call(each)
    # Nor do they end a transaction that is open here.
    for call in (writer.commit_prepared, writer.abort_prepared):
        with pytest.raises(InvalidArgumentError):
            call(None)
    assert ends(one) == []
    ender.commit_prepared(handed)
    assert committed(one) == [b"1"]


# -- callbacks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prepare", "send_offsets", "abort", "commit", "init", "commit_prepared"])
def test_a_call_in_a_delivery_callback_is_refused_and_has_no_effect(
    stage: Stage, one: FakeCluster, name: str
) -> None:
    producer = transactional(stage, one)
    outcome: list[BaseException | None] = []
    ran = threading.Event()
    others: dict[str, Callable[[], object]] = {
        "init": producer.init_transactions,
        "commit_prepared": lambda: producer.commit_prepared(handed),
    }
    producer.begin_transaction()
    handed = producer.prepare()
    producer.commit_transaction()

    def on_delivery(metadata: object, error: object) -> None:
        try:
            {**calls(producer), **others}[name]()
            outcome.append(None)
        except BaseException as problem:
            outcome.append(problem)
        finally:
            ran.set()

    producer.begin_transaction()
    producer.send("t", b"1", partition=0, on_delivery=on_delivery)
    producer.flush()
    assert ran.wait(PATIENCE_S)
    assert [type(each) for each in outcome] == [IllegalStateError]
    assert "delivery callback" in str(outcome[0])
    producer.send("t", b"2", partition=0)
    producer.commit_transaction()
    assert (committed(one), ends(one), one.requests(COMMIT_OFFSETS)) == ([b"1", b"2"], [True], [])


def test_a_transaction_block_in_a_delivery_callback_is_not_begun(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one)
    outcome: list[object] = []
    ran = threading.Event()

    def on_delivery(metadata: object, error: object) -> None:
        try:
            with producer.transaction():
                outcome.append("begun")
        except IllegalStateError as problem:
            outcome.append(str(problem))
        finally:
            ran.set()

    producer.begin_transaction()
    producer.send("t", b"1", partition=0, on_delivery=on_delivery)
    producer.flush()
    assert ran.wait(PATIENCE_S)
    assert outcome != ["begun"]
    assert "delivery callback" in str(outcome[0])
    producer.commit_transaction()
    with producer.transaction():
        producer.send("t", b"2", partition=0)
    assert committed(one) == [b"1", b"2"]


def test_a_call_in_a_signal_handler_during_send_is_refused_and_has_no_effect(
    stage: Stage, one: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call would wait for the I/O thread, which waits for the partition lock that ``send`` holds."""
    producer = transactional(stage, one)
    outcome: list[str] = []
    append = ProducerBatch.try_append

    def interrupted(self: ProducerBatch, *arguments: Any) -> Any:
        # Like a signal handler, which Python may run between any two instructions of the main thread.
        for call in calls(producer).values():
            try:
                call()
            except IllegalStateError as problem:
                outcome.append(str(problem))
        return append(self, *arguments)

    producer.begin_transaction()
    monkeypatch.setattr(ProducerBatch, "try_append", interrupted)
    producer.send("t", b"1", partition=0)
    monkeypatch.undo()
    assert len(outcome) == len(calls(producer))
    assert all("signal handler" in each for each in outcome)
    producer.commit_transaction()
    assert (committed(one), ends(one), one.requests(COMMIT_OFFSETS)) == ([b"1"], [True], [])


# -- transaction blocks ----------------------------------------------------------------------------------


def run_block(producer: KafkaProducer, inside: Callable[[], object] = lambda: None) -> None:
    """Run a transaction with one record, which has reached the broker when ``inside`` is called."""
    with producer.transaction():
        producer.send("t", b"1", partition=0)
        producer.flush()
        inside()


def raises(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


@pytest.mark.parametrize(
    "kind",
    [
        KafkaTimeoutError,
        MetadataTimeoutError,
        BufferExhaustedError,
        DeliveryTimeoutError,
        FatalProducerError,
        ValueError,
        KeyboardInterrupt,
    ],
)
def test_a_block_that_raises_is_aborted(stage: Stage, one: FakeCluster, kind: type[BaseException]) -> None:
    producer = transactional(stage, one)
    with pytest.raises(kind, match="of the application"):
        run_block(producer, raises(kind("of the application")))
    assert ends(one) == [False]
    with producer.transaction():
        producer.send("t", b"next", partition=0)
    assert committed(one) == [b"next"]


def test_a_block_whose_topic_is_missing_is_aborted(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one, max_block_ms=300)
    with pytest.raises(MetadataTimeoutError):
        run_block(producer, lambda: producer.send("missing", b""))
    producer.begin_transaction()
    producer.send("t", b"next", partition=0)
    producer.commit_transaction(PATIENCE_S)
    assert committed(one) == [b"next"]


def test_a_commit_that_times_out_at_the_end_of_a_block_continues(stage: Stage, one: FakeCluster) -> None:
    gate = one.gate()
    one.control(END, faults.hold_before(gate))
    producer = transactional(stage, one, max_block_ms=300)
    with pytest.raises(KafkaTimeoutError, match="commit_transaction"):
        run_block(producer)
    gate.open()
    producer.commit_transaction(PATIENCE_S)
    assert (committed(one), ends(one)) == ([b"1"], [True])


def test_an_abort_that_times_out_does_not_hide_the_error_of_the_block(
    stage: Stage, one: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    gate = one.gate()
    one.control(END, faults.hold_before(gate))
    producer = transactional(stage, one, max_block_ms=300)
    with (
        caplog.at_level(logging.WARNING, "kproducer.engine"),
        pytest.raises(ZeroDivisionError),
    ):
        run_block(producer, raises(ZeroDivisionError()))
    assert "not aborted yet after ZeroDivisionError: abort_transaction" in caplog.text
    gate.open()
    producer.abort_transaction(PATIENCE_S)
    assert (committed(one), ends(one)) == ([], [False])


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_an_interrupted_abort_shows_both_causes(
    stage: Stage, one: FakeCluster, request: pytest.FixtureRequest
) -> None:
    """Ctrl-C in the abort must end the program; the block's exception stays visible as its context."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    gate = one.gate()

    def interrupt(context: RequestContext) -> Action | None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return faults.hold_before(gate)(context)

    one.control(END, interrupt)
    producer = transactional(stage, one)
    with pytest.raises(KeyboardInterrupt) as caught:
        run_block(producer, raises(ZeroDivisionError()))
    assert isinstance(caught.value.__context__, ZeroDivisionError)
    gate.open()
    producer.abort_transaction()
    assert committed(one) == []


def test_a_block_may_end_its_transaction_itself(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one)

    def end_and_fail() -> None:
        producer.commit_transaction()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_block(producer, end_and_fail)
    assert (committed(one), ends(one)) == ([b"1"], [True])


# -- repeated calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("ended_meanwhile", [True, False], ids=["ended", "continues"])
def test_ending_a_prepared_transaction_can_be_retried_after_a_timeout(
    stage: Stage, one: FakeCluster, commit: bool, ended_meanwhile: bool
) -> None:
    writer = transactional(stage, one)
    writer.begin_transaction()
    writer.send("t", b"1", partition=0)
    handed = writer.prepare()
    gate = one.gate()
    one.control(END, faults.hold_before(gate))
    ender = stage.producer(one, transactional_id="tx").kafka
    call, other = ender.commit_prepared, ender.abort_prepared
    if not commit:
        call, other = other, call
    with pytest.raises(KafkaTimeoutError):
        call(handed, timeout=0.2)
    name = call.__name__
    with pytest.raises(IllegalStateError, match=f"^{other.__name__}: {name} is not done yet; call {name}"):
        other(handed)
    gate.open()
    if ended_meanwhile:
        wait_until(lambda: not is_ending_transaction(ender))
    call(handed, timeout=PATIENCE_S)
    assert committed(one) == [b"1"] * commit
    ender.init_transactions()
    with ender.transaction():
        ender.send("t", b"2", partition=0)
    assert committed(one) == [*[b"1"] * commit, b"2"]


def test_a_refused_call_does_not_lose_the_result_of_an_earlier_one(stage: Stage, one: FakeCluster) -> None:
    gate = one.gate()
    one.control(END, faults.hold_before(gate))
    producer = transactional(stage, one)
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    with pytest.raises(KafkaTimeoutError):
        producer.commit_transaction(0.2)
    gate.open()
    wait_until(lambda: not is_ending_transaction(producer))
    for call in (producer.abort_transaction, producer.prepare):
        with pytest.raises(IllegalStateError):
            call()
    producer.commit_transaction()
    assert committed(one) == [b"1"]
