"""Partitioners by name: same partitions as Java's and librdkafka's producers."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest

from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.kernel import partition_for_key
from kproducer._core.sending.partitioners import (
    PARTITIONER_NAMES,
    UNKNOWN_PARTITION,
    Partitioner,
    make_partitioner,
)
from kproducer.errors import ConfigError
from tests.support.units.accumulator_kit import TOPIC, make_snapshot

# (key, murmur2 as a signed 32-bit number, as Java's Utils.murmur2 gives it).
JAVA_MURMUR2 = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


def place(partitioner: Partitioner, key: bytes | None, snapshot: MetadataSnapshot) -> int:
    return partitioner(TOPIC, key, key, None, b"v", snapshot)


@pytest.mark.parametrize(("key", "java_hash"), JAVA_MURMUR2)
def test_keys_go_where_java_sends_them(key: bytes, java_hash: int) -> None:
    for count in (1, 2, 3, 7, 50, 1000):
        expected = (java_hash & 0x7FFFFFFF) % count
        assert partition_for_key(key, count) == expected
        snapshot = make_snapshot([1] * count)
        for choice in (None, "murmur2", "murmur2_random"):
            assert place(make_partitioner(choice), key, snapshot) == expected


def test_keyed_records_do_not_move_when_leaders_are_lost() -> None:
    healthy, broken = make_snapshot([1, 1, 1, 1]), make_snapshot([-1, 1, -1, -1])
    for choice in (None, "consistent_random", "murmur2_random", "consistent", "murmur2"):
        partitioner = make_partitioner(choice)
        for number in range(20):
            key = b"%d" % number
            assert place(partitioner, key, healthy) == place(partitioner, key, broken)


def test_null_and_empty_keys() -> None:
    snapshot = make_snapshot([1] * 7)
    empty_murmur = partition_for_key(b"", 7)
    assert place(make_partitioner(None), None, snapshot) == UNKNOWN_PARTITION
    assert place(make_partitioner(None), b"", snapshot) == empty_murmur
    assert place(make_partitioner("murmur2_random"), None, snapshot) == UNKNOWN_PARTITION
    assert place(make_partitioner("murmur2_random"), b"", snapshot) == empty_murmur
    assert place(make_partitioner("murmur2"), None, snapshot) == empty_murmur
    assert place(make_partitioner("consistent_random"), None, snapshot) == UNKNOWN_PARTITION
    assert place(make_partitioner("consistent_random"), b"", snapshot) == UNKNOWN_PARTITION
    assert place(make_partitioner("consistent"), None, snapshot) == zlib.crc32(b"") % 7


def test_consistent_is_crc32_of_the_key() -> None:
    # 0xCBF43926 is the check value of CRC-32 for these nine digits.
    snapshot = make_snapshot([1] * 10)
    for choice in ("consistent", "consistent_random"):
        assert place(make_partitioner(choice), b"123456789", snapshot) == 0xCBF43926 % 10


def test_ignoring_keys_leaves_everything_to_the_accumulator() -> None:
    snapshot = make_snapshot([1] * 3)
    assert place(make_partitioner(None, ignore_keys=True), b"key", snapshot) == UNKNOWN_PARTITION
    java = "org.apache.kafka.clients.producer.UniformStickyPartitioner"
    assert place(make_partitioner(java), b"key", snapshot) == UNKNOWN_PARTITION


def test_random_spreads_over_available_partitions() -> None:
    partitioner = make_partitioner("random")
    counts = Counter(place(partitioner, b"same", make_snapshot([1, -1, 2, 1])) for _ in range(3000))
    assert set(counts) == {0, 2, 3}
    assert min(counts.values()) > 800
    assert place(partitioner, None, make_snapshot([-1, -1])) in (0, 1)


@pytest.mark.parametrize("name", ["round_robin", "org.apache.kafka.clients.producer.RoundRobinPartitioner"])
def test_round_robin_takes_turns_per_topic(name: str) -> None:
    partitioner = make_partitioner(name)
    snapshot = make_snapshot([1, -1, 2, 1])
    assert [place(partitioner, b"k", snapshot) for _ in range(5)] == [0, 2, 3, 0, 2]
    assert [place(partitioner, b"k", make_snapshot([-1, -1])) for _ in range(2)] == [1, 0]


def test_callable_is_used_as_it_is() -> None:
    def mine(topic, key, key_bytes, value, value_bytes, snapshot):  # type: ignore[no-untyped-def]
        return 1

    assert make_partitioner(mine) is mine


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="consistent_random"):
        make_partitioner("murmur3")
    for name in PARTITIONER_NAMES:
        make_partitioner(name)
