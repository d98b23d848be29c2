"""The data plane (``native/plane.h``) over a socket pair: frames, responses, partial writes, ownership."""

from __future__ import annotations

import gc
import random
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kproducer_messages import ProduceRequest, ProduceResponse
from kproducer_messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    TopicProduceResponse,
)

from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.client.api_keys import response_header_version
from kproducer._core.kernel import data_plane
from kproducer._core.kernel.crc32c import crc32c
from kproducer._core.records.compression import Compression
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from kproducer.types import RecordMetadata, TopicPartition
from tests.support.units.lane_bench import FIRST_WITH_IDS, Bench, interruptible

pytestmark = pytest.mark.skipif(data_plane is None, reason="needs the compiled kernel")

VERSIONS = range(ProduceRequest.MIN_VERSION, ProduceRequest.MAX_VERSION + 1)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@given(st.binary(max_size=300), st.integers(0, 40), st.integers(0, 9))
def test_checksums_are_those_of_the_package(data: bytes, times: int, start: int) -> None:
    data = (data * times)[start:] + data
    assert data_plane.crc32c(data) == data_plane.crc32c(data, True) == crc32c(memoryview(data))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_is_that_of_the_builder(version: int) -> None:
    bench = Bench(version)
    try:
        for topic, partition, value in [("t", 0, b"a"), ("uu", 3, b"b" * 200), ("t", 1, b""), ("t", 0, b"c")]:
            assert bench.send(topic, partition, value) is not None
        assert bench.lane.drain(bench.now_ms) == 1
        expected = [("t", 0, [b"a", b"c"]), ("uu", 3, [b"b" * 200]), ("t", 1, [b""])]
        assert bench.sent() == bench.expected(expected)
    finally:
        bench.close()


@pytest.mark.parametrize("compression", ["gzip", "lz4", "zstd"])
def test_a_compressed_frame_is_that_of_the_builder(compression: str) -> None:
    bench = Bench(compression=compression)
    try:
        values = [b"%d " % number * 100 for number in range(5)]
        for value in values:
            assert bench.send("t", 0, value) is not None
        incompressible = random.Random(1).randbytes(900)
        bench.send("u", 0, incompressible)
        assert bench.lane.drain(bench.now_ms) == 1
        assert bench.sent() == bench.expected([("t", 0, values), ("u", 0, [incompressible])])
        assert bench.receive(bench.response([("t", 0, 0), ("u", 0, 0)])) == ([], None, 1)
        assert bench.lane.compression == pytest.approx(bench.lane.batch_bytes / bench.lane.plain_bytes, abs=1)
        assert bench.lane.batch_bytes < bench.lane.plain_bytes / 1.5
        assert bench.ratio is not None
        assert bench.ratio.ratio >= 1  # that of "u"
    finally:
        bench.close()


def test_callers_compress_what_is_more_than_the_io_thread_can() -> None:
    bench = Bench(compression="lz4", first_bytes=1024, most_in_flight=100)
    chooser = random.Random(2)
    values = [chooser.randbytes(600) for _ in range(60)]
    try:
        sent = [bench.send("t", 0, value) for value in values]
        batches = [batch.record_count for batch in bench.incomplete]
        assert len(batches) > 8
        frames = b""
        for number, count in enumerate(batches):
            frames += bench.expected([("t", 0, values[:count])], number)
            del values[:count]
        assert bench.lane.drain(bench.now_ms) == len(batches)
        assert bench.sent() == frames
        for number in range(len(batches)):
            bench.receive(bench.response([("t", 0, number)], number))
        assert [future.done() for future in sent] == [True] * 60
    finally:
        bench.close()


def test_callers_compress_batches_of_one_large_record_too() -> None:
    bench = Bench(compression="lz4", first_bytes=1024)
    try:
        for _ in range(8):
            bench.send("t", 0, random.Random(3).randbytes(9000))
        locks = [batch.compression_lock for batch in bench.part("t", 0).disarm()]
        assert [lock is not None for lock in locks] == [False] * 3 + [True] * 4 + [False]
    finally:
        bench.close()


