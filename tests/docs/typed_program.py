"""What an application with ``mypy --strict`` may write; checked by ``test_typing.py``, never run."""

from __future__ import annotations

import asyncio
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait
from itertools import repeat

import kproducer
from kproducer import (
    FutureRecordMetadata,
    JsonSerializer,
    KafkaError,
    KafkaProducer,
    Outcome,
    RecordMetadata,
    SendManyError,
    SendManyResult,
)


def on_delivery(metadata: RecordMetadata, error: KafkaError | None) -> None:
    if error is not None and error.outcome is Outcome.UNKNOWN:
        print(metadata.offset + 1)


class TopicPrefix:
    def serialize(self, topic: str, headers: list[tuple[str, bytes | None]], value: object) -> bytes:
        return f"{topic} {value}".encode()


def with_threads(headers: dict[str, bytes], pairs: list[tuple[str, bytes]]) -> list[int]:
    with KafkaProducer(
        bootstrap_servers=["localhost:9092"],
        value_serializer=JsonSerializer(),
        key_serializer=repr,
        acks="all",
    ) as producer:
        futures = [producer.send("t", {"n": n}, key=n, on_delivery=on_delivery) for n in range(5)]
        producer.send("t", b"", headers=headers, partition=0, timestamp_ms=1)
        producer.send("t", b"", headers=pairs)
        producer.send("t", b"", headers=((name, None) for name in "ab"))
        done, _ = wait(futures, return_when=FIRST_COMPLETED)
        first: Future[RecordMetadata] = next(iter(done))
        producer.flush(timeout=5)
        return [future.result().offset for future in as_completed([*futures, first])]


def in_bulk(producer: KafkaProducer, rows: list[dict[str, int]]) -> list[int]:
    result: SendManyResult = producer.send_many(
        "t",
        (row["n"] for row in rows),
        keys=repeat("k"),
        headers=[[("h", b"v")], {"h": "v"}, None],
        partitions=0,
        timestamps_ms=[1, None, 3],
    )
    result.add_done_callback(lambda done: print(done.succeeded_count, done.failed_count))
    if not result.wait(timeout=5):
        return []
    first: FutureRecordMetadata = result[0]
    some: list[FutureRecordMetadata] = result[1:]
    failed: list[tuple[int, KafkaError]] = result.failures()
    try:
        result.result()
    except SendManyError as error:
        print(error.failures[0][1].outcome)
    offsets = [*result.offsets(), *result.partitions(), first.result().offset]
    return offsets + [future.result().offset for future in [*some, *as_completed(result)]] + [len(failed)]


async def with_asyncio() -> list[RecordMetadata]:
    producer = KafkaProducer.from_config({"bootstrap.servers": "x:1", "value.serializer": TopicPrefix()})
    one: RecordMetadata = await producer.send("t", "x")
    future: FutureRecordMetadata = producer.send("t")
    await asyncio.wait_for(future, 5)
    many: SendManyResult = await producer.send_many("t", ["x", "y"])
    await asyncio.wait_for(many, 5)
    return [one, *await asyncio.gather(*[producer.send("t", "x") for _ in range(5)])]


def wrong(producer: KafkaProducer) -> None:
    producer.send(b"t")  # error: arg-type
    producer.send("t", headers={"a": 1})  # error: arg-type
    producer.send_many("t", 5)  # error: arg-type
    producer.send_many("t", [], headers=[("name", b"value")])  # error: list-item
    producer.produce("t")  # error: attr-defined
    producer.send("t").add_callback(print)  # error: attr-defined
    kproducer.KafkaConsumer()  # error: attr-defined
