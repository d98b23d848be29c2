"""BulkCalls: ``send_many`` and ``send_arrow``: many records in one call. For callers' threads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kproducer.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer.bulk.bulk_sender import BulkSender
from kproducer.bulk.send_many_input import SendManyInput
from kproducer.bulk.send_many_result import SendManyResult
from kproducer.errors import KafkaError, Outcome
from kproducer.runtime.arguments import HeadersInput
from kproducer.sending.record_calls import RecordCalls

if TYPE_CHECKING:
    from kproducer.bulk.arrow_columns import ArrowColumns
    from kproducer.bulk.send_arrow import ArrowSink


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
        """Accept many records for one topic; each is treated as by ``send``.

        Args:
            topic: topic name.
            values: lists are fastest; the values of generators are sent as they are yielded.
            keys, headers, partitions, timestamps_ms: one entry per value, or ``None``. A single number is the
                partition or timestamp of all records; for a single key or set of headers pass
                ``itertools.repeat(it)``.

        Returns:
            The outcome of every record. A record that is refused by this call (too large, wrong type) is
            included as failed, and the others are sent. After a record has waited ``max_block_ms`` for free
            memory, or the producer was closed meanwhile, it and all later ones are refused.

        Raises:
            InvalidArgumentError: an argument is not a column, or columns have different lengths.
            MetadataTimeoutError, BrokerError, ProducerClosedError: as ``send``, before the first record.
            BufferExhaustedError, ProducerClosedError: later, if the number of remaining records is unknown.
            Exception: raised by the iterators.

        What is raised after records were accepted, including Ctrl-C, has their result as ``partial_result``.
        """
        rows = SendManyInput(values, keys, headers, partitions, timestamps_ms, self._clock)
        return self._bulk_sender().send_many(topic, rows)

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
        """Accept the rows of Arrow data; each is treated as by ``send``, at about a tenth of the cost.

        Args:
            topic: topic name; ``None``: see ``topic_column``.
            data: anything with the Arrow PyCapsule interface (tables and batches of pyarrow, polars, pandas
                and DuckDB), or an iterable of such. An array that is not a struct is a column of values.
            value: the column of values; ``None``: the one named ``value``, or the only one. Strings (as
                UTF-8) or binary of any kind, also dictionary-encoded; null is a tombstone.
            key: a column of the same types, for partitioning; null: no key.
            headers: a column of list<struct<key: string, value: binary>> or map<string, binary>.
            partition: a column of integers, or one number for all rows; null leaves it to the partitioner.
            timestamp: a column of timestamps, or of int64 milliseconds since the epoch, or one number of
                milliseconds for all rows; null means now.
            topic_column: a column of topic names.

        Returns:
            The outcome of every row, as of ``send_many``. A row that cannot be sent (too large, no such
            partition, a time before 1970) is included as failed, and the others are sent. Rows with the same
            key or the same partition number keep their order.

        Raises:
            InvalidArgumentError: a column is missing or of an unsuitable type; serializers or interceptors
                are configured, which need objects; the data are not Arrow data.
            MetadataTimeoutError, BrokerError, ProducerClosedError: as ``send``, before the first row.
            BufferExhaustedError, ProducerClosedError: later, if more rows may be left in a stream.
            Exception: raised by an iterable.

        What is raised after rows were accepted, including Ctrl-C, has their result as ``partial_result``.
        """
        columns = (topic, value, key, headers, partition, timestamp, topic_column)
        return self._bulk_sender().send_arrow(data, *columns)

    def arrow_sink(self, topic: str | None, columns: ArrowColumns) -> ArrowSink:
        """Send one Arrow batch after another, without a result per row. Not for applications."""
        return self._bulk_sender().arrow_sink(topic, columns)

    def _bulk_sender(self) -> BulkSender:
        try:
            engine = self._engine or self._engine_on_first_use()
        except KafkaError as error:
            error.outcome = Outcome.NOT_SENT
            raise
        return BulkSender(
            self._config, engine, self._partition, self._interceptors, self.send, self._send_serialized_row
        )

    def _send_serialized_row(
        self, topic: str, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> FutureRecordMetadata:
        """``send`` for a row of ``send_many`` whose key and value are serialized already."""
        record = (topic, value, key, headers, partition, timestamp_ms, None)
        try:
            if self._is_transactional:
                return self._in_transaction(self._send, *record, True)
            return self._send(*record, True)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise
