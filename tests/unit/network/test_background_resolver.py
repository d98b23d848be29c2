"""Lookups run on threads of their own: nobody waits for the name service who has something else to do."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from kproducer._core.network import host_resolver
from kproducer._core.network.host_resolver import MAX_THREADS, BackgroundResolver, ResolvedAddress
from kproducer.errors import NetworkError

PATIENCE_S = 60.0


class NameService:
    """Answers for a host when the test says so; ``ask`` is called on the resolver's threads."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.changed = threading.Condition()
        self._answered: set[str] = set()

    def ask(self, host: str, port: int) -> list[ResolvedAddress]:
        with self.changed:
            self.asked.append(host)
            self.threads.add(threading.current_thread())
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: {host, "all"} & self._answered, PATIENCE_S)
        return [ResolvedAddress(2, (f"address of {host}", port))]

    def answer(self, host: str) -> None:
        with self.changed:
            self._answered.add(host)
            self.changed.notify_all()

    def await_asked(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.asked) >= count, PATIENCE_S)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameService]:
    """Release the look-ups that still hang; all threads must end."""
    service = NameService()
    monkeypatch.setattr(host_resolver, "resolve_host", service.ask)
    yield service
    service.answer("all")
    for thread in service.threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_hanging_name_keeps_neither_the_caller_nor_other_names(service: NameService) -> None:
    looked_up = threading.Semaphore(0)
    resolver = BackgroundResolver(looked_up.release)
    slow = resolver.begin("slow", 9092)
    service.await_asked(1)
    other = resolver.begin("other", 9093)
    service.answer("other")
    assert looked_up.acquire(timeout=PATIENCE_S)
    assert other.result(0)[0].address == ("address of other", 9093)
    assert not slow.done()
    assert all(thread.daemon for thread in service.threads)
    resolver.close()  # does not wait for the slow one
    assert not slow.done()


def test_who_asks_for_a_name_that_is_being_looked_up_joins_in(service: NameService) -> None:
    resolver = BackgroundResolver(lambda: None)
    first = resolver.begin("kafka", 9092)
    assert resolver.begin("kafka", 9092) is first
    assert resolver.begin("kafka", 9093) is not first
    service.answer("kafka")
    first.result(PATIENCE_S)
    assert resolver.begin("kafka", 9092) is not first  # nothing is kept: names may move
    resolver.close()


def test_threads_are_used_again_and_there_are_not_too_many(service: NameService) -> None:
    resolver = BackgroundResolver(lambda: None)
    service.answer("a")
    for _ in range(5):
        resolver.begin("a", 1).result(PATIENCE_S)
    assert len(service.threads) == 1
    lookups = [resolver.begin(f"host{number}", 1) for number in range(3 * MAX_THREADS)]
    service.answer("all")
    assert all(lookup.result(PATIENCE_S) for lookup in lookups)
    assert len(service.threads) <= MAX_THREADS
    resolver.close()


@pytest.mark.parametrize("literal", ["127.0.0.1", "::1"])
def test_a_literal_address_needs_no_thread(literal: str) -> None:
    resolver = BackgroundResolver(lambda: pytest.fail("nobody waits for it"))
    threads = threading.active_count()
    assert resolver.begin(literal, 9092).result(0)[0].address[:2] == (literal, 9092)
    assert threading.active_count() == threads


@pytest.mark.parametrize("failure", [NetworkError("no such host"), ValueError("no such host")])
def test_every_failure_is_a_network_error(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(host: str, port: int) -> list[ResolvedAddress]:
        raise failure

    monkeypatch.setattr(host_resolver, "resolve_host", fail)
    resolver = BackgroundResolver(lambda: None)
    for _ in range(2):  # the thread survives it
        with pytest.raises(NetworkError, match="no such host"):
            resolver.begin("kafka", 9092).result(PATIENCE_S)
    resolver.close()


def test_where_no_thread_can_be_started_names_are_looked_up_all_the_same(
    monkeypatch: pytest.MonkeyPatch, service: NameService
) -> None:
    """As in an interpreter that is ending."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    service.answer("all")
    resolver = BackgroundResolver(lambda: None)
    assert resolver.begin("kafka", 9092).result(0)
    assert resolver.begin("other", 9092).result(0)
    service.threads.clear()  # it was this one


def test_a_resolver_that_is_dropped_leaves_no_thread(service: NameService) -> None:
    service.answer("all")
    BackgroundResolver(lambda: None).begin("kafka", 9092).result(PATIENCE_S)
    gc.collect()  # the fixture waits for the thread