def test_one_drain_compresses_at_most_a_megabyte_and_a_request_more() -> None:
    bench = Bench(compression="lz4", most_in_flight=1000)
    assert bench.ratio is not None
    bench.ratio.ratio = 0.05
    try:
        for _ in range(300):
            bench.send("t", 0, bytes(8000), may_compress=False)
        made = []
        for _ in range(4):
            made.append(bench.lane.drain(bench.now_ms))
            bench.sent()
        assert made == [130, 130, 40, 0]  # of one record each
    finally:
        bench.close()


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_request_times_out_by_the_time_after_its_compression(compression: str) -> None:
    bench = Bench(compression=compression)
    try:
        given_ms = time.monotonic_ns() // 1_000_000 - 5000
        bench.send("t", 0, b"v" * 500)
        assert bench.lane.drain(given_ms) == 1
        ((_, sent_ms, *_),) = bench.lane.take_requests()
        assert sent_ms - given_ms >= (0 if compression == "none" else 5000)
    finally:
        bench.close()


def test_compressed_batches_of_the_general_path_are_sent_as_they_are() -> None:
    bench = Bench(compression="zstd")
    part = bench.part("t", 0)
    part.disarm()
    try:
        builder = RecordBatchBuilder(bench.allocate(4096), bench.compression, bench.ratio)
        batch = ProducerBatch(TopicPartition("t", 0), builder, 5, (0,))
        future = batch.try_append(1_700_000_000_000, b"k", b"v" * 500, [("h", b"1")], None)
        batch.compression_lock = threading.Lock()
        assert not batch.can_be_armed
        batch.compress(batch.compression_lock)
        assert batch.can_be_armed
        part.arm(bench.lane, [(batch, batch.appender, 0, 5, 5, batch.compressed_records)])
        # Handed back, and taken once more: the buffer has no plain records any more.
        (fast,) = part.disarm()
        again = RecordBatchBuilder(builder.buffer, bench.compression, None, 4096, None, builder.writer)
        again.use_compressed(fast.compressed_records)
        appender = fast.new_appender()
        fast.hand_over(again)
        assert fast.compressed_records is None
        part.arm(bench.lane, [(again, appender, 0, 5, 5, again.compressed_records)])
        assert bench.lane.drain(bench.now_ms) == 1
        assert bench.sent() == bench.expected([("t", 0, [b"v" * 500])])
        bench.receive(bench.response([("t", 0, 3)]))
        assert future is not None
        assert future.result(0).offset == 3
    finally:
        bench.close()


def test_what_a_caller_has_compressed_is_handed_back_so() -> None:
    bench = Bench(compression="lz4", first_bytes=1024)
    try:
        for _ in range(60):
            bench.send("t", 0, random.Random(3).randbytes(600))
        batches = bench.part("t", 0).disarm()
        by_callers = [batch.compression_lock is not None for batch in batches]
        assert by_callers == [False] * 3 + [True] * (len(batches) - 4) + [False]
        for batch, is_compressed in zip(batches, by_callers, strict=True):
            assert (batch.compressed_records is not None) == is_compressed
            assert not is_compressed or batch.compression_lock.acquire(blocking=False)
    finally:
        bench.close()


def test_what_is_in_flight_is_handed_back_compressed() -> None:
    bench = Bench(compression="lz4")
    try:
        bench.send("t", 0, b"v" * 500)
        frame = bench.expected([("t", 0, [b"v" * 500])])
        assert bench.lane.drain(bench.now_ms) == 1
        ((_, _, (batch,), frame_bytes, _),) = bench.lane.take_requests()
        assert frame_bytes == len(frame)
        compressed = batch.compressed_records
        assert compressed in frame
        writer = batch.new_appender().writer
        builder = RecordBatchBuilder(writer.buffer, bench.compression, bench.ratio, 4096, None, writer)
        builder.use_compressed(compressed)
        assert builder.is_full
        assert bytes(builder.close()) in frame
        assert bench.ratio is not None
        assert bench.ratio.ratio < 1
    finally:
        bench.close()


