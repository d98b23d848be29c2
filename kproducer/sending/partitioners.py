"""Partitioners by name: Java's default, Java's round robin, and those of librdkafka.

A partitioner maps a record to a partition, or to ``UNKNOWN_PARTITION``: then the accumulator picks one,
sticky and adaptive (``built_in_partitioner``). Knows nothing of queues. Source: Kafka's
``BuiltInPartitioner`` and ``RoundRobinPartitioner``; librdkafka's ``partitioner`` setting (CONFIGURATION.md).
"""

from __future__ import annotations

import random as random_module
import threading
import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol

from kproducer.client.metadata_snapshot import MetadataSnapshot, TopicMetadata
from kproducer.errors import ConfigError
from kproducer.kernel import partition_for_key
from kproducer.types import UNKNOWN_PARTITION


class Partitioner(Protocol):
    """Maps a record to a partition. Called on the thread that sends, by several at once.

    Args:
        topic: topic name.
        key, value: as given to ``send``.
        key_bytes, value_bytes: serialized; ``None`` is null.
        snapshot: what is known of the cluster; the topic is in it.

    Returns:
        0 to the number of partitions - 1, or ``UNKNOWN_PARTITION``.
    """

    def __call__(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        snapshot: MetadataSnapshot,
    ) -> int: ...


class DefaultPartitioner:
    """Java's default: by key if there is one, else the accumulator's choice.

    Args:
        ignore_keys: treat every record as one without key (``partitioner_ignore_keys``).
    """

    __slots__ = ("ignore_keys",)

    def __init__(self, ignore_keys: bool = False) -> None:
        self.ignore_keys = ignore_keys

    def __call__(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        snapshot: MetadataSnapshot,
    ) -> int:
        if key_bytes is None or self.ignore_keys:
            return UNKNOWN_PARTITION
        return _murmur2(key_bytes, snapshot.topics[topic])


class _KeyPartitioner:
    """A partitioner to which only the key's bytes and the topic matter."""

    __slots__ = ("_choose",)

    def __init__(self, choose: Callable[[bytes | None, TopicMetadata], int]) -> None:
        self._choose = choose

    def __call__(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        snapshot: MetadataSnapshot,
    ) -> int:
        return self._choose(key_bytes, snapshot.topics[topic])


def _consistent(key: bytes | None, topic: TopicMetadata) -> int:
    """librdkafka's ``consistent``: CRC-32 (that of zlib) of the key; a null key counts as an empty one."""
    return zlib.crc32(key or b"") % len(topic.partitions)


def _consistent_random(key: bytes | None, topic: TopicMetadata) -> int:
    """librdkafka's default: like ``consistent``, but a random choice for a null or empty key.

    The random choice is the accumulator's sticky one, as librdkafka's is sticky for its linger time.
    """
    return _consistent(key, topic) if key else UNKNOWN_PARTITION


def _murmur2(key: bytes | None, topic: TopicMetadata) -> int:
    """librdkafka's ``murmur2``: Java's hash; a null key counts as an empty one."""
    return partition_for_key(key or b"", len(topic.partitions))


class _Random:
    """librdkafka's ``random``: each record on its own, keys ignored, partitions with a leader preferred."""

    def __init__(self, random: random_module.Random | None) -> None:
        self._random = random if random is not None else random_module.Random()

    def __call__(self, key: bytes | None, topic: TopicMetadata) -> int:
        choices = topic.available or range(len(topic.partitions))
        return choices[int(self._random.random() * len(choices))]


class _RoundRobin:
    """Java's RoundRobinPartitioner: partitions with a leader in turn, keys ignored."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Guarded by _lock: number of records so far, by topic.
        self._turns: dict[str, int] = {}

    def __call__(self, key: bytes | None, topic: TopicMetadata) -> int:
        with self._lock:
            turn = self._turns.get(topic.name, 0)
            self._turns[topic.name] = turn + 1
        choices = topic.available or range(len(topic.partitions))
        return choices[turn % len(choices)]


_JAVA_PREFIX: Final = "org.apache.kafka.clients.producer."

_BY_NAME: Final[dict[str, Callable[[bool, random_module.Random | None], Partitioner]]] = {
    "consistent": lambda ignore_keys, random: _KeyPartitioner(_consistent),
    "consistent_random": lambda ignore_keys, random: _KeyPartitioner(_consistent_random),
    "murmur2": lambda ignore_keys, random: _KeyPartitioner(_murmur2),
    # Java's default under librdkafka's name: only a null key is random, an empty one is hashed.
    "murmur2_random": lambda ignore_keys, random: DefaultPartitioner(),
    "random": lambda ignore_keys, random: _KeyPartitioner(_Random(random)),
    "round_robin": lambda ignore_keys, random: _KeyPartitioner(_RoundRobin()),
    _JAVA_PREFIX + "RoundRobinPartitioner": lambda ignore_keys, random: _KeyPartitioner(_RoundRobin()),
    _JAVA_PREFIX + "UniformStickyPartitioner": lambda ignore_keys, random: DefaultPartitioner(True),
    _JAVA_PREFIX + "internals.DefaultPartitioner": lambda ignore_keys, random: DefaultPartitioner(
        ignore_keys
    ),
}

#: Every name that the ``partitioner`` setting accepts.
PARTITIONER_NAMES: Final = tuple(_BY_NAME)


def make_partitioner(
    choice: str | Partitioner | Callable[..., int] | None,
    *,
    ignore_keys: bool = False,
    random: random_module.Random | None = None,
) -> Partitioner:
    """The partitioner for the ``partitioner`` setting.

    Args:
        choice: ``None`` for Java's default, one of ``PARTITIONER_NAMES``, or a callable.
        ignore_keys: ``partitioner_ignore_keys``; for the default only.
        random: source of randomness where the partitioner needs one.

    Raises:
        ConfigError: no such name.
    """
    if choice is None:
        return DefaultPartitioner(ignore_keys)
    if not isinstance(choice, str):
        return choice
    if choice not in _BY_NAME:
        raise ConfigError(f"partitioner={choice!r} is none of {', '.join(PARTITIONER_NAMES)}, nor a callable")
    return _BY_NAME[choice](ignore_keys, random)
