"""Logging handlers and filters of the application that raise: no record is lost, every future resolves."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kproducer import DeliveryTimeoutError, RequestTimeoutError
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE = 0
NOT_LEADER, MESSAGE_TOO_LARGE, INVALID_RECORD = 6, 10, 87
ERRORS = [RuntimeError, SystemExit, KeyboardInterrupt]
LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL]


class Raising(logging.Handler):
    """Raises for log records number ``first`` to ``last``, counted from 1, on the I/O thread."""

    def __init__(self, error: type[BaseException], level: int = 0, first: int = 1, last: int = 10**9) -> None:
        super().__init__()
        self.only_level = level
        self.error, self.first, self.last = error, first, last
        self.seen = 0
        self.raised = 0

    def emit(self, record: logging.LogRecord) -> None:
        if not record.threadName or "kproducer-io" not in record.threadName:
            return
        if self.only_level in (0, record.levelno):
            self.seen += 1
            if self.first <= self.seen <= self.last:
                self.raised += 1
                raise self.error("raised by the handler")


@pytest.fixture
def logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The library's logger at level DEBUG, without output to stderr."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    found = logging.getLogger("kproducer")
    level, handlers, filters = found.level, list(found.handlers), list(found.filters)
    found.setLevel(logging.DEBUG)
    yield found
    found.setLevel(level)
    found.handlers[:] = handlers
    found.filters[:] = filters


def _live_through_faults(stage: Stage, cluster: FakeCluster) -> None:
    """Cause refusals, disconnects, a split, an expiry and a callback that raises: each of them is logged."""
    hasty = stage.producer(cluster, delivery_timeout_ms=300, request_timeout_ms=200, linger_ms=1)
    patient = stage.producer(cluster, request_timeout_ms=5_000, linger_ms=1, max_request_size=10_000_000)

    def fail(*_: object) -> None:
        raise ValueError("raised by the callback")

    patient.send(on_delivery=fail).metadata()
    cluster.control(PRODUCE, faults.refuse_produce(NOT_LEADER))
    patient.send().metadata()
    cluster.control(PRODUCE, faults.close_before())
    patient.send().metadata()
    cluster.control(PRODUCE, faults.refuse_produce(MESSAGE_TOO_LARGE))
    # One batch, however slowly this thread runs: a batch of one record cannot be split.
    collecting = stage.producer(cluster, request_timeout_ms=5_000, linger_ms=60_000)
    parts = collecting.send_many(10)
    collecting.kafka.flush(PATIENCE_S)
    assert [sent.metadata().topic for sent in parts] == ["t"] * 10
    cluster.control(PRODUCE, faults.refuse_produce(INVALID_RECORD))
    assert "INVALID_RECORD" in str(patient.send().error())
    patient.close(PATIENCE_S)
    cluster.control(PRODUCE, faults.stall_before(), times=None)
    # Which one depends on whether the second request times out before the delivery does.
    assert isinstance(hasty.send().error(), DeliveryTimeoutError | RequestTimeoutError)
    hasty.close(PATIENCE_S)


@pytest.mark.parametrize("error", ERRORS)
def test_a_handler_that_raises_for_every_record(
    stage: Stage, cluster: FakeCluster, logger: logging.Logger, error: type[BaseException]
) -> None:
    handler = Raising(error)
    logger.addHandler(handler)
    _live_through_faults(stage, cluster)
    assert handler.raised > 10


@pytest.mark.parametrize("level", LEVELS[:-1])
def test_a_handler_that_raises_for_records_of_one_level(
    stage: Stage, cluster: FakeCluster, logger: logging.Logger, level: int
) -> None:
    handler = Raising(SystemExit, level)
    logger.addHandler(handler)
    _live_through_faults(stage, cluster)
    assert handler.raised


@pytest.mark.parametrize("number", range(1, 31, 3))
def test_a_handler_that_raises_for_a_few_records(
    stage: Stage, cluster: FakeCluster, logger: logging.Logger, number: int
) -> None:
    handler = Raising(RuntimeError, first=number, last=number + 2)
    logger.addHandler(handler)
    _live_through_faults(stage, cluster)
    assert handler.raised == 3


def test_a_filter_that_raises(stage: Stage, cluster: FakeCluster, logger: logging.Logger) -> None:
    raised: list[str] = []

    def fail(record: logging.LogRecord) -> bool:
        if record.threadName and "kproducer-io" in record.threadName:
            raised.append(record.getMessage())
            raise SystemExit
        return True

    for name in ("sender", "accumulator", "client"):
        logging.getLogger(f"kproducer.{name}").addFilter(fail)
    try:
        _live_through_faults(stage, cluster)
    finally:
        for each in logging.Logger.manager.loggerDict.values():
            if isinstance(each, logging.Logger):
                each.removeFilter(fail)
    assert raised


def test_a_failed_record_is_logged_with_its_fields(
    stage: Stage, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.control(0, faults.refuse_produce(29))
    producer = stage.producer(cluster, client_id="logged")
    (sent,) = producer.send_many(1)
    assert sent.future.exception(PATIENCE_S) is not None
    producer.kafka.close(PATIENCE_S)  # the message follows the outcome
    record = next(each for each in caplog.records if "records failed" in each.getMessage())
    assert record.name == "kproducer.sender"
    fields = vars(record)
    expected = {
        "client_id": "logged",
        "topic": sent.topic,
        "partition": 0,
        "record_count": 1,
        "error_type": "TopicAuthorizationFailedError",
        "error_code": 29,
        "outcome": "rejected",
        "component": "produce_responses",
    }
    assert {name: fields[name] for name in expected} == expected
