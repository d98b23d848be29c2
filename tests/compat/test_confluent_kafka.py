"""The adapter for confluent-kafka, and confluent-kafka itself: the same programs with the same results.

Each test runs with both. What differs is in docs/migration/confluent-kafka.md.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

import confluent_kafka as peer
import numpy as np
import pytest

from kproducer import KafkaTimeoutError, Outcome
from kproducer._core.sending.needs import TopicNeed
from kproducer.compat import confluent_kafka as adapter
from kproducer.compat.confluent_kafka.unknown_topics import UnknownTopics
from tests.support.kafka.mock_cluster import MockCluster

pytestmark = pytest.mark.mock_cluster

NAMES = ("confluent_kafka", "kproducer.compat.confluent_kafka")
PRODUCE = 0
PATIENCE_S = 30
UNDOTTED = {"error_cb", "stats_cb", "oauth_cb", "on_delivery", "log_level"}
UNREACHABLE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_client_is_left() -> Iterator[None]:
    """One of confluent-kafka would try to connect, and print that it cannot, until the process ends."""
    yield
    if _librdkafka_clients():
        gc.collect()
        assert _librdkafka_clients() == 0


def _librdkafka_clients() -> int:
    count = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            count += (task / "comm").read_text() == "rdk:main\n"
    return count


@pytest.fixture(params=NAMES)
def client(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    """With the topic "t" of one partition."""
    mock_cluster.create_topic("t", 1)
    return mock_cluster


@pytest.fixture
def make(client: ModuleType, mock_cluster: MockCluster) -> Iterator[Callable[..., Any]]:
    """Makes producers of the client, and gives up what is left of them in the end."""
    made = []

    def producer(**settings: Any) -> Any:
        given = {"bootstrap.servers": mock_cluster.bootstrap_servers}
        for name, value in settings.items():
            given[name if name in UNDOTTED else name.replace("_", ".")] = value
        made.append(client.Producer(given))
        return made[-1]

    yield producer
    for each in made:
        # Closed by the test; or confluent-kafka warns that an open transaction cannot be aborted.
        with contextlib.suppress(RuntimeError, SystemError):
            each.purge()
            each.flush(PATIENCE_S)
            # confluent-kafka keeps a reference to a producer whose callback has raised.
            each.close()


class Callbacks:
    """Keeps what delivery callbacks get, and on which thread."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, Any]] = []
        self.threads: set[int] = set()

    def __call__(self, error: Any, message: Any) -> None:
        self.seen.append((error, message))
        self.threads.add(threading.get_ident())


# -- messages and callbacks --------------------------------------------------------------------------------


def test_a_delivered_message(cluster: MockCluster, make: Callable[..., Any]) -> None:
    producer, seen = make(), Callbacks()
    assert producer.produce("t", "value", "key", on_delivery=seen, headers={"a": b"b", "c": None}) is None
    assert len(producer) == 1
    assert producer.flush(PATIENCE_S) == 0
    ((error, message),) = seen.seen
    assert error is None
    assert (message.topic(), message.partition(), message.offset()) == ("t", 0, 0)
    assert (message.key(), message.value(), message.headers(), message.error()) == (
        b"key",
        b"value",
        None,
        None,
    )
    assert 0 < message.latency() < PATIENCE_S
    assert message.timestamp()[0] in (1, 2)
    assert (message.leader_epoch(), len(message)) == (None, 5)
    (found,) = cluster.first_messages("t", 1)
    assert (found.key(), found.value(), found.headers()) == (b"key", b"value", [("a", b"b"), ("c", None)])


def test_integers_of_other_types(mock_cluster: MockCluster, make: Callable[..., Any]) -> None:
    """A column of times of pandas has such integers, also before the topic is known."""
    mock_cluster.create_topic("t", 2)
    producer, seen = make(), Callbacks()
    for _ in range(2):
        producer.produce("t", b"x", partition=np.int64(1), timestamp=np.int64(5), on_delivery=seen)
        producer.produce("t", b"x", partition=True, timestamp=np.uint32(5), on_delivery=seen)
        assert producer.flush(PATIENCE_S) == 0
    assert [(error, message.partition()) for error, message in seen.seen] == [(None, 1)] * 4
    assert {each.timestamp() for each in mock_cluster.first_messages("t", 4)} == {(1, 5)}
    for partition, timestamp in ((1.0, 0), (None, 0), ("1", 0), (0, 1.0)):
        with pytest.raises(TypeError, match="integer"):
            producer.produce("t", b"x", partition=partition, timestamp=timestamp)


def test_callbacks_run_in_poll_and_flush_only(cluster: MockCluster, make: Callable[..., Any]) -> None:
    producer, seen = make(linger_ms=0), Callbacks()
    producer.produce("t", b"1", callback=seen)
    cluster.first_messages("t", 1)
    assert seen.seen == []
    assert producer.poll(PATIENCE_S) == 1
    producer.produce("t", b"2", on_delivery=seen)
    assert producer.flush() == 0
    assert len(seen.seen) == 2
    assert seen.threads == {threading.get_ident()}
    assert producer.poll(0) == 0


def test_messages_without_callback_count_until_they_are_polled(
    cluster: MockCluster, make: Callable[..., Any]
) -> None:
    producer = make(linger_ms=0)
    producer.produce("t", b"1")
    cluster.first_messages("t", 1)
    assert len(producer) >= 1
    assert producer.poll(PATIENCE_S) == 1
    assert len(producer) == 0


def test_a_default_callback_and_the_callback_of_a_message(
    cluster: MockCluster, make: Callable[..., Any]
) -> None:
    by_default, of_message = Callbacks(), Callbacks()
    producer = make(on_delivery=by_default)
    producer.produce("t", b"1")
    producer.produce("t", b"2", on_delivery=of_message)
    producer.flush(PATIENCE_S)
    assert [message.value() for _, message in by_default.seen] == [b"1"]
    assert [message.value() for _, message in of_message.seen] == [b"2"]


