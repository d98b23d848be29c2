"""Partitioners by name: Java's default, Java's round robin, and those of librdkafka.

A partitioner maps a record to a partition, or to ``UNKNOWN_PARTITION``: then the accumulator picks one,
sticky and adaptive (``built_in_partitioner``). Knows nothing of queues. Source: Kafka's
``BuiltInPartitioner`` and ``RoundRobinPartitioner``; librdkafka's ``partitioner`` setting (CONFIGURATION.md).
"""

from __future__ import annotations

import random
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from kproducer._core.client.metadata_snapshot import MetadataSnapshot, TopicMetadata
from kproducer._core.kernel import partition_for_key
from kproducer._core.runtime.public_names import public
from kproducer.errors import ConfigError
from kproducer.types import UNKNOWN_PARTITION

#: Not the module's own generator, whose sequence belongs to the application.
_random: Final = random.Random()


@public
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


def _by_key(choose: Callable[[bytes | None, TopicMetadata], int]) -> Partitioner:
    """A partitioner that needs only the key's bytes and the topic."""
    return lambda topic, key, key_bytes, value, value_bytes, snapshot: choose(
        key_bytes, snapshot.topics[topic]
    )


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


def _murmur2_random(key: bytes | None, topic: TopicMetadata) -> int:
    """Java's default: by key if there is one (an empty key is one), else the accumulator's choice."""
    return UNKNOWN_PARTITION if key is None else _murmur2(key, topic)


def _partitions_to_use(topic: TopicMetadata) -> Sequence[int]:
    """The partitions with a leader; all partitions if none has one."""
    return topic.available or range(len(topic.partitions))


def _at_random(key: bytes | None, topic: TopicMetadata) -> int:
    """librdkafka's ``random``: each record on its own, keys ignored, partitions with a leader preferred."""
    return _random.choice(_partitions_to_use(topic))


def _round_robin() -> Partitioner:
    """Java's RoundRobinPartitioner: partitions with a leader in turn, keys ignored."""
    lock = threading.Lock()
    #: Number of records so far, by topic. Guarded by the lock.
    turns: dict[str, int] = {}

    def choose(key: bytes | None, topic: TopicMetadata) -> int:
        with lock:
            turn = turns.get(topic.name, 0)
            turns[topic.name] = turn + 1
        choices = _partitions_to_use(topic)
        return choices[turn % len(choices)]

    return _by_key(choose)


#: Java's default, and the same with ``partitioner_ignore_keys``. ``Admission`` and the bulk calls know
#: these two, and apply them without a call per record.
default_partitioner: Final = _by_key(_murmur2_random)
uniform_sticky_partitioner: Final = _by_key(lambda key, topic: UNKNOWN_PARTITION)

_JAVA_PREFIX: Final = "org.apache.kafka.clients.producer."

_JAVA_DEFAULT: Final = _JAVA_PREFIX + "internals.DefaultPartitioner"

_BY_NAME: Final[dict[str, Callable[[], Partitioner]]] = {
    "consistent": lambda: _by_key(_consistent),
    "consistent_random": lambda: _by_key(_consistent_random),
    "murmur2": lambda: _by_key(_murmur2),
    "murmur2_random": lambda: default_partitioner,
    "random": lambda: _by_key(_at_random),
    "round_robin": _round_robin,
    _JAVA_PREFIX + "RoundRobinPartitioner": _round_robin,
    _JAVA_PREFIX + "UniformStickyPartitioner": lambda: uniform_sticky_partitioner,
}

#: Every name that the ``partitioner`` setting accepts.
PARTITIONER_NAMES: Final = (*_BY_NAME, _JAVA_DEFAULT)


def make_partitioner(
    choice: str | Partitioner | Callable[..., int] | None, *, ignore_keys: bool = False
) -> Partitioner:
    """The partitioner for the ``partitioner`` setting.

    Args:
        choice: ``None`` for Java's default, one of ``PARTITIONER_NAMES``, or a callable.
        ignore_keys: ``partitioner_ignore_keys``; for the default only.

    Raises:
        ConfigError: unknown name.
    """
    if choice is None or choice == _JAVA_DEFAULT:
        return uniform_sticky_partitioner if ignore_keys else default_partitioner
    if not isinstance(choice, str):
        return choice
    if choice not in _BY_NAME:
        raise ConfigError(f"partitioner={choice!r} is none of {', '.join(PARTITIONER_NAMES)}, nor a callable")
    return _BY_NAME[choice]()
