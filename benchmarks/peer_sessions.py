"""The other Python clients, used as their documentation recommends.

If the recommended usage is slower than necessary, the faster one is used: confluent-kafka's ``poll(0)`` is
called once per hundred records instead of after each.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from benchmarks.sessions import FLUSH_SECONDS, Target, chunks
from benchmarks.workload import LINGER_MS, Record

_POLL_EVERY = 100
_FULL_QUEUE_WAIT_SECONDS = 0.01
#: Of ``poll`` in a thread of its own; the call returns when there is something to do.
_POLL_SECONDS = 0.1

#: kproducer's names of security settings, and librdkafka's.
_SECURITY_NAMES = {
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
}


def librdkafka_security(settings: dict[str, str]) -> dict[str, str]:
    """Security settings with librdkafka's names."""
    return {_SECURITY_NAMES[name]: value for name, value in settings.items()}


@contextmanager
def polling(producer: Any) -> Iterator[None]:
    """A thread that calls ``poll`` of confluent-kafka's producer during the block."""
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            producer.poll(_POLL_SECONDS)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class ConfluentSession:
    """``produce()`` without a callback: no results of single records; the log end offsets give the count."""

    #: Where the client is; that of an adapter has the same interface.
    module = "confluent_kafka"

    def __init__(self, target: Target) -> None:
        family = target.workload.settings
        settings: dict[str, Any] = librdkafka_security(target.security)
        if family.batch_bytes is not None:
            settings["batch.size"] = family.batch_bytes
        if family.buffer_bytes is not None:
            settings["queue.buffering.max.kbytes"] = family.buffer_bytes // 1024
            settings["queue.buffering.max.messages"] = 1_000_000
        self.topic = target.topic
        self.producer = import_module(self.module).Producer(
            {
                "bootstrap.servers": target.bootstrap_servers,
                "acks": "all",
                "linger.ms": LINGER_MS,
                "compression.type": target.workload.codec,
                "log_level": 0,
                **settings,
            }
        )

    def prepare(self, records: list[Record]) -> Any:
        return records

    def send_all(self, prepared: Any) -> int:
        produce, poll, topic = self.producer.produce, self.producer.poll, self.topic
        for number, (key, value) in enumerate(prepared):
            while True:
                try:
                    produce(topic, value, key)
                    break
                except BufferError:
                    poll(_FULL_QUEUE_WAIT_SECONDS)
            if number % _POLL_EVERY == 0:
                poll(0)
        left = self.producer.flush(FLUSH_SECONDS)
        return len(prepared) - int(left)

    def acknowledged(self, sent: Any) -> int:
        return int(sent)

    def close(self) -> None:
        pass


class ConfluentCallbackSession(ConfluentSession):
    """``produce()`` with a delivery callback, which reports the result of each record."""

    def send_all(self, prepared: Any) -> int:
        acknowledged = 0

        def delivered(error: object, message: object) -> None:
            nonlocal acknowledged
            acknowledged += error is None

        produce, poll, topic = self.producer.produce, self.producer.poll, self.topic
        for number, (key, value) in enumerate(prepared):
            while True:
                try:
                    produce(topic, value, key, on_delivery=delivered)
                    break
                except BufferError:
                    poll(_FULL_QUEUE_WAIT_SECONDS)
            if number % _POLL_EVERY == 0:
                poll(0)
        self.producer.flush(FLUSH_SECONDS)
        return acknowledged


