"""AIOKafkaProducer: aiokafka's producer on top of ``AsyncKafkaProducer``.

Arguments, defaults, return values and errors are those of aiokafka 0.14; what cannot be done here raises.
Source: the API reference of aiokafka.
"""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kproducer._core.config.producer_config import SETTINGS, ProducerConfig
from kproducer._core.event_loop.loop_waiters import RecordFuture, waiters_of
from kproducer._core.transactions.transaction_arguments import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.aio.async_kafka_producer import AsyncKafkaProducer, commit_always, known_partition_count
from kproducer.compat.aiokafka.errors import (
    IllegalOperation,
    KafkaConnectionError,
    ProducerClosed,
    aiokafka_errors,
    as_aiokafka,
)
from kproducer.compat.aiokafka.record_metadata import RecordMetadata
from kproducer.compat.bootstrap_servers import with_default_ports
from kproducer.errors.hidden_variables import hides_arguments_in
from kproducer.types import INT32_MAX, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self

    from kproducer._core.runtime.arguments import HeadersInput

#: The argument was not given. aiokafka's own default is an ``object()``, too, and its wrappers pass that on.
_UNSET: Any = object()
_numbers = itertools.count(1)


class AIOKafkaProducer:
    """aiokafka's producer. See docs/migration/aiokafka.md for the few differences.

    Args:
        loop: ignored with a DeprecationWarning: the producer works in every event loop.
        bootstrap_servers, client_id, metadata_max_age_ms, request_timeout_ms, acks, key_serializer,
            value_serializer, compression_type, max_batch_size, partitioner, max_request_size, linger_ms,
            retry_backoff_ms, security_protocol, ssl_context, connections_max_idle_ms, enable_idempotence,
            transactional_id, transaction_timeout_ms, sasl_mechanism, sasl_plain_password,
            sasl_plain_username, sasl_kerberos_service_name, sasl_kerberos_domain_name: as in aiokafka.
        api_version: ignored with a DeprecationWarning, as in aiokafka.
        sasl_oauth_token_provider: not supported.

    Raises:
        ValueError: a setting is not valid.
        NotImplementedError: ``sasl_oauth_token_provider`` is given.

    A producer that was started and not stopped causes a ResourceWarning when it is deleted.
    """

    # Defaults for ``__del__``, which is also called if the constructor fails.
    _producer: AsyncKafkaProducer | None = None
    _closed = False

    @hides_arguments_in(ValueError, NotImplementedError)
    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Iterable[str] = "localhost",
        client_id: str | None = None,
        metadata_max_age_ms: int = 300_000,
        request_timeout_ms: int = 40_000,
        api_version: Any = None,
        acks: Any = _UNSET,
        key_serializer: Callable[[Any], bytes | None] | None = None,
        value_serializer: Callable[[Any], bytes | None] | None = None,
        compression_type: str | None = None,
        max_batch_size: int = 16_384,
        partitioner: Callable[[bytes | None, list[int], list[int]], int] | None = None,
        max_request_size: int = 1_048_576,
        linger_ms: int = 0,
        retry_backoff_ms: int = 100,
        security_protocol: str = "PLAINTEXT",
        ssl_context: Any = None,
        connections_max_idle_ms: int | None = 540_000,
        enable_idempotence: bool = False,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: Any = None,
    ) -> None:
        for name, value in (("loop", loop), ("api_version", api_version)):
            if value is not None:
                # stacklevel 3, because the caller is above the wrapper that hides the arguments.
                warnings.warn(f"The {name} parameter is deprecated", DeprecationWarning, stacklevel=3)
        if sasl_oauth_token_provider is not None:
            raise NotImplementedError(
                "sasl_oauth_token_provider: aiokafka's tokens have no expiry, which kproducer needs. Use"
                " kproducer.AsyncKafkaProducer with a provider that returns (token, expiry)"
            )
        if type(acks) is object:
            acks = _UNSET
        if acks not in (0, 1, -1, "all", _UNSET):
            raise ValueError(f"acks={acks!r}: expected 0, 1, -1 or 'all'")
        if compression_type not in ("gzip", "snappy", "lz4", "zstd", None):
            raise ValueError(
                f"compression_type={compression_type!r}: expected 'gzip', 'snappy', 'lz4', 'zstd' or None"
            )
        is_idempotent = enable_idempotence or transactional_id is not None
        if is_idempotent and acks not in (-1, "all", _UNSET):
            raise ValueError(f"acks={acks!r}: an idempotent producer needs -1 or 'all'")
        if acks is _UNSET:
            acks = -1 if is_idempotent else 1
        # These settings are checked here, because the adapter calculates with them.
        checked = {
            "request_timeout_ms": request_timeout_ms,
            "linger_ms": linger_ms,
            "retry_backoff_ms": retry_backoff_ms,
            "security_protocol": security_protocol,
        }
        for name, value in checked.items():
            SETTINGS[name].parse(SETTINGS[name], name, value)
        self._acks = -1 if acks == "all" else acks
        self._key_serializer, self._value_serializer = key_serializer, value_serializer
        self._transactional_id = transactional_id
        settings: dict[str, Any] = {
            "bootstrap_servers": with_default_ports(bootstrap_servers),
            "client_id": client_id or f"aiokafka-producer-{next(_numbers)}",
            "metadata_max_age_ms": metadata_max_age_ms,
            "request_timeout_ms": request_timeout_ms,
            "delivery_timeout_ms": request_timeout_ms + linger_ms,
            "max_block_ms": request_timeout_ms,
            "acks": self._acks,
            "compression_type": compression_type,
            "batch_size": max_batch_size,
            "partitioner": None if partitioner is None else _Partitioner(partitioner),
            "max_request_size": max_request_size,
            "linger_ms": linger_ms,
            "retry_backoff_ms": retry_backoff_ms,
            "retry_backoff_max_ms": max(retry_backoff_ms, 1000),
            "security_protocol": security_protocol,
            "ssl_context": ssl_context,
            "connections_max_idle_ms": -1 if connections_max_idle_ms is None else connections_max_idle_ms,
            "enable_idempotence": is_idempotent,
        }
        if transactional_id is not None:
            settings |= {
                "transactional_id": transactional_id,
                "transaction_timeout_ms": transaction_timeout_ms,
            }
        if security_protocol.startswith("SASL"):
            sasl = {
                "sasl_mechanism": sasl_mechanism,
                "sasl_plain_username": sasl_plain_username,
                "sasl_plain_password": sasl_plain_password,
            }
            if sasl_mechanism == "GSSAPI":
                sasl = {
                    "sasl_mechanism": sasl_mechanism,
                    "sasl_kerberos_service_name": sasl_kerberos_service_name,
                    "sasl_kerberos_domain_name": sasl_kerberos_domain_name,
                }
            settings |= {name: value for name, value in sasl.items() if value is not None}
        self._config = ProducerConfig(**settings)

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self._producer is not None and not self._closed:
            _warn(f"Unclosed AIOKafkaProducer {self!r}: call stop()", ResourceWarning, source=self)

    # -- start and stop --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect, and get a producer id if there is a ``transactional_id``.

        Raises:
            KafkaConnectionError: no broker answered within ``request_timeout_ms``, or TLS failed.
            KafkaError, ValueError: credentials or settings are refused.
        """
        if self._producer is not None:
            return
        producer = AsyncKafkaProducer.from_config(self._config)
        try:
            with aiokafka_errors():
                if not await producer.has_brokers():
                    raise KafkaConnectionError(
                        f"Unable to bootstrap from {list(self._config.bootstrap_servers)}"
                    )
                if self._transactional_id is not None:
                    await producer.init_transactions()
        except BaseException:
            await producer.aclose(0)
            raise
        self._producer = producer

    async def stop(self) -> None:
        """Deliver what was sent, then close. May be repeated."""
        self._closed = True
        if self._producer is not None:
            await self._producer.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop()

    def _started(self) -> AsyncKafkaProducer:
        if self._closed:
            raise ProducerClosed
        if self._producer is None:
            raise IllegalOperation("call start() first, or use the producer in an async with block")
        return self._producer

    # -- records ---------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersInput | None = None,
    ) -> asyncio.Future[Any]:
        """Accept one record; waits for metadata and memory for up to ``request_timeout_ms``.

        Returns:
            The future of the delivery: a ``RecordMetadata``, or ``None`` with ``acks=0``.

        Raises:
            AssertionError: key and value are both ``None``, or the topic is known and lacks the partition.
            TypeError: without a serializer, key or value is not bytes.
            KafkaTimeoutError, UnknownTopicOrPartitionError, MessageSizeTooLargeError, ProducerClosed,
                IllegalOperation: not sent.
        """
        producer = self._started()
        if value is None and key is None:
            raise AssertionError("Need at least one: key or value")
        with aiokafka_errors():
            # If the topic is unknown, any partition is accepted: the record waits for it, in order.
            most = INT32_MAX if partition is None else known_partition_count(producer, topic) or INT32_MAX
            if not 0 <= (partition or 0) < most:
                raise AssertionError("Unrecognized partition")
            key_bytes = _serialized("key", self._key_serializer, key)
            value_bytes = _serialized("value", self._value_serializer, value)
            record = await producer.submit(topic, value_bytes, key_bytes, headers, partition, timestamp_ms)
        delivery = _Delivery(loop=asyncio.get_running_loop())
        delivery.has_metadata = self._acks != 0
        waiters_of(delivery.get_loop()).add(record, delivery)
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersInput | None = None,
    ) -> Any:
        """``send``, then wait for the delivery."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def flush(self) -> None:
        """Wait until the outcome of everything sent is known. Allowed before ``start`` and after ``stop``."""
        if self._producer is None:
            return
        with aiokafka_errors():
            if self._closed:
                await self._producer.aclose()  # waits for the end of stop()
            else:
                await self._producer.flush()

    async def partitions_for(self, topic: str) -> set[int]:
        """The numbers of the topic's partitions."""
        with aiokafka_errors():
            return {each.partition for each in await self._started().partitions_for(topic)}

    def create_batch(self) -> Any:
        """Not supported. Raises NotImplementedError."""
        raise NotImplementedError(_NO_BATCHES)

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
        """Not supported. Raises NotImplementedError."""
        raise NotImplementedError(_NO_BATCHES)

    # -- transactions ----------------------------------------------------------------------------------

    def _transactional(self) -> AsyncKafkaProducer:
        if self._transactional_id is None:
            raise IllegalOperation("You need to configure transaction_id to use transactions")
        return self._started()

    async def begin_transaction(self) -> None:
        """Begin a transaction."""
        with aiokafka_errors():
            self._transactional().begin_transaction()

    async def commit_transaction(self) -> None:
        """Deliver what was sent, then commit.

        If it is cancelled while ``send`` calls of other tasks wait for metadata or memory, nothing happens.
        Later, it commits although it is cancelled, and the next call waits for that.
        """
        with aiokafka_errors():
            await commit_always(self._transactional())

    async def abort_transaction(self) -> None:
        """Abort the transaction, even if this call is cancelled."""
        with aiokafka_errors():
            await self._transactional().abort_transaction()

    def transaction(self) -> _Transaction:
        """A transaction for an ``async with`` block: commits at its end, aborts if it raises."""
        return _Transaction(self._transactional())

    async def send_offsets_to_transaction(self, offsets: Mapping[Any, Any], group_id: str) -> None:
        """Make offsets of a consumer group part of the transaction.

        Args:
            offsets: for each partition an offset, or a pair of offset and metadata.
            group_id: the group.

        Raises:
            IllegalOperation: there is no open transaction.
            ValueError: ``group_id`` is empty or not a text.
        """
        producer = self._transactional()
        if not group_id or not isinstance(group_id, str):
            with aiokafka_errors():
                # Raises IllegalOperation if no transaction is open: aiokafka checks that first.
                await producer.send_offsets_to_transaction({}, ConsumerGroupMetadata("none"))
            raise ValueError(f"group_id must be a text that is not empty, not {group_id!r}")
        converted = {}
        for (topic, partition), offset in offsets.items():
            parts = offset if isinstance(offset, tuple) else (offset,)
            converted[TopicPartition(topic, partition)] = OffsetAndMetadata(*parts)
        with aiokafka_errors():
            await producer.send_offsets_to_transaction(converted, ConsumerGroupMetadata(group_id))


