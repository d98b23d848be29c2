"""The life of a batch under construction: room, states, producer state, what lies where in the end."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.kernel import record_size_upper_bound
from kproducer._core.kernel.layout import RECORD_BATCH_OVERHEAD
from kproducer._core.records.batch_sizing import TopicCompressionRatio
from kproducer._core.records.compression import Compression
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from kproducer.errors import IllegalStateError, LocalProtocolError
from kproducer.testing.fakebroker.batch_check import read_batch

TS = 1_700_000_000_000
NONE = Compression.of("none")
CODECS = ["gzip", "snappy", "lz4", "zstd"]
NOISE = random.Random(9).randbytes(1 << 16)


def noise(size: int, at: int = 0) -> bytes:
    return NOISE[at % 1000 : at % 1000 + size]


def expecting(ratio: float) -> TopicCompressionRatio:
    estimate = TopicCompressionRatio()
    estimate.ratio = ratio
    return estimate


def build(
    size: int = 16384, codec: str = "none", ratio: float = 1.0, write_limit: int | None = None
) -> RecordBatchBuilder:
    return RecordBatchBuilder(bytearray(size), Compression.of(codec), expecting(ratio), write_limit)


def fill(builder: RecordBatchBuilder, value: Callable[[int], bytes]) -> list[bytes]:
    values: list[bytes] = []
    while builder.try_append(TS + len(values), None, value(len(values)), None):
        values.append(value(len(values)))
    return values


# -- zero copy -------------------------------------------------------------------------------------


def test_an_uncompressed_batch_is_sent_from_the_pooled_buffer_itself() -> None:
    buffer = bytearray(1000)
    builder = RecordBatchBuilder(buffer, NONE)
    builder.try_append(TS, b"key", b"a value to look for", None)
    wire = builder.close()
    assert wire.obj is buffer
    assert len(wire) == builder.estimated_size_bytes == builder.uncompressed_size_bytes
    at = bytes(wire).index(b"a value to look for")
    buffer[at : at + 1] = b"A"  # seen through the view: same memory
    assert bytes(wire[at : at + 7]) == b"A value"


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_goes_back_into_the_pooled_buffer_when_it_fits(codec: str) -> None:
    builder = build(codec=codec)
    fill(builder, lambda i: b"the same text again and again")
    wire = builder.close()
    assert wire.obj is builder.buffer
    assert len(wire) == builder.estimated_size_bytes < builder.uncompressed_size_bytes
    read_batch(wire)


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_that_grew_gets_memory_of_its_own(codec: str) -> None:
    value = noise(500)
    size = RECORD_BATCH_OVERHEAD + 500 + 9
    builder = build(size=size, codec=codec)
    assert builder.try_append(TS, None, value, None)
    assert builder.uncompressed_size_bytes == size
    wire = builder.close()
    assert len(wire) > size
    assert wire.obj is not builder.buffer
    assert [record.value for record in read_batch(wire).records] == [value]


# -- room ------------------------------------------------------------------------------------------


def test_without_compression_the_write_limit_is_exact() -> None:
    builder = build(size=1000, write_limit=RECORD_BATCH_OVERHEAD + 3 * 10)
    assert [builder.try_append(TS, None, b"xyz", None) for _ in range(4)] == [True, True, True, False]
    assert builder.estimated_size_bytes == RECORD_BATCH_OVERHEAD + 30
    assert builder.is_full
    assert builder.writer.record_count == 3


def test_headers_count_for_room() -> None:
    builder = build(size=RECORD_BATCH_OVERHEAD + 40)
    assert builder.try_append(TS, None, b"xyz", None)
    assert not builder.try_append(TS, None, b"xyz", [("name", bytes(20))])
    assert builder.try_append(TS, None, b"xyz", [("name", bytes(5))])


@pytest.mark.parametrize("codec", ["none", *CODECS])
@pytest.mark.parametrize("ratio", [0.1, 1.0, 1.5])
@pytest.mark.parametrize("write_limit", [0, 61, 100, 5000])
def test_the_first_record_is_taken_whatever_the_limit_and_the_second_is_not(
    codec: str, ratio: float, write_limit: int
) -> None:
    value = noise(6000)
    builder = build(record_size_upper_bound(None, value, None), codec, ratio, write_limit)
    assert not builder.is_full
    assert builder.try_append(TS, None, value, None)
    if codec == "none" or ratio >= 1.0 or write_limit < 600:
        assert builder.is_full
    assert not builder.try_append(TS, None, noise(4500), None)
    assert builder.writer.record_count == 1
    assert [value for _, _, value, _ in builder.records()] == [value]


def test_a_buffer_too_small_for_the_first_record_is_an_error_of_the_caller() -> None:
    builder = build(size=100)
    with pytest.raises(IllegalStateError, match="buffer of 100 bytes is too small"):
        builder.try_append(TS, None, bytes(100), None)
    assert builder.writer.record_count == 0


@pytest.mark.parametrize("codec", CODECS)
def test_without_experience_a_compressed_batch_takes_what_fits_uncompressed(codec: str) -> None:
    builder = build(codec=codec)
    values = fill(builder, lambda i: b"compressible " * 8)
    assert 16384 / 1.05 - 200 < builder.uncompressed_size_bytes <= 16384 / 1.05 + 200
    assert [value for _, _, value, _ in builder.records()] == values


@pytest.mark.parametrize("codec", CODECS)
def test_the_write_limit_bounds_the_estimated_compressed_size(codec: str) -> None:
    builder = build(size=131072, codec=codec, ratio=0.2, write_limit=16384)
    values = fill(builder, lambda i: b"compressible " * 8)
    assert 16384 - 200 < builder.estimated_size_bytes <= 16384
    assert builder.uncompressed_size_bytes == pytest.approx(16384 / (0.2 * 1.05), rel=0.05)
    assert [value for _, _, value, _ in builder.records()] == values
    assert builder.writer.max_timestamp_ms == TS + len(values) - 1


@pytest.mark.parametrize("codec", CODECS)
@given(
    ratio=st.floats(0.05, 2.0),
    sizes=st.lists(st.integers(0, 1500), min_size=1, max_size=120),
    write_limit=st.integers(100, 3000),
)
def test_a_record_is_taken_exactly_when_kafka_takes_it(
    codec: str, ratio: float, sizes: list[int], write_limit: int
) -> None:
    """Kafka's rule: written so far times the expected ratio, plus the record in full, within the limit."""
    builder = RecordBatchBuilder(bytearray(200_000), Compression.of(codec), expecting(ratio), write_limit)
    factor = 1.05 * ratio
    taken: list[bytes] = []
    for at, size in enumerate(sizes):
        value = noise(size, at)
        plain = builder.uncompressed_size_bytes - RECORD_BATCH_OVERHEAD
        estimate = RECORD_BATCH_OVERHEAD + int(plain * factor)
        assert builder.estimated_size_bytes == estimate
        probe = build(4000)
        for _ in range(len(taken)):
            probe.try_append(TS, None, b"", None)
        before = probe.uncompressed_size_bytes
        assert probe.try_append(TS, None, value, None)
        record_bytes = probe.uncompressed_size_bytes - before
        expected = not taken or write_limit >= estimate + record_bytes
        assert builder.is_full == (bool(taken) and estimate >= write_limit)
        assert builder.try_append(TS, None, value, None) is expected
        if expected:
            taken.append(value)
    assert [value for _, _, value, _ in builder.records()] == taken


