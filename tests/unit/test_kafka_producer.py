"""KafkaProducer against the mock cluster: what it accepts, what it refuses, and how it behaves alive."""

from __future__ import annotations

import gc
import inspect
import logging
import pickle
import signal
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from kproducer import (
    METRICS,
    ConsumerGroupMetadata,
    FutureRecordMetadata,
    IllegalStateError,
    IntegerSerializer,
    InvalidArgumentError,
    JsonSerializer,
    KafkaError,
    KafkaProducer,
    KafkaTimeoutError,
    MetadataTimeoutError,
    NetworkError,
    Outcome,
    ProducerClosedError,
    ProducerConfig,
    ProducerRecord,
    RecordMetadata,
    RecordTooLargeError,
    SerializationError,
    __version__,
)
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.client import network_client
from kproducer._core.engine.producer_engine import ProducerEngine
from kproducer._core.kernel import IMPLEMENTATION
from kproducer._core.network.selector import Selector
from kproducer._core.runtime import fork_and_exit
from kproducer._core.sender.sender import Sender
from kproducer.errors.broker_errors import InvalidTopicError
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.support.kafka.mock_cluster import MockCluster
from tests.support.waiting import learn_topics

pytestmark = pytest.mark.mock_cluster

MakeProducer = Callable[..., KafkaProducer]
PATIENCE_S = 60.0
PRODUCE = 0


@pytest.fixture
def make(mock_cluster: MockCluster) -> Iterator[MakeProducer]:
    """Make producers for a cluster with topic "t" of four partitions; closed after the test."""
    mock_cluster.create_topic("t", 4)
    producers: list[KafkaProducer] = []

    def make_producer(**settings: Any) -> KafkaProducer:
        settings = {"bootstrap_servers": mock_cluster.bootstrap_servers, "linger_ms": 0, **settings}
        producers.append(KafkaProducer(**settings))
        return producers[-1]

    yield make_producer
    for producer in producers:
        producer.close(0)


@pytest.fixture
def fake_cluster() -> Iterator[FakeCluster]:
    """One that holds its answers as long as a test wants; with topic "t" of one partition."""
    with FakeCluster() as cluster:
        cluster.create_topic("t", 1)
        yield cluster


# -- sending ---------------------------------------------------------------------------------------------


def test_the_key_decides_the_partition_as_in_java(make: MakeProducer) -> None:
    producer = make()
    # murmur2 of these keys, from Java's own tests of the hash, modulo four partitions.
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    for key, signed_hash in hashes.items():
        expected = (signed_hash & 0x7FFFFFFF) % 4
        assert producer.send("t", b"v", key=key).get(PATIENCE_S).partition == expected


def test_serializers_are_used_for_values_that_are_bytes_already_too(make: MakeProducer) -> None:
    producer = make(key_serializer=IntegerSerializer(4), value_serializer=lambda value: value * 2)
    metadata = producer.send("t", b"ab", key=7).get(PATIENCE_S)
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (4, 4)


def test_a_null_never_reaches_a_serializer(make: MakeProducer) -> None:
    metadata = make(value_serializer=JsonSerializer()).send("t", None).get(PATIENCE_S)
    assert metadata.serialized_value_size == -1


def test_a_custom_partitioner_sees_everything_and_is_obeyed(make: MakeProducer) -> None:
    seen: list[Any] = []

    def choose(topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, snapshot: Any) -> int:
        seen.append((topic, key, key_bytes, value, value_bytes, snapshot.partition_count(topic)))
        return 3

    metadata = make(partitioner=choose).send("t", "v", key="k").get(PATIENCE_S)
    assert metadata.partition == 3
    assert seen == [("t", "k", b"k", "v", b"v", 4)]


# -- refusals --------------------------------------------------------------------------------------------