@given(st.lists(st.integers(0, 1500), min_size=1, max_size=100), st.sampled_from([0.05, 0.3, 0.9, 1.0, 1.2]))
def test_a_compressed_batch_takes_as_many_records_as_the_builder(sizes: list[int], ratio: float) -> None:
    bench = Bench(compression="zstd", first_bytes=1024)
    try:
        assert bench.ratio is not None
        bench.ratio.ratio = ratio
        for size in sizes:
            assert bench.send("t", 0, bytes(size)) is not None
        counts = [batch.record_count for batch in bench.part("t", 0).disarm()]
        expected = []
        builder: RecordBatchBuilder | None = None
        for size in sizes:
            record = (1_700_000_000_000, b"k", bytes(size), [("h", b"1")])
            if builder is None or not builder.try_append(*record):
                builder = RecordBatchBuilder(bytearray(16384), bench.compression, bench.ratio, 4096)
                assert builder.try_append(*record)
                expected.append(0)
            expected[-1] += 1
        assert counts == expected
        assert bench.taken == len(counts)
    finally:
        bench.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_of_a_transaction_is_that_of_the_builder(version: int) -> None:
    bench = Bench(version, transactional_id="tx")
    try:
        transaction = object()
        bench.plane.begin_transaction(transaction, True)
        assert not bench.plane.has_sent
        for topic, partition, value in [("t", 0, b"a"), ("uu", 3, b"b" * 200), ("t", 1, b""), ("t", 0, b"c")]:
            assert bench.send(topic, partition, value) is not None
        assert not bench.plane.has_sent
        assert bench.lane.drain(bench.now_ms) == 1
        assert bench.plane.has_sent
        bench.plane.end_transaction()
        bench.plane.begin_transaction(transaction, True)
        assert bench.plane.has_sent
        expected = [("t", 0, [b"a", b"c"]), ("uu", 3, [b"b" * 200]), ("t", 1, [b""])]
        assert bench.sent() == bench.expected(expected)
    finally:
        bench.close()


@pytest.fixture
def transactional() -> Iterator[Bench]:
    made = Bench(12, transactional_id="tx")
    yield made
    made.close()


def test_another_epoch_numbers_from_0_without_a_hand_over(transactional: Bench) -> None:
    bench = transactional
    for number, (epoch, sequence) in enumerate([(3, 5), (4, 0), (5, 0)]):
        if number:
            bench.plane.number(7, epoch)
        bench.numbers = (7, epoch, sequence, 0)
        bench.plane.begin_transaction(object(), True)
        assert not bench.plane.has_sent
        assert bench.send("t", 0, b"v") is not None
        assert bench.lane.drain(bench.now_ms) == 1
        assert bench.sent() == bench.expected([("t", 0, [b"v"])], number)
        assert bench.receive(bench.response([("t", 0, number)], number)) == ([], None, 1)
        bench.plane.end_transaction()
    assert bench.part("t", 0).take_acknowledged()[:2] == (1, 0)
    assert bench.part("t", 0).next_sequence == 1


def test_a_partition_that_was_not_used_since_returns_no_number_of_the_earlier_epoch(
    transactional: Bench,
) -> None:
    bench = transactional
    bench.plane.begin_transaction(object(), True)
    assert bench.send("t", 0, b"v") is not None
    bench.lane.drain(bench.now_ms)
    bench.receive(bench.response([("t", 0, 0)]))
    bench.plane.end_transaction()
    bench.plane.number(8, 0)
    part = bench.part("t", 0)
    part.disarm()
    assert part.next_sequence == 0
    assert part.take_acknowledged() == (0, -1, -1)


