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
from typing import Any, Protocol

from kproducer.client.metadata_snapshot import MetadataSnapshot
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


def _count(topic: str, snapshot: MetadataSnapshot) -> int:
    return len(snapshot.topics[topic].partitions)


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
        return partition_for_key(key_bytes, _count(topic, snapshot))


class ConsistentRandomPartitioner:
    """librdkafka's default: CRC-32 (that of zlib) of the key; a random choice for a null or empty key.

    The random choice is the accumulator's sticky one, as librdkafka's is sticky for its linger time.
    """

    __slots__ = ()

    def __call__(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        snapshot: MetadataSnapshot,
    ) -> int:
        if not key_bytes:
            return UNKNOWN_PARTITION
        return zlib.crc32(key_bytes) % _count(topic, snapshot)


class ConsistentPartitioner:
    """librdkafka's ``consistent``: CRC-32 of the key; a null key counts as an empty one."""

    __slots__ = ()

    def __call__(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        snapshot: MetadataSnapshot,
    ) -> int:
        return zlib.crc32(key_bytes or b"") % _count(topic, snapshot)


class Murmur2Partitioner:
    """librdkafka's ``murmur2``: Java's hash; a null key counts as an empty one."""

    __slots__ = ()

    def __call__(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        snapshot: MetadataSnapshot,
    ) -> int:
        return partition_for_key(key_bytes or b"", _count(topic, snapshot))


class RandomPartitioner:
    """librdkafka's ``random``: each record on its own, keys ignored, partitions with a leader preferred."""

    __slots__ = ("_random",)

    def __init__(self, random: random_module.Random | None = None) -> None:
        self._random = random if random is not None else random_module.Random()

    def __call__(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        snapshot: MetadataSnapshot,
    ) -> int:
        metadata = snapshot.topics[topic]
        choices = metadata.available or range(len(metadata.partitions))
        return choices[int(self._random.random() * len(choices))]


class RoundRobinPartitioner:
    """Java's RoundRobinPartitioner: partitions with a leader in turn, keys ignored."""

    __slots__ = ("_lock", "_next")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Guarded by _lock: topic -> how many records so far.
        self._next: dict[str, int] = {}

    def __call__(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        snapshot: MetadataSnapshot,
    ) -> int:
        with self._lock:
            turn = self._next.get(topic, 0)
            self._next[topic] = turn + 1
        metadata = snapshot.topics[topic]
        choices = metadata.available or range(len(metadata.partitions))
        return choices[turn % len(choices)]


_JAVA_PREFIX = "org.apache.kafka.clients.producer."

#: Every name that the ``partitioner`` setting accepts.
PARTITIONER_NAMES = (
    "consistent",
    "consistent_random",
    "murmur2",
    "murmur2_random",
    "random",
    "round_robin",
    _JAVA_PREFIX + "RoundRobinPartitioner",
    _JAVA_PREFIX + "UniformStickyPartitioner",
    _JAVA_PREFIX + "internals.DefaultPartitioner",
)


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
    if choice is None or choice == _JAVA_PREFIX + "internals.DefaultPartitioner":
        return DefaultPartitioner(ignore_keys)
    if not isinstance(choice, str):
        return choice
    if choice == "consistent_random":
        return ConsistentRandomPartitioner()
    if choice == "consistent":
        return ConsistentPartitioner()
    if choice == "murmur2":
        return Murmur2Partitioner()
    if choice == "murmur2_random":
        # Java's default under librdkafka's name: only a null key is random, an empty one is hashed.
        return DefaultPartitioner()
    if choice == "random":
        return RandomPartitioner(random)
    if choice in ("round_robin", _JAVA_PREFIX + "RoundRobinPartitioner"):
        return RoundRobinPartitioner()
    if choice == _JAVA_PREFIX + "UniformStickyPartitioner":
        return DefaultPartitioner(ignore_keys=True)
    raise ConfigError(f"partitioner={choice!r} is none of {', '.join(PARTITIONER_NAMES)}, nor a callable")
