"""BulkSender: the calls that send many records: ``send_many``, ``send_arrow`` and the sink for Spark.

What they need of a producer is passed in: ``KafkaProducer`` only has the signatures. For callers' threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kproducer.bulk.general_path import BulkProducer, SendFunction
from kproducer.bulk.send_many import SendManyCall
from kproducer.errors import InvalidArgumentError, KafkaError, Outcome
from kproducer.kernel import FastSend
from kproducer.sending.partitioners import DefaultPartitioner
from kproducer.serializers import TopicSerializer, serialize_function

if TYPE_CHECKING:
    from kproducer.bulk.arrow_columns import ArrowColumns
    from kproducer.bulk.send_arrow import ArrowSink
    from kproducer.bulk.send_many_input import SendManyInput
    from kproducer.bulk.send_many_result import SendManyResult
    from kproducer.config.producer_config import ProducerConfig
    from kproducer.engine.producer_engine import ProducerEngine
    from kproducer.sending.interceptors import ProducerInterceptors


class BulkSender:
    """Sends in bulk through one running engine.

    Args:
        config: of the producer.
        engine: running.
        partitioner: as ``make_partitioner`` returns it.
        interceptors: of the producer.
        fast_send: of the producer.
        send: ``KafkaProducer.send``.
        send_serialized: likewise, for keys and values that are serialized already.
    """

    def __init__(
        self,
        config: ProducerConfig,
        engine: ProducerEngine,
        partitioner: object,
        interceptors: ProducerInterceptors,
        fast_send: FastSend,
        send: SendFunction,
        send_serialized: SendFunction,
    ) -> None:
        key_serializer, value_serializer = config.key_serializer, config.value_serializer
        intercepts = interceptors.has_send_hooks or interceptors.has_acknowledgement_hooks
        hashes_keys = type(partitioner) is DefaultPartitioner
        self._objects_needed_by = [
            name
            for name, is_set in (
                ("value_serializer", value_serializer is not None),
                ("key_serializer", key_serializer is not None),
                ("interceptors", intercepts),
            )
            if is_set
        ]
        self._producer = BulkProducer(
            send=send,
            send_serialized=send_serialized,
            key_bytes=None if key_serializer is None else serialize_function("key", key_serializer),
            value_bytes=None if value_serializer is None else serialize_function("value", value_serializer),
            source=engine,
            fast_slots_of=fast_send.slots_of,
            slots_of=engine.accumulator.slots_of,
            transactions=engine.transaction_lifecycle,
            max_block_ms=config.max_block_ms,
            size_limit=min(config.max_request_size, config.buffer_memory),
            size_setting=(
                "max_request_size" if config.max_request_size <= config.buffer_memory else "buffer_memory"
            ),
            has_fast_path=hashes_keys
            and not intercepts
            # Asking whether None is a TopicSerializer would be slow, and this runs in every call.
            and (key_serializer is None or not isinstance(key_serializer, TopicSerializer))
            and (value_serializer is None or not isinstance(value_serializer, TopicSerializer)),
            ignores_keys=isinstance(partitioner, DefaultPartitioner) and partitioner.ignore_keys,
            may_change_topics=interceptors.has_send_hooks,
        )

    def send_many(self, topic: str, rows: SendManyInput) -> SendManyResult:
        """See ``KafkaProducer.send_many``."""
        return self._in_transaction(SendManyCall(self._producer, topic, rows).run)

    def send_arrow(
        self,
        data: Any,
        topic: str | None,
        value: str | None,
        key: str | None,
        headers: str | None,
        partition: str | int | None,
        timestamp: str | int | None,
        topic_column: str | None,
    ) -> SendManyResult:
        """See ``KafkaProducer.send_arrow``."""
        from kproducer.bulk.arrow_columns import ArrowColumns
        from kproducer.bulk.send_arrow import send_arrow

        try:
            columns = ArrowColumns.checked(topic, value, key, headers, partition, timestamp, topic_column)
            self._check_needs_no_objects("send_arrow()")
        except KafkaError as error:
            error.outcome = Outcome.NOT_SENT
            raise
        return self._in_transaction(lambda: send_arrow(self._producer, columns, topic, data))

    def arrow_sink(self, topic: str | None, columns: ArrowColumns) -> ArrowSink:
        """Send one Arrow batch after another, without a result per row."""
        from kproducer.bulk.send_arrow import ArrowSink

        self._check_needs_no_objects("arrow_sink()")
        return ArrowSink(self._producer, columns, topic)

    def _check_needs_no_objects(self, call: str) -> None:
        for setting in self._objects_needed_by:
            raise InvalidArgumentError(
                f"{call} writes columns unchanged, but {setting} needs each row as an object: use "
                f"send_many(), or a producer without {setting}"
            )

    def _in_transaction(self, run: Callable[[], SendManyResult]) -> SendManyResult:
        """Run a call. In a transaction, refused records prevent the commit, as with ``send``."""
        transactions = self._producer.transactions
        if transactions is None:
            return run()
        transactions.check_send()
        try:
            result = run()
        except BaseException as error:
            transactions.send_failed(error if isinstance(error, KafkaError) else KafkaError(repr(error)))
            raise
        if result.failed_count:
            transactions.send_failed(KafkaError(f"{result.failed_count} records of a bulk call were refused"))
        return result