def test_outside_of_its_transaction_no_record_is_taken(transactional: Bench) -> None:
    bench = transactional
    part = bench.part("t", 0)
    first, second = object(), object()

    def is_taken(transaction: object) -> bool:
        record = (1_700_000_000_000, None, b"v", None, None)
        append = SimpleNamespace(record=record, transaction=transaction, buffer=None, future=None)
        assert not part.append(append)
        return append.future is not None

    assert not is_taken(None)
    assert not is_taken(first)
    bench.plane.begin_transaction(first, True)
    assert is_taken(first)
    bench.plane.end_transaction()
    assert not is_taken(first)
    bench.plane.begin_transaction(second, True)
    assert not is_taken(first)
    assert is_taken(second)
    assert not is_taken(first)


def test_in_version_1_a_partition_takes_records_of_the_transaction_that_it_was_added_to(
    transactional: Bench,
) -> None:
    bench = transactional
    part = bench.part("t", 0)
    transactions = [object(), object()]
    taken = []
    for added_to in (None, *transactions):
        part.added_to = added_to
        for transaction in transactions:
            for has_version_2 in (False, True):
                bench.plane.begin_transaction(transaction, has_version_2)
                record = (1_700_000_000_000, None, b"v", None, None)
                append = SimpleNamespace(record=record, transaction=transaction, buffer=None, future=None)
                assert not part.append(append)
                if append.future is not None:
                    taken.append((added_to, transaction, has_version_2))
                bench.plane.end_transaction()
    first, second = transactions
    assert taken == [
        (None, first, True),
        (None, second, True),
        (first, first, False),
        (second, second, False),
    ]


