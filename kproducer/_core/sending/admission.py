"""Admission: from the arguments of ``send`` into a batch, without waiting.

``admit`` is the straight path: one function accepts a record to which nothing is missing. Every other record
becomes a ``PendingSend``, whose ``advance`` returns the record's future, or what the record needs first. Who
waits, and how, is not known here: ``blocking`` does it for a thread, ``aio.waiting_records`` for an event
loop. The compiled kernel's ``FastSend``, ``RowSender`` and ``ArrowRows`` accept simple records and rows by
the same rules before they get here. Knows no sockets and no requests.
Source: Kafka class ``KafkaProducer`` (doSend).
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, Final

from kproducer._core.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
from kproducer._core.accumulator.record_accumulator import Append
from kproducer._core.kernel import partition_for_key, record_size_upper_bound
from kproducer._core.runtime.arguments import (
    checked_partition,
    checked_timestamp,
    encode_headers,
    headers_size_upper_bound,
    whole_number,
)
from kproducer._core.sending.interceptors import ProducerRecord
from kproducer._core.sending.needs import MemoryNeed, Need, PreparationNeed, TopicNeed, Topics
from kproducer._core.sending.record_rules import RecordRules
from kproducer.errors import (
    InvalidArgumentError,
    KafkaError,
    Outcome,
    ProducerClosedError,
    RecordTooLargeError,
)
from kproducer.types import INT64_MAX, UNKNOWN_PARTITION, RecordMetadata

if TYPE_CHECKING:
    from kproducer._core.accumulator.partition_queue import Record
    from kproducer._core.accumulator.record_accumulator import RecordAccumulator
    from kproducer._core.client.metadata_snapshot import MetadataSnapshot
    from kproducer._core.kernel import TopicSlots
    from kproducer._core.transactions.transaction_state import OpenTransaction
    from kproducer._core.transactions.transaction_state_machine import TransactionStateMachine

#: The arguments of ``KafkaProducer.send``, all of them, unchecked.
Arguments = tuple[Any, ...]

#: What was done for a record. Refused or accepted records have the stage at which that happened.
NEW: Final = 0
INTERCEPTED: Final = 1
TOPIC_KNOWN: Final = 2
PREPARED: Final = 3
SERIALIZED: Final = 4


class Admission:
    """Accepts the records of one engine. Thread-safe; never waits, except where serializers do.

    Args:
        rules: what the settings say about each record.
        topics: what is known of topics.
        accumulator: takes the records.
        transactions: the state of transactions; ``None`` without a transactional id.

    Attributes:
        rules, topics, accumulator, transactions: as given.
        fast_send: of the rules.
        of_bytes: the same for records whose keys and values have been through the serializers.
    """

    def __init__(
        self,
        rules: RecordRules,
        topics: Topics,
        accumulator: RecordAccumulator,
        transactions: TransactionStateMachine | None,
    ) -> None:
        self.rules = rules
        self.topics = topics
        self.accumulator = accumulator
        self.transactions = transactions
        of_bytes = rules.of_bytes()
        self.of_bytes: Admission = self
        if of_bytes is not rules:
            self.of_bytes = Admission(of_bytes, topics, accumulator, transactions)
        # One look-up nearer, for every record.
        self._metadata = topics.metadata
        self._wall_ns = topics.clock.wall_ns
        self.fast_send = rules.fast_send
        self._has_first_steps = rules.intercepts or transactions is not None
        self._serializes_key = rules.serializes_key
        self._serializes_value = rules.serializes_value
        self._partitioner = rules.partitioner
        self._ignores_keys = rules.ignores_keys
        self._small_size = rules.small_size

    def slots_of(self, topic: str) -> TopicSlots:
        """Where the topic's open batches are, until the engine ends."""
        return self.accumulator.queues.topic(topic).slots

    def admit(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any,
        on_delivery: Any, pending: PendingSend | None = None,
    ) -> FutureRecordMetadata | PendingSend:  # fmt: skip
        """Accept a record to which nothing is missing: the arguments of ``KafkaProducer.send``, unchecked.

        One function, because with the pure kernel every record takes it. Serializers may block.
        ``pending`` is the record if it has taken the first steps.

        Returns:
            The record's future, or the record, with stage ``SERIALIZED`` if its topic is known.

        Raises:
            KafkaError: not accepted.
        """
        try:
            if pending is None and self._has_first_steps:
                return PendingSend(self, (topic, value, key, headers, partition, timestamp_ms, on_delivery))
            snapshot = self._metadata.snapshot
            topic_metadata = snapshot.topics.get(topic) if topic.__class__ is str else None
            partition_count = 0 if topic_metadata is None else len(topic_metadata.partitions)
            if not partition_count or (
                partition is not None
                and (partition.__class__ is not int or not 0 <= partition < partition_count)
            ):
                arguments = (topic, value, key, headers, partition, timestamp_ms, on_delivery)
                return PendingSend(self, arguments) if pending is None else pending
            if on_delivery is not None and pending is None:
                self.rules.check_callback(on_delivery)
            key_bytes, value_bytes = key, value
            if (
                headers is not None
                or (key is not None and (self._serializes_key or key.__class__ is not bytes))
                or (value is not None and (self._serializes_value or value.__class__ is not bytes))
            ):
                key_bytes, value_bytes, headers = self._serialized(topic, key, value, headers)
            if pending is not None and pending.transaction is not None:
                pending.check_transaction()  # the serializers may have taken long
            if self.fast_send is not None and (pending is not None or headers is not None):
                # Only if the bytes are new to it: after ``_serialized``, headers is a list.
                sent: FutureRecordMetadata | None = self.fast_send.try_send(
                    topic, value_bytes, key_bytes, headers, partition, timestamp_ms, on_delivery
                )
                if sent is not None:
                    return sent
            if timestamp_ms is None:
                timestamp_ms = self._wall_ns() // 1_000_000
            elif timestamp_ms.__class__ is not int or not 0 <= timestamp_ms <= INT64_MAX:
                timestamp_ms = checked_timestamp(timestamp_ms)
            size = (len(key_bytes) if key_bytes else 0) + (len(value_bytes) if value_bytes else 0)
            if size + (headers_size_upper_bound(headers) if headers else 0) > self._small_size:
                self._check_size(topic, record_size_upper_bound(key_bytes, value_bytes, headers or None))
            if partition is None:
                if self._partitioner is not None:
                    chosen = self._partitioner(topic, key, key_bytes, value, value_bytes, snapshot)
                    partition = _checked_choice(chosen, topic, partition_count)
                elif key_bytes is None or self._ignores_keys:
                    partition = UNKNOWN_PARTITION
                else:
                    partition = partition_for_key(key_bytes, partition_count)
            record = (timestamp_ms, key_bytes, value_bytes, headers or None, on_delivery)
            if pending is None or pending.held is None:
                # If Ctrl-C interrupts this call, the caller cannot know whether the record was accepted.
                future = self.accumulator.try_append(topic, partition, record)
                if future is not None:
                    return future
            pending = PendingSend(self, ()) if pending is None else pending
            pending.serialized(topic, partition, record, snapshot)
            return pending
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise

    def _serialized(
        self, topic: str, key: Any, value: Any, headers: Any
    ) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        """Key and value as bytes, and the headers, to which the serializers may have added some."""
        headers = [] if headers is None else encode_headers(topic, headers)
        if key is not None and (self._serializes_key or key.__class__ is not bytes):
            key = self.rules.key_bytes(topic, headers, key)
        if value is not None and (self._serializes_value or value.__class__ is not bytes):
            value = self.rules.value_bytes(topic, headers, value)
        if headers and (self._serializes_key or self._serializes_value):
            headers = encode_headers(topic, headers)  # serializers may have appended anything
        return key, value, headers

    def _check_size(self, topic: str, size: int) -> None:
        if size > self.rules.size_limit:
            raise RecordTooLargeError(
                f"a record for topic {topic!r} takes up to {size} bytes, more than "
                f"{self.rules.size_setting}={self.rules.size_limit}"
            )


