"""BulkCalls: ``send_many`` and ``send_arrow``: many records in one call. For callers' threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kproducer.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer.bulk.send_many import SendManyCall, SendManyProducer
from kproducer.bulk.send_many_input import SendManyInput
from kproducer.bulk.send_many_result import SendManyResult
from kproducer.errors import InvalidArgumentError, KafkaError, Outcome
from kproducer.runtime.arguments import HeadersInput
from kproducer.sending.record_calls import RecordCalls

if TYPE_CHECKING:
    from kproducer.bulk.arrow_columns import ArrowColumns
    from kproducer.bulk.send_arrow import ArrowProducer, ArrowSink


class BulkCalls(RecordCalls):
    """Takes columns of records."""

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None = None,
        headers: Iterable[HeadersInput | None] | None = None,
        partitions: Iterable[int | None] | int | None = None,
        timestamps_ms: Iterable[int | None] | int | None = None,
    ) -> SendManyResult:
        """Accept many records for one topic; each is treated as ``send`` would treat it.

        Args:
            topic: topic name.
            values: lists are fastest; generators are sent on as they yield.
            keys, headers, partitions, timestamps_ms: one entry for each value, or ``None``. One number is
                the partition or time of all; for one key or set of headers pass ``itertools.repeat(it)``.

        Returns:
            What becomes of every record. One that is refused here (too large, wrong type) is in there as
            failed, and the others go on. When a record has waited in vain for memory (``max_block_ms``), or
            the producer is closed meanwhile, it and all after it are refused.

        Raises:
            InvalidArgumentError: an argument is no column, or the columns are not of one length.
            MetadataTimeoutError, BrokerError, ProducerClosedError: as ``send`` does, before the first record.
            BufferExhaustedError, ProducerClosedError: later, if nothing tells how many records are left.
            Exception: what the iterators raise.

        Whatever is raised once records were accepted, Ctrl-C too, has their result as ``partial_result``.
        """
        rows = SendManyInput(values, keys, headers, partitions, timestamps_ms, self._clock)
        engine = self._engine or self._engine_on_first_use()
        is_usual = self._serializers_see_data_alone and self._hashes_keys and not self._intercepts
        producer = SendManyProducer(
            self if is_usual else None,
            self.send,
            self._send_serialized_row,
            self._key_bytes if self._serializes_key else None,
            self._value_bytes if self._serializes_value else None,
            engine,
            self._max_block_ms,
            self._interceptors.has_send_hooks,
        )
        return self._accept_many(SendManyCall(producer, topic, rows).run)

    def send_arrow(
        self,
        topic: str | None,
        data: Any,
        *,
        value: str | None = None,
        key: str | None = None,
        headers: str | None = None,
        partition: str | int | None = None,
        timestamp: str | int | None = None,
        topic_column: str | None = None,
    ) -> SendManyResult:
        """Accept the rows of Arrow data; each is treated as ``send`` would treat it, at a tenth of the price.

        Args:
            topic: topic name; ``None``: ``topic_column`` says.
            data: anything with the Arrow PyCapsule interface (tables and batches of pyarrow, polars, pandas
                and DuckDB), or an iterable of such. An array that is no struct is a column of values.
            value: the column of values; ``None``: the one named ``value``, or the only one. Strings (as
                UTF-8) or binary of any kind, dictionary-encoded too; null is a tombstone.
            key: a column likewise, for partitioning; null: no key.
            headers: a column of list<struct<key: string, value: binary>> or map<string, binary>.
            partition: a column of integers, or one number for all rows; null leaves it to the partitioner.
            timestamp: a column of timestamps, or of int64 milliseconds since the epoch, or one number of them
                for all rows; null means now.
            topic_column: a column of topic names.

        Returns:
            What becomes of every row, as ``send_many`` does. A row that cannot be sent (too large, no such
            partition, a time before 1970) is in there as failed, and the others go on. Rows with the same
            key or the same partition number stay in order.

        Raises:
            InvalidArgumentError: a column is missing, or of a type that cannot be what it is named for;
                serializers or interceptors are set, which see objects; the data are no Arrow data.
            MetadataTimeoutError, BrokerError, ProducerClosedError: as ``send`` does, before the first row.
            BufferExhaustedError, ProducerClosedError: later, when more data may be left in a stream.
            Exception: what an iterable raises.

        Whatever is raised once rows were accepted, Ctrl-C too, has their result as ``partial_result``.
        """
        from kproducer.bulk.arrow_columns import ArrowColumns
        from kproducer.bulk.send_arrow import SendArrowCall

        try:
            columns = ArrowColumns.checked(topic, value, key, headers, partition, timestamp, topic_column)
            call = SendArrowCall(self._arrow_producer("send_arrow()"), columns, topic)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise
        return self._accept_many(call.run, data)

    def arrow_sink(self, topic: str | None, columns: ArrowColumns) -> ArrowSink:
        """A sender of one Arrow batch after another that keeps nothing for each row. Not for applications."""
        from kproducer.bulk.send_arrow import ArrowSink

        return ArrowSink(self._arrow_producer("arrow_sink()"), columns, topic)

    def _arrow_producer(self, call: str) -> ArrowProducer:
        from kproducer.bulk.send_arrow import ArrowProducer

        for is_set, what in (
            (self._serializes_value, "value_serializer"),
            (self._serializes_key, "key_serializer"),
            (self._intercepts, "interceptors"),
        ):
            if is_set:
                raise InvalidArgumentError(
                    f"{call} writes columns as they are, and {what} would have to see each row as an object: "
                    "use send_many(), or a producer without"
                )
        config = self._config
        engine = self._engine or self._engine_on_first_use()
        return ArrowProducer(
            send_one=self.send,
            check_send=self._check_send,
            note_refusal=self._note_refusal,
            source=engine,
            lanes_of=engine.accumulator.slots_of,
            max_block_ms=self._max_block_ms,
            size_limit=self._size_limit,
            size_setting=(
                "max_request_size" if config.max_request_size <= config.buffer_memory else "buffer_memory"
            ),
            uses_lanes=self._hashes_keys,
            hashes_keys=self._hashes_keys and not self._ignores_keys,
            wall_ms=self._wall_ms,
        )

    def _accept_many(self, run: Callable[..., SendManyResult], *data: Any) -> SendManyResult:
        """Run a bulk call; in a transaction, what it refuses forbids the commit, as with ``send``."""
        return self._in_transaction(self._run_and_note, run, *data) if self._is_transactional else run(*data)

    def _run_and_note(self, run: Callable[..., SendManyResult], *data: Any) -> SendManyResult:
        result = run(*data)
        if result.failed_count:
            self._note_refusal(KafkaError(f"{result.failed_count} records of a bulk call were refused"))
        return result

    def _check_send(self) -> None:
        """Raise where no transaction is open, for a producer that needs one."""
        transactions = self._engine_on_first_use().transactions if self._is_transactional else None
        if transactions is not None:
            transactions.check_send()

    def _note_refusal(self, error: KafkaError) -> None:
        """A record was refused: a transaction must not be committed without it."""
        engine = self._engine if self._is_transactional else None
        if engine is not None and engine.transactions is not None:
            engine.transactions.send_failed(error)

    def _send_serialized_row(
        self, topic: str, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> FutureRecordMetadata:
        """``send`` for a row of ``send_many`` whose key and value have been through the serializers."""
        record = (topic, value, key, headers, partition, timestamp_ms, None)
        try:
            if self._is_transactional:
                return self._in_transaction(self._send, *record, True)
            return self._send(*record, True)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise
