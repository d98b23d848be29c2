"""aiokafka in a duel: its event loop runs in a thread, so that the load is the same as for the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import partial
from typing import Any

import aiokafka
from aiokafka import errors

from tests.support.chaos.transaction_ledger import State
from tests.support.duel.clients.session import DuelClient, ProducerOverError, Session

#: Errors of records that were certainly not written.
_DEFINITE = (
    errors.MessageSizeTooLargeError,
    errors.InvalidTopicError,
    errors.TopicAuthorizationFailedError,
)


class Client(DuelClient):
    version = aiokafka.__version__

    def __init__(self, delivery_seconds: float | None) -> None:
        super().__init__(delivery_seconds)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True).start()

    def open(self, servers: str, transactional_id: str | None) -> Session:
        settings: dict[str, Any] = {"bootstrap_servers": servers, "enable_idempotence": True}
        if self.delivery_ms is not None:
            settings["request_timeout_ms"] = self.delivery_ms
        if transactional_id is not None:
            settings["transactional_id"] = transactional_id
        session = _Session(self._loop)
        session.run(session.start(settings))
        return session


class _Session(Session):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._in_transaction: list[asyncio.Future[Any]] = []

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Raises ProducerOverError in place of the client's errors."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except (errors.KafkaError, AssertionError, RuntimeError) as error:
            raise ProducerOverError(repr(error)) from error

    async def start(self, settings: dict[str, Any]) -> None:
        self._producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await self._producer.start()
        except errors.KafkaError:
            await self._producer.stop()
            raise

    def send(self, topic: str, partition: int, value: bytes, number: int) -> None:
        self.run(self._send(topic, partition, value, number))

    async def _send(self, topic: str, partition: int, value: bytes, number: int) -> None:
        try:
            future = await self._producer.send(topic, value, partition=partition)
        except errors.KafkaError as error:
            self.refuse(number, error)
            return
        future.add_done_callback(partial(self._on_done, number))
        self._in_transaction.append(future)

    def _on_done(self, number: int, future: asyncio.Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        if future.cancelled() or error is not None:
            self.fail(number, error or "cancelled", is_definite=isinstance(error, _DEFINITE))
        else:
            metadata = future.result()
            self.acknowledge(number, metadata.partition, metadata.offset)

    def check(self) -> None:
        # Futures are needed until the end of a transaction only.
        self._in_transaction.clear()

    def begin(self) -> None:
        self._in_transaction.clear()
        self.run(self._producer.begin_transaction())

    def are_delivered(self) -> bool:
        # Programs await each record, as the documentation shows.
        return self.run(self._are_delivered())

    async def _are_delivered(self) -> bool:
        found = await asyncio.gather(*self._in_transaction, return_exceptions=True)
        return not any(isinstance(each, BaseException) for each in found)

    def commit(self) -> State:
        self.run(self._producer.commit_transaction())
        return State.COMMITTED

    def abort(self) -> None:
        self.run(self._producer.abort_transaction())

    def close(self) -> None:
        self.run(self._producer.stop())
