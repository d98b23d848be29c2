"""RecordBatchSender: the one place where an Arrow RecordBatch becomes records of a producer.

Everything above hands over RecordBatches and waits; everything below takes Arrow data as they are. No row
becomes a Python object, but for the first one of each batch of the producer.
Knows producers by the protocol in ``producer_cache`` only.
"""

from __future__ import annotations

import pyarrow as pa

from kproducer.bulk.arrow_columns import ArrowColumns
from kproducer.bulk.send_arrow import RowRefusedError
from kproducer.errors import KafkaError
from kproducer.spark.delivery_tracker import DeliveryTracker, failure
from kproducer.spark.errors import SparkWriteError
from kproducer.spark.producer_cache import Producer
from kproducer.spark.write_columns import WriteColumns


class RecordBatchSender:
    """Sends the rows of RecordBatches; deliveries are reported to the tracker. For the task's thread."""

    __slots__ = ("_columns", "_sink", "_tracker")

    def __init__(self, producer: Producer, columns: WriteColumns, tracker: DeliveryTracker) -> None:
        self._columns = columns
        self._sink = producer.arrow_sink(columns.topic_option, named(columns))
        self._tracker = tracker

    def send(self, batch: pa.RecordBatch) -> int:
        """Hand over every row; blocks while the producer's memory is full.

        Returns:
            Bytes of the keys and values.

        Raises:
            SparkWriteError: a row cannot be sent, or an earlier one is known to have failed.
        """
        self._tracker.raise_if_failed()
        try:
            return self._sink.send(batch)
        except RowRefusedError as refused:
            raise self._failure(refused) from refused.error
        except KafkaError as error:
            raise failure(f"topic '{self._columns.topic_option or '?'}'", error) from error
        finally:
            self._tracker.watch(self._sink.rows_by_owner)

    def _failure(self, refused: RowRefusedError) -> SparkWriteError:
        if refused.reason == "topic is null":
            return SparkWriteError(
                f"column 'topic' is null in row {refused.row} of the task (counted from 0): "
                "filter such rows out, or set the option 'topic'"
            )
        place = f"topic '{refused.topic}', " + (
            "no partition given" if refused.partition < 0 else f"partition {refused.partition}"
        )
        return failure(f"{place} (row {refused.row} of the task, counted from 0)", refused.error)


def named(columns: WriteColumns) -> ArrowColumns:
    """The columns that are there, by the names that they all have."""
    return ArrowColumns(
        value="value",
        key=None if columns.key is None else "key",
        headers=None if columns.headers is None else "headers",
        partition=None if columns.partition is None else "partition",
        timestamp=None if columns.timestamp is None else "timestamp",
        topic=None if columns.topic is None else "topic",
        takes_seconds=True,
    )