NOON = datetime(2024, 5, 17, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"topic": None}, InvalidArgumentError, "None"),
        ({"topic": b"t"}, InvalidArgumentError, "b't'"),
        ({"topic": 5}, InvalidArgumentError, "5"),
        ({"topic": ["t"]}, InvalidArgumentError, "not list"),
        ({"topic": ProducerRecord("t", b"v")}, InvalidArgumentError, "ProducerRecord; pass its parts"),
        ({"topic": ""}, InvalidArgumentError, "''"),
        ({"topic": "größe"}, InvalidTopicError, "größe"),
        ({"topic": "a/b"}, InvalidTopicError, "a/b"),
        ({"topic": ".."}, InvalidTopicError, ".."),
        ({"topic": "x" * 250}, InvalidTopicError, "250"),
        ({"value": 5}, SerializationError, "value_serializer=IntegerSerializer()"),
        ({"value": {"a": 1}}, SerializationError, "JsonSerializer"),
        ({"value": object()}, SerializationError, "object"),
        ({"value": "\ud800"}, SerializationError, "UTF-8"),
        ({"key": 1.5}, SerializationError, "key_serializer=FloatSerializer()"),
        ({"key": uuid.UUID(int=1)}, SerializationError, "UuidSerializer"),
        ({"partition": -1}, InvalidArgumentError, "-1"),
        ({"partition": 1.0}, InvalidArgumentError, "1.0"),
        ({"partition": "1"}, InvalidArgumentError, "'1'"),
        ({"partition": True}, InvalidArgumentError, "True"),
        ({"timestamp_ms": -1}, InvalidArgumentError, "-1"),
        ({"timestamp_ms": 1.5}, InvalidArgumentError, "1.5; round it with int()"),
        ({"timestamp_ms": NOON}, InvalidArgumentError, "; pass int(time.timestamp() * 1000)"),
        ({"timestamp_ms": 2**63}, InvalidArgumentError, str(2**63)),
        ({"timestamp_ms": "now"}, InvalidArgumentError, "now"),
        ({"timestamp_ms": False}, InvalidArgumentError, "False"),
        ({"headers": 5}, SerializationError, "int; the partition is the argument after the headers"),
        ({"headers": "name=value"}, SerializationError, "str"),
        ({"headers": [("a",)]}, SerializationError, "pair"),
        ({"headers": [("a", b"b", b"c")]}, SerializationError, "pair, not a tuple of 3"),
        ({"headers": ("ab", b"c")}, SerializationError, "pair, not str; put the pairs into a list"),
        ({"headers": [(b"a", b"b")]}, SerializationError, "name"),
        ({"headers": [(None, b"b")]}, SerializationError, "NoneType"),
        ({"headers": [("a", 5)]}, SerializationError, "'a'"),
        ({"headers": {"a": ["b"]}}, SerializationError, "list"),
        ({"headers": [("\ud800", b"b")]}, SerializationError, "UTF-8"),
        ({"headers": [("a", "\ud800")]}, SerializationError, "UTF-8"),
        ({"headers": [("a", b"x" * 10_000_000)]}, RecordTooLargeError, "max_request_size=1048576"),
        ({"headers": [("ü" * 1_000_000, b"")]}, RecordTooLargeError, "max_request_size"),
        ({"value": b"x" * 1_048_577}, RecordTooLargeError, "max_request_size"),
        ({"value": b"x", "key": b"x" * 1_048_576}, RecordTooLargeError, "'t'"),
    ],
)
def test_bad_input_is_refused_at_the_call_and_harms_nothing(
    make: MakeProducer, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    producer = make()
    called: list[Any] = []
    with pytest.raises(error) as caught:
        producer.send(
            **{"topic": "t", "value": b"v", "on_delivery": lambda *told: called.append(told), **arguments}
        )
    assert isinstance(caught.value, KafkaError)
    assert words in str(caught.value)
    assert producer.send("t", b"fine").get(PATIENCE_S).topic == "t"
    assert called == []
    producer.close(PATIENCE_S)
    metrics = producer.metrics()["producer-metrics"]
    assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]
    assert metrics["io-error-total"] == 0


@pytest.mark.parametrize(
    "headers",
    [
        [("a", b"1"), ("a", None), ("ü", "text"), ("m", memoryview(b"x")), ("b", bytearray(b"y"))],
        {"a": b"1", "b": "2", "c": None},
        (["a", b"1"],),
        [],
        {},
        iter([("a", b"1")]),
    ],
)
def test_headers_in_all_their_shapes(make: MakeProducer, headers: Any) -> None:
    assert make().send("t", b"v", headers=headers).get(PATIENCE_S).offset == 0


