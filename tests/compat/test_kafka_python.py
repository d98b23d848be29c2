"""The adapter for kafka-python, and kafka-python itself: the same programs with the same results.

Each test runs with both. What differs is in docs/migration/kafka-python.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

# isort: off
from tests.support.kafka.kafka_python import kafka as peer
from tests.support.kafka.kafka_python import kafka_errors as peer_errors
# isort: on

from kproducer import KafkaTimeoutError, Outcome, StringSerializer
from kproducer.compat import kafka as adapter
from kproducer.compat.kafka import errors as adapter_errors
from kproducer.compat.kafka import settings as adapter_settings
from kproducer.compat.kafka.record_future import FutureRecordMetadata
from tests.support.kafka.mock_cluster import MockCluster
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.mock_cluster,
    # kafka-python's, for serializers that are plain callables, which its documentation uses.
    pytest.mark.filterwarnings("ignore:.*does not implement:DeprecationWarning"),
    # kafka-python does not close every socket.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("kafka", "kproducer.compat.kafka")
PRODUCE = 0
PATIENCE_S = 30
UNREACHABLE = "127.0.0.1:1"
#: kafka-python cannot read what the mock cluster answers to its first request.
VERSION = {"api_version": (2, 3)}


@pytest.fixture(params=NAMES)
def client(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


@pytest.fixture
def errors(client: ModuleType) -> ModuleType:
    return importlib.import_module(f"{client.__name__}.errors")


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    """With the topic "t" of one partition."""
    mock_cluster.create_topic("t", 1)
    return mock_cluster


@pytest.fixture
def make(client: ModuleType, mock_cluster: MockCluster) -> Iterator[Callable[..., Any]]:
    made = []

    def producer(**settings: Any) -> Any:
        made.append(
            client.KafkaProducer(
                **{"bootstrap_servers": mock_cluster.bootstrap_servers, **VERSION, **settings}
            )
        )
        return made[-1]

    yield producer
    for each in made:
        with contextlib.suppress(peer_errors.KafkaError):  # what the test left behind
            each.close(timeout=5 if client is peer else 0)


def test_the_documented_example(mock_cluster: MockCluster, client: ModuleType, errors: ModuleType) -> None:
    """The example of kafka-python's documentation, with another import line."""
    mock_cluster.create_topic("my-topic", 2)
    mock_cluster.create_topic("json-topic", 1)
    KafkaProducer, KafkaError = client.KafkaProducer, errors.KafkaError  # noqa: N806
    servers = mock_cluster.bootstrap_servers.split(",")
    producer = KafkaProducer(bootstrap_servers=servers, **VERSION)
    future = producer.send("my-topic", b"raw_bytes")
    try:
        record_metadata = future.get(timeout=10)
    except KafkaError:
        pytest.fail("not delivered")
    assert (record_metadata.topic, record_metadata.offset) == ("my-topic", 0)
    assert record_metadata.partition in (0, 1)
    producer.send("my-topic", key=b"foo", value=b"bar")
    producer.close()
    producer = KafkaProducer(
        bootstrap_servers=servers,
        **VERSION,
        retries=5,
        value_serializer=lambda m: json.dumps(m).encode("ascii"),
    )
    producer.send("json-topic", {"key": "value"})
    done: list[Any] = []
    producer.send("json-topic", b"x".hex()).add_callback(done.append).add_errback(done.append)
    producer.flush()
    producer.close()
    assert [message.value() for message in mock_cluster.first_messages("json-topic", 2)] == [
        b'{"key": "value"}',
        b'"78"',
    ]
    assert done[0].offset == 1


def test_the_metadata_of_a_record(
    mock_cluster: MockCluster, client: ModuleType, make: Callable[..., Any]
) -> None:
    mock_cluster.create_topic("t", 3)
    future = make().send("t", b"value", b"key", [("a", b"bc")], 1, 1234)
    metadata = future.get(PATIENCE_S)
    assert metadata.topic_partition == client.TopicPartition("t", 1)
    assert tuple(metadata) == ("t", 1, ("t", 1), 0, metadata.timestamp, None, 3, 5, 3)
    assert metadata._fields == peer.producer.future.RecordMetadata._fields
    assert (future.is_done, future.succeeded(), future.failed(), future.retriable()) == (
        True,
        True,
        False,
        False,
    )
    assert (future.value, future.exception) == (metadata, None)


