"""KafkaForeachWriter: rows to Kafka one by one, for ``df.writeStream.foreach(...)``.

For what Spark refuses to a sink in Python: real-time mode and the output mode "update". Spark calls ``open``,
``process`` and ``close`` in a Python worker, for each partition of a micro-batch, and commits the micro-batch
when all ``close`` calls have returned. Source: ``pyspark.sql.streaming.DataStreamWriter.foreach``.
"""

from __future__ import annotations

import datetime
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t

from kproducer._core.accumulator.future_record_metadata import place_of
from kproducer.errors import ConfigError, KafkaError
from kproducer.kafka_producer import KafkaProducer
from kproducer.spark.errors import SparkOptionError, SparkSchemaError, SparkWriteError
from kproducer.spark.flushing import flush_and_look
from kproducer.spark.format_options import is_format_option
from kproducer.spark.option_names import config_mistake
from kproducer.spark.partition_writer import PRODUCERS
from kproducer.spark.producer_cache import Lease, ProducerCache
from kproducer.spark.python_worker import acknowledge_at_once, freeze_gc_if_modules_were_imported
from kproducer.spark.write_columns import COLUMN_NAMES, WriteColumns
from kproducer.spark.write_options import OPTIONS, SPARK_OPTIONS, WriteOptions, option_name

if TYPE_CHECKING:
    from pyspark.sql import Row

    from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata

#: A row goes out as soon as it comes. The sink, which gets thousands at a time, lingers.
_LINGER = "kafka.linger.ms"
#: The options of the sink that have a meaning here.
_AVAILABLE = ("topic", "include_headers", "extra_columns", "producer_idle_timeout_ms")
_REFUSED = {option_name(name).lower() for name in OPTIONS if name not in _AVAILABLE}

_HEADERS = t.ArrayType(
    t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
)
_TYPES: dict[str, t.DataType] = {
    "key": t.BinaryType(),
    "value": t.BinaryType(),
    "topic": t.StringType(),
    "partition": t.IntegerType(),
    "timestamp": t.TimestampType(),
    "headers": _HEADERS,
}


