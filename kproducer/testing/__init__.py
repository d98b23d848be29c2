"""A Kafka broker for the tests of applications: in the test's process, without Java, started in milliseconds.

``FakeKafka`` is the broker, or several of them. With pytest, the fixture ``kafka_broker`` is a new one for
each test. Tests inject faults, such as error codes, delays, closed connections and brokers that are down, and
check what was written. It works with every producer that speaks Kafka's protocol, and not with consumers.
Guide: docs/testing.md.

It is the broker of our own tests, so it always fits the producer and needs no further package. librdkafka's
mock cluster was rejected, because it does not check batches. Consumers would double the code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproducer.testing.fake_kafka import FakeKafka as FakeKafka
    from kproducer.testing.fakebroker.request_log import LoggedRequest as LoggedRequest
    from kproducer.testing.fault import Fault as Fault
    from kproducer.testing.topic import IsolationLevel as IsolationLevel
    from kproducer.testing.topic import Record as Record
    from kproducer.testing.topic import Topic as Topic

#: Imported on first use: pytest imports this package in every run, for the plugin.
_LATER = {
    "FakeKafka": "fake_kafka",
    "Fault": "fault",
    "IsolationLevel": "topic",
    "LoggedRequest": "fakebroker.request_log",
    "Record": "topic",
    "Topic": "topic",
}

if not TYPE_CHECKING:
    __all__ = sorted(_LATER)

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