def test_callbacks_of_a_future(cluster: MockCluster, make: Callable[..., Any]) -> None:
    cluster.push_errors(PRODUCE, 87)
    producer = make(enable_idempotence=False)
    calls: list[Any] = []
    called = threading.Semaphore(0)

    def note(*arguments: Any, **named: Any) -> None:
        calls.append((*arguments[:-1], type(arguments[-1]).__name__, named))
        called.release()

    failed = producer.send("t", b"1").add_callback(note, "success").add_errback(note, "failure", more=1)
    assert called.acquire(timeout=PATIENCE_S)
    assert calls == [("failure", "InvalidRecordError", {"more": 1})]
    assert (failed.is_done, failed.succeeded(), failed.failed(), failed.value) == (True, False, True, None)
    sent = producer.send("t", b"2")
    assert sent.add_both(note, "both") is sent
    assert called.acquire(timeout=PATIENCE_S)
    assert calls[1][:2] == ("both", "RecordMetadata")
    sent.add_callback(note, "late")
    assert called.acquire(timeout=PATIENCE_S)
    other: Any = peer.future.Future()
    assert sent.chain(other) is sent
    assert other.value.offset == sent.value.offset


def test_errors_of_the_broker(cluster: MockCluster, make: Callable[..., Any], errors: ModuleType) -> None:
    cluster.push_errors(PRODUCE, 87)
    future = make().send("t", b"1")
    with pytest.raises(errors.InvalidRecordError) as raised:
        future.get(PATIENCE_S)
    assert raised.value.errno == 87
    assert isinstance(raised.value, errors.KafkaError)
    assert not raised.value.retriable
    assert isinstance(future.exception, errors.InvalidRecordError)


def test_a_topic_that_does_not_become_known(
    mock_cluster: MockCluster, make: Callable[..., Any], errors: ModuleType
) -> None:
    mock_cluster.set_topic_error("missing", 5)
    producer = make(max_block_ms=300)
    with pytest.raises(errors.KafkaTimeoutError):
        producer.send("missing", b"")
    with pytest.raises(errors.KafkaTimeoutError):
        producer.partitions_for("missing")


@pytest.mark.parametrize(
    ("arguments", "keywords", "expected"),
    [
        (("t",), {}, ValueError),
        ((5, b""), {}, TypeError),
        (("t", "text"), {}, TypeError),
        (("t", b"", 5), {}, TypeError),
        (("t", b""), {"headers": {"a": b"b"}}, TypeError),
        (("t", b""), {"headers": [("a", "text")]}, TypeError),
        (("t", b""), {"headers": [("a", None)]}, TypeError),
        (("t", b""), {"timestamp_ms": 1.5}, TypeError),
        (("t", b""), {"timestamp_ms": "5"}, TypeError),
        (("t", b""), {"partition": "0"}, TypeError),
        (("t", b""), {"partition": -1}, ValueError),
        (("t", b""), {"partition": 99}, ValueError),
        (("not a topic", b""), {}, ValueError),
        (("t", bytes(2_000_000)), {}, "MessageSizeTooLargeError"),
    ],
)
def test_what_send_refuses(
    cluster: MockCluster,
    make: Callable[..., Any],
    errors: ModuleType,
    arguments: Any,
    keywords: Any,
    expected: Any,
) -> None:
    kind = getattr(errors, expected) if isinstance(expected, str) else expected
    with pytest.raises(kind):
        make().send(*arguments, **keywords)


def test_serializers(cluster: MockCluster, make: Callable[..., Any]) -> None:
    closed: list[bool] = []

    class Upper(peer.serializer.Serializer):  # type: ignore[misc,name-defined]
        def serialize(self, topic: str, headers: Any, data: Any) -> bytes:
            assert topic == "t"
            return str(data).upper().encode()

        def close(self) -> None:
            closed.append(True)

    producer = make(key_serializer=str.encode, value_serializer=Upper())
    producer.send("t", "value", key="key")
    producer.close()
    (message,) = cluster.first_messages("t", 1)
    assert (message.key(), message.value()) == (b"key", b"VALUE")
    assert closed == [True]


