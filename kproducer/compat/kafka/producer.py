"""``KafkaProducer``: kafka-python's interface over kproducer's.

Settings, defaults, accepted types and errors are those of kafka-python 3.0. Source: its API reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kproducer import errors as own
from kproducer.compat.kafka.errors import InvalidSettingError, converted
from kproducer.compat.kafka.record_future import FutureRecordMetadata
from kproducer.config.producer_config import ProducerConfig
from kproducer.kafka_producer import KafkaProducer as OwnProducer
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.transactions.transaction_arguments import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.types import INT32_MAX, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self

_log = GuardedLogger(__name__)
_DEFAULT_PORT = 9092
_LONGEST_WAIT_S = 10**9

#: kafka-python's defaults where they differ from kproducer's.
_DEFAULTS: dict[str, Any] = {
    "bootstrap_servers": "localhost",
    "batch_size": 16384,
    "linger_ms": 0,
    "receive_buffer_bytes": -1,
    "reconnect_backoff_max_ms": 30000,
    "send_buffer_bytes": -1,
}
#: The same settings here.
_SAME = frozenset(
    (
        *_DEFAULTS,
        *("client_id", "enable_idempotence", "transactional_id", "transaction_timeout_ms"),
        *("delivery_timeout_ms", "acks", "connections_max_idle_ms", "max_block_ms", "max_request_size"),
        *("metadata_max_age_ms", "client_dns_lookup", "retry_backoff_ms", "request_timeout_ms"),
        *("reconnect_backoff_ms", "max_in_flight_requests_per_connection", "security_protocol"),
        *("ssl_context", "ssl_check_hostname", "ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"),
        *("ssl_password", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"),
        *("sasl_kerberos_service_name", "sasl_kerberos_domain_name", "proxy_url"),
        *("metrics_num_samples", "metrics_sample_window_ms"),
    )
)
#: Converted below.
_CONVERTED = frozenset(
    (
        *("api_version", "bootstrap_timeout_ms", "buffer_memory", "compression_type", "key_serializer"),
        *("partitioner", "retries", "sasl_oauth_token_provider", "socks5_proxy", "ssl_ciphers"),
        "value_serializer",
    )
)
#: Without effect here: why. A value with the second entry, the default, causes no warning.
IGNORED: dict[str, tuple[str, Any]] = {
    "kafka_client": ("kproducer has its own client", None),
    "receive_message_max_bytes": ("the size of responses is limited without a setting", 100000000),
    "sasl_kerberos_name": ("sasl_kerberos_service_name and sasl_kerberos_domain_name apply", None),
    "selector": ("kproducer chooses how it waits for sockets", None),
    "socket_options": ("TCP_NODELAY and keepalive are always set", [(6, 1, 1)]),
}
#: Refused unless it has the second value: what to do instead.
REFUSED: dict[str, tuple[str, Any]] = {
    "allow_auto_create_topics": ("the brokers' auto.create.topics.enable decides; remove it", True),
    "metric_reporters": ("call metrics(), and report the values", []),
    "metrics_enabled": ("metrics are always counted, at no cost per record; remove it", True),
}


class KafkaProducer:
    """Sends records, with kafka-python's interface. Thread-safe.

    Args:
        configs: kafka-python's settings.

    Raises:
        ValueError: a setting is unknown.
        KafkaConfigurationError: a setting is wrong or not supported; the text says what to do.
        KafkaTimeoutError: no broker answered within ``bootstrap_timeout_ms``. Only without ``api_version``,
            as in kafka-python.
    """

    def __init__(self, **configs: Any) -> None:
        self._closed = True
        unknown = {name for name in configs if name not in {*_SAME, *_CONVERTED, *IGNORED, *REFUSED}}
        if unknown:
            raise ValueError(f"Unrecognized configs: {', '.join(sorted(unknown))}")
        for name, (remedy, usual) in REFUSED.items():
            if configs.get(name, usual) != usual:
                raise InvalidSettingError(f"{name}: not supported; {remedy}")
        without_effect = [
            f"{name} ({IGNORED[name][0]})"
            for name, value in configs.items()
            if name in IGNORED and value != IGNORED[name][1]
        ]
        if without_effect:
            _log.warning(
                "Settings of kafka-python without effect in kproducer: %s", "; ".join(without_effect)
            )
        self._key_serializer = _serialize_function("key_serializer", configs.get("key_serializer"))
        self._value_serializer = _serialize_function("value_serializer", configs.get("value_serializer"))
        with _raising():
            self._producer = OwnProducer.from_config(ProducerConfig.from_keywords(_own_settings(configs)))
        self.config: dict[str, Any] = {**_DEFAULTS, **configs, "client_id": self._producer.config.client_id}
        self._closed = False
        if configs.get("api_version") is None:
            self._bootstrap(configs.get("bootstrap_timeout_ms", 30000))

    def _bootstrap(self, timeout_ms: float) -> None:
        """Wait for the first metadata, as kafka-python does to find out the version of the brokers."""
        engine = self._producer._lifecycle.running_engine()
        deadline_ms = engine.clock.monotonic_ms() + timeout_ms
        try:
            while engine.metadata.snapshot.is_bootstrap:
                version = engine.metadata.request_update("the constructor waits for the cluster")
                engine.sender.wakeup()
                engine.metadata.await_update(version, deadline_ms - engine.clock.monotonic_ms())
        except own.KafkaError as error:
            causes = engine.last_errors()
            self._closed = True
            self._producer.close(0)
            if isinstance(error, own.MetadataTimeoutError):
                text = f"no broker answered within bootstrap_timeout_ms={timeout_ms}: {causes}"
                raise converted(own.KafkaTimeoutError(text)) from error
            raise converted(error) from error

    def bootstrap_connected(self) -> bool:
        """Whether the producer has metadata of the cluster."""
        engine = self._producer._lifecycle.last_engine
        return engine is not None and not self._closed and not engine.metadata.snapshot.is_bootstrap

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
            TypeError: topic, key, value or headers have the wrong type.
            ValueError: key and value are both null; the topic's name or the partition is not valid.
            IllegalStateError: the producer is closed, or there is no open transaction.
        """
        if self._closed:
            raise converted(own.IllegalStateError("KafkaProducer already closed!"))
        if value is None and key is None:
            raise ValueError("Need at least one: key or value")
        if not isinstance(topic, str):
            raise TypeError("topic must be string")
        headers_size = -1
        if headers is not None:
            headers_size = _checked_headers(headers)
        if key is not None and self._key_serializer is not None:
            key = self._key_serializer(topic, headers or [], key)
        if value is not None and self._value_serializer is not None:
            value = self._value_serializer(topic, headers or [], value)
        for name, data in (("key", key), ("value", value)):
            if data.__class__ is not bytes and not isinstance(data, (bytearray, memoryview, type(None))):
                raise TypeError(f"Unsupported type for serialized {name}: {type(data)}")
        try:
            if partition is not None:
                self._check_partition(topic, partition)
            future = self._producer.send(topic, value, key, headers or None, partition, timestamp_ms)
        except own.KafkaError as error:
            return _refused(error)
        return FutureRecordMetadata(future, headers_size)

    def _check_partition(self, topic: str, partition: Any) -> None:
        if not isinstance(partition, int) or partition < 0:
            raise ValueError("partition must be >= 0")
        engine = self._producer._lifecycle.running_engine()
        count = engine.metadata.snapshot.partition_count(topic) or len(self._producer.partitions_for(topic))
        if partition >= count:
            raise ValueError(f"Unrecognized partition {partition} for topic {topic}")

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent is delivered or has failed. Raises KafkaTimeoutError."""
        with _raising():
            self._producer.flush(timeout)

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
        with _raising():
            self._producer.close(timeout)
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


def _own_settings(configs: Mapping[str, Any]) -> dict[str, Any]:
    settings = {name: configs.get(name, default) for name, default in _DEFAULTS.items()}
    # None means the default there.
    settings.update({name: value for name, value in configs.items() if name in _SAME and value is not None})
    for name in ("send_buffer_bytes", "receive_buffer_bytes"):
        if settings[name] is None:
            settings[name] = -1
    settings["bootstrap_servers"] = _with_ports(settings["bootstrap_servers"])
    settings["batch_size"] = min(settings["batch_size"], settings.get("max_request_size", INT32_MAX))
    if "buffer_memory" in configs:
        settings["buffer_memory"] = configs["buffer_memory"]
    if configs.get("retries") not in (None, float("inf")):
        settings["retries"] = configs["retries"]
    if configs.get("compression_type") is not None:
        settings["compression_type"] = configs["compression_type"]
    if configs.get("socks5_proxy") is not None:
        settings["proxy_url"] = configs["socks5_proxy"]
    if configs.get("ssl_ciphers") is not None:
        settings["ssl_cipher_suites"] = tuple(configs["ssl_ciphers"].split(":"))
    if configs.get("partitioner") is not None:
        settings["partitioner"] = _own_partitioner(configs["partitioner"])
    if (provider := configs.get("sasl_oauth_token_provider")) is not None:
        settings["sasl_oauth_token_provider"] = _own_token_provider(provider)
    first_ms = settings.get("reconnect_backoff_ms", 50)
    settings["reconnect_backoff_max_ms"] = max(settings["reconnect_backoff_max_ms"], first_ms)
    return settings


def _with_ports(servers: Any) -> list[str]:
    given = servers.split(",") if isinstance(servers, str) else list(servers)
    return [
        each if each.rpartition(":")[2].isdigit() and not each.endswith("]") else f"{each}:{_DEFAULT_PORT}"
        for each in (str(each).strip() for each in given)
    ]


def _serialize_function(name: str, serializer: Any) -> Callable[[str, Any, Any], Any] | None:
    """A function of (topic, headers, data) for a serializer object or a callable of (data)."""
    if serializer is None:
        return None
    if hasattr(serializer, "serialize"):

        def serialize(topic: str, headers: Any, data: Any) -> Any:
            try:
                return serializer.serialize(topic, headers, data)
            except TypeError:
                return serializer.serialize(topic, data)

        return serialize
    if callable(serializer):
        return lambda topic, headers, data: serializer(data)
    raise InvalidSettingError(
        f"{name}: expected a callable or an object with serialize(), got {serializer!r}"
    )


def _own_partitioner(partitioner: Any) -> Any:
    """A callable of (key bytes, all partitions, available partitions) in kproducer's form."""
    if type(partitioner).__name__ == "DefaultPartitioner" or partitioner in ("murmur2", None):
        return None
    if not callable(partitioner):
        raise InvalidSettingError(
            "partitioner: objects that look at kafka-python's cluster metadata are not supported; pass a"
            " callable of (key_bytes, all_partitions, available_partitions), or partition to send()"
        )

    def choose(topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, snapshot: Any) -> int:
        metadata = snapshot.topics[topic]
        chosen: int = partitioner(key_bytes, list(range(len(metadata.partitions))), list(metadata.available))
        return chosen

    return choose


def _own_token_provider(provider: Any) -> Any:
    """kafka-python's object with ``token()``, whose result has no expiry, or one of kproducer's functions."""
    if not hasattr(provider, "token"):
        return provider
    raise InvalidSettingError(
        "sasl_oauth_token_provider: the result of token() does not say when the token expires; pass a"
        " function that returns (token, expiry in seconds since 1970)"
    )


def _checked_headers(headers: Any) -> int:
    """The size of the headers in bytes; -1 if there are none."""
    if not isinstance(headers, list):
        raise TypeError("headers must be list-type")
    for item in headers:
        if not (isinstance(item, tuple) and len(item) == 2):
            raise TypeError("All headers items must be (str, bytes) tuples")
        if not (isinstance(item[0], str) and isinstance(item[1], bytes)):
            raise TypeError("All headers items must be (str, bytes) tuples")
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