def _checked_choice(chosen: Any, topic: str, partition_count: int) -> int:
    """What the application's partitioner chose. A record for another partition would never be sent."""
    number = whole_number(chosen, UNKNOWN_PARTITION, partition_count - 1)
    if number is None:
        raise InvalidArgumentError(
            f"the partitioner chose {chosen!r} for topic {topic!r}, which has partitions 0 to "
            f"{partition_count - 1}"
        )
    return number


class PendingSend(Append):
    """One record from its ``send`` to its acceptance or refusal. For one thread at a time.

    It is accepted when ``future`` is set, which is a single assignment: an interrupted ``advance`` may be
    called again, and does nothing twice that ``stage`` says was done.

    Args:
        admission: of the engine.
        arguments: those of ``send``; empty: it is serialized at once.
        transaction: to which the record has to belong; ``None``: to the present one, if there are any.
        held: topics and (topic, partition) pairs for which earlier records of the caller still wait; this
            record waits behind them. ``None``: the caller may be blocked, by serializers and compression.

    Attributes:
        admission, held: as given.
        arguments: after the interceptors, if those have seen the record.
        stage: what was done: ``NEW`` to ``SERIALIZED``. The attributes of ``Append`` are set at the end.
        memory: what ``advance`` has returned, if that is memory.
        is_running: code of the application may be running.
    """

    is_running: bool = False
    _preparation: PreparationNeed | None = None
    _is_refused: bool = False

    def __init__(
        self,
        admission: Admission,
        arguments: Arguments,
        transaction: OpenTransaction | None = None,
        held: Container[object] | None = None,
    ) -> None:
        self.admission = admission
        self.arguments = arguments
        self.transaction = transaction
        self.held = held
        self.may_compress = held is None
        # Not as defaults of the class: for the interpreter, those are slow.
        self.stage = NEW
        self.future: FutureRecordMetadata | None = None
        self.memory: MemoryNeed | None = None

    def advance(self) -> FutureRecordMetadata | Need:
        """Go as far as possible without waiting. May be called again after any result and after an interrupt.

        Returns:
            The record's future, or what it needs before this can go on.

        Raises:
            KafkaError: the record cannot be accepted.
            BaseException: from code of the application.
        """
        admission, future = self.admission, self.future
        if future is not None:
            # An interrupt came just after its acceptance, perhaps before the I/O thread was woken.
            admission.topics.wakeup()
            return future
        if admission.accumulator.queues.is_closed:
            raise ProducerClosedError.before_call()
        if self.memory is not None and not self.memory.is_met():
            return self.memory
        self.is_running = True
        try:
            if self.stage == NEW:
                self._take_first_steps()
            elif self.transaction is not None:
                self.check_transaction()  # what the record has waited for may have taken long
            while self.stage < SERIALIZED:
                # A thread finds out what is missing only if something is.
                if self.held is not None and (need := self._missing()) is not None:
                    return need
                topic, value, key, headers, partition, timestamp_ms, on_delivery = self.arguments
                admitted = admission.admit(
                    topic, value, key, headers, partition, timestamp_ms, on_delivery, self
                )
                if admitted.__class__ is not PendingSend:
                    self.future = admitted  # type: ignore[assignment]
                    return admitted  # type: ignore[return-value]
                if self.stage < SERIALIZED and (need := self._missing()) is not None:
                    return need
        finally:
            self.is_running = False
        if not admission.accumulator.append(self):
            self.memory = self.memory or MemoryNeed(admission.accumulator.pool, self)
            return self.memory
        self.memory = None
        if self.wakes_sender:
            admission.topics.wakeup()
        assert self.future is not None
        return self.future

    def hold(self, held: Container[object]) -> None:
        """From here on, the caller must not be blocked; see ``held``."""
        self.held = held
        self.may_compress = False

    def serialized(self, topic: str, partition: int, record: Record, snapshot: MetadataSnapshot) -> None:
        """The record is as batches take it; see ``Append``."""
        self.topic, self.partition, self.record, self.snapshot = topic, partition, record, snapshot
        self.stage = SERIALIZED

    def check_transaction(self) -> None:
        """Raise the error of ``check_send`` if the record cannot, or can no longer, be in a transaction."""
        transactions = self.admission.transactions
        if transactions is not None:
            self.transaction = transactions.check_send(self.transaction)

    def _take_first_steps(self) -> None:
        """Check the callback and the transaction, call the interceptors."""
        admission, arguments = self.admission, self.arguments
        on_delivery = arguments[6]
        if on_delivery is not None:
            admission.rules.check_callback(on_delivery)
        if admission.transactions is not None:
            self.check_transaction()
        if admission.rules.intercepts:
            changed: Any = admission.rules.interceptors.on_send(ProducerRecord._make(arguments[:6]))
            self.arguments = (*changed, self._acknowledging(on_delivery))
        self.stage = INTERCEPTED

    def _acknowledging(self, on_delivery: DeliveryCallback | None) -> DeliveryCallback:
        interceptors = self.admission.rules.interceptors

        def acknowledge(metadata: RecordMetadata, error: KafkaError | None) -> None:
            try:
                interceptors.on_acknowledgement(metadata, error)
            finally:  # also when a hook raises SystemExit or the like: the record's own callback follows
                if on_delivery is not None:
                    on_delivery(metadata, error)

        return acknowledge

    def _missing(self) -> Need | None:
        """The topic or the preparation of a serializer, if that is missing."""
        admission, held = self.admission, self.held
        topic, value, key, headers, partition, *rest = self.arguments
        count = 0
        if isinstance(topic, str):
            topic = str.__str__(topic)  # exactly this type, also of a member of an Enum
            count = admission.topics.metadata.snapshot.partition_count(topic) or 0
        partition = checked_partition(partition)
        if not count or (partition or 0) >= count or (held and (topic in held or (topic, partition) in held)):
            return TopicNeed(admission.topics, topic, partition)
        self.arguments = (topic, value, key, headers, partition, *rest)
        self.stage = TOPIC_KNOWN
        if held is not None and self._preparation is None:
            needed = admission.rules.preparations_of(topic, key, value)
            if needed:
                queues = admission.accumulator.queues
                self._preparation = PreparationNeed(admission.topics, topic, needed, lambda: queues.is_closed)
        if self._preparation is not None and not self._preparation.is_met():
            return self._preparation
        self.stage = PREPARED
        return None

    def release(self) -> None:
        """Return memory that was taken for the record. Idempotent."""
        try:
            if self.memory is not None:
                self.memory.cancel()
                self.memory = None  # it refers to the record
            self.admission.accumulator.give_up(self)
        finally:
            if self.wakes_sender:
                # An interrupt came after a batch was closed, or taken from a lane.
                self.admission.topics.wakeup()

    def refuse(self, error: BaseException) -> None:
        """The record is given up: return its memory, tell the interceptors and the transaction, once."""
        self.release()
        if self._is_refused:
            return
        self._is_refused = True
        admission = self.admission
        if self.future is not None:
            admission.topics.wakeup()  # an interrupt came just after its acceptance
        else:
            if isinstance(error, KafkaError) and error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            if admission.rules.intercepts and self.stage > NEW and isinstance(error, Exception):
                topic, *_, partition, timestamp_ms, _ = self.arguments
                partition = -1 if partition is None else partition
                timestamp_ms = -1 if timestamp_ms is None else timestamp_ms
                metadata = RecordMetadata(topic, partition, -1, timestamp_ms, -1, -1)
                admission.rules.interceptors.on_acknowledgement(metadata, error)
        if self.transaction is not None and admission.transactions is not None:
            # It must not be committed without the record.
            cause = error if isinstance(error, KafkaError) else KafkaError(repr(error))
            admission.transactions.send_failed(cause, self.transaction)
