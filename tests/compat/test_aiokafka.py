"""The adapter for aiokafka, and aiokafka itself: the same programs with the same results.

Each test with a ``client`` runs with both. What differs is in docs/migration/aiokafka.md.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka
import aiokafka.errors
import pytest
from aiokafka.producer.producer import _missing
from aiokafka.structs import RecordMetadata

from kproducer import AuthenticationError, SslAuthenticationError
from kproducer.compat.aiokafka import AIOKafkaProducer
from kproducer.compat.aiokafka.errors import as_aiokafka
from kproducer.testing import FakeKafka

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:aiokafka")

PATIENCE_S = 30
CLIENTS = {"adapter": AIOKafkaProducer, "aiokafka": aiokafka.AIOKafkaProducer}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Any:
    return CLIENTS[request.param]


@pytest.fixture
def kafka() -> Iterator[FakeKafka]:
    with FakeKafka(auto_create=False) as broker:
        broker.create_topic("t", partitions=1)
        yield broker


def run(main: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


async def outcome_of(awaitable: Any) -> Any:
    return (await asyncio.gather(awaitable, return_exceptions=True))[0]


async def in_the_end(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


# -- settings ----------------------------------------------------------------------------------------------


def test_a_loop_may_be_given_before_it_runs(client: Any, kafka: FakeKafka) -> None:
    loop = asyncio.new_event_loop()
    try:
        with pytest.warns(DeprecationWarning, match="loop") as warned:
            producer = client(loop=loop, bootstrap_servers=kafka.bootstrap_servers)
        assert {each.filename for each in warned} == {__file__}
        loop.run_until_complete(producer.start())
        assert loop.run_until_complete(producer.send_and_wait("t", b"x")).offset == 0
        loop.run_until_complete(producer.stop())
    finally:
        loop.close()


@pytest.mark.parametrize("idempotent", [False, True])
def test_acks_may_be_what_aiokafka_takes_for_not_given(
    client: Any, kafka: FakeKafka, idempotent: bool
) -> None:
    """Programs that wrap aiokafka, such as FastStream, pass it on."""

    async def main() -> None:
        settings: dict[str, Any] = {"acks": _missing, "enable_idempotence": idempotent}
        async with client(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
            await producer.send_and_wait("t", b"x")

    run(main)
    assert [each.message.acks for each in kafka.requests("Produce")] == [-1 if idempotent else 1]


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": 122},
        {"acks": None},
        {"compression_type": "my_custom"},
        {"enable_idempotence": True, "acks": 1},
        {"security_protocol": "SOME"},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SOME"},
    ],
)
def test_the_constructor_refuses_a_wrong_setting(client: Any, settings: dict[str, Any]) -> None:
    async def main() -> None:
        with pytest.raises(ValueError):  # noqa: PT011
            client(**settings)

    run(main)


def test_idle_connections_may_stay_open(client: Any, kafka: FakeKafka) -> None:
    async def main() -> None:
        settings: dict[str, Any] = {"connections_max_idle_ms": None}
        async with client(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
            await producer.send_and_wait("t", b"x")

    run(main)


def test_the_adapter_works_without_aiokafka(run_without: Callable[[str, str], str]) -> None:
    program = """
from kproducer import DeliveryTimeoutError
from kproducer.compat.aiokafka import AIOKafkaProducer, errors

