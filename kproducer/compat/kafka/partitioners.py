"""kafka-python's partitioners: objects with ``partition``, and callables, over kproducer's metadata."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer.compat.kafka.errors import InvalidSettingError

#: Chooses a partition from (topic, key, key bytes, value, value bytes, cluster).
PartitionMethod: TypeAlias = Callable[[str, Any, Any, Any, Any, Any], Any]

#: kafka-python's own partitioners, which choose as kproducer's default one does.
_BUILT_IN = ("DefaultPartitioner", "StickyPartitioner")


class ClusterView:
    """What partitioners read of kafka-python's ``ClusterMetadata``.

    Args:
        snapshot: the present metadata.
    """

    def __init__(self, snapshot: MetadataSnapshot) -> None:
        self._snapshot = snapshot

    def topics(self) -> set[str]:
        """The names of the topics that are known."""
        return set(self._snapshot.topics)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of its partitions; ``None``: the topic is not known."""
        found = self._snapshot.topics.get(topic)
        return None if found is None else set(range(len(found.partitions)))

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions that have a leader; ``None``: the topic is not known."""
        found = self._snapshot.topics.get(topic)
        return None if found is None else set(found.available)


def own_partitioner(partitioner: Any) -> Any:
    """kproducer's setting for kafka-python's. That of an object with ``partition`` is not used.

    Raises:
        InvalidSettingError: it is not a partitioner.
    """
    if _is_built_in(partitioner) or partition_method(partitioner) is not None:
        return None
    if not callable(partitioner) or isinstance(partitioner, type):
        raise InvalidSettingError(
            "partitioner: expected an object with partition(topic, key, serialized_key, value,"
            " serialized_value, cluster), or a callable of (key_bytes, all_partitions, available_partitions),"
            f" got {partitioner!r:.200}"
        )

    def choose(topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, snapshot: Any) -> int:
        metadata = snapshot.topics[topic]
        chosen: int = partitioner(key_bytes, list(range(len(metadata.partitions))), list(metadata.available))
        return chosen

    return choose


def partition_method(partitioner: Any) -> PartitionMethod | None:
    """How a partitioner of the application chooses; ``None``: it is not an object with ``partition``.

    Raises:
        InvalidSettingError: it has to be told of new batches, which kproducer begins on another thread.
    """
    method = getattr(partitioner, "partition", None)
    is_text = isinstance(partitioner, (str, bytes, bytearray))
    if not callable(method) or is_text or isinstance(partitioner, type) or _is_built_in(partitioner):
        return None
    if hasattr(partitioner, "on_new_batch"):
        raise InvalidSettingError(
            "partitioner: on_new_batch() is not supported; kafka.partitioner.StickyPartitioner, and None,"
            " change the partition with each batch"
        )
    if not any(_is_of_kafka_python(each) for each in type(partitioner).__mro__) and _takes_three(method):
        return lambda topic, key, key_bytes, value, value_bytes, cluster: method(topic, key_bytes, cluster)
    return method  # type: ignore[no-any-return]


def _is_of_kafka_python(kind: type) -> bool:
    return kind.__module__.startswith("kafka.partitioner")


def _takes_three(method: Callable[..., Any]) -> bool:
    """Whether it takes three arguments, as objects do that do not extend kafka-python's ``Partitioner``."""
    try:
        inspect.signature(method).bind("topic", "key_bytes", "cluster")
    except TypeError:
        return False
    except ValueError:  # a method in C need not have a signature
        pass
    return True


def _is_built_in(partitioner: Any) -> bool:
    kind = type(partitioner)
    return partitioner == "murmur2" or (kind.__name__ in _BUILT_IN and _is_of_kafka_python(kind))
