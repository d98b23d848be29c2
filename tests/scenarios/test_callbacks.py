"""Application code that the producer calls: callbacks, interceptors, serializers, partitioners, futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from typing import Any

import pytest

from kproducer import InvalidArgumentError, KafkaError, KafkaProducer, Outcome, SerializationError
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE = 0


def test_a_raising_callback_is_logged_and_affects_no_other_record(
    stage: Stage, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    producer = stage.producer(cluster, linger_ms=20)

    def bad(metadata: object, error: object) -> None:
        raise RuntimeError("callback failed")

    with caplog.at_level(logging.ERROR, "kproducer"):
        sent = [producer.send(on_delivery=bad if index % 3 == 0 else None) for index in range(9)]
        assert [s.metadata().offset for s in sent] == list(range(9))
        producer.close(PATIENCE_S)
    assert "callback failed" in caplog.text


def test_a_callback_with_the_error_first_is_refused_on_every_path(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, linger_ms=60_000)

    def delivery_report(err: object, msg: object) -> None:
        raise AssertionError("called")

    refused = pytest.raises(InvalidArgumentError, match=r"delivery_report.*named \(err, msg\)")
    with refused as first:
        producer.kafka.send("t", b"the topic is unknown", on_delivery=delivery_report)
    assert first.value.outcome is Outcome.NOT_SENT
    producer.kafka.send("t", b"the batch is open from now on")
    producer.kafka.send("t", b"accepted", on_delivery=lambda metadata, error: None)
    with refused:
        producer.kafka.send("t", b"the batch is open", on_delivery=delivery_report)
    with refused:
        producer.kafka.send("t", "a serializer would make no difference", "key", on_delivery=delivery_report)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_system_exit_in_a_callback_does_not_end_the_io_thread(
    stage: Stage, cluster: FakeCluster, kind: type[BaseException]
) -> None:
    producer = stage.producer(cluster, linger_ms=20)

    def leave(metadata: object, error: object) -> None:
        raise kind("from a callback")

    sent = [producer.send(on_delivery=leave if index == 1 else None) for index in range(4)]
    assert [s.metadata().offset for s in sent] == [0, 1, 2, 3]
    assert producer.send().metadata().offset == 4


def test_callbacks_run_in_send_order_on_one_thread(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, linger_ms=20)
    seen: list[tuple[int, int]] = []
    for _ in range(30):
        producer.send(on_delivery=lambda m, e: seen.append((m.offset, threading.get_ident())))
    producer.kafka.flush(PATIENCE_S)
    producer.close(PATIENCE_S)
    assert [offset for offset, _ in seen] == list(range(30))
    assert len({thread for _, thread in seen}) == 1
    assert threading.get_ident() not in {thread for _, thread in seen}


def test_a_slow_callback_delays_later_records_but_does_not_fail_them(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    producer = stage.producer(cluster, request_timeout_ms=400, delivery_timeout_ms=5000)
    release = threading.Event()
    slow = producer.send(partition=0, on_delivery=lambda m, e: release.wait(0.6))
    slow.metadata()
    behind = [producer.send(partition=1) for _ in range(5)]
    assert [s.metadata().offset for s in behind] == list(range(5))
    assert len(cluster.records("t", 1)) == 5


def test_a_failed_record_has_its_partition_and_sentinel_values(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(29))
    producer = stage.producer(cluster)
    failed = producer.send(key=b"abc", partition=0)
    failed.error()
    metadata = failed.callbacks[0][0]
    assert (metadata.topic, metadata.partition, metadata.offset) == ("t", 0, -1)


class _Recorder:
    """An interceptor that records its calls; ``raises`` names the hooks that raise."""

    def __init__(self, *raises: str) -> None:
        self.raises = raises
        self.seen: list[str] = []

    def _note(self, hook: str) -> None:
        self.seen.append(hook)
        if hook in self.raises:
            raise RuntimeError(f"interceptor {hook}")

    def on_send(self, record: Any) -> Any:
        self._note("on_send")
        return record

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self._note("on_acknowledgement")

    def close(self) -> None:
        self._note("close")


def test_interceptors_are_called_for_failures_too(stage: Stage, cluster: FakeCluster) -> None:
    heard: list[tuple[Any, Any]] = []

    class Listener(_Recorder):
        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            heard.append((metadata, error))

    cluster.control(PRODUCE, faults.refuse_produce(29))
    producer = stage.producer(cluster, interceptors=(Listener(),))
    error = producer.send(partition=0).error()
    producer.close(PATIENCE_S)
    ((metadata, heard_error),) = heard
    assert (type(heard_error), str(heard_error)) == (type(error), str(error))
    assert (metadata.topic, metadata.partition, metadata.offset) == ("t", 0, -1)


def test_an_interceptor_may_change_the_record_but_invalid_records_are_ignored(
    stage: Stage, cluster: FakeCluster
) -> None:
    class Changer(_Recorder):
        def on_send(self, record: Any) -> Any:
            if record.value == b"nonsense":
                return 42
            return record._replace(headers=[("added", b"1")], value=record.value + b"!")

    producer = stage.producer(cluster, interceptors=(Changer(),))
    future = producer.kafka.send("t", b"v")
    assert future.result(PATIENCE_S).offset == 0
    assert (cluster.records("t")[0].value, cluster.records("t")[0].headers) == (b"v!", (("added", b"1"),))
    assert producer.kafka.send("t", b"nonsense").result(PATIENCE_S).offset == 1
    assert cluster.records("t")[1].value == b"nonsense"


@pytest.mark.parametrize("which", ["key_serializer", "value_serializer"])
@pytest.mark.parametrize("result", [5, "text", object(), [1]])
def test_a_serializer_that_does_not_return_bytes_raises_to_the_caller(
    stage: Stage, cluster: FakeCluster, which: str, result: Any
) -> None:
    answers = [b"fine", result]
    producer = stage.producer(cluster, **{which: lambda value: answers.pop()})
    with pytest.raises(SerializationError):
        producer.kafka.send("t", b"v", key=b"k")
    assert producer.kafka.send("t", b"v", key=b"k").result(PATIENCE_S).offset == 0


def test_changes_after_send_do_not_change_the_record(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, linger_ms=3_600_000, delivery_timeout_ms=7_200_000)
    value, key, headers = bytearray(b"value"), bytearray(b"key"), [("h", b"1")]
    producer.kafka.send("t", value, key=key, headers=headers)
    value[:], key[:] = b"XXXXX", b"YYY"
    headers.clear()
    producer.kafka.send("t", memoryview(b"view"))
    producer.kafka.flush(PATIENCE_S)
    first, second = cluster.records("t")
    assert (first.key, first.value, first.headers) == (b"key", b"value", (("h", b"1"),))
    assert second.value == b"view"


class _Number:
    """A whole number of another type than ``int``, as those of numpy are."""

    def __index__(self) -> int:
        return 0


def test_a_partitioner_may_return_any_type_of_whole_number(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, partitioner=lambda *args: _Number())
    assert producer.send().metadata().partition == 0


@pytest.mark.parametrize("bad", [{"topic": 5}, {"partition": "0"}, {"timestamp_ms": 0.5}])
def test_an_interceptor_hears_of_arguments_of_the_wrong_type(
    stage: Stage, cluster: FakeCluster, bad: dict[str, Any]
) -> None:
    heard: list[tuple[Any, Any]] = []

    class Listener(_Recorder):
        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            heard.append((metadata, error))

    producer = stage.producer(cluster, interceptors=(Listener(),))
    call: dict[str, Any] = {"topic": "t", "value": b"v", **bad}
    with pytest.raises(InvalidArgumentError) as raised:
        producer.kafka.send(**call)
    ((metadata, error),) = heard
    assert error is raised.value
    for name, value in bad.items():
        assert getattr(metadata, name) == value


def test_unicode_header_names_and_long_topic_names_are_delivered(stage: Stage) -> None:
    name = "t" * 249
    cluster = stage.cluster(topics={name: 1})
    producer = stage.producer(cluster)
    producer.send(name, headers=[("\U0001f600 \u00e9", b"x")]).metadata()
    assert cluster.records(name)[0].headers == (("\U0001f600 \u00e9", b"x"),)


def test_futures_work_with_the_standard_library(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    futures = [producer.send().future for _ in range(10)]
    done, pending = concurrent.futures.wait(futures, PATIENCE_S)
    assert (len(done), len(pending)) == (10, 0)
    assert {f.result().offset for f in concurrent.futures.as_completed(futures)} == set(range(10))


def test_futures_can_be_awaited(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)

    async def application() -> list[int]:
        first = await producer.send().future
        second = await asyncio.wrap_future(producer.send().future)
        return [first.offset, second.offset]

    assert asyncio.run(application()) == [0, 1]


def test_a_result_that_times_out_is_available_later(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    sent = stage.producer(cluster).send()
    gate.wait_until_reached()
    with pytest.raises(TimeoutError):
        sent.future.result(0.01)
    assert not sent.future.cancel()
    assert not sent.future.cancelled()
    early: list[Any] = []
    sent.future.add_done_callback(early.append)
    gate.open()
    assert sent.metadata().offset == 0
    late: list[Any] = []
    sent.future.add_done_callback(late.append)
    assert late == [sent.future]
    concurrent.futures.wait([sent.future], PATIENCE_S)
    stage.producers[0].close(PATIENCE_S)
    assert early == [sent.future]


@pytest.mark.parametrize(
    "broken",
    [
        {"linger_ms": -1},
        {"delivery_timeout_ms": 10, "linger_ms": 5, "request_timeout_ms": 30_000},
        {"no_such_setting": 1},
        {"bootstrap_servers": []},
        {"bootstrap_servers": ["nohost"]},
        {"acks": 2},
        {"compression_type": "brotli"},
        {"value_serializer": 5},
        {"interceptors": (object(),)},
        {"max_in_flight_requests_per_connection": 0},
    ],
)
def test_a_constructor_that_fails_leaves_nothing_open(stage: Stage, broken: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": ["127.0.0.1:9"], **broken}
    with pytest.raises((KafkaError, ValueError, TypeError)):
        KafkaProducer(**settings)