@pytest.mark.parametrize("another", [False, True])
def test_a_transaction_that_ends_during_an_append_refuses_the_record(
    transactional: Bench, another: bool
) -> None:
    bench = transactional
    bench.part("t", 0)
    bench.plane.begin_transaction(object(), True)

    def end() -> None:
        bench.plane.end_transaction()
        if another:
            bench.plane.begin_transaction(object(), True)

    bench.on_allocate = end
    assert bench.send("t", 0, b"v") is None
    assert bench.incomplete == {}
    assert bench.taken == 0
    # The end may have waited for the batch; that of another transaction has not begun.
    assert len(bench.refusals) == (0 if another else 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_usual_response_settles_every_batch_in_any_order(version: int) -> None:
    bench = Bench(version)
    try:
        places = [("t", 0), ("t", 2), ("u", 1)]
        futures = {place: bench.send(*place, b"v") for place in places}
        bench.lane.drain(bench.now_ms)
        answers = [("u", 1, 30), ("t", 2, 20), ("t", 0, 10)]
        assert bench.receive(bench.response(answers)) == ([], None, 1)
        assert {place: future.result(0).offset for place, future in futures.items()} == {
            ("t", 0): 10, ("t", 2): 20, ("u", 1): 30
        }  # fmt: skip
        assert bench.taken == 0
        assert not bench.incomplete
    finally:
        bench.close()


_texts = st.text(max_size=5)
_partition_answers = st.builds(
    PartitionProduceResponse,
    index=st.integers(-1, 3),
    error_code=st.sampled_from([0, 0, 0, 0, 3, -1]),
    base_offset=st.sampled_from([0, 5, 1 << 40, -1]),
    log_append_time_ms=st.sampled_from([-1, 7]),
    log_start_offset=st.sampled_from([-1, 0]),
    record_errors=st.lists(
        st.builds(
            BatchIndexAndErrorMessage, batch_index=st.just(0), batch_index_error_message=st.none() | _texts
        ),
        max_size=1,
    ),
    error_message=st.none() | _texts,
    current_leader=st.just(LeaderIdAndEpoch()) | st.just(LeaderIdAndEpoch(leader_id=1, leader_epoch=2)),
)


@settings(max_examples=150)
@given(st.data(), st.sampled_from(list(VERSIONS)))
def test_only_what_the_generated_decoder_calls_a_full_success_is_usual(data: Any, version: int) -> None:
    bench = Bench(version)
    try:
        places = [("t", 0), ("t", 1), ("u", 0)]
        for place in places:
            bench.send(*place, b"v")
        bench.lane.drain(bench.now_ms)
        names = data.draw(
            st.permutations(["t", "u"]) | st.lists(st.sampled_from(["t", "u", "x"]), max_size=3)
        )
        bench.ids["x"] = uuid.UUID(int=5)
        if data.draw(st.booleans()):
            topics = [
                TopicProduceResponse(
                    name=name,
                    topic_id=bench.ids[name],
                    partition_responses=[
                        PartitionProduceResponse(index=index, base_offset=9)
                        for index in ([0, 1] if name == "t" else [0])
                    ],
                )
                for name in names
            ]
        else:
            topics = [
                TopicProduceResponse(
                    name=name,
                    topic_id=bench.ids[name],
                    partition_responses=data.draw(st.lists(_partition_answers, max_size=3)),
                )
                for name in names
            ]
        throttle_ms = data.draw(st.sampled_from([0, 0, 0, 10]))
        endpoints = data.draw(st.sampled_from([[], [], [NodeEndpoint(node_id=1, host="h", port=1)]]))
        try:
            frame = bench.frame(
                ProduceResponse(responses=topics, throttle_time_ms=throttle_ms, node_endpoints=endpoints)
            )
        except Exception:  # the version cannot express it
            return
        body, _ = ProduceResponse.decode(frame[4:], version, 4 + response_header_version(0, version))
        by_id = {each: name for name, each in bench.ids.items()}
        answered = []
        is_clean = body.throttle_time_ms == 0 and not body.node_endpoints
        for topic in body.responses:
            name = by_id[topic.topic_id] if version >= FIRST_WITH_IDS else topic.name
            is_clean = is_clean and bool(topic.partition_responses)
            for each in topic.partition_responses:
                answered.append((name, each.index))
                is_clean = is_clean and (
                    each.error_code == 0
                    and each.base_offset >= 0
                    and not each.record_errors
                    and each.error_message is None
                    and each.current_leader == LeaderIdAndEpoch()
                )
        is_usual = is_clean and sorted(answered) == places
        assert bench.receive(frame) == (([], None, 1) if is_usual else ([], frame, 0))
        assert len(bench.incomplete) == (0 if is_usual else 3)
    finally:
        bench.close()


@settings(max_examples=200)
@given(st.data(), st.sampled_from(list(VERSIONS)))
def test_a_changed_byte_is_never_read_outside_of_the_frame(data: Any, version: int) -> None:
    bench = Bench(version)
    try:
        bench.send("t", 0, b"v")
        bench.send("u", 1, b"v")
        bench.lane.drain(bench.now_ms)
        frame = bytearray(bench.response([("t", 0, 1), ("u", 1, 2)]))
        for _ in range(data.draw(st.integers(1, 4))):
            frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(8, len(frame)))
        payload = bytes(frame[4:cut])
        _, rest, settled = bench.receive(len(payload).to_bytes(4, "big") + payload)
        assert settled == (rest is None)
    finally:
        bench.close()


def test_responses_arrive_in_pieces_of_any_size(bench: Bench) -> None:
    chooser = random.Random(1)
    futures = []
    stream = b""
    for number in range(5):
        futures.append(bench.send("t", 0, b"v"))
        assert bench.lane.drain(bench.now_ms) == 1
        stream += bench.response([("t", 0, number)], number)
    while stream:
        size = chooser.randint(1, 9)
        assert bench.receive(stream[:size])[:2] == ([], None)
        stream = stream[size:]
    assert [future.result(0).offset for future in futures] == [0, 1, 2, 3, 4]


def test_a_full_socket_gets_the_rest_of_the_frame_later(bench: Bench) -> None:
    bench.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    values = [bytes([65 + number]) * 3000 for number in range(20)]
    for number, value in enumerate(values):
        bench.send("t", number, value)
    bench.lane.drain(bench.now_ms)
    stream = b""
    rounds = 0
    while True:
        got = bench.sent()
        stream += got
        if not got:
            break
        rounds += 1
        assert bench.lane.write() == 0
    assert rounds > 1
    assert stream == bench.expected([("t", number, [value]) for number, value in enumerate(values)])


