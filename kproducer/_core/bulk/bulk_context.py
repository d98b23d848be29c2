"""BulkContext: what ``send_many``, ``send_arrow`` and the sink for Spark need of a producer.

For callers' threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer._core.kernel import TopicSlots
from kproducer._core.sending import blocking
from kproducer._core.sending.needs import TopicNeed
from kproducer.errors import InvalidArgumentError, KafkaError, MetadataTimeoutError, Outcome

if TYPE_CHECKING:
    from kproducer._core.bulk.send_many_result import SendManyResult
    from kproducer._core.client.metadata_snapshot import MetadataSnapshot
    from kproducer._core.engine.engine_lifecycle import EngineLifecycle
    from kproducer._core.engine.producer_engine import ProducerEngine
    from kproducer._core.transactions.transaction_state import OpenTransaction

#: How long a partition is waited for that the topic does not have: enough for a few metadata updates.
_PARTITION_MS = 1000
#: How often that wait is interrupted to see whether an update has arrived.
_PARTITION_SLICE_MS = 50

#: (topic, value, key, headers, partition, timestamp_ms) to the record's future.
SendFunction = Callable[[str, Any, Any, Any, Any, Any], FutureRecordMetadata]


class BulkContext:
    """One running engine, as bulk calls use it.

    Args:
        engine: running.
        lifecycle: of the producer.
        send: ``KafkaProducer.send``.

    Attributes:
        send: as given.
        clock: of the producer.
        rules: what the settings say about each record.
        may_change_topics: there are interceptors that may send records to other topics.
        transaction: the one to which the records of a call belong; ``None``: the producer has none, or a sink
            sends.
    """

    def __init__(self, engine: ProducerEngine, lifecycle: EngineLifecycle, send: SendFunction) -> None:
        self._engine = engine
        self.clock = engine.clock
        self.rules = engine.admission.rules
        self._lifecycle = lifecycle
        self.send = send
        self._transactions = engine.admission.transactions
        self.transaction: OpenTransaction | None = None
        #: By topic, the newest snapshot that lacked a partition which was waited for.
        self._judged_by: dict[str, MetadataSnapshot] = {}
        self.may_change_topics = self.rules.interceptors.has_send_hooks

    def check_needs_no_objects(self, call: str) -> None:
        """Raise InvalidArgumentError if keys, values or records have to be objects, which columns are not."""
        for setting, is_set in (
            ("value_serializer", self.rules.serializes_value),
            ("key_serializer", self.rules.serializes_key),
            ("interceptors", self.rules.interceptors),
        ):
            if is_set:
                raise InvalidArgumentError(
                    f"{call} writes columns unchanged, but {setting} needs each row as an object: use "
                    f"send_many(), or a producer without {setting}"
                )

    def in_transaction(self, run: Callable[[], SendManyResult]) -> SendManyResult:
        """Run a call. In a transaction, refused records prevent the commit, as with ``send``."""
        if self._transactions is None:
            return run()
        self.transaction = self._transactions.check_send()
        try:
            result = run()
        except BaseException as error:
            self.note_refusal(error if isinstance(error, KafkaError) else KafkaError(repr(error)))
            raise
        refusal = result._locations.first_refusal
        if refusal is not None:
            self.note_refusal(refusal)
        return result

    def check_send(self) -> None:
        """Called before records are written, after anything that may have taken long.

        Raises:
            KafkaError: as ``TransactionStateMachine.check_send``.
        """
        if self._transactions is not None:
            self._transactions.check_send(self.transaction)

    def fast_slots_of(self, topic: str) -> TopicSlots | None:
        """The ``TopicSlots`` of a topic; ``None`` while its records have to take the general path."""
        transactions = self._transactions
        if transactions is not None and self.transaction not in (None, transactions.transaction):
            return None
        slots: TopicSlots | None = self._lifecycle.fast_send.slots_of(topic)
        return slots

    def send_serialized(
        self, topic: str, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> FutureRecordMetadata:
        """``send`` for a row whose key and value have been through the serializers."""
        # Not that of the beginning: an iterator may have forked the process.
        admission = self._lifecycle.running_engine().admission.of_bytes
        return blocking.send(admission, topic, value, key, headers, partition, timestamp_ms, None)

    def send_tolerantly(
        self, topic: str, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> FutureRecordMetadata:
        """``send`` for a row that may be refused without consequences: no transaction fails because of it.

        Raises:
            InvalidArgumentError: the topic does not have the partition, also after a metadata update.
            MetadataTimeoutError: there was no update within ``max_block_ms``, so this is not known.
            KafkaError: as ``send``.
        """
        count = self.known_partition_count(topic)
        if count and isinstance(partition, int) and partition >= count:
            self._await_partition(topic, partition)
        admission = self._engine.admission
        return blocking.send(
            admission, topic, value, key, headers, partition, timestamp_ms, None, is_told=False
        )

    def _await_partition(self, topic: str, partition: int) -> None:
        """Wait for an update, but not for one per row: a stream of such rows must not wait for each."""
        if self._judged_by.get(topic) is not self.snapshot:
            self._await_update(topic, partition)
        count = self.known_partition_count(topic)
        if partition >= count > 0:
            raise InvalidArgumentError(
                f"topic {topic!r} has partitions 0 to {count - 1}, not partition {partition}"
            ).with_outcome(Outcome.NOT_SENT)

    def _await_update(self, topic: str, partition: int) -> None:
        """Wait until the partition is known, or an update that arrived meanwhile does not have it.

        The first wait for a topic is longer, for brokers that learn of new partitions late.
        """
        topics, max_block_ms = self._engine.topics, self._engine.config.max_block_ms
        version, began_ms = topics.metadata.update_version, self.clock.monotonic_ms()
        enough_ms = 0 if topic in self._judged_by else min(_PARTITION_MS, max_block_ms)
        while True:
            waited_ms = self.clock.monotonic_ms() - began_ms
            try:
                TopicNeed(topics, topic, partition).wait(min(_PARTITION_SLICE_MS, max_block_ms - waited_ms))
                return
            except MetadataTimeoutError:
                waited_ms = self.clock.monotonic_ms() - began_ms
                if waited_ms >= enough_ms and topics.metadata.update_version > version:
                    self._judged_by[topic] = self.snapshot
                    return
                if waited_ms >= max_block_ms:
                    raise

    def await_partition_count(self, topic: str, partition: int | None = None) -> int:
        """Wait until the topic, and the partition, are known; return the number of partitions.

        Raises:
            KafkaError: as ``send``.
        """
        try:
            snapshot = self._engine.topics.await_topic(topic, partition)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise
        return self.known_partition_count(topic) or snapshot.partition_count(topic) or 0

    def known_partition_count(self, topic: str) -> int:
        """How many partitions are known now; 0: the topic is not known."""
        return self.snapshot.partition_count(topic) or 0

    @property
    def snapshot(self) -> MetadataSnapshot:
        """What is known of the cluster now."""
        return self._engine.topics.snapshot

    def slots_of(self, topic: str) -> TopicSlots | None:
        """The topic's ``TopicSlots``, until the engine ends; ``None``: there is no fast path."""
        return self._engine.admission.slots_of(topic) if self.rules.has_fast_path else None

    def note_refusal(self, error: KafkaError) -> None:
        """A record was refused: a transaction must not be committed without it."""
        if self._transactions is not None:
            self._transactions.send_failed(error, self.transaction)