def test_a_callback_that_raises_ends_the_flush_and_the_others_follow(
    cluster: MockCluster, make: Callable[..., Any]
) -> None:
    producer, seen = make(), Callbacks()

    def fail(error: Any, message: Any) -> None:
        raise LookupError(message.value())

    producer.produce("t", b"1", on_delivery=fail)
    producer.produce("t", b"2", on_delivery=seen)
    with pytest.raises(LookupError, match="1"):
        producer.flush(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0
    assert [message.value() for _, message in seen.seen] == [b"2"]


def test_a_callback_that_produces(cluster: MockCluster, make: Callable[..., Any]) -> None:
    producer, seen = make(), Callbacks()

    def again(error: Any, message: Any) -> None:
        producer.produce("t", b"2", on_delivery=seen)

    producer.produce("t", b"1", on_delivery=again)
    assert producer.flush(PATIENCE_S) == 0
    assert len(seen.seen) == 1


def test_only_errors_are_reported(cluster: MockCluster, make: Callable[..., Any]) -> None:
    seen = Callbacks()
    producer = make(delivery_report_only_error=True)
    producer.produce("t", b"1", on_delivery=seen)
    assert producer.flush(PATIENCE_S) == 0
    assert seen.seen == []


def test_many_messages_in_order_from_several_threads(
    mock_cluster: MockCluster, make: Callable[..., Any]
) -> None:
    mock_cluster.create_topic("t", 3)
    producer, seen = make(linger_ms=1), Callbacks()

    def produce(thread: int) -> None:
        for number in range(500):
            while True:
                try:
                    producer.produce("t", b"%d" % number, b"%d" % thread, on_delivery=seen)
                    break
                except BufferError:
                    producer.poll(0.1)

    threads = [threading.Thread(target=produce, args=(index,)) for index in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert producer.flush(PATIENCE_S) == 0
    assert len(seen.seen) == 1500
    assert all(error is None for error, _ in seen.seen)
    found = mock_cluster.first_messages("t", 1500)
    for index in range(3):
        mine = [int(each.value()) for each in found if each.key() == b"%d" % index]
        assert mine == list(range(500))


@pytest.mark.parametrize("partitioner", ["consistent_random", "consistent", "murmur2", "murmur2_random"])
def test_keys_go_to_the_same_partitions(
    mock_cluster: MockCluster, client: ModuleType, partitioner: str
) -> None:
    mock_cluster.create_topic("t", 7)
    keys = [b"k%d" % number for number in range(20)] + ["Größe"]
    if partitioner in ("consistent", "murmur2"):
        keys += [b"", None]
    chosen = []
    for module in (peer, client):
        seen = Callbacks()
        config = {"bootstrap.servers": mock_cluster.bootstrap_servers, "partitioner": partitioner}
        producer = module.Producer(config)
        for key in keys:
            producer.produce("t", b"", key, on_delivery=seen)
            producer.flush(PATIENCE_S)
        producer.close()
        chosen.append([message.partition() for _, message in seen.seen])
    assert chosen[0] == chosen[1]


# -- what produce refuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "keywords", "expected"),
    [
        (("t", 5), {}, TypeError),
        ((5, b""), {}, TypeError),
        (("t", b""), {"headers": 5}, TypeError),
        (("t", b""), {"headers": [("a", 5)]}, TypeError),
        (("t", b""), {"unknown": 5}, TypeError),
        (("t", b""), {"partition": None}, TypeError),
        (("t", b""), {"partition": 99}, "_UNKNOWN_PARTITION"),
        (("t", b""), {"partition": -5}, "_UNKNOWN_PARTITION"),
        (("t", bytes(2_000_000)), {}, "MSG_SIZE_TOO_LARGE"),
    ],
)
def test_what_produce_refuses(
    mock_cluster: MockCluster,
    client: ModuleType,
    make: Callable[..., Any],
    arguments: Any,
    keywords: Any,
    expected: Any,
) -> None:
    mock_cluster.create_topic("t", 2)
    producer = make()
    producer.produce("t", b"")
    producer.flush(PATIENCE_S)
    if expected is TypeError:
        with pytest.raises(TypeError):
            producer.produce(*arguments, **keywords)
    else:
        with pytest.raises(client.KafkaException) as raised:
            producer.produce(*arguments, **keywords)
        assert raised.value.args[0].name() == expected
        assert raised.value.args[0].code() == getattr(client.KafkaError, expected)
    assert len(producer) == 0


def test_a_full_queue_is_a_buffer_error(cluster: MockCluster, make: Callable[..., Any]) -> None:
    producer, seen = make(queue_buffering_max_messages=3), Callbacks()
    for _ in range(3):
        producer.produce("t", b"", on_delivery=seen)
    with pytest.raises(BufferError, match="Local: Queue full"):
        producer.produce("t", b"")
    while len(producer) == 3:
        producer.poll(PATIENCE_S)
    producer.produce("t", b"", on_delivery=seen)
    assert producer.flush(PATIENCE_S) == 0
    assert len(seen.seen) == 4


# -- failures ----------------------------------------------------------------------------------------------


def test_produce_does_not_wait_for_a_cluster_that_is_down(make: Callable[..., Any]) -> None:
    producer, seen = make(bootstrap_servers=UNREACHABLE, message_timeout_ms=1000, log_level=0), Callbacks()
    started_s = time.monotonic()
    for number in range(3):
        producer.produce("t", b"%d" % number, on_delivery=seen)
    assert time.monotonic() - started_s < 0.9, "produce() has waited"
    assert len(producer) >= 3  # confluent-kafka also counts log lines and other events
    assert producer.flush(0) >= 3
    assert producer.flush(PATIENCE_S) == 0
    assert [message.value() for _, message in seen.seen] == [b"0", b"1", b"2"]
    for error, message in seen.seen:
        assert error.name() == "_MSG_TIMED_OUT"
        assert message.error() == error
        assert (message.topic(), message.partition(), message.offset()) == ("t", None, None)


def test_messages_wait_for_a_topic_that_appears(mock_cluster: MockCluster, make: Callable[..., Any]) -> None:
    mock_cluster.set_topic_error("late", 5)  # LEADER_NOT_AVAILABLE
    producer, seen = make(), Callbacks()
    for number in range(50):
        producer.produce("late", b"%d" % number, b"k", on_delivery=seen)
    assert producer.flush(0.3) == 50
    mock_cluster.set_topic_error("late", 0)
    assert producer.flush(PATIENCE_S) == 0
    assert [error for error, _ in seen.seen] == [None] * 50
    assert [int(each.value()) for each in mock_cluster.first_messages("late", 50)] == list(range(50))


@pytest.mark.parametrize("headers", [5, {"a": 7}, [("a", 7)]])
def test_wrong_headers_are_refused_before_the_topic_is_known(make: Callable[..., Any], headers: Any) -> None:
    producer = make(bootstrap_servers=UNREACHABLE, log_level=0)
    with pytest.raises(TypeError):
        producer.produce("t", b"", headers=headers)


def test_messages_that_wait_for_their_topic_are_those_of_produce(
    mock_cluster: MockCluster, make: Callable[..., Any]
) -> None:
    mock_cluster.set_topic_error("late", 5)  # LEADER_NOT_AVAILABLE
    producer, headers = make(), [("a", b"1")]
    producer.produce("late", b"v", headers=headers)
    headers.append(("b", b"2"))
    if isinstance(producer, adapter.Producer):
        value = bytearray(b"before")
        producer.produce("late", value, bytearray(b"key"))
        value[:] = b"after!"
    mock_cluster.set_topic_error("late", 0)
    assert producer.flush(PATIENCE_S) == 0
    is_adapter = isinstance(producer, adapter.Producer)
    found = {each.value(): each for each in mock_cluster.first_messages("late", 1 + is_adapter)}
    assert found[b"v"].headers() == [("a", b"1")]
    if is_adapter:
        assert found[b"before"].key() == b"key"


def test_a_partition_that_does_not_exist_in_a_topic_that_is_not_known_yet(
    mock_cluster: MockCluster, make: Callable[..., Any]
) -> None:
    mock_cluster.create_topic("t", 2)
    producer, seen = make(), Callbacks()
    producer.produce("t", b"", partition=7, on_delivery=seen)
    assert producer.flush(PATIENCE_S) == 0
    assert [error.name() for error, _ in seen.seen] == ["_UNKNOWN_PARTITION"]


def test_a_small_queue_is_enough_for_a_transaction(cluster: MockCluster, make: Callable[..., Any]) -> None:
    producer = make(transactional_id="tx", queue_buffering_max_kbytes=1024)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    produced = 0
    while produced < 100:  # more than the queue
        try:
            producer.produce("t", bytes(20_000))
            produced += 1
        except BufferError:
            producer.poll(0.1)
    producer.commit_transaction(PATIENCE_S)
    assert len(cluster.first_messages("t", 100)) == 100


def test_messages_that_wait_for_their_topic_fill_the_queue(
    mock_cluster: MockCluster, make: Callable[..., Any]
) -> None:
    mock_cluster.set_topic_error("late", 5)  # LEADER_NOT_AVAILABLE
    producer = make(transactional_id="tx", queue_buffering_max_kbytes=1024)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    accepted = 0
    for _ in range(100):
        try:
            producer.produce("late", bytes(20_000))
            accepted += 1
        except BufferError:
            break
    assert 40 <= accepted <= 60
    mock_cluster.set_topic_error("late", 0)
    producer.commit_transaction(PATIENCE_S)
    assert len(mock_cluster.first_messages("late", accepted)) == accepted


REFUSED: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("t", bytes(2_000_000)), {}),
    (("t", b""), {"partition": 99}),
    (("t", 5), {}),
    (("t", "\ud800"), {}),
    (("t", b""), {"headers": {"a": 5}}),
    (("t", b""), {"timestamp": "now"}),
]