class KafkaForeachWriter:
    """Writes each row to Kafka at once: ``df.writeStream.foreach(KafkaForeachWriter({...}))``.

    At least once: ``close`` returns when each record is acknowledged. If one fails, it raises, Spark does not
    commit the micro-batch, and writes all of it again. Columns are those of the sink (docs/spark.md).
    Picklable; ``repr`` shows no producer settings. Use one object for each query.

    Args:
        options: ``topic``, ``extraColumns``, ``producerIdleTimeoutMs`` and ``kafka.*``, as for
            ``format("kproducer")``. ``kafka.linger.ms`` is 0 by default.

    Raises:
        SparkOptionError: options are wrong, or not available here.
    """

    # Tests replace it.
    _cache: ProducerCache[KafkaProducer] = PRODUCERS

    def __init__(self, options: Mapping[str, str]) -> None:
        mistakes = []
        others = {}
        for name, value in options.items():
            if is_format_option(name):
                mistakes.append(
                    f"option '{name}' is not available in foreach: create the columns 'value' and 'key' with "
                    "to_json or to_avro"
                )
            elif name.lower() in SPARK_OPTIONS:
                mistakes.append(f"option '{name}' has no effect here: set it on writeStream")
            elif name.lower() in _REFUSED:
                mistakes.append(
                    f"option '{name}' is not available in foreach, which writes at least once and without a "
                    "check on the driver: remove it, or use format('kproducer')"
                )
            else:
                others[name] = value
        if not any(name.lower() == _LINGER for name in others):
            others[_LINGER] = "0"
        self._options = WriteOptions.parse(others, is_stream=True, mistakes=mistakes)
        self._task: _ForeachTask | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._options})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_task": None}

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Begin a partition of a micro-batch. Does not connect before the first row."""
        acknowledge_at_once()
        self._task = _ForeachTask(self._options, self._cache)
        return True

    def process(self, row: Row) -> None:
        """Send a row without waiting for its acknowledgement.

        Raises:
            SparkSchemaError: a column is missing, or its value has the wrong type.
            SparkOptionError: this machine cannot read certificates or keys.
            SparkWriteError: the record cannot be sent, or an earlier one has failed.
        """
        assert self._task is not None, "Spark calls open first"
        self._task.send(row)

    def close(self, error: BaseException | None) -> None:
        """Wait until each record is acknowledged, unless ``process`` has raised ``error``.

        Raises:
            SparkWriteError: a record failed; other records may have been written.
        """
        task, self._task = self._task, None
        if task is not None:
            task.end(is_failed=error is not None)
        if error is None:
            freeze_gc_if_modules_were_imported()


class _ForeachTask:
    """The rows of one partition of a micro-batch, with the producer that it uses."""

    def __init__(self, options: WriteOptions, cache: ProducerCache[KafkaProducer]) -> None:
        self._options, self._cache = options, cache
        self._lease: Lease[KafkaProducer] | None = None
        self._columns: _RowColumns | None = None
        self._pending: deque[FutureRecordMetadata] = deque()

    def send(self, row: Row) -> None:
        if self._columns is None or self._lease is None:
            self._columns = _RowColumns(row.__fields__, self._options)
            try:
                self._lease = self._cache.acquire(
                    self._options.producer_settings, self._options.producer_idle_timeout_ms
                )
            except ConfigError as error:
                raise SparkOptionError(config_mistake(error)) from None
        self._raise_if_failed()
        topic, *arguments = self._columns.record(row)
        try:
            self._pending.append(self._lease.client.send(topic, *arguments))
        except KafkaError as error:
            raise SparkWriteError.for_record(error, topic, -1, self._options.producer_settings) from error

    def end(self, *, is_failed: bool) -> None:
        if self._lease is None:
            return
        if is_failed:
            # Spark writes the micro-batch again, so what was not sent yet must not follow.
            self._lease.release(discard=True)
            return
        with self._lease as producer:
            flush_and_look(producer, self._raise_if_failed)
            if self._pending:
                raise SparkWriteError(
                    f"the outcome of {len(self._pending)} records is not known. This is a bug in kproducer"
                )

    def _raise_if_failed(self) -> None:
        """Forget acknowledged records, so that their number does not grow. Raises ``SparkWriteError``."""
        pending = self._pending
        while pending and pending[0].done():
            future = pending.popleft()
            error = future.exception()
            if error is not None:
                place = place_of(future)[0].topic_partition
                raise SparkWriteError.for_record(error, *place, self._options.producer_settings) from error


class _RowColumns:
    """Where a row has what its record needs. All rows of a query have the same columns.

    Args:
        fields: names of the row's columns, in order.
        options: of the write.

    Raises:
        SparkSchemaError: names every wrong or missing column. Types are checked with each value.
    """

    def __init__(self, fields: list[str], options: WriteOptions) -> None:
        schema = t.StructType([t.StructField(name, _TYPES.get(name, t.NullType())) for name in fields])
        columns = WriteColumns.check(schema, options.topic, fail_on_extra=options.extra_columns == "fail")
        self._topic = options.topic
        self._positions = {name: fields.index(name) for name in columns.names}
        self._getters = [self._getter(name) for name in ("value", "key", "headers", "partition", "timestamp")]

    def record(self, row: Row) -> tuple[Any, ...]:
        """Topic, value, key, headers, partition and timestamp in milliseconds.

        Raises:
            SparkSchemaError: a value has the wrong type, or the topic is null.
        """
        topic = self._topic
        if topic is None:
            topic = row[self._positions["topic"]]
            if topic is None:
                raise SparkSchemaError(
                    "column 'topic' is null: filter such rows out, or set the option 'topic'"
                )
        return (topic, *[None if get is None else get(row) for get in self._getters])

    def _getter(self, name: str) -> Callable[[Row], Any] | None:
        position = self._positions.get(name)
        if position is None:
            return None
        convert, kinds = _CONVERSIONS[name]

        def get(row: Row) -> Any:
            value = row[position]
            if value is None:
                return None
            if not isinstance(value, kinds) or isinstance(value, bool):
                given = type(value).__name__
                raise SparkSchemaError(f"column '{name}' has values of type {given}: {_REMEDIES[name]}")
            try:
                return value if convert is None else convert(value)
            except (TypeError, ValueError, OverflowError, AttributeError):
                raise SparkSchemaError(f"column '{name}' has a wrong value: {_REMEDIES[name]}") from None

        return get


def _milliseconds(value: datetime.datetime | float) -> int:
    if isinstance(value, float):
        return math.floor(value * 1000)
    # In the time zone of the machine, as Spark makes it. Of whole seconds, because floats round.
    return int(value.replace(microsecond=0).timestamp()) * 1000 + value.microsecond // 1000


def _headers(value: list[Any]) -> list[tuple[str, Any]]:
    if any(each.__fields__ != ["key", "value"] for each in value):
        raise ValueError("other fields")
    return [(name, content) for name, content in value]


_Conversion = tuple["Callable[[Any], Any] | None", tuple[type, ...]]
_BYTES: _Conversion = (None, (str, bytes, bytearray))
_CONVERSIONS: dict[str, _Conversion] = {
    "value": _BYTES,
    "key": _BYTES,
    "headers": (_headers, (list,)),
    "partition": (None, (int,)),
    "timestamp": (_milliseconds, (datetime.datetime, float)),
}
assert _CONVERSIONS.keys() | {"topic"} == COLUMN_NAMES.keys()
_REMEDIES = {
    "value": "it must be STRING or BINARY, for example to_json(value) or CAST(value AS STRING)",
    "key": "it must be STRING or BINARY, for example to_json(key) or CAST(key AS STRING)",
    "headers": "it must be ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "partition": "it must be INT, for example CAST(partition AS INT)",
    "timestamp": "it must be TIMESTAMP, or DOUBLE in seconds since the epoch",
}