def test_serializers_get_none_as_well(mock_cluster: MockCluster, make: Callable[..., Any]) -> None:
    """JSON makes ``null`` of a missing value, not a tombstone, and of a missing key, which is then hashed."""
    mock_cluster.create_topic("t", 7)

    def to_json(value: Any) -> bytes:
        return json.dumps(value).encode()

    producer = make(key_serializer=to_json, value_serializer=to_json)
    with pytest.raises(ValueError, match="key or value"):
        producer.send("t")
    futures = [producer.send("t", None, key="k"), producer.send("t", 5), producer.send("t", 6)]
    places = [each.get(PATIENCE_S) for each in futures]
    assert places[1].partition == places[2].partition
    assert places[1].serialized_key_size == 4
    found = {(message.key(), message.value()) for message in mock_cluster.first_messages("t", 3)}
    assert found == {(b'"k"', b"null"), (b"null", b"5"), (b"null", b"6")}


def test_a_serializer_may_return_none(cluster: MockCluster, make: Callable[..., Any]) -> None:
    producer = make(value_serializer=lambda value: None)
    assert producer.send("t", "x", b"k").get(PATIENCE_S).serialized_value_size == -1
    (message,) = cluster.first_messages("t", 1)
    assert (message.key(), message.value()) == (b"k", None)


@pytest.mark.parametrize("given", [None, [("given", b"1")]])
def test_a_serializer_may_add_headers(
    cluster: MockCluster, make: Callable[..., Any], given: list[tuple[str, bytes]] | None
) -> None:

    class WithSchemaId(peer.serializer.Serializer):  # type: ignore[misc,name-defined]
        def serialize(self, topic: str, headers: Any, data: Any) -> Any:
            if data is not None:
                headers.append(("id", b"17"))
            return data

    expected = [*(given or []), ("id", b"17")]
    headers = None if given is None else list(given)
    metadata = make(value_serializer=WithSchemaId()).send("t", b"v", headers=headers).get(PATIENCE_S)
    assert metadata.serialized_header_size == sum(len(name) + len(value) for name, value in expected)
    (message,) = cluster.first_messages("t", 1)
    assert message.headers() == expected


@pytest.mark.parametrize("serializer", [StringSerializer(), StringSerializer])
def test_serializers_of_kproducer_do_not_get_none(cluster: MockCluster, serializer: Any) -> None:
    servers = cluster.bootstrap_servers
    with adapter.KafkaProducer(bootstrap_servers=servers, value_serializer=serializer) as producer:
        assert producer.send("t", None, b"k").get(PATIENCE_S).serialized_value_size == -1
        with pytest.raises(TypeError, match="takes str, not int"):
            producer.send("t", 5)


def test_the_errors_of_a_serializer_are_its_own(mock_cluster: MockCluster) -> None:
    """A TypeError is not mistaken for a method with other arguments, and the method is not called twice."""
    calls = []

    class Broken:
        def serialize(self, topic: str, headers: Any, data: Any) -> Any:
            calls.append(data)
            raise TypeError("no bytes")

    class OfVersion2:
        def serialize(self, topic: str, data: Any) -> Any:
            return data.encode()

    mock_cluster.create_topic("t", 1)
    settings = {"bootstrap_servers": mock_cluster.bootstrap_servers, **VERSION}
    with adapter.KafkaProducer(**settings, value_serializer=Broken()) as producer:
        with pytest.raises(TypeError, match="no bytes"):
            producer.send("t", "v")
        assert calls == ["v"]
    with adapter.KafkaProducer(**settings, value_serializer=OfVersion2()) as producer:
        assert producer.send("t", "v").get(PATIENCE_S).serialized_value_size == 1
    with pytest.raises(adapter_errors.KafkaConfigurationError, match=r"pass Broken\("):
        adapter.KafkaProducer(**settings, value_serializer=Broken)