@pytest.mark.parametrize(("arguments", "keywords"), REFUSED)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_transaction_goes_on_after_a_message_that_produce_refuses(
    cluster: MockCluster,
    make: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    is_known: bool,
) -> None:
    producer = make(transactional_id="tx")
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t" if is_known else "u", b"1")
    producer.flush(PATIENCE_S)
    if is_known or "partition" not in keywords:  # the partitions of a topic must be known to refuse one
        with pytest.raises((TypeError, UnicodeEncodeError, peer.KafkaException)):
            producer.produce(*arguments, **keywords)
    producer.produce("t", b"2")
    producer.commit_transaction(PATIENCE_S)
    assert b"2" in [each.value() for each in cluster.first_messages("t", 1 + is_known)]


def test_a_transaction_goes_on_after_a_full_queue(cluster: MockCluster, make: Callable[..., Any]) -> None:
    producer = make(transactional_id="tx", queue_buffering_max_kbytes=1024, linger_ms=3000)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", b"")
    producer.flush(PATIENCE_S)
    count = 1
    with pytest.raises(BufferError):  # noqa: PT012  # one of them
        while count < 100:
            producer.produce("t", bytes(200_000))
            count += 1
    producer.commit_transaction(PATIENCE_S)
    assert len(cluster.first_messages("t", count)) == count


def test_a_topic_that_does_not_exist(mock_cluster: MockCluster, make: Callable[..., Any]) -> None:
    mock_cluster.set_topic_error("missing", 3)
    producer, seen = make(topic_metadata_propagation_max_ms=200), Callbacks()
    producer.produce("missing", b"", on_delivery=seen)
    assert producer.flush(PATIENCE_S) == 0
    assert seen.seen[0][0].name() in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC")


def test_a_topic_that_is_refused_fails_its_messages_at_once(
    mock_cluster: MockCluster, make: Callable[..., Any]
) -> None:
    mock_cluster.set_topic_error("secret", 29)  # TOPIC_AUTHORIZATION_FAILED
    producer, seen = make(), Callbacks()
    producer.produce("secret", b"", on_delivery=seen)
    assert producer.flush(PATIENCE_S) == 0
    assert [error.name() for error, _ in seen.seen] == ["TOPIC_AUTHORIZATION_FAILED"]


