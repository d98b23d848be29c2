"""TopicLookUps: one look-up for all threads, errors for all, no deadlock in handlers and children."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kproducer.schema_registry import SchemaRegistryError
from kproducer.schema_registry.registry_serializer import Writer
from kproducer.schema_registry.topic_look_ups import TopicLookUps

WRITER = Writer(lambda value: b"", None)


class LookUps:
    """A look-up that a test holds."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.count = 0
        self.error = error
        self.started = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, topic: str) -> Writer:
        self.count += 1
        self.started.set()
        assert self.may_end.wait(60)
        if self.error is not None:
            raise self.error
        return WRITER


def test_threads_share_one_look_up():
    look_ups = LookUps()
    writers = TopicLookUps(look_ups, 60_000, None)
    with ThreadPoolExecutor(8) as pool:
        results = [pool.submit(writers.find, "events") for _ in range(8)]
        look_ups.started.wait(60)
        look_ups.may_end.set()
        assert [each.result(60) for each in results] == [WRITER] * 8
    assert look_ups.count == 1
    assert writers.is_prepared("events")


def test_threads_that_wait_get_the_error_and_a_later_call_asks_again():
    look_ups = LookUps(SchemaRegistryError("not reachable"))
    writers = TopicLookUps(look_ups, 60_000, None)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(writers.find, "events")
        look_ups.started.wait(60)
        second = pool.submit(writers.find, "events")
        look_ups.may_end.set()
        errors = [each.exception(60) for each in (first, second)]
    assert [str(each) for each in errors] == ["not reachable"] * 2
    assert errors[0] is not errors[1]
    look_ups.error = None
    assert writers.find("events") is WRITER


def test_another_thread_takes_over_an_interrupted_look_up():
    look_ups = LookUps(KeyboardInterrupt())
    writers = TopicLookUps(look_ups, 60_000, None)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(writers.find, "events")
        look_ups.started.wait(60)
        look_ups.may_end.set()
        assert isinstance(first.exception(60), KeyboardInterrupt)
        look_ups.error = None
        assert writers.find("events") is WRITER


def test_waiting_for_another_thread_is_limited():
    look_ups = LookUps()
    writers = TopicLookUps(look_ups, 1, None)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(writers.find, "events")
        look_ups.started.wait(60)
        with pytest.raises(SchemaRegistryError, match="took longer than 1 ms"):
            writers.find("events")
        look_ups.may_end.set()
        assert first.result(60) is WRITER


class Registry:
    """A look-up that fails as a test says, and a clock that stands still."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.calls = 0
        self.error: SchemaRegistryError | None = None
        self.writer = WRITER

    def find(self, topic: str) -> Writer:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return self.writer

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def fallible(monkeypatch: pytest.MonkeyPatch) -> Registry:
    made = Registry()
    monkeypatch.setattr("kproducer.schema_registry.topic_look_ups.time", made)
    return made


def test_a_known_writer_is_used_while_the_registry_is_down(fallible):
    writers = TopicLookUps(fallible.find, 60_000, 300)
    assert writers.find("events") is WRITER
    fallible.now_s += 301
    fallible.error = SchemaRegistryError("not reachable", is_temporary=True)
    for _ in range(3):
        assert writers.find("events") is WRITER
    assert fallible.calls == 2  # the registry is not asked for each record
    with pytest.raises(SchemaRegistryError, match="not reachable"):
        writers.find("another")
    fallible.now_s += 31
    assert writers.find("events") is WRITER
    assert fallible.calls == 4
    fallible.error, fallible.writer = None, Writer(lambda value: b"newer", None)
    fallible.now_s += 31
    assert writers.find("events") is fallible.writer
    fallible.now_s += 299
    assert writers.find("events") is fallible.writer
    assert fallible.calls == 5


def test_a_known_writer_is_not_used_after_a_refusal(fallible):
    writers = TopicLookUps(fallible.find, 60_000, 300)
    assert writers.find("events") is WRITER
    fallible.now_s += 301
    fallible.error = SchemaRegistryError("no such subject")
    with pytest.raises(SchemaRegistryError, match="no such subject"):
        writers.find("events")


def test_threads_that_wait_use_the_known_writer_too(fallible):
    look_ups = LookUps()
    look_ups.may_end.set()
    writers = TopicLookUps(look_ups, 60_000, 300)
    assert writers.find("events") is WRITER
    fallible.now_s += 301
    look_ups.may_end.clear()
    look_ups.started.clear()
    look_ups.error = SchemaRegistryError("not reachable", is_temporary=True)
    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(writers.find, "events")]
        assert look_ups.started.wait(60)
        results += [pool.submit(writers.find, "events") for _ in range(3)]
        look_ups.may_end.set()
        assert [each.result(60) for each in results] == [WRITER] * 4
    assert look_ups.count == 2


def test_a_signal_handler_does_not_wait_for_the_look_up_that_it_interrupts():
    calls = []

    def find(topic: str) -> Writer:
        calls.append(topic)
        if len(calls) == 1:
            writers.find(topic)  # as a handler does, on the same thread
        return WRITER

    writers = TopicLookUps(find, 60_000, None)
    assert writers.find("events") is WRITER
    assert len(calls) == 2


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent():
    look_ups = LookUps()
    writers = TopicLookUps(look_ups, 60_000, None)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(writers.find, "events")
        look_ups.started.wait(60)
        pid = os.fork()
        if pid == 0:
            look_ups.may_end.set()
            os._exit(7 if writers.find("events") is WRITER else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        look_ups.may_end.set()
        first.result(60)


def test_the_number_of_topics_is_bounded():
    writers = TopicLookUps(lambda topic: WRITER, 1_000, None)
    for number in range(1_500):
        writers.find(f"topic-{number}")
    assert not writers.is_prepared("topic-0")
    assert writers.is_prepared("topic-1499")
    assert len(writers._found) == 1_000
