"""One function a client: send the records, wait for every answer, return how many were acknowledged.

Each is written as its own documentation says to: a future per record where the client gives one, a delivery
callback where it does not. acks=all, no idempotence; linger, batch size and (where there is one) buffer bound
are the same.
A session is a pair of calls, so that the warm-up and the timed part use one producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from benchmarks.workload import BATCH_BYTES, BUFFER_BYTES, LINGER_MS

Records = Iterable[tuple["bytes | None", bytes]]
#: Sends records and returns the number acknowledged.
SendAll = Callable[[Records], int]
#: (bootstrap servers, topic, codec, is the broker a mock) -> (send, close)
Session = Callable[[str, str, str, bool], tuple[SendAll, Callable[[], None]]]

FLUSH_SECONDS = 120.0


def kproducer_session(
    bootstrap: str, topic: str, codec: str, is_mock: bool
) -> tuple[SendAll, Callable[[], None]]:
    from kproducer import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        buffer_memory=BUFFER_BYTES,
        compression_type=codec,
    )

    def send_all(records: Records) -> int:
        send = producer.send
        futures = [send(topic, value, key) for key, value in records]
        producer.flush(FLUSH_SECONDS)
        return sum(future.result(timeout=0).offset >= 0 for future in futures)

    return send_all, producer.close


def confluent_session(
    bootstrap: str, topic: str, codec: str, is_mock: bool
) -> tuple[SendAll, Callable[[], None]]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.kbytes": BUFFER_BYTES // 1024,
            "queue.buffering.max.messages": 1_000_000,
            "compression.type": codec,
            "log_level": 0,
        }
    )

    def send_all(records: Records) -> int:
        acknowledged = 0

        def delivered(error: object, message: object) -> None:
            nonlocal acknowledged
            acknowledged += error is None

        for key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush(FLUSH_SECONDS)
        return acknowledged

    return send_all, lambda: None


def kafka_python_session(
    bootstrap: str, topic: str, codec: str, is_mock: bool
) -> tuple[SendAll, Callable[[], None]]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka import KafkaProducer

    # It cannot read the mock's answer to its first version question; pinned to Kafka 2.3 it asks another one.
    pinned = {"api_version": (2, 3)} if is_mock else {}
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        enable_idempotence=False,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        compression_type=None if codec == "none" else codec,
        **pinned,
    )

    def send_all(records: Records) -> int:
        send = producer.send
        futures = [send(topic, value, key) for key, value in records]
        producer.flush(FLUSH_SECONDS)
        return sum(future.succeeded() for future in futures)

    return send_all, producer.close


def aiokafka_session(
    bootstrap: str, topic: str, codec: str, is_mock: bool
) -> tuple[SendAll, Callable[[], None]]:
    from aiokafka import AIOKafkaProducer

    runner = asyncio.Runner() if hasattr(asyncio, "Runner") else None
    loop = runner.get_loop() if runner else asyncio.new_event_loop()

    async def start() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            enable_idempotence=False,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            compression_type=None if codec == "none" else codec,
        )
        await producer.start()
        return producer

    producer = loop.run_until_complete(start())

    async def send_async(records: Records) -> int:
        send = producer.send
        futures = [await send(topic, value, key) for key, value in records]
        await producer.flush()
        acknowledged = 0
        for future in futures:
            acknowledged += (await future).offset >= 0
        return acknowledged

    def close() -> None:
        with suppress(Exception):
            loop.run_until_complete(producer.stop())

    return lambda records: loop.run_until_complete(send_async(records)), close


SESSIONS: dict[str, Session] = {
    "kproducer": kproducer_session,
    "confluent-kafka": confluent_session,
    "kafka-python": kafka_python_session,
    "aiokafka": aiokafka_session,
}