_NO_BATCHES = (
    "kproducer fills batches itself. Use kproducer.AsyncKafkaProducer.send_many(topic, values,"
    " partitions=partition), which sends many records at the cost of a batch"
)


class _Delivery(RecordFuture[Any]):
    """The future that ``send`` returns. Cancelling it does not stop the record, as in aiokafka."""

    has_metadata = True

    def complete(self, record: Any) -> None:
        """See ``RecordFuture``; the record is a ``FutureRecordMetadata``."""
        error = record.exception()
        if error is not None:
            self.set_exception(as_aiokafka(error))
            return
        result: Any = None
        if self.has_metadata:
            made = record.result()
            place = TopicPartition(made.topic, made.partition)
            time_type = int(record.has_log_append_time)
            result = RecordMetadata(*place, place, made.offset, made.timestamp_ms, time_type)
        self.set_result(result)


class _Transaction:
    """The block of ``AIOKafkaProducer.transaction``."""

    def __init__(self, producer: AsyncKafkaProducer) -> None:
        self._block = producer.transaction()

    async def __aenter__(self) -> _Transaction:
        with aiokafka_errors():
            await self._block.__aenter__()
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with aiokafka_errors():
            await self._block.__aexit__(kind, error, trace)


class _Partitioner:
    """aiokafka's interface of a partitioner, as one of ours."""

    def __init__(self, choose: Callable[[bytes | None, list[int], list[int]], int]) -> None:
        self._choose = choose

    def __call__(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: Any, snapshot: Any
    ) -> int:
        known = snapshot.topics[topic]
        return self._choose(key_bytes, list(range(len(known.partitions))), list(known.available))


def _serialized(what: str, serialize: Callable[[Any], Any] | None, datum: Any) -> bytes | None:
    """As in aiokafka: a serializer also gets ``None``, and what it raises is raised as it is."""
    made = datum if serialize is None else serialize(datum)
    if made is None or isinstance(made, (bytes, bytearray, memoryview)):
        return made  # type: ignore[return-value]  # the producer takes all of them
    raise TypeError(f"the {what} must be bytes, not {type(made).__name__}; set {what}_serializer")