def test_the_headers_given_are_not_changed(make: MakeProducer) -> None:
    class Tagging:
        def serialize(self, topic: str, headers: list[tuple[str, bytes | None]], value: Any) -> bytes:
            headers.append(("schema", b"1"))
            return bytes(value)

    given: list[tuple[str, bytes | str | None]] = [("a", b"b")]
    make(value_serializer=Tagging()).send("t", b"v", headers=given).get(PATIENCE_S)
    assert given == [("a", b"b")]


@pytest.mark.parametrize("header", [("schema", 7), (b"schema", b"1"), ("schema",), "ab", ("\ud800", b"1")])
def test_a_header_that_a_serializer_appends_is_checked(make: MakeProducer, header: Any) -> None:
    class Tagging:
        def serialize(self, topic: str, headers: list[Any], value: Any) -> bytes:
            if value != b"first":
                headers.append(header)
            return bytes(value)

    producer = make(value_serializer=Tagging())
    producer.send("t", b"first").get(PATIENCE_S)
    with pytest.raises(SerializationError) as caught:
        producer.send("t", b"v")
    assert caught.value.outcome is Outcome.NOT_SENT


def test_a_record_up_to_the_limit_is_accepted(make: MakeProducer) -> None:
    producer = make(max_request_size=2000)
    assert producer.send("t", b"x" * 1900).get(PATIENCE_S).offset == 0
    with pytest.raises(RecordTooLargeError):
        producer.send("t", b"x" * 2001)


@pytest.mark.parametrize("answer", [4, -2, None, "1", 1.5, True])
def test_a_partitioner_that_answers_nonsense_is_not_obeyed(make: MakeProducer, answer: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="partitions 0 to 3"):
        make(partitioner=lambda *arguments: answer).send("t", b"v")


def test_a_constructor_that_fails_half_way_closes_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Interceptor:
        def on_send(self, record: ProducerRecord) -> None:
            pass

        def close(self) -> None:
            closed.append("interceptor")

    class Serializer:
        def __call__(self, value: Any) -> bytes:
            return b""

        def close(self) -> None:
            closed.append("serializer")

    def no_more_threads(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more_threads)
    with pytest.raises(RuntimeError, match="new thread"):
        KafkaProducer("127.0.0.1:1", interceptors=[Interceptor()], value_serializer=Serializer())
    assert closed == ["interceptor", "serializer"]


@pytest.mark.parametrize("runs_already", [True, False])
def test_ctrl_c_while_the_io_thread_starts_leaves_its_sockets_to_it(
    monkeypatch: pytest.MonkeyPatch, fake_cluster: FakeCluster, runs_already: bool
) -> None:
    """Closed by another thread, they may be in the midst of a native poll: that was a crash."""
    started: list[threading.Thread] = []
    closed_by: list[threading.Thread] = []
    start, close = threading.Thread.start, Selector.close

    def interrupted(thread: threading.Thread) -> None:
        started.append(thread)
        if runs_already:
            start(thread)
        raise KeyboardInterrupt

    def noted(selector: Selector, connection_id: str | None = None) -> None:
        if connection_id is None:
            closed_by.append(threading.current_thread())
        close(selector, connection_id)

    monkeypatch.setattr(Selector, "close", noted)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            KafkaProducer(fake_cluster.bootstrap_servers)
    (thread,) = started
    if not runs_already:
        start(thread)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert closed_by == [thread if runs_already else threading.current_thread()]


# -- waiting ---------------------------------------------------------------------------------------------


def test_a_partition_that_does_not_exist_is_waited_for_and_then_named(make: MakeProducer) -> None:
    producer = make(max_block_ms=300)
    learn_topics(producer, "t")
    with pytest.raises(MetadataTimeoutError, match="partitions 0 to 3, and partition 4") as caught:
        producer.send("t", b"v", partition=4)
    assert "max_block_ms=300" in str(caught.value)
    assert producer.send("t", b"v", partition=3).get(PATIENCE_S).partition == 3


def test_flush_tells_how_many_records_are_left(make: MakeProducer, mock_cluster: MockCluster) -> None:
    producer = make()
    producer.partitions_for("t")
    mock_cluster.set_rtt_ms(5000)
    for _ in range(3):
        producer.send("t", b"v", partition=0)
    with pytest.raises(KafkaTimeoutError, match="3 records"):
        producer.flush(0.05)