@pytest.mark.parametrize(
    "settings",
    [{}, {"acks": "all"}, {"acks": 1}, {"retries": 0}, {"transactional_id": "tx"}, {"linger_ms": 7}],
)
def test_the_contents_of_config(
    client: ModuleType, make: Callable[..., Any], settings: dict[str, Any]
) -> None:
    config = make(client_id="named", **settings).config
    idempotent = "retries" not in settings and settings.get("acks") != 1
    decided = {"acks": 1 if settings.get("acks") == 1 else -1, "enable_idempotence": idempotent}
    expected = {**client.KafkaProducer.DEFAULT_CONFIG, **settings, **decided, **VERSION, "client_id": "named"}
    for name in expected.keys() - {"bootstrap_servers"}:
        assert config[name] == expected[name], name


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", [None, "gzip", "lz4", "zstd"])
def test_acks_and_codecs(cluster: MockCluster, make: Callable[..., Any], acks: Any, codec: Any) -> None:
    producer = make(acks=acks, compression_type=codec)
    futures = [producer.send("t", b"%d" % number * 100) for number in range(20)]
    producer.flush(PATIENCE_S)
    assert all(each.succeeded() for each in futures)
    is_ours = isinstance(producer, adapter.KafkaProducer)
    # With acks=0, kafka-python's requests are lost if the broker answers: it ends the connection.
    if acks != 0 or is_ours:
        assert len(cluster.first_messages("t", 20)) == 20
    if acks == 0 and is_ours:
        assert futures[0].value.offset == -1  # as documented; kafka-python returns 0


def test_keys_go_to_the_same_partitions(mock_cluster: MockCluster, client: ModuleType) -> None:
    mock_cluster.create_topic("t", 7)
    chosen = []
    for module in (peer, client):
        with module.KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers, **VERSION) as producer:
            futures = [producer.send("t", b"", b"k%d" % number) for number in range(20)]
            chosen.append([each.get(PATIENCE_S).partition for each in futures])
    assert chosen[0] == chosen[1]


def test_a_partitioner_of_the_application(
    mock_cluster: MockCluster, client: ModuleType, make: Callable[..., Any]
) -> None:
    mock_cluster.create_topic("t", 3)
    seen: list[Any] = []

    class ByValue(peer.partitioner.Partitioner):  # type: ignore[misc,name-defined]
        def partition(
            self, topic: Any, key: Any, key_bytes: Any, value: Any, value_bytes: Any, cluster: Any
        ) -> Any:
            known = (cluster.partitions_for_topic(topic), cluster.available_partitions_for_topic(topic))
            seen.append((topic in cluster.topics(), key, key_bytes, value, value_bytes, *map(sorted, known)))
            return value

    def to_bytes(number: int) -> bytes:
        return b"%d" % number

    producer = make(partitioner=ByValue(), value_serializer=to_bytes)
    assert producer.send("t", 2, b"k").get(PATIENCE_S).partition == 2
    assert producer.send("t", 2, b"k", partition=0).get(PATIENCE_S).partition == 0
    assert seen == [(True, b"k", b"k", 2, b"2", [0, 1, 2], [0, 1, 2])]


def test_a_partitioner_must_choose(mock_cluster: MockCluster, make: Callable[..., Any]) -> None:
    mock_cluster.create_topic("t", 3)

    class Undecided(peer.partitioner.Partitioner):  # type: ignore[misc,name-defined]
        def partition(self, *arguments: Any) -> None:
            return None

    with pytest.raises(ValueError, match="did not assign a partition"):
        make(partitioner=Undecided()).send("t", b"")


def test_an_older_partitioner(mock_cluster: MockCluster, make: Callable[..., Any]) -> None:
    mock_cluster.create_topic("t", 3)

    class Last:
        def partition(self, topic: str, key: bytes, cluster: Any) -> int:
            return max(cluster.partitions_for_topic(topic))

    assert make(partitioner=Last()).send("t", b"", b"k").get(PATIENCE_S).partition == 2


def test_a_partitioner_of_any_number_of_arguments(
    mock_cluster: MockCluster, make: Callable[..., Any]
) -> None:
    mock_cluster.create_topic("t", 3)
    given: list[tuple[Any, ...]] = []

    class Recorded:
        def partition(self, *arguments: Any) -> int:
            given.append(arguments)
            return 1

    assert make(partitioner=Recorded()).send("t", b"v", b"k").get(PATIENCE_S).partition == 1
    assert (len(given), len(given[0]), given[0][:2]) == (1, 3, ("t", b"k"))