@pytest.mark.parametrize("ratio", [0.3, 0.96, 1.0, 1.37, 2.0])
@pytest.mark.parametrize("value_bytes", [1, 13, 40])
def test_not_one_byte_more_or_less_than_the_estimate_allows(ratio: float, value_bytes: int) -> None:
    value = noise(value_bytes)
    record_bytes = value_bytes + 7
    for write_limit in range(200, 420):
        builder = build(4000, "snappy", ratio, write_limit)
        expected = 0
        while not expected or write_limit >= (
            RECORD_BATCH_OVERHEAD + int(expected * record_bytes * (1.05 * ratio)) + record_bytes
        ):
            expected += 1
            if expected == 60:  # behind it offset deltas take two bytes
                break
        taken = 0
        while taken < 60 and builder.try_append(TS, None, value, None):
            taken += 1
        assert taken == expected, f"write limit {write_limit}"


@pytest.mark.parametrize("codec", CODECS)
def test_the_estimate_learns_from_each_batch_once(codec: str) -> None:
    estimate = expecting(1.0)
    builder = RecordBatchBuilder(bytearray(16384), Compression.of(codec), estimate)
    fill(builder, lambda i: b"compressible " * 8)
    assert builder.compression_ratio == 1.0
    builder.close()
    assert builder.compression_ratio < 0.5
    assert estimate.ratio == pytest.approx(0.995)
    builder.close()
    builder.set_producer_state(1, 0, 0, False)
    builder.close()
    assert estimate.ratio == pytest.approx(0.995)


def test_an_uncompressed_batch_teaches_nothing() -> None:
    estimate = expecting(0.7)
    builder = RecordBatchBuilder(bytearray(100), NONE, estimate)
    builder.try_append(TS, None, b"v", None)
    builder.close()
    assert builder.compression_ratio == 1.0
    assert estimate.ratio == 0.7