AIOKafkaProducer(acks=object(), security_protocol="SSL")
error = errors.as_aiokafka(DeliveryTimeoutError("late"))
print(isinstance(error, errors.BrokerResponseError), isinstance(error, DeliveryTimeoutError), error)
"""
    assert run_without("aiokafka", program) == "True True late\n"


# -- records -----------------------------------------------------------------------------------------------


def test_asyncio_wait_takes_the_futures_of_send(client: Any, kafka: FakeKafka) -> None:
    async def main() -> None:
        async with client(bootstrap_servers=kafka.bootstrap_servers, acks=0) as producer:
            sends = [await producer.send("t", b"%d" % number) for number in range(2)]
            assert not any(map(asyncio.iscoroutine, sends))
            done, pending = await asyncio.wait(sends)
            assert {each.result() for each in done} == {None}
            assert pending == set()

    run(main)


def test_the_metadata_has_aiokafkas_fields(client: Any, kafka: FakeKafka) -> None:
    async def main() -> Any:
        async with client(bootstrap_servers=kafka.bootstrap_servers) as producer:
            return await producer.send_and_wait("t", b"x", timestamp_ms=123)

    metadata = run(main)
    assert metadata._fields == RecordMetadata._fields
    *known, log_start_offset = metadata
    assert known == ["t", 0, ("t", 0), 0, 123, 0]
    assert log_start_offset in (None, 0)


def test_a_topic_that_does_not_exist(client: Any, kafka: FakeKafka) -> None:
    async def main() -> None:
        async with client(bootstrap_servers=kafka.bootstrap_servers, request_timeout_ms=200) as producer:
            with pytest.raises(aiokafka.errors.UnknownTopicOrPartitionError):
                await producer.send_and_wait("nope", b"x")

    run(main)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("REQUEST_TIMED_OUT", aiokafka.errors.RequestTimedOutError),
        ("NOT_ENOUGH_REPLICAS", aiokafka.errors.NotEnoughReplicasError),
        ("MESSAGE_TOO_LARGE", aiokafka.errors.MessageSizeTooLargeError),
        ("TOPIC_AUTHORIZATION_FAILED", aiokafka.errors.TopicAuthorizationFailedError),
        (None, aiokafka.errors.RequestTimedOutError),
    ],
)
def test_the_error_of_a_record_that_is_not_written(
    client: Any, kafka: FakeKafka, fault: str | None, error: type[Exception]
) -> None:
    async def main() -> None:
        async with client(bootstrap_servers=kafka.bootstrap_servers, request_timeout_ms=500) as producer:
            await producer.partitions_for("t")
            if fault is None:
                kafka.hang_next("Produce", times=None)
            else:
                kafka.fail_next("Produce", fault, times=None)
            with pytest.raises(error):
                await producer.send_and_wait("t", b"x")
            kafka.clear_faults()

    run(main)


def test_the_adapter_takes_more_headers(kafka: FakeKafka) -> None:
    async def main() -> None:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            pairs = [("a", b"1"), ("bc", None)]
            for headers in (pairs, tuple(pairs), iter(pairs), dict(pairs)):
                await producer.send_and_wait("t", b"x", headers=headers)  # type: ignore[arg-type]

    run(main)
    assert [each.headers for each in kafka.topic("t").records()] == [(("a", b"1"), ("bc", None))] * 4


def test_a_certificate_that_is_not_accepted_is_a_connection_error() -> None:
    """aiokafka's start() reports it so, and wrong passwords as AuthenticationFailedError."""
    assert isinstance(as_aiokafka(SslAuthenticationError("no")), aiokafka.errors.KafkaConnectionError)
    assert isinstance(as_aiokafka(AuthenticationError("no")), aiokafka.errors.AuthenticationFailedError)


# -- the end -----------------------------------------------------------------------------------------------


def test_flush_waits_for_nothing_before_the_start_and_after_the_end(client: Any, kafka: FakeKafka) -> None:
    async def main() -> None:
        producer = client(bootstrap_servers=kafka.bootstrap_servers)
        await producer.flush()
        await producer.start()
        send = await producer.send("t", b"x")
        await producer.stop()
        await producer.flush()
        assert send.done()
        with pytest.raises(aiokafka.errors.ProducerClosed):
            await producer.send("t", b"x")

    run(main)


def test_a_flush_during_the_end_waits_for_the_records(client: Any, kafka: FakeKafka) -> None:
    async def main() -> None:
        producer = client(bootstrap_servers=kafka.bootstrap_servers)
        await producer.start()
        await producer.send_and_wait("t", b"x")
        kafka.delay("Produce", 0.2, times=1)
        send = await producer.send("t", b"x")
        stopping = asyncio.create_task(producer.stop())
        await asyncio.sleep(0.05)
        await producer.flush()
        assert send.done()
        await stopping

    run(main)


