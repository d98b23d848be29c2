"""Which input goes to the topic of rejected input: that of records which are the cause themselves."""

from __future__ import annotations

from typing import Any

import pytest

from kproducer import ProducerConfig
from kproducer.cli.deliveries import Deliveries, Origin
from kproducer.cli.rejected_topic import RejectedTopic
from kproducer.errors import (
    BatchRejectedError,
    DeliveryTimeoutError,
    KafkaError,
    Outcome,
    ProducerClosedError,
    RecordTooLargeError,
)
from kproducer.errors.broker_errors import (
    InvalidRecordError,
    MessageTooLargeError,
    TopicAuthorizationFailedError,
)


class SentLetters:
    """A producer that keeps the values it is to send."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.config = ProducerConfig(bootstrap_servers="localhost:9092")

    def send(self, _topic: str, value: bytes, **_more: Any) -> None:
        self.values.append(value)

    def close(self, _timeout: float | None) -> None:
        pass


@pytest.mark.parametrize(
    ("reason", "outcome", "is_taken"),
    [
        ("the line is not JSON", Outcome.NOT_SENT, True),
        (RecordTooLargeError("large"), Outcome.NOT_SENT, True),
        (ProducerClosedError("closed"), Outcome.NOT_SENT, False),
        (MessageTooLargeError("large"), Outcome.REJECTED, True),
        (InvalidRecordError("no key"), Outcome.REJECTED, True),
        (BatchRejectedError("another record"), Outcome.REJECTED, False),
        (DeliveryTimeoutError("not enough replicas"), Outcome.REJECTED, False),
        (TopicAuthorizationFailedError("t"), Outcome.REJECTED, False),
        (InvalidRecordError("no key"), Outcome.UNKNOWN, False),
    ],
)
def test_input_is_taken_if_it_is_the_cause(reason, outcome, is_taken):
    assert RejectedTopic(SentLetters(), "dead", "t", None).takes(reason, outcome) is is_taken  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", [MemoryError(), KafkaError("a bug")])
def test_input_is_not_taken_if_the_run_was_stopped(reason):
    producer, echoed = SentLetters(), []
    deliveries = Deliveries(1000, echoed.append, None, RejectedTopic(producer, "dead", "t", None))  # type: ignore[arg-type]
    origin = Origin("-", [1, 2], [b"one", b"two"].__getitem__)
    deliveries.report(origin, 0, reason, Outcome.NOT_SENT, is_of_record=False)
    deliveries.report(origin, 1, "the line is not JSON", Outcome.NOT_SENT)
    deliveries.finish()
    assert producer.values == [b"two"]
    assert "input: one" in echoed[0]