def test_the_limit_of_requests_in_flight_holds(bench: Bench) -> None:
    for _ in range(8):
        bench.send("t", 0, b"v" * 3000)  # two do not fit into a batch
    assert bench.lane.drain(bench.now_ms) == 5
    assert bench.lane.drain(bench.now_ms) == 0
    bench.receive(bench.response([("t", 0, 0)]))
    assert bench.lane.drain(bench.now_ms) == 1


def test_requests_of_python_are_answered_first(bench: Bench) -> None:
    bench.lane.foreign = 2
    future = bench.send("t", 0, b"v")
    bench.lane.drain(bench.now_ms)
    foreign = b"\0\0\0\5\0\0\0\7x"
    # What is behind a frame of Python's is looked at after Python has handled that.
    assert bench.lane.receive(foreign + foreign + bench.response([("t", 0, 4)])) == (foreign[4:], None)
    assert bench.plane.settle(bench.now_ms) == 0
    assert bench.lane.holds_bytes
    assert bench.receive(b"") == ([foreign[4:]], None, 1)
    assert not bench.lane.holds_bytes
    assert bench.lane.foreign == 0
    assert future.result(0).offset == 4


def test_a_request_is_not_drained_beyond_its_size() -> None:
    bench = Bench(most_request_bytes=5000)
    try:
        for number in range(3):
            bench.send("t", number, b"v" * 2000)
        assert bench.lane.drain(bench.now_ms) == 2
        assert bench.sent()[: len(bench.expected([("t", 0, [b"v" * 2000]), ("t", 1, [b"v" * 2000])]))] == (
            bench.expected([("t", 0, [b"v" * 2000]), ("t", 1, [b"v" * 2000])])
        )
    finally:
        bench.close()


def test_open_batches_linger_and_a_flush_sends_them() -> None:
    bench = Bench(linger_ms=3_600_000)
    try:
        bench.send("t", 0, b"v")
        assert bench.lane.drain(bench.now_ms) == 0
        bench.plane.send_everything(True)
        assert bench.lane.drain(bench.now_ms) == 1
        bench.plane.send_everything(False)
        bench.send("t", 1, b"v")
        assert bench.lane.drain(bench.now_ms) == 0
        # Once one of them is due, the others go with it.
        bench.send("t", 2, b"v" * 3000)
        bench.send("t", 2, b"v" * 3000)
        assert bench.lane.drain(bench.now_ms) == 1
    finally:
        bench.close()


def test_buffers_are_large_while_few_partitions_have_batches(bench: Bench) -> None:
    """However many batches each of them has; only those of many partitions begin small."""
    large = [bench.send("t", 0, b"v" * 3000) for _ in range(200)]
    assert bench.sizes == [4096] * len(large)
    for number in range(1, 100):
        bench.send("t", number, b"v")
    assert bench.sizes[-1] == 1024


def test_disarming_returns_what_was_not_sent_in_order(bench: Bench) -> None:
    sent = [bench.send("t", 0, b"1" * 3000)]
    bench.lane.drain(bench.now_ms)
    sent += [bench.send("t", 0, b"2" * 3000), bench.send("t", 0, b"3" * 3000)]
    part = bench.part("t", 0)
    batches = part.disarm()
    assert [batch.is_open for batch in batches] == [False, True]
    assert bench.send("t", 0, b"4") is None
    requests = bench.lane.take_requests()
    assert [(number, len(flying), left) for number, _, flying, _, left in requests] == [(0, 1, [])]
    assert requests[0][2][0] not in batches
    assert requests[0][2][0].in_flight
    assert [not future.done() for future in sent] == [True] * 3
    assert len(bench.incomplete) == 3 == bench.taken