def test_messages_that_wait_for_their_topic_cost_nothing_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    is_met = TopicNeed.is_met
    monkeypatch.setattr(TopicNeed, "is_met", lambda need: bool(looks.append(need)) or is_met(need))
    producer = adapter.Producer({"bootstrap.servers": UNREACHABLE, "reconnect.backoff.ms": 10_000})
    for _ in range(1000):
        producer.produce("t", b"")
    assert producer.flush(1) == 1000
    assert 1 <= len(looks) < 10
    producer.purge()
    assert producer.flush(PATIENCE_S) == 0


def test_a_message_times_out_whose_deadline_passes_while_the_thread_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No metadata arrives that would wake the thread once more."""
    # The first look, which adding the message has caused; one before the deadline; and the time after it.
    started_s, offsets = time.monotonic(), iter([0.0, 0.0, 0.5])
    clock = SimpleNamespace(monotonic=lambda: started_s + 0.1 + next(offsets, 1.2))
    monkeypatch.setattr("kproducer.compat.confluent_kafka.unknown_topics.time", clock)
    settings = {"bootstrap.servers": UNREACHABLE, "reconnect.backoff.ms": 10_000, "message.timeout.ms": 1000}
    producer, seen = adapter.Producer(settings), Callbacks()
    producer.produce("t", b"", on_delivery=seen)
    left = producer.flush(10)
    producer.purge()
    assert left == 0
    assert [error.name() for error, _ in seen.seen] == ["_MSG_TIMED_OUT"]


@pytest.mark.parametrize("waits_already", [False, True])
def test_a_signal_handler_may_purge_while_a_message_is_kept_for_its_topic(waits_already: bool) -> None:
    producer = adapter.Producer({"bootstrap.servers": UNREACHABLE})
    interrupted = UnknownTopics.add.__code__
    lines = len(list(interrupted.co_lines()))
    for line in range(1, lines):
        seen, left = Callbacks(), line
        if waits_already:
            producer.produce("t", b"", on_delivery=seen)

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code is not interrupted:
                return None
            left -= event == "line"
            if left == 0:
                left = -1
                producer.purge()
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            producer.produce("t", b"", on_delivery=seen)
        finally:
            sys.settrace(before)
        producer.purge()
        assert producer.flush(PATIENCE_S) == 0
        assert [error.name() for error, _ in seen.seen] == ["_PURGE_QUEUE"] * (1 + waits_already)
        assert producer._unknown_topics.size_bytes == 0


def test_an_error_of_the_broker(cluster: MockCluster, client: ModuleType, make: Callable[..., Any]) -> None:
    cluster.push_errors(PRODUCE, 87)
    producer, seen = make(), Callbacks()
    producer.produce("t", b"", on_delivery=seen)
    producer.flush(PATIENCE_S)
    ((error, message),) = seen.seen
    assert isinstance(error, client.KafkaError)
    assert (error.code(), error.name()) == (client.KafkaError.INVALID_RECORD, "INVALID_RECORD")
    assert (error.retriable(), error.fatal(), error.txn_requires_abort()) == (False, False, False)
    assert error == client.KafkaError.INVALID_RECORD
    assert message.error().str()


@pytest.mark.parametrize("in_queue", [False, True])
def test_purge(cluster: MockCluster, make: Callable[..., Any], in_queue: bool) -> None:
    if not in_queue:
        cluster.set_rtt_ms(3000)
    producer, seen = make(linger_ms=60_000 if in_queue else 0, message_timeout_ms=300_000), Callbacks()
    producer.produce("t", b"", on_delivery=seen)
    if not in_queue:
        producer.poll(4)  # by now it is in flight
    assert producer.purge() is None
    assert producer.flush(PATIENCE_S) == 0
    expected = {"_PURGE_QUEUE", "_PURGE_INFLIGHT"} if not in_queue else {"_PURGE_QUEUE"}
    if seen.seen[0][0] is not None:
        assert seen.seen[0][0].name() in expected


def test_connection_errors_reach_error_cb(client: ModuleType, make: Callable[..., Any]) -> None:
    errors: list[Any] = []
    producer = make(bootstrap_servers=UNREACHABLE, error_cb=errors.append, log_level=0)
    deadline_s = time.monotonic() + PATIENCE_S
    while not any(each.code() == client.KafkaError._ALL_BROKERS_DOWN for each in errors):
        assert time.monotonic() < deadline_s
        producer.poll(0.1)
    assert client.KafkaError._TRANSPORT in [each.code() for each in errors]
    assert not any(each.fatal() for each in errors)


def test_statistics_are_json(cluster: MockCluster, make: Callable[..., Any]) -> None:
    texts: list[str] = []
    producer = make(stats_cb=texts.append, statistics_interval_ms=200, client_id="named")
    producer.produce("t", b"")
    deadline_s = time.monotonic() + PATIENCE_S
    while len(texts) < 2:
        assert time.monotonic() < deadline_s
        producer.poll(0.1)
    found = json.loads(texts[-1])
    assert found["type"] == "producer"
    assert found["client_id"] == "named"
    assert found["txmsgs"] == 1
    assert found["msg_max"] == 100_000
    for name in ("age", "msg_cnt", "msg_size", "msg_size_max", "time", "ts", "tx", "txmsg_bytes"):
        assert isinstance(found[name], int)


# -- the cluster, the end ----------------------------------------------------------------------------------


def test_list_topics(mock_cluster: MockCluster, make: Callable[..., Any]) -> None:
    mock_cluster.create_topic("t", 2)
    mock_cluster.create_topic("u", 1)
    producer = make()
    found = producer.list_topics(timeout=PATIENCE_S)
    assert set(found.topics) == {"t", "u"}
    broker_ids = set(found.brokers)
    assert {f"{each.host}:{each.port}" for each in found.brokers.values()} == set(
        mock_cluster.bootstrap_servers.split(",")
    )
    topic = producer.list_topics("t").topics["t"]
    assert (topic.topic, sorted(topic.partitions), topic.error) == ("t", [0, 1], None)
    partition = topic.partitions[0]
    assert (partition.id, partition.error) == (0, None)
    assert partition.leader in broker_ids
    assert set(partition.replicas) == set(partition.isrs) <= broker_ids
    assert str(topic) == "t"
    assert isinstance(found.cluster_id, str)
    producer.produce("t", b"")
    producer.flush(PATIENCE_S)  # confluent-kafka knows the ids of brokers from now on
    found = producer.list_topics("t")
    asked = found.brokers[found.orig_broker_id]
    assert found.orig_broker_name == f"{asked.host}:{asked.port}/{asked.id}"


def test_list_topics_of_a_cluster_that_is_down(client: ModuleType, make: Callable[..., Any]) -> None:
    with pytest.raises(client.KafkaException) as raised:
        make(bootstrap_servers=UNREACHABLE, log_level=0).list_topics(timeout=0.3)
    assert raised.value.args[0].code() == client.KafkaError._TRANSPORT
    assert not raised.value.args[0].retriable()


def test_close(cluster: MockCluster, make: Callable[..., Any]) -> None:
    producer, seen = make(), Callbacks()
    producer.produce("t", b"", on_delivery=seen)
    assert producer.close() is True
    assert [error for error, _ in seen.seen] == [None]
    assert producer.close() is True
    for call in (
        lambda: producer.produce("t", b""),
        lambda: producer.poll(0),
        producer.flush,
        producer.purge,
    ):
        with pytest.raises(RuntimeError, match="Producer has been closed"):
            call()
    assert len(producer) == 0


def test_a_with_block_delivers(cluster: MockCluster, make: Callable[..., Any]) -> None:
    with make() as producer:
        producer.produce("t", b"inside")
    assert [each.value() for each in cluster.first_messages("t", 1)] == [b"inside"]


def test_produce_batch(mock_cluster: MockCluster, make: Callable[..., Any]) -> None:
    mock_cluster.create_topic("t", 2)
    producer, by_default, of_message = make(), Callbacks(), Callbacks()
    messages = [
        {"value": b"1", "key": "k"},
        {"value": "2", "partition": 1},
        {"value": b"3", "callback": of_message},
    ]
    assert producer.produce_batch("t", messages, on_delivery=by_default) == 3
    producer.flush(PATIENCE_S)
    assert {message.value() for _, message in by_default.seen} == {b"1", b"2"}
    assert [message.value() for _, message in of_message.seen] == [b"3"]
    for wrong in ("text", [5], [{"value": 5}]):
        with pytest.raises(TypeError):
            producer.produce_batch("t", wrong)


BAD_MESSAGES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"value": 5}, TypeError, "Message value at index 1 must be bytes or str"),
    ({"value": bytearray(b"v")}, TypeError, "Message value at index 1 must be bytes or str"),
    ({"key": ["k"]}, TypeError, "Message key at index 1 must be bytes or str"),
    ({"partition": "1"}, TypeError, "Message partition at index 1 must be int"),
    ({"partition": 1.0}, TypeError, "Message partition at index 1 must be int"),
    ({"headers": 5}, ValueError, "Invalid headers at index 1"),
    ({"headers": [("a", 5)]}, ValueError, "Invalid headers at index 1"),
    ({"headers": {"a": 5}}, ValueError, "Invalid headers at index 1"),
    ({"timestamp": "now"}, (TypeError, NotImplementedError), "timestamp"),  # type: ignore[list-item]
]


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(("bad", "kind", "text"), BAD_MESSAGES)
def test_a_batch_with_a_wrong_message_queues_nothing(
    mock_cluster: MockCluster,
    make: Callable[..., Any],
    bad: dict[str, Any],
    kind: type[Exception],
    text: str,
    is_known: bool,
) -> None:
    producer = make()
    if is_known:
        mock_cluster.create_topic("t", 1)
        producer.produce("t", b"")
        producer.flush(PATIENCE_S)
    messages = [{"value": b"good"}, bad]
    with pytest.raises(kind, match=text):
        producer.produce_batch("t", messages)
    assert len(producer) == 0
    assert all("_error" not in each for each in messages)


@pytest.mark.parametrize("wrong", [{"topic": 5}, {"topic": None}, {"partition": "1"}, {"partition": None}])
@pytest.mark.parametrize("messages", [[], [{"value": b""}]])
def test_wrong_arguments_of_a_batch(
    make: Callable[..., Any], wrong: dict[str, Any], messages: list[Any]
) -> None:
    producer = make()
    with pytest.raises(TypeError):
        producer.produce_batch(**{"topic": "t", "messages": messages, **wrong})
    assert len(producer) == 0


def test_messages_of_a_batch_that_do_not_fit_are_marked_and_the_others_queued(
    cluster: MockCluster, client: ModuleType, make: Callable[..., Any]
) -> None:
    producer, seen = make(queue_buffering_max_messages=2), Callbacks()
    producer.produce("t", b"")
    producer.flush(PATIENCE_S)
    messages = [
        {"value": b"1", "partition": None, "timestamp": None, "headers": None, "callback": None},
        {"value": bytes(2_000_000)},
        {"value": b"2"},
        {"value": b"3"},
    ]
    assert producer.produce_batch("t", messages, on_delivery=seen) == 2
    marked = [each["_error"].name() if "_error" in each else None for each in messages]
    assert marked == [None, "MSG_SIZE_TOO_LARGE", None, "_QUEUE_FULL"]
    assert producer.flush(PATIENCE_S) == 0
    assert [message.value() for _, message in seen.seen] == [b"1", b"2"]
    messages = [{"value": b"1"}]
    assert producer.produce_batch("t", messages, partition=99) == 0
    assert messages[0]["_error"] == client.KafkaError._UNKNOWN_PARTITION


def test_a_batch_is_read_without_the_methods_of_its_dictionaries(
    cluster: MockCluster, make: Callable[..., Any]
) -> None:

    class Unreadable(dict):  # type: ignore[type-arg]
        def get(self, *arguments: Any) -> Any:
            raise LookupError

        __getitem__ = __setitem__ = __contains__ = get

    producer = make(message_max_bytes=1000)
    messages = [{"value": b"1"}, Unreadable(value=b"2"), Unreadable(value=bytes(2000))]
    assert producer.produce_batch("t", messages) == 2
    assert dict.get(messages[2], "_error") is not None
    assert producer.flush(PATIENCE_S) == 0
    assert [each.value() for each in cluster.first_messages("t", 2)] == [b"1", b"2"]


class FalseCallbacks(Callbacks):
    def __len__(self) -> int:
        return 0


def test_callback_wins_over_on_delivery_even_if_its_truth_value_is_false(
    cluster: MockCluster, make: Callable[..., Any]
) -> None:
    producer, wins, loses = make(), FalseCallbacks(), Callbacks()
    producer.produce("t", b"1", callback=wins, on_delivery=loses)
    producer.produce_batch("t", [{"value": b"2"}], callback=wins, on_delivery=loses)
    producer.produce_batch("t", [{"value": b"3", "callback": wins}], callback=loses)
    producer.flush(PATIENCE_S)
    assert ([message.value() for _, message in wins.seen], loses.seen) == ([b"1", b"2", b"3"], [])


def test_a_batch_has_the_partitions_headers_and_timestamps_of_its_messages(mock_cluster: MockCluster) -> None:
    """confluent-kafka ignores the first two, and refuses timestamps."""
    mock_cluster.create_topic("t", 3)
    producer = adapter.Producer({"bootstrap.servers": mock_cluster.bootstrap_servers})
    messages = [
        {"value": b"1", "partition": 1, "headers": {"a": "b"}},
        {"value": b"2", "timestamp": 1234567890123},
    ]
    assert producer.produce_batch("t", messages, partition=2) == 2
    assert producer.flush(PATIENCE_S) == 0
    first, second = sorted(mock_cluster.first_messages("t", 2), key=lambda each: each.value())
    assert (first.partition(), first.headers()) == (1, [("a", b"b")])
    assert (second.partition(), second.timestamp()[1]) == (2, 1234567890123)
    producer.close()


def test_a_batch_of_a_producer_that_is_closed_meanwhile_is_marked(cluster: MockCluster) -> None:
    """A caller that got an exception would not know which messages are delivered."""
    producer = adapter.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("t", b"")
    producer.flush(PATIENCE_S)
    add, seen = producer._reports.add, Callbacks()

    def add_and_close(*arguments: Any) -> None:
        add(*arguments)
        producer.close()

    producer._reports.add = add_and_close  # type: ignore[method-assign]
    messages = [{"value": b"1"}, {"value": b"2"}]
    assert producer.produce_batch("t", messages, on_delivery=seen) == 1
    assert messages[1]["_error"] == adapter.KafkaError._DESTROY
    assert "_error" not in messages[0]


@pytest.mark.parametrize("wrong", [{"value": "\ud800"}, {"key": "\ud800"}])
@pytest.mark.parametrize("is_known", [True, False])
def test_text_that_has_no_utf_8_is_refused(
    mock_cluster: MockCluster, make: Callable[..., Any], wrong: dict[str, str], is_known: bool
) -> None:
    producer = make()
    if is_known:
        mock_cluster.create_topic("t", 1)
        producer.produce("t", b"")
        producer.flush(PATIENCE_S)
    with pytest.raises(UnicodeEncodeError):
        producer.produce("t", **wrong)
    assert len(producer) == 0
    if isinstance(producer, adapter.Producer):  # confluent-kafka queues both, the second one without its text
        with pytest.raises(UnicodeEncodeError):
            producer.produce_batch("t", [{"value": b"good"}, wrong])
        assert len(producer) == 0


def test_produce_batch_of_a_serializing_producer_does_not_serialize(
    cluster: MockCluster, client: ModuleType
) -> None:

    def serialize(value: Any, context: Any) -> bytes:
        return b"serialized"

    settings = {"bootstrap.servers": cluster.bootstrap_servers, "value.serializer": serialize}
    producer = client.SerializingProducer(settings)
    assert producer.produce_batch("t", [{"value": b"v", "key": b"k"}]) == 1
    assert producer.flush(PATIENCE_S) == 0
    (found,) = cluster.first_messages("t", 1)
    assert (found.key(), found.value()) == (b"k", b"v")
    producer.close()


def test_transactional_calls_in_the_wrong_state(
    cluster: MockCluster, client: ModuleType, make: Callable[..., Any]
) -> None:

    def code(call: Callable[[], Any]) -> int:
        with pytest.raises(client.KafkaException) as raised:
            call()
        return int(raised.value.args[0].code())

    assert code(make().init_transactions) == client.KafkaError._NOT_CONFIGURED
    producer = make(transactional_id="tx")
    assert code(producer.begin_transaction) == client.KafkaError._STATE
    assert code(producer.commit_transaction) == client.KafkaError._STATE
    producer.init_transactions(PATIENCE_S)
    assert code(producer.commit_transaction) == client.KafkaError._STATE
    assert code(lambda: producer.produce("t", b"")) == client.KafkaError._STATE
    seen = Callbacks()
    producer.begin_transaction()
    producer.produce("t", b"1", on_delivery=seen)
    producer.commit_transaction(PATIENCE_S)
    assert [error for error, _ in seen.seen] == [None]
    producer.begin_transaction()
    producer.produce("t", b"2", on_delivery=seen)
    producer.abort_transaction(PATIENCE_S)
    assert len(producer) == 0
    assert seen.seen[1][0] is None or seen.seen[1][0].name() in ("_PURGE_QUEUE", "_PURGE_INFLIGHT")


def test_settings_that_are_wrong(client: ModuleType, make: Callable[..., Any]) -> None:
    for wrong in ({"foo": 1}, {"linger_ms": "abc"}, {"linger_ms": -1}, {"compression_type": "x"}):
        with pytest.raises(client.KafkaException) as raised:
            make(**wrong)
        assert raised.value.args[0].code() == client.KafkaError._INVALID_ARG
    with pytest.raises(client.KafkaException):
        make(acks=1, enable_idempotence=True)
    with pytest.raises(TypeError):
        make(error_cb=5)
    for wrong_config in (5, None):
        with pytest.raises(TypeError):
            client.Producer(*([] if wrong_config is None else [wrong_config]))


def test_a_serializing_producer(cluster: MockCluster, client: ModuleType) -> None:
    contexts = []

    def serialize(value: Any, context: Any) -> bytes:
        contexts.append((context.topic, str(context.field)))
        return json.dumps(value).encode()

    producer = client.SerializingProducer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "key.serializer": serialize,
            "value.serializer": serialize,
        }
    )
    producer.produce("t", key=1, value={"a": 2})
    assert producer.flush(PATIENCE_S) == 0
    (found,) = cluster.first_messages("t", 1)
    assert (found.key(), found.value()) == (b"1", b'{"a": 2}')
    assert contexts == [("t", "key"), ("t", "value")]
    with pytest.raises(client.KafkaException) as raised:
        producer.produce("t", value=object())
    assert raised.value.args[0].name() in ("_VALUE_SERIALIZATION", "_KEY_SERIALIZATION")
    producer.close()


def test_a_subclass_that_does_not_initialize_its_base_is_closed(client: ModuleType) -> None:
    class Forgetful(client.Producer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            pass

    producer = Forgetful()
    for call in (
        lambda: producer.produce("t", b""),
        lambda: producer.produce_batch("t", [{}]),
        producer.poll,
        producer.flush,
        producer.purge,
        producer.init_transactions,
        producer.begin_transaction,
        producer.commit_transaction,
        producer.abort_transaction,
    ):
        with pytest.raises(RuntimeError, match="Producer has been closed"):
            call()
    assert (len(producer), bool(producer), producer.close()) == (0, True, True)


def test_a_transactional_call_while_another_one_is_not_done(
    client: ModuleType, make: Callable[..., Any]
) -> None:
    producer = make(bootstrap_servers=UNREACHABLE, transactional_id="tx", log_level=0)

    def error(call: Callable[[], Any]) -> Any:
        with pytest.raises(client.KafkaException) as raised:
            call()
        return raised.value.args[0]

    found = error(lambda: producer.init_transactions(0.1))
    assert (found.name(), found.retriable(), found.fatal()) == ("_TIMED_OUT", True, False)
    consumer = peer.Consumer({"group.id": "g", "log_level": 0})
    group = consumer.consumer_group_metadata()
    consumer.close()
    for call in (
        producer.begin_transaction,
        lambda: producer.send_offsets_to_transaction([peer.TopicPartition("t", 0, 1)], group),
        producer.commit_transaction,
        producer.abort_transaction,
    ):
        found = error(call)
        assert found.name() == "_CONFLICT"
        assert (found.retriable(), found.fatal(), found.txn_requires_abort()) == (True, False, False)


# -- the adapter alone -------------------------------------------------------------------------------------


def test_errors_are_those_of_confluent_kafka_and_name_the_cause() -> None:
    assert adapter.KafkaException is peer.KafkaException
    assert adapter.KafkaError is peer.KafkaError
    assert adapter.TopicPartition is peer.TopicPartition
    producer = adapter.Producer({"bootstrap.servers": UNREACHABLE, "message.timeout.ms": 100})
    seen = Callbacks()
    producer.produce("t", b"", on_delivery=seen)
    producer.flush(PATIENCE_S)
    ((error, message),) = seen.seen
    assert type(error) is peer.KafkaError
    assert "message.timeout.ms has passed, and topic 't' is not known: " in error.str()
    assert "could not connect to 127.0.0.1:1" in error.str()
    assert "max_block_ms" not in error.str()  # not a setting of the adapter
    assert message.cause().outcome is Outcome.NOT_SENT
    with pytest.raises(peer.KafkaException) as raised:
        producer.list_topics(timeout=0.1)
    assert isinstance(raised.value.__cause__, KafkaTimeoutError)


def test_without_confluent_kafka_the_classes_have_the_same_methods(run_without: Callable[..., str]) -> None:
    program = """
