"""kafka-python in a duel."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.support.chaos.transaction_ledger import State
from tests.support.duel.clients.session import DuelClient, ProducerOverError, Session, until_done
from tests.support.kafka.kafka_python import kafka, kafka_errors

#: Errors of records that were certainly not written. One of an aborted transaction may have been sent before.
_DEFINITE = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.InvalidTopicError,
    kafka_errors.TopicAuthorizationFailedError,
)


class Client(DuelClient):
    version = kafka.__version__

    def open(self, servers: str, transactional_id: str | None) -> Session:
        settings: dict[str, Any] = {"bootstrap_servers": servers.split(",")}
        if self.delivery_ms is not None:
            settings["delivery_timeout_ms"] = self.delivery_ms
            settings["request_timeout_ms"] = self.delivery_ms // 2
        if transactional_id is not None:
            settings["transactional_id"] = transactional_id
        try:
            producer = kafka.KafkaProducer(**settings)
        except kafka_errors.KafkaError as error:
            raise ProducerOverError(error) from error
        if transactional_id is not None:
            try:
                until_done(producer.init_transactions, _is_timeout)
            except kafka_errors.KafkaError as error:
                producer.close()
                raise ProducerOverError(error) from error
        return _Session(producer)


class _Session(Session):
    def __init__(self, producer: Any) -> None:
        super().__init__()
        self._producer = producer

    def send(self, topic: str, partition: int, value: bytes, number: int) -> None:
        try:
            future = self._producer.send(topic, value, partition=partition)
        except kafka_errors.KafkaError as error:
            self.refuse(number, error)
            return
        future.add_callback(partial(self._on_success, number))
        future.add_errback(partial(self._on_error, number))

    def _on_success(self, number: int, metadata: Any) -> None:
        self.acknowledge(number, metadata.partition, metadata.offset)

    def _on_error(self, number: int, error: BaseException) -> None:
        self.fail(number, error, is_definite=isinstance(error, _DEFINITE))

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except (kafka_errors.KafkaError, AssertionError) as error:
            raise ProducerOverError(error) from error

    def commit(self) -> State:
        try:
            until_done(self._producer.commit_transaction, _is_timeout)
        except kafka_errors.ProducerFencedError as error:
            raise ProducerOverError(error) from error
        except kafka_errors.KafkaError:
            self.abort()
            return State.ABORTED
        return State.COMMITTED

    def abort(self) -> None:
        try:
            until_done(self._producer.abort_transaction, _is_timeout)
        except (kafka_errors.KafkaError, AssertionError) as error:
            raise ProducerOverError(error) from error

    def close(self) -> None:
        self._producer.close()


def _is_timeout(error: Exception) -> bool:
    return isinstance(error, kafka_errors.KafkaTimeoutError)