def test_partitions_of_other_integer_types(mock_cluster: MockCluster, make: Callable[..., Any]) -> None:
    mock_cluster.create_topic("t", 3)

    class Random:
        def partition(self, topic: str, key: bytes, cluster: Any) -> Any:
            return np.int64(2)

    assert make(partitioner=Random()).send("t", b"").get(PATIENCE_S).partition == 2
    assert make().send("t", b"", partition=np.int32(1)).get(PATIENCE_S).partition == 1
    assert make().send("t", b"", partition=True).get(PATIENCE_S).partition == 1


def test_a_constructor_that_is_interrupted_leaves_no_thread() -> None:
    main = threading.main_thread().ident
    assert main is not None

    def waits_for_the_cluster() -> bool:
        frame = sys._current_frames()[main]
        while frame is not None and frame.f_code.co_name != "_bootstrap":
            frame = frame.f_back
        return frame is not None

    def interrupt() -> None:
        wait_until(waits_for_the_cluster)
        signal.pthread_kill(main, signal.SIGINT)

    before = set(threading.enumerate())
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        adapter.KafkaProducer(bootstrap_servers=UNREACHABLE)
    interrupter.join(PATIENCE_S)
    assert set(threading.enumerate()) <= before


def test_flush_after_close_has_nothing_to_wait_for(cluster: MockCluster, make: Callable[..., Any]) -> None:
    producer = make()
    sent = producer.send("t", b"")
    producer.close(PATIENCE_S)
    assert producer.flush(PATIENCE_S) is None
    assert sent.succeeded()


def test_a_partitioner_with_the_name_of_a_built_in_one(
    mock_cluster: MockCluster, make: Callable[..., Any]
) -> None:
    mock_cluster.create_topic("t", 3)

    class DefaultPartitioner:
        def partition(self, topic: str, key: bytes, cluster: Any) -> int:
            return 2

    producer = make(partitioner=DefaultPartitioner())
    sent = [producer.send("t", b"", key) for key in (b"a", b"b", b"c")]
    assert [each.get(PATIENCE_S).partition for each in sent] == [2, 2, 2]


@pytest.mark.parametrize("name", ["DefaultPartitioner", "StickyPartitioner"])
def test_built_in_partitioners(mock_cluster: MockCluster, make: Callable[..., Any], name: str) -> None:
    mock_cluster.create_topic("t", 7)
    producer = make(partitioner=getattr(peer.partitioner, name)())
    by_default = make()
    for key in (b"a", b"b", b"c"):
        expected = by_default.send("t", b"", key).get(PATIENCE_S).partition
        assert producer.send("t", b"", key).get(PATIENCE_S).partition == expected
    assert producer.send("t", b"").get(PATIENCE_S).offset >= 0


def test_partitioners_that_are_refused() -> None:
    class Rotating:
        def partition(self, *arguments: Any) -> int:
            return 0

        def on_new_batch(self, topic: str, cluster: Any, previous: int) -> None:
            pass

    refused = [
        (Rotating(), "on_new_batch"),
        (Rotating, "expected an object"),
        (5, "got 5"),
        ("random", "got 'random'"),  # texts have a method of this name
        (b"random", "got b'random'"),
    ]
    for partitioner, text in refused:
        with pytest.raises(adapter_errors.KafkaConfigurationError, match=text):
            adapter.KafkaProducer(bootstrap_servers="a:1", partitioner=partitioner, **VERSION)


def test_flush_and_close_time_out(cluster: MockCluster, make: Callable[..., Any], errors: ModuleType) -> None:
    producer = make()
    producer.send("t", b"").get(PATIENCE_S)
    cluster.set_rtt_ms(4000)
    producer.send("t", b"")
    with pytest.raises(errors.KafkaTimeoutError):
        producer.flush(0.1)
    with pytest.raises(ValueError, match="timeout"):
        producer.close(-1)


def test_a_closed_producer(cluster: MockCluster, make: Callable[..., Any], errors: ModuleType) -> None:
    producer = make()
    future = producer.send("t", b"")
    producer.close()
    producer.close()
    assert future.succeeded()
    with pytest.raises(errors.IllegalStateError):
        producer.send("t", b"")


def test_the_cluster(mock_cluster: MockCluster, make: Callable[..., Any]) -> None:
    mock_cluster.create_topic("t", 3)
    producer = make(client_id="named")
    assert producer.partitions_for("t") == {0, 1, 2}
    assert str(producer) == "<KafkaProducer client_id=named transactional_id=None>"
    producer.send("t", b"").get(PATIENCE_S)
    assert producer.metrics()["producer-metrics"]


