"""Sends the records of one topic in calls of suitable size, and hands the results to ``Deliveries``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kproducer.cli.deliveries import Deliveries, Origin
from kproducer.cli.input_bytes import BrokenInputError
from kproducer.cli.input_types import InputTypes
from kproducer.cli.rows import Fields, Headers, RowMapping
from kproducer.errors import InvalidArgumentError, Outcome
from kproducer.kafka_producer import KafkaProducer

if TYPE_CHECKING:
    from kproducer._core.bulk.send_many_result import SendManyResult

#: One call of the producer takes all lines that have been read, up to these limits.
CALL_ROWS: Final = 10_000
CALL_BYTES: Final = 1 << 20
#: About what a record without outcome takes in memory, besides its bytes.
_RECORD_BYTES = 150


class Sending:
    """Sends records of one topic in calls of suitable size.

    Args:
        producer: sends.
        deliveries: takes the results.
        topic: the topic to send to.
        partition: the partition to send to; ``None`` leaves it to the partitioner.
        types: what the producer's serializers take.
        most_rejected: how many records may fail before no more input is read; ``None``: any number.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        deliveries: Deliveries,
        topic: str,
        partition: int | None,
        types: InputTypes,
        most_rejected: int | None = None,
    ) -> None:
        self.topic, self.partition = topic, partition
        self._types, self._most_rejected = types, most_rejected
        config = producer.config
        #: Arrow columns do not go through serializers.
        self.sends_columns = config.key_serializer is None and config.value_serializer is None
        self._producer, self._deliveries = producer, deliveries
        #: The input that is being read, and its last line that was added or refused.
        self.file, self.last_line = "", 0
        #: Why the producer accepts no more records. Records that are added nevertheless are reported.
        self.stopped_by: Exception | None = None
        #: The records of the next call: line, original, value, key, headers and timestamp, with keys and
        #: values as the serializers take them.
        self._records: list[tuple[int, bytes, Any, Any, Headers | None, int | None]] = []
        self._size = 0

    def begin(self, file: str) -> str:
        """Send from another input from now on. Returns its name."""
        self.file, self.last_line = file, 0
        return file

    def add(self, line: int, original: bytes, record: Fields) -> None:
        """Send a record: with this call, or with the next ``flush``.

        Raises:
            BrokenInputError: too many records were not delivered.
        """
        self._check_rejected(line)
        value: object = record.value
        key: object = record.key
        try:
            if self._types.key is not None and record.key is not None:
                key = self._types.key.read("key", record.key)
            if self._types.value is not None and record.value is not None:
                value = self._types.value.read("value", record.value)
        except ValueError as error:
            self.refuse(line, original, error)
            return
        self.last_line = line
        self._records.append((line, original, value, key, record.headers, record.timestamp_ms))
        self._size += len(original) + _RECORD_BYTES
        if self._size >= CALL_BYTES or len(self._records) >= CALL_ROWS:
            self.flush()

    def refuse(self, line: int, original: bytes, reason: object) -> None:
        """Report input from which no record can be made.

        Raises:
            BrokenInputError: too many records were not delivered.
        """
        self._check_rejected(line)
        self.last_line = line
        self._deliveries.report(
            Origin(self.file, [line], [original].__getitem__), 0, reason, Outcome.NOT_SENT
        )

    def _check_rejected(self, line: int) -> None:
        most = self._most_rejected
        if most is not None and self._deliveries.failed_count > most:
            raise BrokenInputError(self.file, line, f"--max-rejected {most}: more records were not delivered")

    def flush(self) -> None:
        """Send all records that were added."""
        if not self._records:
            return
        records, size = self._records, self._size
        self._records, self._size = [], 0
        lines, originals, values, keys, headers, timestamps = map(list, zip(*records, strict=True))
        self.call(
            Origin(self.file, lines, originals.__getitem__),
            len(records),
            size,
            lambda: self._producer.send_many(
                self.topic,
                values,
                keys if any(key is not None for key in keys) else None,
                headers if any(headers) else None,
                self.partition,
                timestamps if any(each is not None for each in timestamps) else None,
            ),
        )

    def call(self, origin: Origin, count: int, size: int, send: Callable[[], SendManyResult]) -> None:
        """Make one call of the producer, and report every record that it does not accept.

        Args:
            origin: where the records come from.
            count: how many records there are.
            size: how many bytes they take until their outcomes are known.
            send: makes the call.
        """
        accepted: SendManyResult | None = None
        if self.stopped_by is None:
            self._deliveries.wait_for_room(size)
            try:
                accepted = send()
            except BrokenInputError:
                raise
            except Exception as error:  # also MemoryError and bugs: every record is accounted for
                self.stopped_by = error
                accepted = getattr(error, "partial_result", None)
        if accepted is not None:
            self._deliveries.add(accepted, origin, size)
        for index in range(0 if accepted is None else len(accepted), count):
            self._deliveries.report(origin, index, self.stopped_by, Outcome.NOT_SENT, is_of_record=False)

    def send_arrow(self, origin: Origin, batch: Any, mapping: RowMapping) -> None:
        """Send the rows of an Arrow batch, whose column of values is named.

        Raises:
            BrokenInputError: a column has an unsuitable type, or too many records were not delivered.
        """
        self._check_rejected(origin.lines[0])
        headers = mapping.headers
        if mapping.fixed_headers:
            batch, headers = _with_headers(batch, mapping.fixed_headers)

        def send() -> SendManyResult:
            try:
                return self._producer.send_arrow(
                    self.topic,
                    batch,
                    value=mapping.value,
                    key=mapping.key,
                    headers=headers,
                    partition=self.partition,
                    timestamp=mapping.timestamp,
                )
            except InvalidArgumentError as error:  # the same for every row
                raise BrokenInputError(origin.file, origin.lines[0], error) from None

        self.call(origin, batch.num_rows, batch.nbytes + batch.num_rows * _RECORD_BYTES, send)
        self.last_line = origin.lines[-1]


def _with_headers(batch: Any, headers: Any) -> tuple[Any, str]:
    """The batch with one more column, which has the same headers in every row."""
    import pyarrow as pa

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    cell = pa.scalar([{"key": name, "value": value} for name, value in headers], kind)
    name = next(each for each in map("headers{}".format, itertools.count()) if each not in batch.schema.names)
    return batch.append_column(name, pa.repeat(cell, batch.num_rows)), name
