"""What an application with ``mypy --strict`` may write; checked by ``test_typing.py``, never run."""

from __future__ import annotations

import asyncio
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait
from itertools import repeat

import kproducer
from kproducer import (
    AsyncKafkaProducer,
    CancelledSend,
    FutureRecordMetadata,
    JsonSerializer,
    KafkaError,
    KafkaProducer,
    Outcome,
    ProducerConfig,
    ProducerSettings,
    RecordMetadata,
    SendManyError,
    SendManyResult,
)
from kproducer.errors import broker_errors
from kproducer.errors.broker_errors import NotLeaderOrFollowerError


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
        key_serializer=lambda key: b"%d" % key,
        acks="all",
        linger_ms=20,
        compression_type="zstd",
        enable_idempotence=True,
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


async def with_async_producer() -> list[RecordMetadata]:
    async with AsyncKafkaProducer("localhost:9092", linger_ms=1) as async_producer:
        one: RecordMetadata = await async_producer.send("t", "x", key=b"k")
        future: FutureRecordMetadata = await async_producer.submit("t", b"x")
        many: SendManyResult = await async_producer.send_many("t", ["x"])
        task: asyncio.Future[RecordMetadata] = async_producer.send("t")
        async with async_producer.transaction():
            await async_producer.flush(1.5)
        await many
        return [one, await future, await task, *await asyncio.gather(async_producer.send("t"))]


async def with_asyncio() -> list[RecordMetadata]:
    producer = KafkaProducer.from_config({"bootstrap.servers": "x:1", "value.serializer": TopicPrefix()})
    one: RecordMetadata = await producer.send("t", "x")
    future: FutureRecordMetadata = producer.send("t")
    await asyncio.wait_for(future, 5)
    many: SendManyResult = await producer.send_many("t", ["x", "y"])
    await asyncio.wait_for(many, 5)
    return [one, *await asyncio.gather(*[producer.send("t", "x") for _ in range(5)])]


def with_settings_of_its_own(settings: ProducerSettings) -> None:
    settings["linger_ms"] = 5
    common: ProducerSettings = {"acks": -1, "compression_type": None, "value_serializer": "json"}
    KafkaProducer("x:1", **settings).close()
    KafkaProducer("x:1", **common).close()
    KafkaProducer("x:1", key_serializer=JsonSerializer, value_serializer=TopicPrefix()).close()
    KafkaProducer("x:1", partitioner="murmur2", interceptors=[TopicPrefix()]).close()


def wrong_settings() -> None:
    KafkaProducer("x:1", linger_ms="5")  # error: arg-type
    KafkaProducer("x:1", linger_ms=0.5)  # error: arg-type
    KafkaProducer("x:1", linger=5)  # error: call-arg
    KafkaProducer("x:1", acks=2)  # error: arg-type
    KafkaProducer("x:1", compression_type="brotli")  # error: arg-type
    KafkaProducer("x:1", enable_idempotence="yes")  # error: arg-type
    KafkaProducer("x:1", key_serializer=repr)  # error: arg-type
    KafkaProducer("x:1", interceptors=5)  # error: arg-type
    KafkaProducer(9092)  # error: arg-type
    ProducerConfig(bootstrap_servers="x:1", acks="all").evolve(linger_ms=5)
    ProducerConfig(bootstrap_servers="x:1", linger_ms="5")  # error: arg-type
    ProducerConfig(bootstrap_servers="x:1", linger=5)  # error: call-arg
    ProducerConfig(bootstrap_servers="x:1").linger_ms = 5  # error: misc
    settings: ProducerSettings = {"lingerms": 5}  # error: typeddict-unknown-key
    KafkaProducer("x:1", **settings)


def broker_errors_have_classes(error: KafkaError) -> int:
    if isinstance(error, NotLeaderOrFollowerError):
        return error.code + len(error.name + error.description)
    broker_errors.NoSuchError()  # error: attr-defined
    return 0


def wrong(producer: KafkaProducer) -> None:
    producer.send(b"t")  # error: arg-type
    producer.send("t", headers={"a": 1})  # error: arg-type
    producer.send_many("t", 5)  # error: arg-type
    producer.send_many("t", [], headers=[("name", b"value")])  # error: list-item
    producer.produce("t")  # error: attr-defined
    producer.send("t").add_callback(print)  # error: attr-defined
    kproducer.KafkaConsumer()  # error: attr-defined


def after_cancellation(error: asyncio.CancelledError) -> None:
    report = CancelledSend.of(error)
    if report is not None and report.record is not None:
        report.record.add_done_callback(lambda record: print(record.result().offset))