def test_flush_in_a_callback_is_refused_instead_of_hanging(make: MakeProducer) -> None:
    producer = make()
    errors: list[BaseException] = []

    def callback(metadata: RecordMetadata, error: KafkaError | None) -> None:
        try:
            producer.flush()
        except IllegalStateError as caught:
            errors.append(caught)

    producer.send("t", b"v", on_delivery=callback).get(PATIENCE_S)
    assert len(errors) == 1


def test_waiting_for_a_future_in_a_callback_is_refused_instead_of_hanging(make: MakeProducer) -> None:
    producer = make()
    errors: list[BaseException] = []

    def callback(metadata: RecordMetadata, error: KafkaError | None) -> None:
        another = producer.send("t", b"another")
        try:
            another.result()
        except IllegalStateError as caught:
            errors.append(caught)

    producer.send("t", b"v", on_delivery=callback).get(PATIENCE_S)
    producer.flush()
    assert "add_done_callback" in str(errors[0])


def test_what_send_raises_says_that_nothing_was_sent(make: MakeProducer) -> None:
    producer = make(max_block_ms=50)
    bad_calls: list[dict[str, Any]] = [
        {"topic": "t", "value": object()},
        {"topic": "t", "partition": -1},
        {"topic": "t", "partition": 99},
        {"topic": "t", "value": b"x" * 2_000_000},
        {"topic": "t", "on_delivery": "not callable"},
    ]
    for call in bad_calls:
        with pytest.raises(KafkaError) as caught:
            producer.send(**call)
        assert caught.value.outcome is Outcome.NOT_SENT, call


def test_a_callback_that_cannot_be_called_is_refused_at_once(make: MakeProducer) -> None:
    with pytest.raises(InvalidArgumentError, match=r"on_delivery must be a function of .*, not str"):
        make().send("t", b"v", on_delivery="print")  # type: ignore[arg-type]


@pytest.mark.parametrize("idempotent", [True, False])
def test_transactional_calls_need_a_transactional_id(make: MakeProducer, idempotent: bool) -> None:
    producer = make(enable_idempotence=idempotent)
    prepared: Any = None
    for call in (
        producer.init_transactions,
        producer.begin_transaction,
        lambda: producer.change_transactional_id("any"),
        lambda: producer.send_offsets_to_transaction({}, ConsumerGroupMetadata("g")),
        producer.commit_transaction,
        producer.abort_transaction,
        lambda: producer.transaction().__enter__(),
        producer.prepare,
        lambda: producer.commit_prepared(prepared),
        lambda: producer.abort_prepared(prepared),
    ):
        with pytest.raises(IllegalStateError, match="set transactional_id"):
            call()


