"""Values in Avro, JSON and Protobuf: CPU per record of making and sending them, each client in a process.

The rows exist before the measurement, as dictionaries or as an Arrow table of 10,000 rows that is sent again
and again. All clients of a case write the same values, with the same schema id in front of them where the
case has a registry.
"""

from __future__ import annotations

import gc
import importlib.util
import io
import json
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import datetime
from typing import Any, NamedTuple

from benchmarks.figures import CPU, SPEED
from benchmarks.process_costs import own_cpu_seconds
from benchmarks.sessions import CHUNK_RECORDS, FLUSH_SECONDS
from benchmarks.workload import BROKER_COUNT, LINGER_MS, PARTITION_COUNT

#: The name of these rows' family in tables.
FAMILY = "formats"
AVRO_DICTIONARIES, AVRO, JSON, PROTOBUF = "Avro of dictionaries", "Avro", "JSON", "Protobuf"

OURS = {
    AVRO_DICTIONARIES: "kproducer send, AvroSerializer",
    AVRO: "kproducer send_arrow, Avro",
    JSON: "kproducer send_arrow, Json",
    PROTOBUF: "kproducer send_arrow, Protobuf",
}
CONFLUENT = "confluent-kafka, AvroSerializer"
PYRUHVRO_COLUMN, PYRUHVRO_LIST = "pyruhvro, send_arrow", "pyruhvro, send_many"
FASTAVRO, ORJSON, PLAIN_JSON = "fastavro, send_many", "orjson, send_many", "json, send_many"
GOOGLE = "google.protobuf, send_many"

#: The packages that are compared, as far as they are installed.
PACKAGES = ("fastavro", "orjson", "protobuf", "pyarrow", "pyruhvro")
_OPTIONAL = ("orjson", "pyruhvro")
_WARM_UP_SECONDS, _RUN_SECONDS = 0.25, 0.5
_POLL_EVERY = 100
_FULL_QUEUE_WAIT_SECONDS = 0.02
_HEADER_BYTES = 5


class Case(NamedTuple):
    """The format and the number of fields of a row."""

    format: str
    fields: int

    @property
    def name(self) -> str:
        return f"{self.format}, {self.fields} fields"

    @property
    def topic(self) -> tuple[int, int]:
        """Arguments of ``BenchCluster.topic``."""
        return PARTITION_COUNT, BROKER_COUNT

    @property
    def clients(self) -> list[str]:
        """Those that this case compares, ours first, as far as they are installed."""
        return [name for name in _CLIENTS[self.format] if _is_available(name)]


_CLIENTS = {
    AVRO_DICTIONARIES: (OURS[AVRO_DICTIONARIES], CONFLUENT),
    AVRO: (OURS[AVRO], PYRUHVRO_COLUMN, PYRUHVRO_LIST, FASTAVRO),
    JSON: (OURS[JSON], ORJSON, PLAIN_JSON),
    PROTOBUF: (OURS[PROTOBUF], GOOGLE),
}
CASES = tuple(Case(each, fields) for each in _CLIENTS for fields in (6, 30))


def _is_available(client: str) -> bool:
    package = client.partition(",")[0]
    return package not in _OPTIONAL or importlib.util.find_spec(package) is not None


# -- the clients ---------------------------------------------------------------------------------------------


class Target(NamedTuple):
    """Where a client writes, and what.

    Attributes:
        registry_url: of the schema registry.
        rows: number of rows of the table.
        resources: what the client has opened.
    """

    bootstrap: str
    topic: str
    registry_url: str
    fields: int
    rows: int
    resources: ExitStack


#: Sends the rows this many times, waits, and returns how many were acknowledged.
Send = Callable[[int], int]


def _producer(target: Target, **settings: Any) -> Any:
    from kproducer import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=target.bootstrap,
        acks="all",
        enable_idempotence=False,
        linger_ms=LINGER_MS,
        **settings,
    )
    return target.resources.enter_context(producer)


def _registry(target: Target) -> Any:
    from kproducer.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient({"url": target.registry_url})


def _bulk(target: Target, call: Callable[[Any], Any]) -> Send:
    """Of a function that sends the rows once, with ``send_many`` or ``send_arrow``."""
    producer = _producer(target)

    def send(times: int) -> int:
        results = [call(producer) for _ in range(times)]
        producer.flush(FLUSH_SECONDS)
        return sum(result.result(FLUSH_SECONDS).succeeded_count for result in results)

    return send


