"""AsyncKafkaProducer and the adapter for aiokafka on Apache Kafka; the adapter side by side with aiokafka."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import aiokafka
import aiokafka.errors
import pytest
import uvloop

from kproducer import (
    AsyncKafkaProducer,
    ConsumerGroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    Outcome,
    TopicPartition,
)
from kproducer.compat.aiokafka import AIOKafkaProducer
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.committed_records import committed_offset, read_committed
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

#: Ours first.
PRODUCERS = [AIOKafkaProducer, aiokafka.AIOKafkaProducer]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Any:
    def run_in_new_loop(main: Callable[[], Any]) -> Any:
        loop = request.param()
        try:
            return loop.run_until_complete(asyncio.wait_for(main(), 120))
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    return run_in_new_loop


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    name = f"async-{uuid.uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, name, partitions=2)
    return name


def test_ten_thousand_records(kafka: KafkaCluster, topic: str, run: Any) -> None:
    async def main() -> None:
        async with AsyncKafkaProducer(kafka.bootstrap_servers, buffer_memory=200_000) as producer:
            sends = [producer.send(topic, b"%d" % number, partition=0) for number in range(10_000)]
            assert [each.offset for each in await asyncio.gather(*sends)] == list(range(10_000))
            results = [await producer.submit(topic, b"%d" % number, partition=1) for number in range(10_000)]
            await producer.flush()
            assert [(await each).offset for each in results] == list(range(10_000))
            assert len(await producer.partitions_for(topic)) == 2
            many = await producer.send_many(topic, [b"many"] * 1000)
            assert (await many).succeeded_count == 1000

    run(main)


def test_transactions(kafka: KafkaCluster, topic: str, run: Any) -> None:
    servers, name = kafka.bootstrap_servers, f"id-{topic}"

    async def main() -> None:
        async with AsyncKafkaProducer(servers, transactional_id=name) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                producer.send(topic, b"kept", partition=0)
                await producer.send_offsets_to_transaction(
                    {TopicPartition(topic, 1): OffsetAndMetadata(7)}, ConsumerGroupMetadata(name)
                )
            with pytest.raises(RuntimeError, match="no"):
                await fail_in_transaction(producer)
            task = asyncio.create_task(wait_in_transaction(producer))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with AsyncKafkaProducer(servers, transactional_id=name) as newer:
                await newer.init_transactions()
                with pytest.raises(KafkaError):
                    async with producer.transaction():
                        await producer.send(topic, b"fenced", partition=0)
                async with newer.transaction():
                    await newer.send(topic, b"newer", partition=0)

    async def fail_in_transaction(producer: AsyncKafkaProducer) -> None:
        async with producer.transaction():
            await producer.send(topic, b"dropped", partition=0)
            raise RuntimeError("no")

    async def wait_in_transaction(producer: AsyncKafkaProducer) -> None:
        async with producer.transaction():
            await producer.send(topic, b"cancelled", partition=0)
            await asyncio.Event().wait()

    run(main)
    assert read_committed(servers, topic, 2)[0] == [b"kept", b"newer"]
    assert committed_offset(servers, name, topic, 1) == 7


# -- aiokafka's documented behaviour, of both producers ------------------------------------------------------


def description(result: Any) -> Any:
    """What a program can see of a result or an error."""
    if isinstance(result, aiokafka.errors.KafkaError):
        kinds = [each for each in type(result).__mro__ if each.__module__ == "aiokafka.errors"]
        return kinds[0].__name__
    if isinstance(result, BaseException):
        return type(result).__name__
    if hasattr(result, "topic_partition"):
        return (result.topic, result.partition, tuple(result.topic_partition), result.timestamp_type)
    return result


async def outcome_of(awaitable: Any) -> Any:
    return (await asyncio.gather(awaitable, return_exceptions=True))[0]


async def simple_program(producer_type: Any, servers: str, topic: str, seen: list[Any]) -> None:
    """The producer's pages of aiokafka's documentation: keys, partitions, headers, timestamps, errors."""
    # With a linger, the record that is cancelled below is certainly not delivered before.
    async with producer_type(bootstrap_servers=servers, acks="all", linger_ms=50) as producer:
        seen.append(await producer.send_and_wait(topic, b"Super message", partition=0))
        future = await producer.send(topic, b"by key", key=b"key", timestamp_ms=1_700_000_000_000)
        seen.append((await future).timestamp)
        seen.append((await future).partition)
        headers = [("name", b"value"), ("name", b"again")]
        seen.append(await producer.send_and_wait(topic, b"headers", partition=1, headers=headers))
        seen.append(await producer.send_and_wait(topic, None, key=b"tombstone", partition=1))
        seen.append(await producer.partitions_for(topic))
        batch = [await producer.send(topic, b"%d" % number, partition=0) for number in range(100)]
        await producer.flush()
        seen.append([each.done() for each in batch].count(True))
        cancelled = await producer.send(topic, b"cancelled", partition=0)
        seen.append(cancelled.cancel())
        for arguments in (
            {"value": None},
            {"value": b"x", "partition": 7},
            {"value": b"x" * 2_000_000, "partition": 0},
            {"value": object(), "partition": 0},
        ):
            seen.append(await outcome_of(producer.send(topic, **arguments)))
        seen.append(await outcome_of(producer.begin_transaction()))
    seen.append(await outcome_of(producer.send(topic, b"closed")))
    await producer.stop()


async def with_serializers(producer_type: Any, servers: str, topic: str, seen: list[Any]) -> None:
    def partitioner(key: bytes | None, everything: list[int], available: list[int]) -> int:
        seen.append((key, everything, sorted(available)))
        return everything[-1]

    producer = producer_type(
        bootstrap_servers=servers,
        key_serializer=lambda key: None if key is None else key.encode(),
        value_serializer=lambda value: b"null" if value is None else repr(value).encode(),
        partitioner=partitioner,
        compression_type="gzip",
        acks=0,
    )
    await producer.start()
    try:
        seen.append(await producer.send_and_wait(topic, {"a": 1}, key="k"))
        seen.append(await producer.send_and_wait(topic, None, key="k"))
        await producer.flush()
    finally:
        await producer.stop()


async def with_transactions(producer_type: Any, servers: str, topic: str, seen: list[Any]) -> None:
    name = f"{producer_type.__module__}-{topic}"
    async with producer_type(bootstrap_servers=servers, transactional_id=name) as producer:
        seen.append(await outcome_of(producer.send(topic, b"outside")))
        async with producer.transaction():
            await producer.send(topic, b"one", partition=0)
            await producer.send_offsets_to_transaction({aiokafka.TopicPartition(topic, 0): 5}, name)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted", partition=0)
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"two", partition=0)
        # aiokafka has assert statements here.
        refused = (AssertionError, aiokafka.errors.IllegalOperation)
        seen.append(isinstance(await outcome_of(producer.begin_transaction()), refused))
        await producer.commit_transaction()
        seen.append(isinstance(await outcome_of(producer.commit_transaction()), refused))
    seen.append(committed_offset(servers, name, topic, 0))


@pytest.mark.parametrize("program", [simple_program, with_serializers, with_transactions])
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:aiokafka")
def test_the_adapter_does_what_aiokafka_does(kafka: KafkaCluster, program: Any, run: Any) -> None:
    servers = kafka.bootstrap_servers
    seen: list[list[Any]] = []
    written: list[Any] = []
    for producer_type in PRODUCERS:
        topic = f"side-{uuid.uuid4().hex[:8]}"
        create_topic(servers, topic, partitions=2)
        results: list[Any] = []
        run(lambda: program(producer_type, servers, topic, results))  # noqa: B023
        seen.append([str(description(each)).replace(topic, "TOPIC") for each in results])
        if program is with_transactions:
            written.append(read_committed(servers, topic, 2))
        else:
            records = read_topic(servers, topic)
            written.append(sorted((r.partition, r.offset, r.key, r.value, str(r.headers)) for r in records))
    assert seen[0] == seen[1]
    assert written[0] == written[1]


def test_errors_are_of_both_libraries(kafka: KafkaCluster, topic: str, run: Any) -> None:
    async def main() -> None:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            with pytest.raises(aiokafka.errors.MessageSizeTooLargeError) as raised:
                await producer.send(topic, b"x" * 2_000_000)
            assert raised.value.outcome is Outcome.NOT_SENT
            with pytest.raises(NotImplementedError, match="send_many"):
                producer.create_batch()
            with pytest.raises(NotImplementedError, match="send_many"):
                await producer.send_batch(None, topic, partition=0)

    run(main)


def test_no_broker_is_a_connection_error(run: Any) -> None:
    async def main() -> None:
        producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", request_timeout_ms=300)
        with pytest.raises(aiokafka.errors.KafkaConnectionError, match="Unable to bootstrap"):
            await producer.start()

    run(main)