@pytest.mark.parametrize("codec", CODECS)
def test_batches_stay_within_the_limit_when_compressibility_swings(codec: str) -> None:
    """Over-large batches would be split by the broker's refusal: fewer than one in ten may be."""
    estimate = TopicCompressionRatio()
    dice = random.Random(3)
    too_large = 0
    for round_ in range(200):
        share = 0.2 if (round_ // 20) % 2 else 0.9  # of noise in each value
        builder = RecordBatchBuilder(bytearray(4096), Compression.of(codec), estimate)
        noisy = int(200 * share)
        fill(builder, lambda i, n=noisy: dice.randbytes(n) + bytes(200 - n))  # type: ignore[misc]
        too_large += len(builder.close()) > 4096 * 1.05
    assert too_large < 20


# -- states ----------------------------------------------------------------------------------------


def closed_for_appends() -> RecordBatchBuilder:
    builder = build()
    builder.try_append(TS, None, b"v", None)
    builder.close_for_appends()
    return builder


def closed() -> RecordBatchBuilder:
    builder = closed_for_appends()
    builder.close()
    return builder


def renumbered() -> RecordBatchBuilder:
    builder = closed()
    builder.set_producer_state(1, 2, 3, False)
    return builder


@pytest.mark.parametrize("make", [closed_for_appends, closed, renumbered])
def test_nothing_is_appended_to_a_batch_that_is_not_open(make: Callable[[], RecordBatchBuilder]) -> None:
    builder = make()
    content = bytes(builder.buffer)
    with pytest.raises(IllegalStateError, match="closed for appends"):
        builder.try_append(TS, None, b"v", None)
    assert bytes(builder.buffer) == content
    assert builder.is_full


def test_close_is_idempotent_and_does_not_write_again() -> None:
    builder = closed()
    wire = builder.close()
    builder.buffer[17:21] = b"\0\0\0\0"  # a second pass would put the checksum back
    assert builder.close() is wire
    assert bytes(wire[17:21]) == b"\0\0\0\0"


def test_a_batch_without_records_cannot_be_closed() -> None:
    builder = build()
    with pytest.raises(IllegalStateError, match="without records"):
        builder.close()
    assert builder.try_append(TS, None, b"v", None)


def test_a_refused_record_leaves_the_batch_as_it_was() -> None:
    builder = build()
    builder.try_append(TS, None, b"v", None)
    content = bytes(builder.buffer)
    with pytest.raises(TypeError, match="key and value must be"):
        builder.try_append(TS, "key", b"v", None)  # type: ignore[arg-type]
    assert bytes(builder.buffer) == content
    assert builder.writer.record_count == 1


# -- producer state --------------------------------------------------------------------------------

BAD_STATES = [
    (-1, -1, -1, True),
    (-1, 0, -1, False),
    (-1, -1, 0, False),
    (-2, 0, 0, False),
    (2**63, 0, 0, False),
    (1, -1, 0, False),
    (1, 2**15, 0, False),
    (1, 0, -1, False),
    (1, 0, 2**31, True),
]


@pytest.mark.parametrize("state", BAD_STATES)
@pytest.mark.parametrize("is_closed", [False, True])
def test_contradictory_producer_state_is_refused_locally(
    state: tuple[int, int, int, bool], is_closed: bool
) -> None:
    builder = closed() if is_closed else closed_for_appends()
    with pytest.raises(LocalProtocolError, match=f"producer id {state[0]}, producer epoch {state[1]} and"):
        builder.set_producer_state(*state)
    batch = read_batch(builder.close())
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert not batch.is_transactional


@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_producer_state_is_written_and_rewritten(codec: str) -> None:
    builder = build(codec=codec, ratio=0.2)
    values = fill(builder, lambda i: b"compressible " * 8)
    builder.set_producer_state(2**63 - 1, 2**15 - 1, 2**31 - 1, True)
    first = read_batch(bytes(builder.close()))
    assert first.is_transactional
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (2**63 - 1, 2**15 - 1, 2**31 - 1)
    builder.set_producer_state(7, 1, 0, False)
    second = read_batch(builder.close())
    assert not second.is_transactional
    assert (second.producer_id, second.producer_epoch, second.base_sequence) == (7, 1, 0)
    assert second.records == first.records
    assert [record.value for record in second.records] == values
    assert second.codec == builder.compression.type


# -- records back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_records_can_be_moved_to_smaller_batches(codec: str) -> None:
    big = build(codec=codec, ratio=0.2)
    headers = [("h", b"x"), ("h", None)]
    count = 0
    while big.try_append(TS - count, b"%d" % count, None if count % 3 else bytes(90), headers):
        count += 1
    original = big.records()
    assert len(original) == count
    moved: list[tuple[int, bytes | None, bytes | None, object]] = []
    small: list[RecordBatchBuilder] = []
    for timestamp_ms, key, value, record_headers in original:
        if not small or not small[-1].try_append(timestamp_ms, key, value, record_headers):
            small.append(build(2048, codec))
            assert small[-1].try_append(timestamp_ms, key, value, record_headers)
    for builder in small:
        for record in read_batch(builder.close()).records:
            moved.append((record.timestamp_ms, record.key, record.value, record.headers))
    assert len(small) > 1
    assert moved == [
        (TS - i, b"%d" % i, None if i % 3 else bytes(90), (("h", b"x"), ("h", None))) for i in range(count)
    ]


def test_reading_the_records_closes_an_open_batch() -> None:
    builder = build()
    builder.try_append(TS, None, b"v", None)
    assert [value for _, _, value, _ in builder.records()] == [b"v"]
    assert builder.is_full
    assert [value for _, _, value, _ in builder.records()] == [b"v"]
