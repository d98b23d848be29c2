"""``KafkaProducer``: kafka-python's interface over kproducer's.

Settings, defaults, accepted types and errors are those of kafka-python 3.0. Source: its API reference.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from kproducer import errors as own
from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.sending.needs import Topics
from kproducer._core.transactions.transaction_arguments import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.compat.kafka import settings
from kproducer.compat.kafka.errors import KafkaError, converted
from kproducer.compat.kafka.partitioners import ClusterView, partition_method
from kproducer.compat.kafka.record_future import FutureRecordMetadata
from kproducer.errors.hidden_variables import hides_arguments_in
from kproducer.kafka_producer import KafkaProducer as OwnProducer
from kproducer.kafka_producer import lifecycle_of
from kproducer.types import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self

_LONGEST_WAIT_S = 10**9


class KafkaProducer:
    """Sends records, with kafka-python's interface. Thread-safe.

    Args:
        configs: kafka-python's settings.

    Raises:
        ValueError: a setting is unknown.
        KafkaConfigurationError: a setting is wrong or not supported; the text says what to do.
        KafkaTimeoutError: no broker answered within ``bootstrap_timeout_ms``. Only without ``api_version``,
            as in kafka-python.

    Attributes:
        config: every setting of kafka-python with the value that applies.
        DEFAULT_CONFIG: every setting of kafka-python with its default.
        DEPRECATED_CONFIGS: none.
    """

    DEFAULT_CONFIG: ClassVar = settings.DEFAULT_CONFIG
    DEPRECATED_CONFIGS: ClassVar[tuple[str, ...]] = ()

    config: dict[str, Any]
    #: ``close`` has returned: every record was delivered, or has failed.
    _is_settled = False

    @hides_arguments_in(KafkaError, ValueError)
    def __init__(self, **configs: Any) -> None:
        self._closed = True
        settings.checked_names(configs)
        with _raising():
            self._key_serializer, self._value_serializer = (
                settings.serialize_function(name, configs.get(name))
                for name in ("key_serializer", "value_serializer")
            )
            self._partition = partition_method(configs.get("partitioner"))
            own_settings = settings.own_settings(configs)
            self._producer = OwnProducer.from_config(ProducerConfig.from_keywords(own_settings))
        self.config = settings.effective(configs, self._producer.config)
        self._closed = False
        if self.config["api_version"] in (None, "auto"):
            self._bootstrap(self.config["bootstrap_timeout_ms"])

    def _bootstrap(self, timeout_ms: float) -> None:
        """Wait for the first metadata, as kafka-python does to find out the version of the brokers."""
        topics = self._topics
        try:
            topics.await_brokers(timeout_ms)
        except BaseException as error:  # also Ctrl-C: the caller has no producer that it could close
            causes = topics.last_errors()
            self._closed = True
            self._producer.close(0)
            if isinstance(error, own.MetadataTimeoutError):
                text = f"no broker answered within bootstrap_timeout_ms={timeout_ms}: {causes}"
                raise converted(own.KafkaTimeoutError(text)) from error
            if isinstance(error, own.KafkaError):
                raise converted(error) from error
            raise

    def bootstrap_connected(self) -> bool:
        """Whether the producer has metadata of the cluster."""
        engine = lifecycle_of(self._producer).last_engine
        return engine is not None and not self._closed and not engine.topics.snapshot.is_bootstrap

    # -- records ---------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: list[tuple[str, bytes]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Accept a record.

        Raises:
            KafkaTimeoutError: metadata or memory was not there within ``max_block_ms``.
            MessageSizeTooLargeError: larger than ``max_request_size``.
            TypeError: topic, key, value, headers, partition or timestamp have the wrong type.
            ValueError: key and value are both null; the topic's name or the partition is not valid.
            IllegalStateError: the producer is closed, or there is no open transaction.
        """
        if self._closed:
            raise converted(own.IllegalStateError("KafkaProducer already closed!"))
        if value is None and key is None:
            raise ValueError("Need at least one: key or value")
        if not isinstance(topic, str):
            raise TypeError("topic must be string")
        if headers is None:
            headers = []
        _check_headers(headers)
        if timestamp_ms is not None and type(timestamp_ms) is not int:
            raise TypeError(f"timestamp_ms must be an int or None, not {timestamp_ms!r}")
        try:
            key_bytes, value_bytes = key, value
            # Serializers are called for None as well, of which JSON makes "null". They may add headers.
            if self._key_serializer is not None:
                key_bytes = self._key_serializer(topic, headers, key)
            if self._value_serializer is not None:
                value_bytes = self._value_serializer(topic, headers, value)
            for name, data in (("key", key_bytes), ("value", value_bytes)):
                if data.__class__ is not bytes and not isinstance(data, (bytearray, memoryview, type(None))):
                    raise TypeError(
                        f"Unsupported type for serialized {name}: {type(data).__name__}; expected bytes, from"
                        f" send() or from {name}_serializer"
                    )
            if partition is None and self._partition is not None:
                cluster = ClusterView(self._snapshot_with(topic))
                partition = self._partition(topic, key, key_bytes, value, value_bytes, cluster)
                if partition is None:
                    raise ValueError(f"Partitioner did not assign a partition for topic {topic}!")
            if partition is not None:
                partition = self._checked_partition(topic, partition)
            future = self._producer.send(
                topic, value_bytes, key_bytes, headers or None, partition, timestamp_ms
            )
        except own.KafkaError as error:
            return _refused(error)
        return FutureRecordMetadata(future, _size(headers))

    def _checked_partition(self, topic: str, partition: Any) -> int:
        try:
            partition = int(operator.index(partition))  # as kafka-python, accepts the integers of numpy
        except TypeError:
            raise TypeError(f"partition must be an int or None, not {partition!r}") from None
        if partition < 0:
            raise ValueError(f"partition must be >= 0, not {partition}")
        if partition >= (self._snapshot_with(topic).partition_count(topic) or 0):
            raise ValueError(f"Unrecognized partition {partition} for topic {topic}")
        return partition  # type: ignore[no-any-return]

    def _snapshot_with(self, topic: str) -> MetadataSnapshot:
        """The metadata, after a wait for the topic if it is not known yet."""
        topics = self._topics
        if not topics.snapshot.partition_count(topic):
            topics.await_topic(topic, None)
        return topics.snapshot

    @property
    def _topics(self) -> Topics:
        return lifecycle_of(self._producer).running_engine().topics

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent is delivered or has failed. Raises KafkaTimeoutError."""
        if self._is_settled:
            return
        with _raising():
            self._producer.flush(timeout)

    @classmethod
    def max_usable_produce_magic(cls, api_version: Any) -> int:
        """The format of record batches: always 2, the only one that kproducer writes."""
        return 2

    def partitions_for(self, topic: str) -> set[int]:
        """The numbers of the topic's partitions. Raises KafkaTimeoutError and errors of brokers."""
        with _raising():
            return {each.partition for each in self._producer.partitions_for(topic)}

    def metrics(self, raw: bool = False) -> dict[str, Any]:
        """Metrics by group and name.

        Args:
            raw: not supported: kafka-python's metric objects do not exist here.
        """
        if raw:
            raise NotImplementedError("metrics(raw=True): use metrics(), which has the values")
        return self._producer.metrics()

    # -- transactions ----------------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Register the transactional id. Raises KafkaTimeoutError after ``max_block_ms``."""
        with _raising():
            self._producer.init_transactions()

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        with _raising():
            self._producer.begin_transaction()

    def send_offsets_to_transaction(self, offsets: Mapping[Any, Any], group_metadata: Any) -> None:
        """Make offsets part of the transaction; waits for it without a limit.

        Args:
            offsets: kafka-python's ``TopicPartition`` to its ``OffsetAndMetadata``.
            group_metadata: kafka-python's ``ConsumerGroupMetadata``, or a group id.
        """
        own_offsets = {
            TopicPartition(*partition[:2]): OffsetAndMetadata(*_offset(position))
            for partition, position in offsets.items()
        }
        group = ConsumerGroupMetadata(
            *((group_metadata,) if isinstance(group_metadata, str) else tuple(group_metadata))
        )
        with _raising():
            self._without_limit(self._producer.send_offsets_to_transaction, own_offsets, group)

    def commit_transaction(self) -> None:
        """Commit; waits for the end without a limit."""
        with _raising():
            self._without_limit(self._producer.commit_transaction)

    def abort_transaction(self) -> None:
        """Abort; waits for the end without a limit."""
        with _raising():
            self._without_limit(self._producer.abort_transaction)

    @staticmethod
    def _without_limit(call: Callable[..., None], *arguments: Any) -> None:
        call(*arguments, timeout=_LONGEST_WAIT_S)

    # -- the end ---------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        """Deliver what was sent, and stop. May be repeated.

        Args:
            timeout: seconds; ``None``: without limit.
            null_logger: accepted, without effect.

        Raises:
            KafkaTimeoutError: not everything was delivered in time; the rest has failed.
            ValueError: ``timeout`` is negative.
        """
        if self._closed:
            return
        if timeout is not None and timeout < 0:
            raise ValueError(f"Invalid timeout: {timeout}")
        self._closed = True
        try:
            with _raising():
                self._producer.close(timeout)
        finally:
            self._is_settled = True
        for serializer in (self.config.get("key_serializer"), self.config.get("value_serializer")):
            if serializer is not None and hasattr(serializer, "close"):
                serializer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.close()

    def __str__(self) -> str:
        config = self._producer.config
        return (
            f"<KafkaProducer client_id={config.client_id} transactional_id={config.transactional_id or None}>"
        )


def _check_headers(headers: Any) -> None:
    if not isinstance(headers, list):
        raise TypeError(f"headers must be list-type, not {type(headers).__name__}: [(name, bytes), ...]")
    for item in headers:
        is_pair = isinstance(item, tuple) and len(item) == 2
        if not (is_pair and isinstance(item[0], str) and isinstance(item[1], bytes)):
            found = type(item).__name__
            if isinstance(item, tuple):
                found = f"({', '.join(type(each).__name__ for each in item)})"
            raise TypeError(f"All headers items must be (str, bytes) tuples, not {found}")


def _size(headers: list[tuple[str, bytes]]) -> int:
    """The size in bytes; -1 for none."""
    return sum(len(name.encode()) + len(value) for name, value in headers) if headers else -1


def _offset(position: Any) -> tuple[int, str, int]:
    offset, metadata, epoch = (*tuple(position), -1)[:3]
    return offset, metadata or "", -1 if epoch is None else epoch


def _refused(error: own.KafkaError) -> FutureRecordMetadata:
    """What ``send`` does if the engine refuses a record: brokers' errors are reported by the future."""
    if isinstance(error, own.BrokerError) and not isinstance(error, own.RecordTooLargeError):
        if error.code == _INVALID_TOPIC_CODE:
            raise ValueError(str(error)) from error
        if not isinstance(error, own.FatalProducerError):
            return FutureRecordMetadata.failed_with(error)
    if isinstance(error, own.InvalidArgumentError):
        raise ValueError(str(error)) from error
    if isinstance(error, own.SerializationError):
        raise TypeError(str(error)) from error
    raise converted(error) from error


_INVALID_TOPIC_CODE = 17


@contextmanager
def _raising() -> Iterator[None]:
    """Raise what kproducer raises as kafka-python's errors."""
    try:
        yield
    except own.KafkaError as error:
        raise converted(error) from error
