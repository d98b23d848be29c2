"""KafkaProducer: the application's face. Interceptors, serializers and partitioners run here, on its thread.

Its methods stand in rooms of their own: one record (``record_calls``), many (``bulk_calls``), transactions
(``transactional_calls``), start and end (``producer_lifecycle``). All of them end in
``RecordAccumulator.append``; everything after that is the I/O thread's. Source: Kafka class
``KafkaProducer``; KIP-42 (interceptors), KIP-679 (defaults).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import attrs

from kproducer.bulk.bulk_calls import BulkCalls
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import KafkaTimeoutError, ProducerClosedError
from kproducer.errors.suggestions import PRODUCER_METHODS, no_such_attribute
from kproducer.runtime import process_lifecycle
from kproducer.runtime.arguments import checked_timeout_s
from kproducer.runtime.clock import Clock, SystemClock
from kproducer.sender.metrics import ProducerMetrics
from kproducer.sending.topic_wait import await_topic
from kproducer.sending.transactional_calls import TransactionalCalls
from kproducer.types import PartitionInfo

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from kproducer.config.producer_settings import ProducerSettings

_client_numbers = itertools.count(1)


class KafkaProducer(BulkCalls, TransactionalCalls):
    """Sends records to a Kafka cluster. Thread-safe: one producer serves a whole process.

    Args:
        bootstrap_servers: ``"host:port,host:port"`` or a list of ``"host:port"``.
        settings: any other attribute of ``ProducerConfig``; names are Kafka's with ``_`` for ``.``.

    Raises:
        ConfigError: a setting is unknown, out of range or contradicts another; nothing is left running.

    In a forked child the producer starts afresh on first use; records accepted before the fork stay the
    parent's, and their futures fail in the child. When the interpreter ends, or the producer is
    garbage-collected, accepted records are still delivered (for up to ``delivery_timeout_ms``), but
    ``close`` or a ``with`` block is better: they report losses.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[ProducerSettings]
    ) -> None:
        servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
        self._start(ProducerConfig.from_keywords({**servers, **settings}), SystemClock())

    @classmethod
    def from_config(cls, settings: ProducerConfig | Mapping[str, Any]) -> Self:
        """Make a producer from Kafka's dotted names, such as ``{"bootstrap.servers": "host:9092"}``.

        Texts are accepted for numbers and booleans, as configuration files have them.

        Raises:
            ConfigError: as the constructor does.
        """
        config = settings if isinstance(settings, ProducerConfig) else ProducerConfig.from_dotted(settings)
        producer = cls.__new__(cls)
        producer._start(config, SystemClock())
        return producer

    def _start(self, config: ProducerConfig, clock: Clock) -> None:
        if not config.client_id:
            config = attrs.evolve(config, client_id=f"kproducer-{next(_client_numbers)}")
        self._set_up(config, clock)
        try:
            self._set_up_sending()
            self._run_engine()
        except BaseException:
            self._close_user_objects()
            raise
        process_lifecycle.register(self)

    def flush(self, timeout: float | None = None) -> None:
        """Send at once what was accepted before this call, and wait until its fate is known.

        Failures are not raised here; the futures have them.

        Args:
            timeout: seconds; ``None`` waits as long as ``delivery_timeout_ms`` lets it take.

        Raises:
            KafkaTimeoutError: not done within ``timeout``; the records are still on their way.
            IllegalStateError: called from a delivery callback, or by a signal handler in the middle of
                ``send``, where it would deadlock.
            InvalidArgumentError: ``timeout`` is no number.
            ProducerClosedError: the producer is closed, or its I/O thread has ended.
        """
        timeout_s = checked_timeout_s("flush", timeout)
        engine = self._engine_on_first_use()
        engine.check_may_wait("flush")
        timeout_ms = None if timeout_s is None else timeout_s * 1000
        accumulator = engine.accumulator
        flush = object()
        try:
            accumulator.begin_flush(flush)
            engine.wakeup()
            is_complete = accumulator.await_completion(timeout_ms)
        finally:
            accumulator.end_flush(flush)
        if not is_complete:
            if engine.has_ended:
                # Its end fails every record. One that is left shows a bug, and nobody will complete it.
                raise ProducerClosedError("flush: the producer's I/O thread has ended")
            count = engine.accumulator.incomplete_record_count
            causes = engine.last_errors()
            raise KafkaTimeoutError(
                f"flush({timeout}): {count} records are not acknowledged yet{f'; {causes}' if causes else ''}"
            )

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, by number; waits for metadata up to ``max_block_ms``.

        Raises:
            MetadataTimeoutError, BrokerError, InvalidArgumentError, ProducerClosedError: as ``send`` does.
        """
        engine = self._engine_on_first_use()
        snapshot = await_topic(engine, topic, None, self._max_block_ms, self._monotonic_ms())
        return [
            PartitionInfo(
                topic,
                partition.partition,
                snapshot.nodes.get(partition.leader_id),
                partition.replicas,
                partition.isr,
                partition.offline,
            )
            for partition in snapshot.topics[topic].partitions
        ]

    def metrics(self) -> dict[str, Any]:
        """What the producer did and is doing now. ``kproducer.METRICS`` has each name's unit and meaning."""
        engine = self._engine or self._last_engine
        if engine is None:
            return dict(ProducerMetrics().snapshot())
        values: dict[str, Any] = dict(engine.sender.metrics.snapshot())
        updated_ms = engine.metadata.last_successful_update_ms
        values["buffer_available_bytes"] = engine.pool.available_bytes
        values["buffer_total_bytes"] = self._config.buffer_memory
        values["incomplete_batches"] = engine.accumulator.incomplete_count
        values["metadata_age_ms"] = -1 if updated_ms is None else self._monotonic_ms() - updated_ms
        values["negotiated_versions"] = {
            node_id: {api.name: version for api, version in versions.items()}
            for node_id, versions in engine.client.negotiated_versions().items()
        }
        values["requests_in_flight"] = engine.client.in_flight_request_count()
        return values

    @property
    def config(self) -> ProducerConfig:
        """The settings in force."""
        return self._config

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            "a KafkaProducer cannot be pickled: it has a thread and sockets. Send its settings instead, "
            "and make a producer where it is needed"
        )

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name):
            raise no_such_attribute(self, name, PRODUCER_METHODS)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<KafkaProducer {self._config.client_id} {','.join(self._config.bootstrap_servers)} {state}>"
