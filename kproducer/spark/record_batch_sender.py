"""RecordBatchSender: the one place where an Arrow RecordBatch becomes records of a producer.

Everything above hands over RecordBatches and waits; everything below takes records. A columnar encoder takes
this place when there is one. ``ColumnSender`` is the present way: it converts each column once and calls
``send`` for each row.
Knows producers by the protocol in ``producer_cache`` only.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any, Protocol

import pyarrow as pa

from kproducer.errors import KafkaError
from kproducer.spark import arrow_columns
from kproducer.spark.delivery_tracker import DeliveryTracker, failure
from kproducer.spark.errors import SparkWriteError
from kproducer.spark.producer_cache import Producer
from kproducer.spark.write_columns import WriteColumns


class RecordBatchSender(Protocol):
    """Sends the rows of RecordBatches; deliveries are reported to the tracker it was made with."""

    def send(self, batch: pa.RecordBatch) -> int:
        """Hand over every row, in order; blocks while the producer's memory is full.

        Returns:
            Bytes of the keys and values.

        Raises:
            SparkWriteError: a row cannot be sent, or an earlier one is known to have failed.
        """


class ColumnSender:
    """Converts columns to Python lists and sends row by row. For the task's thread."""

    __slots__ = ("_columns", "_producer", "_rows_before", "_tracker")

    def __init__(self, producer: Producer, columns: WriteColumns, tracker: DeliveryTracker) -> None:
        self._producer = producer
        self._columns = columns
        self._tracker = tracker
        self._rows_before = 0

    def send(self, batch: pa.RecordBatch) -> int:
        """As ``RecordBatchSender.send`` says."""
        size_bytes = 0
        for piece in arrow_columns.slices(batch):
            self._tracker.raise_if_failed()
            self._send_slice(piece)
            size_bytes += arrow_columns.content_bytes(piece.column(self._columns.value))
            if self._columns.key is not None:
                size_bytes += arrow_columns.content_bytes(piece.column(self._columns.key))
            self._rows_before += piece.num_rows
        return size_bytes

    def _send_slice(self, piece: pa.RecordBatch) -> None:
        columns = self._columns
        rows = zip(
            self._topics(piece),
            arrow_columns.as_bytes(piece.column(columns.value)),
            self._optional(piece, columns.key, arrow_columns.as_bytes),
            self._headers(piece),
            self._optional(piece, columns.partition, arrow_columns.as_integers),
            self._optional(piece, columns.timestamp, arrow_columns.as_epoch_ms),
            strict=False,
        )
        send = self._producer.send
        on_delivery = self._tracker.on_delivery
        topic, partition = "", None
        try:
            for topic, value, key, headers, partition, timestamp_ms in rows:
                send(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        except (KafkaError, ValueError, TypeError) as error:
            # What fails here is this very record; a failure in delivery comes through the tracker.
            place = f"topic '{topic}', " + (
                "no partition given" if partition is None else f"partition {partition}"
            )
            raise failure(place, error) from error

    def _topics(self, piece: pa.RecordBatch) -> Iterable[Any]:
        columns = self._columns
        if columns.topic is None:
            return repeat(columns.topic_option)
        column = piece.column(columns.topic)
        if column.null_count:
            row = self._rows_before + column.is_null().to_pylist().index(True)
            raise SparkWriteError(
                f"column 'topic' is null in row {row} of the task (counted from 0): "
                "filter such rows out, or set the option 'topic'"
            )
        return arrow_columns.as_topics(column)

    def _headers(self, piece: pa.RecordBatch) -> Iterable[Any]:
        if self._columns.headers is None:
            return repeat(None)
        try:
            return arrow_columns.as_headers(piece.column(self._columns.headers))
        except ValueError as error:
            first, last = self._rows_before, self._rows_before + piece.num_rows - 1
            raise SparkWriteError(f"column 'headers', rows {first} to {last} of the task: {error}") from error

    @staticmethod
    def _optional(piece: pa.RecordBatch, position: int | None, convert: Any) -> Iterable[Any]:
        return repeat(None) if position is None else convert(piece.column(position))