def test_canonical_bootstrap_names_are_used_where_they_are_asked_for(
    make: MakeProducer, mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, port = mock_cluster.bootstrap_servers.split(",")[0].rpartition(":")
    monkeypatch.setattr(network_client, "canonical_addresses", lambda alias, port: [(host, port)])
    producer = make(
        bootstrap_servers=f"alias.invalid:{port}",
        client_dns_lookup="resolve_canonical_bootstrap_servers_only",
    )
    assert producer.send("t", b"v").get(PATIENCE_S).offset == 0


def test_a_bootstrap_name_without_canonical_names_stays_as_it_is(
    make: MakeProducer, mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(alias: str, port: int) -> list[tuple[str, int]]:
        raise NetworkError(f"{alias} cannot be resolved now")

    monkeypatch.setattr(network_client, "canonical_addresses", fails)
    producer = make(client_dns_lookup="resolve_canonical_bootstrap_servers_only")
    assert producer.send("t", b"v").get(PATIENCE_S).offset == 0


# -- other faces -----------------------------------------------------------------------------------------


def test_from_config_takes_dotted_names_and_texts(make: MakeProducer, mock_cluster: MockCluster) -> None:
    settings = {"bootstrap.servers": mock_cluster.bootstrap_servers, "linger.ms": "1", "acks": "1"}
    make()
    with KafkaProducer.from_config(settings) as producer:
        assert (producer.config.linger_ms, producer.config.acks) == (1, 1)
        assert producer.send("t", b"v").get(PATIENCE_S).offset == 0
    with KafkaProducer.from_config(
        ProducerConfig(bootstrap_servers=(mock_cluster.bootstrap_servers,), client_id="me")
    ) as producer:
        assert producer.config.client_id == "me"


def test_partitions_for_tells_leaders_and_replicas(make: MakeProducer) -> None:
    partitions = make().partitions_for("t")
    assert [p.partition for p in partitions] == [0, 1, 2, 3]
    for partition in partitions:
        assert partition.leader is not None
        assert partition.leader.id in partition.replicas


def test_metrics_have_the_documented_names_and_count(make: MakeProducer) -> None:
    producer = make(linger_ms=5)
    for _ in range(10):
        producer.send("t", b"x" * 100, partition=0)
    producer.flush(PATIENCE_S)
    groups = producer.metrics()
    for group, names in METRICS.items():
        found = [metrics for key, metrics in groups.items() if key == group or key.startswith(f"{group}.")]
        assert found
        assert all(metrics.keys() - {"version"} == names.keys() for metrics in found)
    metrics = groups["producer-metrics"]
    assert metrics["record-send-total"] == 10
    assert metrics["record-error-total"] == 0
    assert metrics["byte-total"] > 1000
    assert metrics["produce-request-total"] >= 1
    assert metrics["incomplete-batches"] == 0
    assert metrics["request-total"] > metrics["produce-request-total"]
    assert metrics["metadata-wait-time-ns-total"] > 0
    assert metrics["flush-time-ns-total"] > 0
    assert groups["producer-topic-metrics.t"]["record-send-total"] == 10
    assert groups["app-info"]["version"] == __version__
    assert groups["kafka-metrics-count"]["count"] == len(producer.metric_samples())
    producer.close(PATIENCE_S)
    assert producer.metrics()["producer-metrics"]["record-send-total"] == 10


def test_samples_have_tags_and_counters_do_not_fall(make: MakeProducer) -> None:
    producer = make(client_id="sampled")
    before: dict[object, float] = {}
    for _ in range(3):
        producer.send("t", b"x", partition=0).result(PATIENCE_S)
        samples = producer.metric_samples()
        identities = [(each.group, each.name, *sorted(each.tags.items())) for each in samples]
        assert len(set(identities)) == len(identities)
        for identity, sample in zip(identities, samples, strict=True):
            assert sample.tags["client-id"] == "sampled"
            if sample.kind == "counter":
                assert sample.value >= before.get(identity, 0.0), sample
                before[identity] = sample.value
    nodes = {each.tags["node-id"] for each in samples if each.group == "producer-node-metrics"}
    assert any(node.startswith("node--") for node in nodes)  # a bootstrap server
    assert len(nodes) > 1


def test_health_of_a_producer_that_works_and_of_a_closed_one(make: MakeProducer) -> None:
    producer = make()
    assert not producer.health().is_closed
    producer.send("t", b"x", partition=0).result(PATIENCE_S)
    health = producer.health()
    assert health.is_connected
    assert health.connected_brokers
    assert (health.unacknowledged_batches, health.unacknowledged_records) == (0, 0)
    assert health.oldest_unacknowledged_ms is None
    assert health.last_error is None
    assert health.last_error_time_ms is None
    assert health.fatal_error is None
    assert health.metadata_age_ms is not None
    assert any("PRODUCE" in versions for versions in health.negotiated_versions.values())
    producer.close(PATIENCE_S)
    assert producer.health().is_closed
    assert not producer.health().is_connected


def test_health_without_a_broker(make: MakeProducer) -> None:
    producer = make(bootstrap_servers="127.0.0.1:1", max_block_ms=300)
    with pytest.raises(KafkaTimeoutError):
        producer.send("t", b"x")
    health = producer.health()
    assert not health.is_connected
    assert health.connection_error is not None
    assert "127.0.0.1:1" in health.connection_error
    assert health.metadata_age_ms is None


def test_a_producer_cannot_be_pickled_and_says_what_to_do(make: MakeProducer) -> None:
    with pytest.raises(TypeError, match="settings"):
        pickle.dumps(make())


def test_clients_without_a_name_get_different_ones(make: MakeProducer) -> None:
    assert make().config.client_id != make().config.client_id
    assert make(client_id="x").config.client_id == "x"


def test_a_dropped_producer_delivers_and_ends(make: MakeProducer, caplog: pytest.LogCaptureFixture) -> None:
    mock_servers = make().config.bootstrap_servers
    producer = KafkaProducer(mock_servers, linger_ms=100)
    future = producer.send("t", b"v")
    assert producer._lifecycle.engine is not None
    thread = producer._lifecycle.engine.thread
    gone = weakref.ref(producer)
    with caplog.at_level(logging.WARNING):
        del producer
        gc.collect()
    assert gone() is None
    assert future.get(PATIENCE_S).topic == "t"
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert "without close()" in caplog.text


def test_a_dropped_producer_with_nothing_to_deliver_is_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    producer = KafkaProducer("127.0.0.1:1")
    del producer
    gc.collect()
    levels = [record.levelname for record in caplog.records if "without close()" in record.getMessage()]
    assert levels == ["INFO"]


def test_a_close_that_is_interrupted_goes_on_and_the_end_of_the_process_waits_for_it(
    make: MakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = make(linger_ms=100)
    engine = producer._lifecycle.engine
    assert engine is not None
    future = producer.send("t", b"v")

    def interrupt(timeout: float | None) -> int:
        engine.sender.initiate_close()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProducerEngine, "stop", lambda self, timeout, notice: interrupt(timeout))
        patch.setattr(fork_and_exit, "_unowned", {})
        patch.setattr(fork_and_exit, "release", lambda engine: None)
        with pytest.raises(KeyboardInterrupt):
            producer.close()
        assert engine in fork_and_exit.live_producers()
    assert future.get(PATIENCE_S).topic == "t"
    engine.thread.join(PATIENCE_S)
    assert not engine.thread.is_alive()
    assert engine not in fork_and_exit.live_producers()


# -- interceptors ----------------------------------------------------------------------------------------


class Recorder:
    """An interceptor that notes what it sees and changes the value."""

    def __init__(self, suffix: bytes) -> None:
        self.suffix = suffix
        self.sent: list[ProducerRecord] = []
        self.acknowledged: list[tuple[RecordMetadata, KafkaError | None]] = []
        self.closed = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent.append(record)
        return record._replace(value=record.value + self.suffix)

    def on_acknowledgement(self, metadata: RecordMetadata, error: KafkaError | None) -> None:
        self.acknowledged.append((metadata, error))

    def close(self) -> None:
        self.closed += 1


class Failing:
    """An interceptor whose every hook raises."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise ValueError("on_send bug")

    def on_acknowledgement(self, metadata: RecordMetadata, error: KafkaError | None) -> None:
        raise ValueError("on_acknowledgement bug")

    def close(self) -> None:
        raise ValueError("close bug")


def test_interceptors_form_a_chain_that_a_failing_one_does_not_break(
    make: MakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    first, last = Recorder(b"1"), Recorder(b"2")
    told: list[Any] = []
    producer = make(interceptors=[first, Failing(), last])
    metadata = producer.send("t", b"v", on_delivery=lambda *both: told.append(both)).get(PATIENCE_S)
    producer.close(PATIENCE_S)
    assert metadata.serialized_value_size == 3
    assert [record.value for record in last.sent] == [b"v1"]
    assert first.acknowledged == last.acknowledged == told == [(metadata, None)]
    assert (first.closed, last.closed) == (1, 1)
    for words in ("on_send bug", "on_acknowledgement bug", "close bug"):
        assert words in caplog.text


class Leaving:
    """An interceptor that wants the process to end."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: KafkaError | None) -> None:
        raise SystemExit("not here")


def test_an_interceptor_cannot_keep_a_record_s_own_callback_from_running(make: MakeProducer) -> None:
    told: list[Any] = []
    producer = make(interceptors=[Leaving()])
    metadata = producer.send("t", b"v", on_delivery=lambda *both: told.append(both)).get(PATIENCE_S)
    assert told == [(metadata, None)]


def test_interceptors_hear_of_records_that_were_not_accepted(make: MakeProducer) -> None:
    recorder = Recorder(b"")
    producer = make(interceptors=[recorder], max_request_size=1000)
    with pytest.raises(RecordTooLargeError):
        producer.send("t", b"x" * 2000, partition=2, timestamp_ms=5)
    ((metadata, error),) = recorder.acknowledged
    assert metadata == RecordMetadata("t", 2, -1, 5, -1, -1)
    assert isinstance(error, RecordTooLargeError)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_ctrl_c_in_close_loses_nothing(fake_cluster: FakeCluster, request: pytest.FixtureRequest) -> None:
    # The process that started this one may ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    producer = KafkaProducer(fake_cluster.bootstrap_servers, linger_ms=0)
    producer.send("t", b"v").result(PATIENCE_S)
    answer = fake_cluster.gate()
    fake_cluster.control(PRODUCE, faults.hold_before(answer))
    future = producer.send("t", b"v")
    answer.wait_until_reached()

    def interrupt() -> None:
        while not producer._lifecycle.is_closed:
            threading.Event().wait(0.05)
        threading.Event().wait(0.2)  # most likely it waits for the I/O thread by now
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        producer.close()
    thread.join(PATIENCE_S)
    engine = producer._lifecycle.last_engine
    assert engine is not None
    assert not engine.wait_for_end(0)
    assert not future.done()
    answer.open()
    assert future.result(PATIENCE_S).offset == 1
    assert engine.wait_for_end(PATIENCE_S)


@pytest.mark.parametrize("call", ["flush", "close"])
def test_a_signal_in_the_middle_of_send_does_not_let_close_wait_for_itself(
    make: MakeProducer, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = make()
    producer.send("t", b"v", partition=0).result(PATIENCE_S)
    handled: list[BaseException] = []

    def handler(*_: object) -> None:
        try:
            getattr(producer, call)()
        except IllegalStateError as error:
            handled.append(error)

    append = ProducerBatch.try_append

    def interrupted(self: ProducerBatch, *arguments: Any) -> Any:
        handler()  # as a signal would, which Python runs between any two instructions of the main thread
        return append(self, *arguments)

    monkeypatch.setattr(ProducerBatch, "try_append", interrupted)
    future = producer.send("t", b"v", partition=1)
    monkeypatch.undo()
    assert "signal handler" in str(handled[0])
    assert future.result(PATIENCE_S).offset == 0
    handler()  # not in the middle of anything
    assert len(handled) == 1


# -- send and the compiled method that precedes it ---------------------------------------------------------


def test_the_compiled_send_has_the_signature_and_docstring_of_the_visible_one() -> None:
    send = KafkaProducer.send
    visible = inspect.unwrap(send)
    assert inspect.signature(send) == inspect.signature(visible)
    assert send.__doc__ == visible.__doc__
    assert (send.__name__, send.__qualname__, send.__module__) == (
        "send",
        "KafkaProducer.send",
        "kproducer.kafka_producer",
    )
    if IMPLEMENTATION == "native":
        names = list(inspect.signature(send, follow_wrapped=False).parameters)
        assert names == list(inspect.signature(visible).parameters)


def test_close_0_sends_nothing_more(mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = KafkaProducer(mock_cluster.bootstrap_servers, linger_ms=60_000)
    producer.partitions_for("t")
    future = producer.send("t", b"v")
    engine = producer._lifecycle.engine
    assert engine is not None
    initiate_close = Sender.initiate_close

    def slowly(sender: Sender) -> None:
        initiate_close(sender)
        engine.wait_for_end(10)  # the caller of close() loses the processor here

    monkeypatch.setattr(Sender, "initiate_close", slowly)
    producer.close(0)
    error = future.exception(10)
    assert isinstance(error, ProducerClosedError)
    assert error.outcome is Outcome.NOT_SENT


def test_a_subclass_may_override_send(mock_cluster: MockCluster) -> None:
    class Doubling(KafkaProducer):
        def send(self, topic: str, value: Any = None, *rest: Any, **options: Any) -> FutureRecordMetadata:
            return super().send(topic, value * 2, *rest, **options)

    mock_cluster.create_topic("t", 1)
    with Doubling(mock_cluster.bootstrap_servers, linger_ms=1000) as producer:
        # The first record makes the batch; compiled code may append the others.
        futures = [producer.send("t", b"abc") for _ in range(3)]
        producer.flush(PATIENCE_S)
        assert [future.result().serialized_value_size for future in futures] == [6, 6, 6]