def test_a_producer_that_is_not_stopped_is_a_resource_warning(client: Any, kafka: FakeKafka) -> None:
    async def main() -> None:
        producer = client(bootstrap_servers=kafka.bootstrap_servers)
        await producer.start()
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaProducer"):  # noqa: PT031
            del producer
            gc.collect()

    run(main)


# -- transactions ------------------------------------------------------------------------------------------


@pytest.fixture
def transactional(client: Any, kafka: FakeKafka) -> Callable[[], Any]:
    return lambda: client(bootstrap_servers=kafka.bootstrap_servers, transactional_id="it")


def test_offsets_outside_of_a_transaction(transactional: Callable[[], Any]) -> None:
    async def main() -> None:
        async with transactional() as producer:
            with pytest.raises(aiokafka.errors.IllegalOperation):
                await producer.send_offsets_to_transaction({}, group_id=None)
            async with producer.transaction():
                with pytest.raises(ValueError, match="None"):
                    await producer.send_offsets_to_transaction({}, group_id=None)

    run(main)


def test_a_fenced_producer(transactional: Callable[[], Any]) -> None:
    async def main() -> None:
        async with transactional() as older, transactional() as newer:
            async with newer.transaction():
                await newer.send_and_wait("t", b"x")
            with pytest.raises(aiokafka.errors.ProducerFenced):
                async with older.transaction():
                    await older.send_and_wait("t", b"x")

    run(main)


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_the_end_of_a_transaction_is_carried_out_although_it_is_cancelled(
    transactional: Callable[[], Any], kafka: FakeKafka, end: str
) -> None:
    async def main() -> None:
        async with transactional() as producer:
            for _ in range(20):
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"x")
                ended = len(kafka.requests("EndTxn"))
                task = asyncio.create_task(getattr(producer, end)())
                await asyncio.sleep(0)
                task.cancel()
                assert isinstance(await outcome_of(task), asyncio.CancelledError)
                await in_the_end(lambda: len(kafka.requests("EndTxn")) > ended)  # noqa: B023
                refused = (aiokafka.errors.IllegalOperation, AssertionError)
                while isinstance(await outcome_of(producer.begin_transaction()), refused):
                    await asyncio.sleep(0.01)
                await producer.abort_transaction()

    run(main)


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
@pytest.mark.parametrize("in_block", [False, True])
def test_the_adapters_end_of_a_transaction_made_again_has_its_outcome(
    kafka: FakeKafka, end: str, in_block: bool
) -> None:
    async def main() -> None:
        settings = {"bootstrap_servers": kafka.bootstrap_servers, "transactional_id": "it"}
        async with AIOKafkaProducer(**settings) as producer:
            kafka.delay("EndTxn", 0.1, times=1)

            async def transaction() -> None:
                if in_block:
                    async with producer.transaction():
                        await producer.send_and_wait("t", b"x")
                        if end == "abort_transaction":
                            raise LookupError
                    return
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"x")
                await getattr(producer, end)()

            task = asyncio.create_task(transaction())
            await in_the_end(lambda: kafka.requests("EndTxn"))
            task.cancel()
            assert isinstance(await outcome_of(task), asyncio.CancelledError)
            await getattr(producer, end)()
            with pytest.raises(aiokafka.errors.IllegalOperation):
                await getattr(producer, end)()

    run(main)
    committed = kafka.topic("t").records(isolation_level="read_committed")
    assert len(committed) == (1 if end == "commit_transaction" else 0)


def test_the_adapters_commit_is_carried_out_although_it_was_cancelled_before_its_turn(
    kafka: FakeKafka,
) -> None:
    async def main() -> None:
        settings = {"bootstrap_servers": kafka.bootstrap_servers, "transactional_id": "it"}
        async with AIOKafkaProducer(**settings) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"x")
            assert producer._producer is not None
            may_end = threading.Event()
            earlier = asyncio.create_task(producer._producer._calls.run(may_end.wait, PATIENCE_S))
            task = asyncio.create_task(producer.commit_transaction())
            await asyncio.sleep(0.01)
            task.cancel()
            assert isinstance(await outcome_of(task), asyncio.CancelledError)
            may_end.set()
            await earlier
            await producer.commit_transaction()

    run(main)
    assert len(kafka.topic("t").records(isolation_level="read_committed")) == 1