@pytest.mark.parametrize("name", NAMES)
def test_constructors_that_raise(
    name: str, mock_cluster: MockCluster, run_without: Callable[..., str]
) -> None:
    """In a process of its own, because kafka-python's threads go on after such a constructor."""
    program = f"""
import os, warnings
warnings.simplefilter("ignore")
from {name} import KafkaProducer
from {name} import errors
servers = {mock_cluster.bootstrap_servers!r}
for settings, expected in (
    (dict(bootstrap_servers={UNREACHABLE!r}, bootstrap_timeout_ms=300), errors.KafkaTimeoutError),
    (dict(bootstrap_servers=servers, foo=1), ValueError),
    (dict(bootstrap_servers=servers, api_version=(2, 3), acks=1, enable_idempotence=True),
     errors.KafkaConfigurationError),
    (dict(bootstrap_servers=servers, api_version=(2, 3), compression_type="x"), (ValueError, AssertionError)),
):
    try:
        KafkaProducer(**settings)
    except expected:
        print("raised", flush=True)
os._exit(0)
"""
    assert run_without("no_module", program) == "raised\n" * 4


def test_idempotence_ends_where_settings_contradict_it(
    cluster: MockCluster, make: Callable[..., Any]
) -> None:
    assert make(acks=1).send("t", b"").get(PATIENCE_S).offset == 0


def test_transactions(
    cluster: MockCluster, client: ModuleType, make: Callable[..., Any], errors: ModuleType
) -> None:
    with pytest.raises(errors.IllegalStateError):
        make().init_transactions()
    producer = make(transactional_id="tx")
    producer.init_transactions()
    with pytest.raises(errors.KafkaError):
        producer.commit_transaction()
    producer.begin_transaction()
    future = producer.send("t", b"1")
    offsets = {client.TopicPartition("t", 0): client.OffsetAndMetadata(5, "", -1)}
    producer.send_offsets_to_transaction(offsets, client.ConsumerGroupMetadata("group", -1, "", None))
    producer.commit_transaction()
    assert future.succeeded()
    producer.begin_transaction()
    producer.abort_transaction()


# -- the adapter alone -------------------------------------------------------------------------------------


def test_a_future_can_be_awaited(cluster: MockCluster) -> None:

    async def send() -> Any:
        return await producer.send("t", b"")

    with adapter.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        assert asyncio.run(send()).offset == 0


def test_a_future_that_has_failed_can_be_awaited() -> None:
    async def send() -> Any:
        return await FutureRecordMetadata.failed_with(KafkaTimeoutError("late"))

    with pytest.raises(adapter_errors.KafkaTimeoutError, match="late"):
        asyncio.run(send())


def test_bootstrap_connected(mock_cluster: MockCluster) -> None:
    with adapter.KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        assert producer.bootstrap_connected() is True
    assert producer.bootstrap_connected() is False
    with adapter.KafkaProducer(bootstrap_servers=UNREACHABLE, **VERSION) as producer:
        assert producer.bootstrap_connected() is False


