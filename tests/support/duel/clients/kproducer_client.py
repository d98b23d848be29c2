"""kproducer in a duel."""

from __future__ import annotations

from functools import partial
from typing import Any

import kproducer
from kproducer import (
    AbortTransactionError,
    FatalProducerError,
    KafkaError,
    KafkaProducer,
    KafkaTimeoutError,
    Outcome,
    RecordMetadata,
)
from tests.support.chaos.transaction_ledger import State
from tests.support.duel.clients.session import DuelClient, ProducerOverError, Session, until_done


class Client(DuelClient):
    version = kproducer.__version__

    def open(self, servers: str, transactional_id: str | None) -> Session:
        settings: dict[str, Any] = {}
        if self.delivery_ms is not None:
            settings = {
                "delivery_timeout_ms": self.delivery_ms,
                "request_timeout_ms": self.delivery_ms // 2,
            }
        if transactional_id is not None:
            settings["transactional_id"] = transactional_id
        producer = KafkaProducer(bootstrap_servers=servers, **settings)
        if transactional_id is not None:
            try:
                until_done(producer.init_transactions, _is_timeout)
            except KafkaError as error:
                producer.close()
                raise ProducerOverError(error) from error
        return _Session(producer)


class _Session(Session):
    def __init__(self, producer: KafkaProducer) -> None:
        super().__init__()
        self._producer = producer

    def send(self, topic: str, partition: int, value: bytes, number: int) -> None:
        try:
            self._producer.send(
                topic, value, partition=partition, on_delivery=partial(self._on_delivery, number)
            )
        except FatalProducerError as error:
            raise ProducerOverError(error) from error
        except KafkaError as error:
            self.refuse(number, error)

    def _on_delivery(self, number: int, metadata: RecordMetadata, error: KafkaError | None) -> None:
        if error is None:
            self.acknowledge(number, metadata.partition, metadata.offset)
        else:
            self.fail(number, error, is_definite=error.outcome is not Outcome.UNKNOWN)

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except KafkaError as error:
            raise ProducerOverError(error) from error

    def commit(self) -> State:
        try:
            until_done(self._producer.commit_transaction, _is_timeout)
        except AbortTransactionError:
            self.abort()
            return State.ABORTED
        except KafkaError as error:
            raise ProducerOverError(error) from error
        return State.COMMITTED

    def abort(self) -> None:
        try:
            until_done(self._producer.abort_transaction, _is_timeout)
        except KafkaError as error:
            raise ProducerOverError(error) from error

    def close(self) -> None:
        self._producer.close()


def _is_timeout(error: Exception) -> bool:
    return isinstance(error, KafkaTimeoutError)