def _prefix(target: Target, schema: str, kind: str) -> bytes:
    """What names a schema in front of a value."""
    from kproducer.schema_registry import Schema

    number = _registry(target).register_schema(f"{target.topic}-value", Schema(schema, kind))
    return b"\0" + int(number).to_bytes(_HEADER_BYTES - 1, "big")


def _kproducer_dictionaries(target: Target) -> Send:
    from benchmarks.format_rows import avro_schema_of, dictionaries, table_of
    from kproducer.schema_registry import AvroSerializer

    values = dictionaries(table_of(target.fields, target.rows))
    serializer = AvroSerializer(_registry(target), avro_schema_of(target.fields))
    producer = _producer(target, value_serializer=serializer)

    def send(times: int) -> int:
        send_one, topic = producer.send, target.topic
        futures = [send_one(topic, value) for _ in range(times) for value in values]
        producer.flush(FLUSH_SECONDS)
        return sum(future.exception(0) is None for future in futures)

    return send


def _confluent_dictionaries(target: Target) -> Send:
    from confluent_kafka import Producer
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    from benchmarks.format_rows import avro_schema_of, dictionaries, table_of

    values = dictionaries(table_of(target.fields, target.rows))
    registry = target.resources.enter_context(SchemaRegistryClient({"url": target.registry_url}))
    serializer = AvroSerializer(registry, avro_schema_of(target.fields))
    context = SerializationContext(target.topic, MessageField.VALUE)
    producer = Producer(
        {"bootstrap.servers": target.bootstrap, "acks": "all", "linger.ms": LINGER_MS, "log_level": 0}
    )

    def send(times: int) -> int:
        acknowledged = 0

        def delivered(error: object, message: object) -> None:
            nonlocal acknowledged
            acknowledged += error is None

        produce, poll, topic = producer.produce, producer.poll, target.topic
        for number, value in enumerate(value for _ in range(times) for value in values):
            data = serializer(value, context)
            while True:
                try:
                    produce(topic, data, on_delivery=delivered)
                    break
                except BufferError:
                    poll(_FULL_QUEUE_WAIT_SECONDS)
            if number % _POLL_EVERY == 0:
                poll(0)
        producer.flush(FLUSH_SECONDS)
        return acknowledged

    return send


def _kproducer_columns(target: Target, value: Any, table: Any) -> Send:
    return _bulk(target, lambda producer: producer.send_arrow(target.topic, table, value=value))


def _kproducer_avro(target: Target) -> Send:
    from benchmarks.format_rows import avro_schema_of, table_of
    from kproducer.columnar import Avro

    value = Avro(schema=avro_schema_of(target.fields), registry=_registry(target))
    return _kproducer_columns(target, value, table_of(target.fields, target.rows))


def _pyruhvro(target: Target, *, as_list: bool) -> Send:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyruhvro import serialize_record_batch

    from benchmarks.format_rows import avro_schema_of, table_of

    schema = avro_schema_of(target.fields)
    prefix = pa.scalar(_prefix(target, schema, "AVRO"), pa.binary())
    nothing = pa.scalar(b"", pa.binary())
    (batch,) = table_of(target.fields, target.rows).to_batches()

    def call(producer: Any) -> Any:
        (values,) = serialize_record_batch(batch, schema, 1)
        framed = pc.binary_join_element_wise(prefix, values, nothing)
        if as_list:
            return producer.send_many(target.topic, framed.to_pylist())
        return producer.send_arrow(target.topic, framed)

    return _bulk(target, call)


def _fastavro(target: Target) -> Send:
    from fastavro import parse_schema, schemaless_writer

    from benchmarks.format_rows import (
        avro_schema_of,
        dictionaries,
        table_of,
        with_numbers_as_timestamps,
    )

    text = avro_schema_of(target.fields)
    schema, prefix = parse_schema(json.loads(text)), _prefix(target, text, "AVRO")
    table = table_of(target.fields, target.rows)

    def encoded(rows: Iterable[dict[str, Any]]) -> list[bytes]:
        values = []
        for row in rows:
            buffer = io.BytesIO()
            buffer.write(prefix)
            schemaless_writer(buffer, schema, row)
            values.append(buffer.getvalue())
        return values

    return _bulk(
        target,
        # fastavro takes numbers, too, and pyarrow makes them faster than datetimes.
        lambda producer: producer.send_many(
            target.topic, encoded(dictionaries(with_numbers_as_timestamps(table)))
        ),
    )