def test_a_partitioner_of_three_arguments(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", 3)
    seen = []

    def choose(key: Any, all_partitions: list[int], available: list[int]) -> int:
        seen.append((key, all_partitions, sorted(available)))
        return 2

    servers = mock_cluster.bootstrap_servers
    with adapter.KafkaProducer(bootstrap_servers=servers, partitioner=choose) as producer:
        assert producer.send("t", b"", b"k").get(PATIENCE_S).partition == 2
    assert seen == [(b"k", [0, 1, 2], [0, 1, 2])]


def test_every_public_name_and_argument_of_the_peer_exists_or_is_documented() -> None:
    text = (ROOT / "docs/migration/kafka-python.md").read_text()
    for name, method in inspect.getmembers(peer.KafkaProducer):
        if name.startswith("_"):
            continue
        mine = getattr(adapter.KafkaProducer, name, None)
        if mine is None:
            assert f"`{name}`" in text, name
        elif callable(method):
            assert list(inspect.signature(mine).parameters) == list(inspect.signature(method).parameters), (
                name
            )


def test_every_setting_of_the_peer_is_supported_ignored_or_refused() -> None:
    assert set(peer.KafkaProducer.DEFAULT_CONFIG) == set(adapter.KafkaProducer.DEFAULT_CONFIG)
    text = (ROOT / "docs/migration/kafka-python.md").read_text()
    differing = (*adapter_settings.IGNORED, *adapter_settings.REFUSED)
    assert [name for name in differing if f"`{name}`" not in text] == []


def test_the_defaults_are_those_of_the_peer(mock_cluster: MockCluster) -> None:
    with adapter.KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        config = producer._producer.config
    theirs = peer.KafkaProducer.DEFAULT_CONFIG
    for name in adapter_settings.SAME - {"bootstrap_servers", "client_id", "sasl_kerberos_service_name"}:
        if theirs[name] not in (None, float("inf")):
            assert getattr(config, name) == theirs[name], name
    mine = adapter.KafkaProducer.DEFAULT_CONFIG
    assert {name for name, value in theirs.items() if mine[name] != value} == {
        *("kafka_client", "partitioner", "selector")  # objects
    }


def test_settings_that_are_refused_say_what_to_do(mock_cluster: MockCluster) -> None:
    for name, remedy in adapter_settings.REFUSED.items():
        usual = adapter.KafkaProducer.DEFAULT_CONFIG[name]
        with pytest.raises(adapter_errors.KafkaConfigurationError, match="not supported") as raised:
            adapter.KafkaProducer(bootstrap_servers="a:1", **{name: "other"})
        assert remedy in str(raised.value)
        with adapter.KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers, **{name: usual}):
            pass
    with pytest.raises(adapter_errors.KafkaConfigurationError, match="expiry"):
        adapter.KafkaProducer(bootstrap_servers="a:1", sasl_oauth_token_provider=TokenProvider())
    with pytest.raises(NotImplementedError), adapter.KafkaProducer(api_version=(3, 0)) as producer:
        producer.metrics(raw=True)


class TokenProvider:
    def token(self) -> str:
        return "t"


def test_a_misspelt_setting_gets_a_hint() -> None:
    with pytest.raises(ValueError, match=r"bootstrap_server \(did you mean bootstrap_servers\?\)"):
        adapter.KafkaProducer(bootstrap_server="a:1")


def test_errors_are_those_of_kafka_python_and_have_the_cause() -> None:
    assert adapter_errors.KafkaError is peer_errors.KafkaError
    with pytest.raises(peer_errors.KafkaTimeoutError) as raised:
        adapter.KafkaProducer(bootstrap_servers=UNREACHABLE, bootstrap_timeout_ms=200)
    assert "127.0.0.1:1" in str(raised.value)
    with (
        adapter.KafkaProducer(
            bootstrap_servers=UNREACHABLE, api_version=(2, 0), max_block_ms=100
        ) as producer,
        pytest.raises(peer_errors.KafkaTimeoutError) as raised,
    ):
        producer.send("t", b"")
    assert isinstance(raised.value.__cause__, KafkaTimeoutError)
    assert raised.value.__cause__.outcome is Outcome.NOT_SENT


def test_without_kafka_python_the_errors_have_the_same_names_and_bases(
    run_without: Callable[..., str],
) -> None:
    program = """
import json
from kproducer.compat.kafka import KafkaProducer, errors
found = {}
for name in dir(errors):
    value = getattr(errors, name)
    if isinstance(value, type) and issubclass(value, errors.KafkaError):
        bases = [base.__name__ for base in value.__mro__ if issubclass(base, errors.KafkaError)]
        found[name] = (getattr(value, "errno", None), value.retriable, sorted(bases))
try:
    KafkaProducer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=100)
except errors.KafkaTimeoutError:
    print(json.dumps(found))
"""
    found = json.loads(run_without("kafka", program))
    found.pop("InvalidSettingError")
    assert len(found) > 100
    for name, (errno, retriable, bases) in found.items():
        theirs = getattr(peer_errors, name, None)
        if name == "UnrecognizedBrokerError":
            assert peer_errors.for_code(9999).__name__ == name
            continue
        assert (getattr(theirs, "errno", None), theirs.retriable) == (errno, retriable), name
        their_bases = {base.__name__ for base in theirs.__mro__ if issubclass(base, peer_errors.KafkaError)}
        assert set(bases) == their_bases, name
