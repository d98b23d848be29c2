"""A typed table as Avro with a schema registry, read back through the registry with an independent decoder.

The registry runs in this process. What is read is decoded by confluent-kafka's deserializer, or by fastavro
if that deserializer's packages are not installed.
"""

from __future__ import annotations

import io
import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from decimal import Decimal
from functools import cache
from typing import Any

import fastavro
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from examples.demo_clients import gives_up_on_interrupt
from kproducer import KafkaProducer
from kproducer.columnar import Avro
from kproducer.schema_registry import SchemaRegistryClient
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.kafka.reader import iterate_topic

MOST_ROWS = 100_000
_FLUSH_TIMEOUT_SECONDS = 120
_ACTIONS = ("view", "click", "cart", "order", "refund")
_FIRST_MS = int(datetime(2026, 11, 21, tzinfo=timezone.utc).timestamp() * 1000)
_PREFIX_BYTES = 5

#: From a value in Kafka to a row.
Decode = Callable[[bytes], Any]


def orders(count: int) -> pa.Table:
    """Orders of an invented shop, with a type for each column."""
    numbers = range(count)
    return pa.table(
        {
            "order_id": pa.array(numbers, pa.int64()),
            "user": [f"user-{number % 997:03}" for number in numbers],
            "action": pa.array([_ACTIONS[number % 5] for number in numbers]).dictionary_encode(),
            "amount": pa.array([Decimal(number % 99_000) / 100 for number in numbers], pa.decimal128(9, 2)),
            "coupon": [None if number % 3 else number % 1000 for number in numbers],
            "at": pa.array([_FIRST_MS + number for number in numbers], pa.timestamp("ms", "UTC")),
        }
    )


@contextmanager
def decoder(registry_url: str, topic: str) -> Iterator[tuple[Decode, str]]:
    """A decoder that gets schemas from the registry, and what it is."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentRegistry
        from confluent_kafka.schema_registry.avro import AvroDeserializer
        from confluent_kafka.serialization import MessageField, SerializationContext
    except ImportError:
        yield _fastavro_decoder(registry_url), "fastavro"
        return
    with ConfluentRegistry({"url": registry_url}) as registry:
        deserializer = AvroDeserializer(registry)
        context = SerializationContext(topic, MessageField.VALUE)
        yield lambda value: deserializer(value, context), "confluent-kafka's AvroDeserializer"


def _fastavro_decoder(registry_url: str) -> Decode:
    @cache
    def schema(number: int) -> Any:
        with urllib.request.urlopen(f"{registry_url}/schemas/ids/{number}") as response:
            return fastavro.parse_schema(json.loads(json.load(response)["schema"]))

    def decode(value: bytes) -> Any:
        number = int.from_bytes(value[1:_PREFIX_BYTES], "big")
        return fastavro.schemaless_reader(io.BytesIO(value[_PREFIX_BYTES:]), schema(number), None)

    return decode


def show(settings: dict[str, Any], reader_servers: str, topic: str, count: int, console: Console) -> bool:
    """Send the table, read it back and print the figures; returns whether all rows were correct."""
    table = orders(min(count, MOST_ROWS))
    producer = KafkaProducer.from_config(settings)
    with FakeSchemaRegistry() as registry, producer, gives_up_on_interrupt(producer):
        client = SchemaRegistryClient({"url": registry.url})
        # All columns, also that of the key.
        value = Avro(table.column_names, registry=client, name="Order")
        started = time.perf_counter()
        sent = producer.send_arrow(topic, table, value=value, key="user").result(_FLUSH_TIMEOUT_SECONDS)
        seconds = time.perf_counter() - started
        with decoder(registry.url, topic) as (decode, name):
            verified = verified_rows(table, reader_servers, topic, decode)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    types = (re.split(r"[<\[]", str(field.type))[0] for field in table.schema)
    columns = zip(table.column_names, types, strict=True)
    grid.add_row("columns", ", ".join(f"{name} {kind}" for name, kind in columns))
    grid.add_row(
        "throughput", f"[bold]{table.num_rows / seconds:,.0f} records/s[/]  ({sent.succeeded_count:,} rows)"
    )
    grid.add_row("decoder", name)
    console.print("\n[bold]an Arrow table[/] -> Avro with a schema registry\n")
    console.print(grid)
    holds = verified == table.num_rows
    colour = "green" if holds else "red"
    console.print(f"[bold {colour}]verified {verified:,} of {table.num_rows:,} Avro records[/]")
    return holds


def verified_rows(table: pa.Table, servers: str, topic: str, decode: Decode) -> int:
    """How many rows are in the topic exactly once, with the right key, and equal to what was sent."""
    expected = dict(enumerate(table.to_pylist()))
    verified = 0
    for record in iterate_topic(servers, topic):
        row = decode(record.value or b"")
        verified += row == expected.pop(row["order_id"], None) and record.key == row["user"].encode()
    return verified