from kproducer.compat.confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from kproducer.compat.confluent_kafka.error_codes import code_names
import json
error = KafkaError(KafkaError._MSG_TIMED_OUT, "why", retriable=True)
assert (error.code(), error.name(), error.str(), str(error)) == (
    -192, "_MSG_TIMED_OUT", "why", 'KafkaError{code=_MSG_TIMED_OUT,val=-192,str="why"}')
assert error == -192 and error == KafkaError(-192) and error != KafkaError(-191) and error.retriable()
producer = Producer({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 100})
seen = []
producer.produce("t", b"", on_delivery=lambda error, message: seen.append(error.name()))
producer.flush(30)
assert seen == ["_MSG_TIMED_OUT"], seen
try:
    producer.begin_transaction()
except KafkaException as error:
    assert error.args[0].name() == "_NOT_CONFIGURED"
print(json.dumps(code_names()))
"""
    names = json.loads(run_without("confluent_kafka", program))
    theirs = {
        str(value): name
        for name, value in vars(peer.KafkaError).items()
        if isinstance(value, int) and not name.startswith("__")
    }
    assert {code: names.get(code) for code in theirs} == theirs


def test_names_that_the_adapter_does_not_have_say_where_they_are() -> None:
    with pytest.raises(AttributeError, match="import it from confluent_kafka"):
        adapter.Consumer  # type: ignore[attr-defined]  # noqa: B018


def test_what_is_not_supported_raises() -> None:
    producer = adapter.Producer({"bootstrap.servers": UNREACHABLE})
    with pytest.raises(adapter.KafkaException, match="create another Producer"):
        producer.set_sasl_credentials("user", "password")
    with pytest.raises(adapter.KafkaException, match="build the serializer"):
        adapter.SerializingProducer({"bootstrap.servers": "x:1", "value.serializer.builder": object()})


def test_logs_reach_the_logger_of_the_application(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("application")
    with caplog.at_level(logging.DEBUG, "application"), caplog.at_level(logging.DEBUG, "kproducer"):
        producer = adapter.Producer({"bootstrap.servers": UNREACHABLE}, logger=logger)
        producer.close()
    assert [each for each in caplog.records if each.name == "application"]
    assert not [
        each for each in logging.getLogger("kproducer").handlers if "Forwarded" in type(each).__name__
    ]


def test_producers_with_the_same_logger_share_the_log_until_the_last_is_closed() -> None:
    logger = logging.getLogger("application")
    first, second = (adapter.Producer({"bootstrap.servers": UNREACHABLE}, logger=logger) for _ in range(2))

    def forwarders() -> int:
        return sum("Forwarded" in type(each).__name__ for each in logging.getLogger("kproducer").handlers)

    assert forwarders() == 1
    first.close()
    assert forwarders() == 1
    second.close()
    assert forwarders() == 0


def test_the_exception_of_a_block_wins_over_that_of_its_close(cluster: MockCluster) -> None:

    def fail(error: Any, message: Any) -> None:
        raise LookupError("callback")

    producer = adapter.Producer({"bootstrap.servers": cluster.bootstrap_servers})

    def use() -> None:
        with producer:
            producer.produce("t", b"", on_delivery=fail)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    producer.close()


def test_a_flush_ends_when_another_thread_serves_the_last_message(cluster: MockCluster) -> None:
    """It must neither end before the callback has, nor wait for something that does not come any more."""
    producer = adapter.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    in_callback, may_end = threading.Event(), threading.Event()
    inside: list[int] = []

    def callback(error: Any, message: Any) -> None:
        inside.append(producer.flush(PATIENCE_S))  # does not wait for its own message
        in_callback.set()
        may_end.wait(PATIENCE_S)

    producer.produce("t", b"", on_delivery=callback)
    poller = threading.Thread(target=producer.poll, args=(PATIENCE_S,))
    poller.start()
    assert in_callback.wait(PATIENCE_S)
    assert (len(producer), producer.flush(0), inside) == (1, 1, [0])
    left: list[int] = []
    flusher = threading.Thread(target=lambda: left.append(producer.flush()), daemon=True)
    flusher.start()
    assert producer.flush(0.1) == 1
    assert left == []
    may_end.set()
    flusher.join(PATIENCE_S)
    poller.join(PATIENCE_S)
    assert (left, len(producer)) == ([0], 0)
    producer.close()


def test_calls_that_wait_are_refused_in_the_middle_of_a_send(cluster: MockCluster) -> None:
    producer = adapter.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("t", b"")
    producer.flush(PATIENCE_S)
    accumulator = producer._lifecycle.running_engine().accumulator
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(accumulator.queues), "holds_lock", lambda _: True)
        for call in (producer.flush, producer.close, lambda: producer.poll(1)):
            with pytest.raises(adapter.KafkaException) as raised:
                call()
            assert raised.value.args[0].code() == adapter.KafkaError._STATE
        assert producer.poll(0) == 0
    producer.close()


@pytest.mark.parametrize("in_child", [False, True])
def test_messages_that_wait_for_their_topic_are_delivered_at_exit(
    cluster: MockCluster, in_child: bool
) -> None:
    program = AT_EXIT_OF_A_CHILD if in_child else AT_EXIT
    result = run(program, cluster.bootstrap_servers)
    assert result.returncode == 0, result.stderr
    assert [each.value() for each in cluster.first_messages("t", 1)] == [b"x"]


def test_messages_that_are_lost_at_exit_are_logged() -> None:
    result = run(AT_EXIT, UNREACHABLE)
    assert "1 messages were lost: their topics were not known when the process ended" in result.stderr
    assert "message.timeout.ms has passed" in result.stderr


def run(program: str, servers: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, servers], capture_output=True, text=True, timeout=120, check=False
    )


AT_EXIT = """
import sys
from kproducer.compat.confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1], "message.timeout.ms": 3000})
producer.produce("t", b"x")
sys.exit()
"""
AT_EXIT_OF_A_CHILD = """
import multiprocessing, sys
from kproducer.compat.confluent_kafka import Producer