def test_the_collector_does_not_walk_the_batches_of_a_lane(bench: Bench) -> None:
    flown, waiting = bench.send("t", 0, b"v"), bench.send("t", 1, b"v")
    assert not any(gc.is_tracked(batch) or gc.is_tracked(batch.outcome) for batch in bench.incomplete)
    (batch,) = bench.part("t", 1).disarm()
    batch.hand_over("what it becomes")
    # It may have an error now, whose traceback may lead to a future.
    assert gc.is_tracked(batch)
    assert gc.is_tracked(batch.outcome)
    bench.lane.drain(bench.now_ms)
    bench.receive(bench.response([("t", 0, 7)]))
    assert flown.result(0).offset == 7
    assert not waiting.done()


def test_a_future_that_is_kept_does_not_keep_the_partition(bench: Bench) -> None:
    future = bench.send("t", 0, b"v")
    (batch,) = bench.incomplete
    bench.lane.drain(bench.now_ms)
    bench.receive(bench.response([("t", 0, 7)]))
    assert batch.part is None
    assert batch.topic_partition == ("t", 0)
    assert future.result(0).offset == 7


@pytest.mark.parametrize("where", ["deallocate", "make_result"])
def test_every_batch_of_a_request_gets_its_outcome_whatever_is_raised(where: str) -> None:
    """And its memory is returned once."""
    errors: list[BaseException] = []
    returned: list[int] = []

    def deallocate(buffers: list[bytearray]) -> None:
        returned.extend(map(id, buffers))

    function = {"deallocate": deallocate, "make_result": ProduceRequestResult}[where]
    bench = Bench(plane={"deallocate": deallocate, where: interruptible(function, errors)})

    def fail(*_: Any) -> None:
        raise KeyError("a callback")

    try:
        # Two that raise are counted in the log, for which the result is made.
        sent = [bench.send("t", number, b"v", fail) for number in range(3) for _ in range(2)]
        bench.lane.drain(bench.now_ms)
        response = bench.response([("t", number, 7) for number in range(3)])
        errors.append(MemoryError())
        with pytest.raises(MemoryError):
            bench.receive(response)
        assert [each.result(0).offset for each in sent] == [7, 8] * 3
        assert bench.incomplete == {}
        assert len(set(returned)) == len(returned) == (3 if where == "make_result" else 0)
    finally:
        bench.close()


def test_the_io_thread_is_woken_once_until_it_sleeps_again() -> None:
    woken: list[None] = []
    errors: list[BaseException] = [KeyboardInterrupt()]
    bench = Bench(plane={"on_wake": interruptible(lambda: woken.append(None), errors)})
    try:
        for partition in range(2):
            bench.part("t", partition)
        assert bench.plane.wait_until_ms > bench.now_ms
        with pytest.raises(KeyboardInterrupt):
            bench.send("t", 0, b"v" * 3000)
        assert bench.send("t", 1, b"v" * 3000)
        assert bench.send("t", 1, b"v" * 3000)
        assert bench.send("t", 0, b"v" * 3000)
        assert len(woken) == 1
        bench.lane.drain(bench.now_ms)
        assert bench.plane.wait_until_ms > bench.now_ms
        bench.send("t", 0, b"v")
        assert len(woken) == 2
    finally:
        bench.close()


def test_callbacks_run_in_order_before_other_threads_see_the_end(bench: Bench) -> None:
    seen: list[Any] = []
    futures: list[Any] = []

    def note(metadata: RecordMetadata, error: Any) -> None:
        seen.append((metadata.offset, error, futures[0].done()))

    for _ in range(3):
        futures.append(bench.send("t", 0, b"v", note))
    woken: list[int] = []
    assert futures[0]._batch_result.add_listener(lambda: woken.append(len(seen)))
    bench.lane.drain(bench.now_ms)
    bench.receive(bench.response([("t", 0, 7)]))
    assert seen == [(7, None, True), (8, None, True), (9, None, True)]
    assert woken == [3]