class ConfluentPollThreadSession(ConfluentSession):
    """``produce()`` with a delivery callback, and a thread that calls ``poll``."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._polling = polling(self.producer)
        self._polling.__enter__()

    def send_all(self, prepared: Any) -> int:
        acknowledged = 0

        def delivered(error: object, message: object) -> None:
            nonlocal acknowledged
            acknowledged += error is None

        produce, poll, topic = self.producer.produce, self.producer.poll, self.topic
        for key, value in prepared:
            while True:
                try:
                    produce(topic, value, key, on_delivery=delivered)
                    break
                except BufferError:
                    poll(_FULL_QUEUE_WAIT_SECONDS)
        self.producer.flush(FLUSH_SECONDS)
        return acknowledged

    def close(self) -> None:
        self._polling.__exit__(None, None, None)


class ConfluentBatchSession(ConfluentSession):
    """``produce_batch()``: lists of dictionaries, created outside the timed part; no callback."""

    def prepare(self, records: list[Record]) -> Any:
        return [
            [{"value": value} if key is None else {"value": value, "key": key} for key, value in chunk]
            for chunk in chunks(records)
        ]

    def send_all(self, prepared: Any) -> int:
        produce_batch, poll = self.producer.produce_batch, self.producer.poll
        count = 0
        for chunk in prepared:
            count += len(chunk)
            messages = chunk
            while messages and produce_batch(self.topic, messages) < len(messages):
                # Records that did not fit into the queue are marked; they are sent again.
                messages = [each for each in messages if each.pop("_error", None) is not None]
                poll(_FULL_QUEUE_WAIT_SECONDS)
            poll(0)
        return count - int(self.producer.flush(FLUSH_SECONDS))


class KafkaPythonSession:
    """``send()`` of kafka-python: the future of each record is kept and read at the end."""

    module = "kafka"

    def __init__(self, target: Target) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client = import_module(self.module)
        family = target.workload.settings
        settings: dict[str, Any] = {}
        if family.batch_bytes is not None:
            settings["batch_size"] = family.batch_bytes
        if target.is_mock:
            # kafka-python cannot read the mock's response to its ApiVersions version; pinned, it sends
            # another.
            settings["api_version"] = (2, 3)
        codec = target.workload.codec
        self.topic = target.topic
        self.producer = client.KafkaProducer(
            bootstrap_servers=target.bootstrap_servers,
            acks="all",
            enable_idempotence=False,
            linger_ms=LINGER_MS,
            compression_type=None if codec == "none" else codec,
            **settings,
        )

    def prepare(self, records: list[Record]) -> Any:
        return records

    def send_all(self, prepared: Any) -> int:
        send, topic = self.producer.send, self.topic
        futures = [send(topic, value, key) for key, value in prepared]
        self.producer.flush(FLUSH_SECONDS)
        return sum(future.succeeded() for future in futures)

    def acknowledged(self, sent: Any) -> int:
        return int(sent)

    def close(self) -> None:
        self.producer.close()


class AiokafkaSession:
    """``send()`` of aiokafka: each future is kept until ``flush`` returns, and then read."""

    module = "aiokafka"

    def __init__(self, target: Target) -> None:
        self._loop = asyncio.new_event_loop()
        self._target = target
        self._producer = self._loop.run_until_complete(self._start())

    async def _start(self) -> Any:
        workload = self._target.workload
        settings: dict[str, Any] = {}
        if workload.settings.batch_bytes is not None:
            settings["max_batch_size"] = workload.settings.batch_bytes
        producer = import_module(self.module).AIOKafkaProducer(
            bootstrap_servers=self._target.bootstrap_servers,
            acks="all",
            enable_idempotence=False,
            linger_ms=LINGER_MS,
            compression_type=None if workload.codec == "none" else workload.codec,
            **settings,
        )
        await producer.start()
        return producer

    def prepare(self, records: list[Record]) -> Any:
        return records

    def send_all(self, prepared: Any) -> int:
        return self._loop.run_until_complete(self._send(prepared))

    async def _send(self, records: list[Record]) -> int:
        send, topic = self._producer.send, self._target.topic
        futures = [await send(topic, value, key) for key, value in records]
        await self._producer.flush()
        return sum(future.exception() is None for future in futures)

    def acknowledged(self, sent: Any) -> int:
        return int(sent)

    def close(self) -> None:
        with suppress(Exception):
            self._loop.run_until_complete(self._producer.stop())
        self._loop.close()


class AiokafkaSendsSession(AiokafkaSession):
    """``send_and_wait()`` of aiokafka, as many at once as ``Target.gathered``."""

    async def _send(self, records: list[Record]) -> int:
        send, topic, gathered = self._producer.send_and_wait, self._target.topic, self._target.gathered
        acknowledged = 0
        for start in range(0, len(records), gathered):
            some = records[start : start + gathered]
            results = await asyncio.gather(*[send(topic, value, key) for key, value in some])
            acknowledged += sum(result.offset >= 0 for result in results)
        return acknowledged


# -- kproducer's adapters, used as the clients that they stand for ------------------------------------------


class ConfluentAdapterSession(ConfluentCallbackSession):
    """``kproducer.compat.confluent_kafka``."""

    module = "kproducer.compat.confluent_kafka"


class KafkaPythonAdapterSession(KafkaPythonSession):
    """``kproducer.compat.kafka``."""

    module = "kproducer.compat.kafka"


class AiokafkaAdapterSession(AiokafkaSession):
    """``kproducer.compat.aiokafka``."""

    module = "kproducer.compat.aiokafka"