def _kproducer_json(target: Target) -> Send:
    from benchmarks.format_rows import table_of
    from kproducer.columnar import Json

    return _kproducer_columns(target, Json(), table_of(target.fields, target.rows))


def _json_rows(target: Target, dumps: Callable[[Any], bytes]) -> Send:
    from benchmarks.format_rows import dictionaries, table_of

    table = table_of(target.fields, target.rows)
    return _bulk(
        target, lambda producer: producer.send_many(target.topic, [dumps(row) for row in dictionaries(table)])
    )


def _orjson(target: Target) -> Send:
    import orjson

    return _json_rows(target, orjson.dumps)


def _plain_json(target: Target) -> Send:
    encode = json.JSONEncoder(separators=(",", ":"), default=datetime.isoformat).encode
    return _json_rows(target, lambda row: encode(row).encode())


def _kproducer_protobuf(target: Target) -> Send:
    from benchmarks.format_rows import protobuf_message_of, table_of, with_numbers_as_timestamps
    from kproducer.columnar import Protobuf

    value = Protobuf(protobuf_message_of(target.fields), registry=_registry(target))
    table = with_numbers_as_timestamps(table_of(target.fields, target.rows))
    return _kproducer_columns(target, value, table)


def _google(target: Target) -> Send:
    from benchmarks.format_rows import (
        dictionaries,
        protobuf_message_of,
        table_of,
        with_numbers_as_timestamps,
    )
    from kproducer.schema_registry.protobuf import ProtobufSerializer

    message = protobuf_message_of(target.fields)
    table = with_numbers_as_timestamps(table_of(target.fields, target.rows))
    # An empty message is nothing but what names its schema.
    prefix = ProtobufSerializer(message, _registry(target)).serialize(target.topic, [], message())

    return _bulk(
        target,
        lambda producer: producer.send_many(
            target.topic, [prefix + message(**row).SerializeToString() for row in dictionaries(table)]
        ),
    )


DRIVERS: dict[str, Callable[[Target], Send]] = {
    OURS[AVRO_DICTIONARIES]: _kproducer_dictionaries,
    CONFLUENT: _confluent_dictionaries,
    OURS[AVRO]: _kproducer_avro,
    PYRUHVRO_COLUMN: lambda target: _pyruhvro(target, as_list=False),
    PYRUHVRO_LIST: lambda target: _pyruhvro(target, as_list=True),
    FASTAVRO: _fastavro,
    OURS[JSON]: _kproducer_json,
    ORJSON: _orjson,
    PLAIN_JSON: _plain_json,
    OURS[PROTOBUF]: _kproducer_protobuf,
    GOOGLE: _google,
}


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """One client in one case, in this process."""
    from kproducer.testing.schema_registry import FakeSchemaRegistry

    rows = task["count"] or CHUNK_RECORDS
    with ExitStack() as resources:
        registry = resources.enter_context(FakeSchemaRegistry())
        target = Target(task["bootstrap"], task["topic"], registry.url, task["fields"], rows, resources)
        return _measured(DRIVERS[task["client"]](target), rows, task["count"] is not None)


def _measured(send: Send, rows: int, is_short: bool) -> dict[str, Any]:
    # Connects, and asks the registry.
    _checked(send, rows, 1)
    cost = float("inf")
    deadline = time.perf_counter() + (0 if is_short else _WARM_UP_SECONDS)
    while time.perf_counter() < deadline:
        cost = min(cost, _checked(send, rows, 1)[0])
    times = 1 if is_short else max(1, round(_RUN_SECONDS / cost))
    gc.collect()
    cpu_seconds, seconds = _checked(send, rows, times)
    count = times * rows
    return {"count": count, SPEED: count / seconds, CPU: cpu_seconds / count * 1e6}


def _checked(send: Send, rows: int, times: int) -> tuple[float, float]:
    """Send, and return the seconds of CPU and of time."""
    before, started = own_cpu_seconds(), time.perf_counter()
    acknowledged = send(times)
    cpu_seconds, seconds = own_cpu_seconds() - before, time.perf_counter() - started
    if acknowledged != times * rows:
        raise RuntimeError(f"{acknowledged} of {times * rows} records were acknowledged")
    return cpu_seconds, seconds


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))), flush=True)