def work(servers):
    global producer
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("t", b"x")

child = multiprocessing.get_context("fork").Process(target=work, args=(sys.argv[1],))
child.start()
child.join()
"""


def test_every_public_name_of_the_peer_exists() -> None:
    for mine, theirs in ((adapter.Producer, peer.Producer), (adapter.Message, peer.Message)):
        public = {name for name in dir(theirs) if not name.startswith("_")}
        of_consumers = {"delivery_count", "deserialized_key", "deserialized_value"}
        assert public - set(dir(mine)) - of_consumers == set()


FORKS = """
import os, sys
from kproducer.compat.confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1]})
seen = []
producer.produce("t", b"parent", on_delivery=lambda error, message: seen.append((error, message.value())))
child = os.fork()
if child == 0:
    seen.clear()
    assert len(producer) == 0, len(producer)
    producer.produce("t", b"child", on_delivery=lambda error, message: seen.append((error, message.value())))
    assert producer.flush(30) == 0
    assert seen == [(None, b"child")], seen
    os._exit(0)
assert producer.flush(30) == 0
assert seen == [(None, b"parent")], seen
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_forked_child_has_an_empty_queue_and_its_own_connections(
    cluster: MockCluster,
) -> None:
    result = subprocess.run(
        [sys.executable, "-c", FORKS, cluster.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert {each.value() for each in cluster.first_messages("t", 2)} == {
        b"parent",
        b"child",
    }


def test_a_signal_handler_that_interrupts_produce_is_refused(cluster: MockCluster) -> None:
    producer = adapter.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    with producer._reports.lock, pytest.raises(adapter.KafkaException) as raised:
        producer.flush()
    assert raised.value.args[0].code() == adapter.KafkaError._STATE
    producer.close()


@pytest.mark.parametrize("seed", range(3))
def test_every_message_is_reported_once_despite_splits_and_lost_connections(
    mock_cluster: MockCluster, seed: int
) -> None:
    mock_cluster.create_topic("t", 2)
    mock_cluster.push_errors(PRODUCE, *random.Random(seed).choices([0, 7, 10, -195, 87], k=6))
    seen: list[bytes] = []
    producer = adapter.Producer({"bootstrap.servers": mock_cluster.bootstrap_servers, "linger.ms": 20})
    for number in range(2000):
        producer.produce("t", b"%d" % number, on_delivery=lambda error, message: seen.append(message.value()))
        if number % 500 == 0:
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert len(producer) == 0
    assert sorted(map(int, seen)) == list(range(2000))
    producer.close()
