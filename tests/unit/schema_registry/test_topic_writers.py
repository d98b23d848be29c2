"""TopicWriters: one look-up for all threads, errors for all, no deadlock in handlers and children."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kproducer.schema_registry import SchemaRegistryError
from kproducer.schema_registry.topic_writers import TopicWriters, Writer

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
    writers = TopicWriters(look_ups, 60_000, None)
    with ThreadPoolExecutor(8) as pool:
        results = [pool.submit(writers.find, "events") for _ in range(8)]
        look_ups.started.wait(60)
        look_ups.may_end.set()
        assert [each.result(60) for each in results] == [WRITER] * 8
    assert look_ups.count == 1
    assert writers.is_prepared("events")


def test_threads_that_wait_get_the_error_and_a_later_call_asks_again():
    look_ups = LookUps(SchemaRegistryError("not reachable"))
    writers = TopicWriters(look_ups, 60_000, None)
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
    writers = TopicWriters(look_ups, 60_000, None)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(writers.find, "events")
        look_ups.started.wait(60)
        look_ups.may_end.set()
        assert isinstance(first.exception(60), KeyboardInterrupt)
        look_ups.error = None
        assert writers.find("events") is WRITER


def test_waiting_for_another_thread_is_limited():
    look_ups = LookUps()
    writers = TopicWriters(look_ups, 1, None)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(writers.find, "events")
        look_ups.started.wait(60)
        with pytest.raises(SchemaRegistryError, match="took longer than 1 ms"):
            writers.find("events")
        look_ups.may_end.set()
        assert first.result(60) is WRITER


def test_a_signal_handler_does_not_wait_for_the_look_up_that_it_interrupts():
    calls = []

    def find(topic: str) -> Writer:
        calls.append(topic)
        if len(calls) == 1:
            writers.find(topic)  # as a handler does, on the same thread
        return WRITER

    writers = TopicWriters(find, 60_000, None)
    assert writers.find("events") is WRITER
    assert len(calls) == 2


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent():
    look_ups = LookUps()
    writers = TopicWriters(look_ups, 60_000, None)
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
    writers = TopicWriters(lambda topic: WRITER, 1_000, None)
    for number in range(1_500):
        writers.find(f"topic-{number}")
    assert not writers.is_prepared("topic-0")
    assert writers.is_prepared("topic-1499")
    assert len(writers._writers) == 1_000
