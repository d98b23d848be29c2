"""The data plane in a whole producer: what it does by itself, and what it hands back to Python."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest

from kproducer import (
    AsyncKafkaProducer,
    DeliveryTimeoutError,
    KafkaProducer,
    Outcome,
    PurgedError,
    RequestTimeoutError,
    TopicPartition,
)
from kproducer._core.kernel import data_plane
from kproducer._core.sender import fast_lanes
from kproducer._core.sender.fast_lanes import FastLanes
from kproducer.testing.fakebroker import FakeCluster, faults
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from tests.scenarios import internals
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S, WatchedProducer
from tests.support.tls_peer import authority, certificate, server_context

pytestmark = pytest.mark.skipif(data_plane is None, reason="needs the compiled kernel")

PRODUCE, METADATA = 0, 3


#: Settings of the producers of the present test.
_state: dict[str, Any] = {}


@pytest.fixture(params=["plain", "idempotent", "lz4"], autouse=True)
def _settings(request: pytest.FixtureRequest) -> None:
    _state.clear()
    _state["enable_idempotence"] = request.param != "plain"
    if request.param == "lz4":
        _state["compression_type"] = "lz4"


@pytest.fixture
def lz4_only() -> None:
    if "compression_type" not in _state:
        pytest.skip("nothing is compressed")


Secure = Callable[[FakeCluster], FakeCluster]


@pytest.fixture(params=[False, True], ids=["plaintext", "tls"])
def secure(request: pytest.FixtureRequest) -> Secure:
    """Make the brokers and producers of the test encrypt, or not."""
    return use_tls if request.param else lambda cluster: cluster


def use_tls(cluster: FakeCluster) -> FakeCluster:
    cluster.tls = server_context(certificate("127.0.0.1"))
    _state["security_protocol"] = "SASL_SSL" if "sasl_mechanism" in _state else "SSL"
    _state["ssl_truststore_certificates"] = authority().pem
    return cluster


@pytest.fixture(autouse=True)
def _lanes_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KPRODUCER_FAST_LANE", "1")
    return


def wait_until_armed(producer: WatchedProducer) -> None:
    """Wait for the end of the round that arms: the reply to its request may arrive before."""
    producer.cluster.wait_for(lambda: internals.armed_partitions(producer.kafka) == 1, what="it is armed")


def armed(stage: Stage, cluster: FakeCluster, **config: Any) -> WatchedProducer:
    """A producer whose partition "t-0" is armed."""
    config = {**_state, **config}
    producer = stage.producer(cluster, **config)
    producer.send().metadata()
    producer.send().metadata()
    wait_until_armed(producer)
    return producer


def test_the_usual_record_needs_no_round_of_the_io_thread(
    stage: Stage, cluster: FakeCluster, secure: Secure
) -> None:
    producer = armed(stage, secure(cluster))
    before = stage.polls.count
    offsets = [producer.send(key=b"k", headers=[("h", b"1")]).metadata().offset for _ in range(300)]
    assert offsets == list(range(2, 302))
    assert stage.polls.count - before < 10


def test_records_without_a_key_change_the_partition_after_16_kib(stage: Stage) -> None:
    """However large ``batch_size`` is: else one partition would get all records for minutes (KIP-480)."""
    cluster = stage.cluster(topics={"t": 8})
    producer = stage.producer(cluster, **_state)
    partitions = [producer.send(value=random.randbytes(1000)).metadata().partition for _ in range(300)]
    runs = [len(list(run)) for _, run in groupby(partitions)]
    # At each of about 17 ends, one of 8 is drawn.
    assert len(runs) > 2
    assert all(run >= 16 for run in runs[:-1])


def test_records_without_a_key_leave_no_full_batch_behind(stage: Stage) -> None:
    if "compression_type" in _state:
        pytest.skip("how much a batch takes is an estimate")
    cluster = stage.cluster(topics={"t": 4})
    settings = {**_state, "linger_ms": 600_000, "delivery_timeout_ms": 900_000, "batch_size": 1000}
    producer = stage.producer(cluster, **settings)
    for _ in range(2):
        sent = [producer.send(partition=partition) for partition in range(4)]
        producer.kafka.flush()
    cluster.wait_for(lambda: internals.armed_partitions(producer.kafka) == 4, what="all are armed")
    sent += [producer.send(value=b"0123456789") for _ in range(1000)]
    # The open batch takes fewer than 60 of them.
    for each in sent[:-60]:
        each.metadata()


class _TakesAllBack:
    """Stands for a partition that was disarmed, and has the lanes taken back when they look at it."""

    def __init__(self, lanes: Any) -> None:
        self._lanes = lanes

    @property
    def topic_partition(self) -> TopicPartition:
        self._lanes.take_all_back()
        return TopicPartition("t", 0)


def test_no_partition_is_armed_on_a_lane_that_is_taken_back_at_the_same_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    if _state["enable_idempotence"]:
        pytest.skip("a partition is armed in the round after its drain")
    cluster = stage.cluster(topics={"t": 20})
    producers: list[WatchedProducer] = []

    def disarm() -> bool:
        queues = internals.accumulator(producers[0].kafka).queues if producers else None
        if queues is not None and queues.active:
            queues.disarmed.append(_TakesAllBack(internals.lanes(producers.pop().kafka)))
        return False

    monkeypatch.setattr(fast_lanes, "FastLanes", partial(FastLanes, takes_back=disarm))
    producer = armed(stage, cluster)
    producers.append(producer)
    for partition in range(1, 20):
        producer.send(partition=partition).metadata()
        # Not yet, if the record came in the middle of a round.
        if not producers:
            break
    assert not producers
    assert [producer.send(partition=partition).metadata().offset for _ in range(3)] == [1, 2, 3]


def test_a_partition_that_always_has_requests_in_flight_is_armed_with_what_waits(
    stage: Stage, cluster: FakeCluster
) -> None:
    producer = stage.producer(cluster, **_state, batch_size=200)
    producer.send().metadata()
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    sent = [producer.send() for _ in range(60)]
    gate.open()
    while not internals.armed_partitions(producer.kafka):
        sent += [producer.send() for _ in range(10)]
        assert sent[-1].metadata()
    assert [each.metadata().offset for each in sent] == list(range(1, len(sent) + 1))


def test_requests_of_python_and_of_a_lane_have_different_correlation_ids(stage: Stage) -> None:
    cluster = stage.cluster(1, topics={"t": 1, "u": 1})
    producer = armed(stage, cluster)
    gate = cluster.gate()
    cluster.control(METADATA, faults.hold_before(gate))
    asking = threading.Thread(target=producer.kafka.partitions_for, args=("u",))
    asking.start()
    gate.wait_until_reached()
    sent = producer.send()
    cluster.wait_for(lambda: internals.in_flight_count(producer.kafka) == 2, what="both are in flight")
    gate.open()
    asking.join(PATIENCE_S)
    sent.metadata()
    ids = Counter((each.connection_id, each.correlation_id) for each in cluster.requests())
    assert ids.most_common(1)[0][1] == 1


def test_an_error_code_hands_all_back_and_the_partition_is_armed_again(
    stage: Stage, cluster: FakeCluster, secure: Secure
) -> None:
    producer = armed(stage, secure(cluster), ordered=False)
    cluster.control(PRODUCE, faults.refuse_produce(6))
    assert producer.send().metadata().offset == 2
    # A refreshed cluster takes all back once more, at any time.
    producer.send_until(lambda: internals.armed_partitions(producer.kafka) == 1)


def test_a_rejected_record_fails_with_its_error(stage: Stage, cluster: FakeCluster) -> None:
    producer = armed(stage, cluster)
    cluster.control(PRODUCE, faults.refuse_produce(29))
    error = producer.send().error()
    assert error.outcome is Outcome.REJECTED
    assert "attempt 1, answered" in str(error)


def test_requests_in_flight_are_retried_after_a_disconnect(
    stage: Stage, cluster: FakeCluster, secure: Secure
) -> None:
    producer = armed(stage, secure(cluster), ordered=False)
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate), times=3)
    sent = [producer.send() for _ in range(3)]
    cluster.wait_for_requests(PRODUCE, 3)
    cluster.drop_connections(1)
    gate.open()
    assert all(each.metadata().offset >= 2 for each in sent)


def test_a_request_that_is_not_answered_times_out(stage: Stage, cluster: FakeCluster, secure: Secure) -> None:
    producer = armed(stage, secure(cluster), request_timeout_ms=150, delivery_timeout_ms=150)
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    error = producer.send().error()
    assert isinstance(error, RequestTimeoutError | DeliveryTimeoutError)
    assert error.outcome is Outcome.UNKNOWN
    gate.open()
    producer.forget(producer.sent[-1:])


def test_a_batch_behind_the_limit_of_requests_in_flight_expires(
    stage: Stage, cluster: FakeCluster, secure: Secure
) -> None:
    producer = armed(
        stage,
        secure(cluster),
        request_timeout_ms=300,
        delivery_timeout_ms=300,
        max_in_flight_requests_per_connection=2,
        ordered=False,
    )
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate), times=None)
    sent = [producer.send(partition=0) for _ in range(3)]
    assert {type(each.error()) for each in sent} <= {DeliveryTimeoutError, RequestTimeoutError}
    cluster.remove_controls()
    gate.open()


def test_purge_fails_what_waits_and_what_is_in_flight(stage: Stage, cluster: FakeCluster) -> None:
    producer = armed(stage, cluster, max_in_flight_requests_per_connection=2)
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate), times=2)
    sent = [producer.send()]
    cluster.wait_for_requests(PRODUCE, 3)
    sent += [producer.send() for _ in range(5)]
    assert producer.kafka.purge() == 6
    assert all(isinstance(each.error(), PurgedError) for each in sent)
    gate.open()
    producer.forget(sent)
    producer.send().metadata()


def test_a_socket_that_takes_no_more_gets_the_rest_later(
    stage: Stage, cluster: FakeCluster, secure: Secure
) -> None:
    producer = armed(
        stage, secure(cluster), batch_size=1 << 20, buffer_memory=1 << 26, send_buffer_bytes=4096
    )
    cluster.stall_reading(1)
    value = bytes(900_000)
    sent = [producer.send(value=b"%d" % number + value) for number in range(8)]
    cluster.resume_reading(1)
    assert [each.metadata().offset for each in sent] == list(range(2, 10))


def test_a_connection_that_breaks_in_the_middle_of_a_frame(
    stage: Stage, cluster: FakeCluster, secure: Secure
) -> None:
    producer = armed(
        stage,
        secure(cluster),
        batch_size=1 << 20,
        buffer_memory=1 << 26,
        send_buffer_bytes=4096,
        ordered=False,
    )
    cluster.stall_reading(1)
    sent = [producer.send(value=b"%d" % number + bytes(15_000)) for number in range(400)]
    cluster.drop_connections(1)
    cluster.resume_reading(1)
    assert all(each.metadata().offset >= 2 for each in sent)


def compression_locks(producer: KafkaProducer) -> list[Any]:
    return [each.compression_lock for each in internals.accumulator(producer).incomplete]


@pytest.mark.usefixtures("lz4_only")
def test_callers_compress(stage: Stage, cluster: FakeCluster) -> None:
    producer = armed(stage, cluster, batch_size=4096, linger_ms=10)
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate), times=None)
    for number in range(150):
        producer.kafka.send("t", random.Random(number).randbytes(600), partition=0)
    assert any(compression_locks(producer.kafka))
    gate.open()


@pytest.mark.usefixtures("lz4_only")
def test_callers_in_an_event_loop_do_not_compress(cluster: FakeCluster) -> None:
    gate = cluster.gate()

    async def main() -> None:
        settings = {**_state, "batch_size": 4096, "linger_ms": 10}
        async with AsyncKafkaProducer(cluster.bootstrap_servers, **settings) as producer:
            for _ in range(2):
                await producer.send("t", b"v", partition=0)
            is_armed = partial(internals.armed_partitions, producer._producer)
            await asyncio.to_thread(cluster.wait_for, is_armed, what="it is armed")
            cluster.control(PRODUCE, faults.hold_before(gate), times=None)
            for number in range(150):
                await producer.submit("t", random.Random(number).randbytes(600), partition=0)
            locks = compression_locks(producer._producer)
            assert len(locks) > 20
            assert not any(locks)
            gate.open()

    asyncio.run(main())


def test_connections_that_break_at_any_time_keep_no_record_until_a_timeout(
    stage: Stage, cluster: FakeCluster, secure: Secure
) -> None:
    secure(cluster)
    chooser = random.Random(5)
    closes = [
        close(reset=reset) for close in (faults.close_before, faults.close_after) for reset in (False, True)
    ]
    # A request on a lost connection must not wait for its timeout, which is beyond the patience below.
    settings = {**_state, "ordered": False, "retry_backoff_ms": 1, "reconnect_backoff_ms": 1}
    producer = stage.producer(cluster, **settings, request_timeout_ms=90_000)

    def maybe_close(context: Any) -> Any:
        return chooser.choice(closes)(context) if chooser.random() < 0.2 else None

    cluster.control(PRODUCE, maybe_close, times=None)
    for _ in range(80):
        producer.send_many(chooser.randrange(1, 60))
        assert producer.kafka.flush(PATIENCE_S).failed == 0


def test_lingering_batches_are_sent_together_and_by_a_flush(stage: Stage, cluster: FakeCluster) -> None:
    producer = armed(stage, cluster, linger_ms=30)
    requests = len(cluster.requests(PRODUCE))
    sent = producer.send_many(20)
    assert sent[-1].metadata().offset == 21
    assert len(cluster.requests(PRODUCE)) == requests + 1


def test_a_long_linger_ends_with_a_flush_and_with_the_close(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, **_state, linger_ms=3_600_000, delivery_timeout_ms=7_200_000)
    for _ in range(3):
        sent = producer.send_many(5)
        producer.kafka.flush(PATIENCE_S)
        assert all(each.future.done() for each in sent)
    wait_until_armed(producer)
    producer.send_many(5)
    producer.close(PATIENCE_S)
    assert len(cluster.records("t")) == 20


def test_a_caller_that_is_interrupted_while_it_disarms_keeps_no_record(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = armed(stage, cluster, linger_ms=20)
    accumulator = internals.accumulator(producer.kafka)
    adopt = accumulator.queues.adopt

    def interrupt_once(batch: Any) -> Any:
        accumulator.queues.adopt = adopt
        raise KeyboardInterrupt

    sent = producer.send_many(3)
    accumulator.queues.adopt = interrupt_once
    accumulator.queues.queue_of(TopicPartition("t", 0)).slot.part.refuse()
    with pytest.raises(KeyboardInterrupt):
        producer.send()
    assert [each.metadata().offset for each in sent] == [2, 3, 4]


@pytest.mark.parametrize("call", ["send_many", "send_arrow"])
def test_bulk_calls_need_no_round_of_the_io_thread_for_each_batch(
    stage: Stage, cluster: FakeCluster, secure: Secure, call: str
) -> None:
    producer = armed(stage, secure(cluster), batch_size=1000)
    values = [b"%d" % number + random.randbytes(90) for number in range(3000)]
    polls, requests = stage.polls.count, len(cluster.requests(PRODUCE))
    if call == "send_many":
        sent = producer.kafka.send_many("t", values)
    else:
        sent = producer.kafka.send_arrow("t", pa.table({"value": values}))
    producer.kafka.flush(PATIENCE_S)
    assert sent.offsets().tolist() == list(range(2, 3002))
    assert [record.value for record in cluster.records("t")[2:]] == values
    assert len(cluster.requests(PRODUCE)) - requests > 100
    assert stage.polls.count - polls < 50
    assert internals.armed_partitions(producer.kafka) == 1


def test_records_that_the_lane_cannot_take_keep_their_place(stage: Stage, cluster: FakeCluster) -> None:
    producer = armed(stage, cluster, linger_ms=20)
    values = [b"%d" % number + bytes(40_000 if number % 3 == 2 else 10) for number in range(30)]
    sent = [producer.send(value=value) for value in values]
    assert [each.metadata().offset for each in sent] == list(range(2, 32))
    assert [record.value for record in cluster.records("t")[2:]] == values


def test_a_new_leader_is_followed(stage: Stage) -> None:
    cluster = stage.cluster(2)
    producer = armed(stage, cluster)
    cluster.move_leader("t", 0, 2)
    assert producer.send().metadata().offset == 2
    producer.send_until(lambda: internals.armed_partitions(producer.kafka) == 1)


def test_metrics_count_what_the_lanes_did(stage: Stage, cluster: FakeCluster) -> None:
    producer = armed(stage, cluster)
    producer.send_many(50)
    producer.kafka.flush(PATIENCE_S)
    cluster.wait_for(
        lambda: producer.kafka.metrics()["producer-metrics"]["record-send-total"] == 52, what="counted"
    )


def test_a_session_is_renewed_without_requests_of_the_lane_in_between(
    stage: Stage, cluster: FakeCluster, secure: Secure
) -> None:
    # The broker counts it as a violation if a request comes during an authentication or after the session.
    cluster.sasl = listener = SaslListener({"alice": "wonderland"}, session_lifetime_ms=500)
    _state["sasl_mechanism"] = "PLAIN"
    _state["security_protocol"] = "SASL_PLAINTEXT"
    producer = armed(
        stage, secure(cluster), sasl_plain_username="alice", sasl_plain_password="wonderland", ordered=False
    )
    armed_in = set()

    def note() -> bool:
        if internals.armed_partitions(producer.kafka):
            armed_in.add(listener.authentications - cluster.accepted_count())
        return len(armed_in) > 3

    producer.send_until(note)


def test_portable_tls_has_no_lanes(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPRODUCER_NATIVE_TLS", "0")
    producer = stage.producer(use_tls(cluster), **_state)
    producer.send().metadata()
    assert internals.lanes(producer.kafka) is None


@pytest.mark.parametrize("seed", range(3))
def test_random_hand_overs_and_faults_change_no_result(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, secure: Secure, seed: int
) -> None:
    chooser = random.Random(seed)
    takes_back = partial(FastLanes, takes_back=lambda: chooser.random() < 0.1)
    monkeypatch.setattr(fast_lanes, "FastLanes", takes_back)
    cluster = secure(stage.cluster(2, topics={"t": 4}))
    broker_faults = [faults.refuse_produce(6), faults.refuse_produce(7)]
    faulty = threading.Event()

    def maybe_fail(context: Any) -> Any:
        if not faulty.is_set() and chooser.random() < 0.05:
            return chooser.choice(broker_faults)(context)
        return None

    cluster.control(PRODUCE, maybe_fail, times=None)
    producer = stage.producer(cluster, **_state, ordered=False)
    producer.learn("t")

    def send() -> None:
        for number in range(400):
            sent = producer.send(partition=number % 4)
            if number % 20 == 0:
                sent.future.exception(PATIENCE_S)

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.kafka.flush(PATIENCE_S)
    faulty.set()
    assert all(each.future.exception(0) is None for each in producer.sent)