def test_a_callback_that_raises_is_logged_once_and_stops_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(metadata: RecordMetadata, error: Any) -> None:
        raise RuntimeError("no")

    futures = [bench.send("t", 0, b"v", fail) for _ in range(2)]
    bench.lane.drain(bench.now_ms)
    bench.receive(bench.response([("t", 0, 7)]))
    assert [future.result(0).offset for future in futures] == [7, 8]
    assert len([record for record in caplog.records if "raised" in record.getMessage()]) == 2


def test_what_a_lane_holds_is_handed_back(bench: Bench) -> None:
    bench.lane.foreign = 1
    bench.send("t", 0, b"v")
    bench.lane.drain(bench.now_ms)
    answer = bench.response([("t", 0, 4)])
    bench.lane.receive(b"\0\0\0\4\0\0\0\7" + answer[:9])
    assert bench.lane.take_partial() == answer[:9]
    assert not bench.lane.holds_bytes


def test_a_single_record_may_be_larger_than_a_batch(bench: Bench) -> None:
    assert bench.send("t", 0, b"v" * 100_000) is not None
    assert bench.send("t", 0, b"v") is not None
    assert [batch.record_count for batch in bench.part("t", 0).disarm()] == [1, 1]


def test_without_memory_nothing_changes(bench: Bench) -> None:
    bench.part("t", 0)
    bench.is_empty = True
    assert bench.send("t", 0, b"v") is None
    assert not bench.incomplete


def test_the_open_batch_grows_as_that_of_the_general_path() -> None:
    bench = Bench(first_bytes=1024)
    try:
        values = [bytes([65 + number % 20]) * 100 for number in range(60)]
        for value in values:
            assert bench.send("t", 0, value) is not None
        assert bench.sizes[:2] == [1024, 4096]
        builder = RecordBatchBuilder(bytearray(4096), Compression.of("none"), None, 4096)
        fit = 0
        while builder.try_append(1_700_000_000_000, b"k", values[fit], [("h", b"1")]):
            fit += 1
        counts = [batch.record_count for batch in bench.part("t", 0).disarm()]
        assert counts[0] == fit
        assert sum(counts) == 60
        assert bench.taken == len(counts)
    finally:
        bench.close()


def test_whatever_allocation_fails_no_batch_is_left_behind(bench: Bench) -> None:
    hooks = pytest.importorskip("_testcapi", reason="this Python cannot make allocations fail")
    part = bench.part("t", 0)
    failed = 0
    for number in range(60):
        record = (1_700_000_000_000, None, b"v" * 900, None, print)
        append = SimpleNamespace(record=record, transaction=None, buffer=None, future=None)
        hooks.set_nomemory(number, number + 1)
        try:
            part.append(append)
        except MemoryError:
            failed += 1
        finally:
            hooks.remove_mem_hooks()
        assert bench.taken == len(bench.incomplete) == part.waiting_count
    assert failed > 5


def test_batches_of_the_general_path_become_those_of_the_lane(bench: Bench) -> None:
    part = bench.part("t", 0)
    part.disarm()
    made = []
    for number in range(3):
        buffer = bench.allocate(4096)
        batch = ProducerBatch(
            TopicPartition("t", 0), RecordBatchBuilder(buffer, Compression.of("none")), 5, (number,)
        )
        future = batch.try_append(1_700_000_000_000, b"k", b"%d" % number, [("h", b"1")], None)
        made.append((batch, future))
    part.arm(bench.lane, [(batch, batch.appender, batch.order[0], 5, 5, None) for batch, _ in made], True)
    assert part.waiting_count == 3
    late = bench.send("t", 0, b"late")
    assert bench.lane.drain(bench.now_ms) == 3
    for number in range(3):
        bench.receive(bench.response([("t", 0, number)], number))
    assert [future.result(0).offset for _, future in made] == [0, 1, 2]
    assert late.result(0).offset == 3
    assert part.waiting_count == 0
    assert bench.taken == 0
