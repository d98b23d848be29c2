"""confluent-kafka in a duel."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.support.chaos.transaction_ledger import State
from tests.support.duel.clients.session import DuelClient, ProducerOverError, Session, until_done

#: Errors of records that were certainly not written. A purged record may have been sent before.
_DEFINITE = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
}
#: More than a closing producer raises.
_MOST_ERRORS = 10


class Client(DuelClient):
    version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"

    def open(self, servers: str, transactional_id: str | None) -> Session:
        settings: dict[str, Any] = {"bootstrap.servers": servers, "enable.idempotence": True}
        if self.delivery_ms is not None:
            settings["delivery.timeout.ms"] = self.delivery_ms
            settings["socket.timeout.ms"] = settings["request.timeout.ms"] = self.delivery_ms // 2
        if transactional_id is not None:
            settings["transactional.id"] = transactional_id
            if self.delivery_ms is not None:
                settings["transaction.timeout.ms"] = 60_000
        session = _Session(settings)
        if transactional_id is not None:
            session.initialize()
        return session


class _Session(Session):
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self._fatal: KafkaError | None = None
        self._producer = Producer({**settings, "error_cb": self._on_error})

    def initialize(self) -> None:
        try:
            until_done(self._producer.init_transactions, _is_retriable)
        except KafkaException as error:
            raise ProducerOverError(error) from error

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._fatal = error

    def check(self) -> None:
        if self._fatal is not None:
            raise ProducerOverError(self._fatal)

    def send(self, topic: str, partition: int, value: bytes, number: int) -> None:
        try:
            self._producer.produce(
                topic, value, partition=partition, on_delivery=partial(self._on_delivery, number)
            )
        except (BufferError, KafkaException) as error:
            self.refuse(number, error)
            self.check()

    def _on_delivery(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledge(number, message.partition(), message.offset())
        else:
            self.fail(number, error, is_definite=error.code() in _DEFINITE)

    def poll(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise ProducerOverError(error) from error

    def commit(self) -> State:
        try:
            until_done(self._producer.commit_transaction, _is_retriable)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise ProducerOverError(error) from error
            self.abort()
            return State.ABORTED
        return State.COMMITTED

    def abort(self) -> None:
        try:
            until_done(self._producer.abort_transaction, _is_retriable)
        except KafkaException as error:
            raise ProducerOverError(error) from error

    def close(self) -> None:
        # After a fatal error these raise it, and other callbacks may be left.
        for _ in range(_MOST_ERRORS):
            with contextlib.suppress(KafkaException):
                if not self._producer.flush():
                    break
        self._producer.close()


def _is_retriable(error: Exception) -> bool:
    return isinstance(error, KafkaException) and bool(error.args[0].retriable())
