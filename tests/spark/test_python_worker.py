"""The garbage collector of a Python worker, and its connection to the JVM."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kproducer.spark import python_worker

_QUICK_ACK = getattr(socket, "TCP_QUICKACK", None)


@pytest.fixture(autouse=True)
def _thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(python_worker, "_ended_tasks", 0)
    gc.unfreeze()
    yield
    gc.unfreeze()


def _enter_task(monkeypatch: pytest.MonkeyPatch) -> None:
    class RunningTask:
        @staticmethod
        def get() -> object:
            return object()

    monkeypatch.setattr(python_worker, "TaskContext", RunningTask)


def test_outside_of_a_task_nothing_changes() -> None:
    python_worker.freeze_gc_after_first_tasks()
    assert gc.get_freeze_count() == 0


def test_the_objects_of_the_first_two_tasks_are_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    _enter_task(monkeypatch)
    counts = []
    for _ in range(3):
        gc.unfreeze()
        python_worker.freeze_gc_after_first_tasks()
        counts.append(gc.get_freeze_count() > 0)
    assert counts == [True, True, False]


def test_what_comes_later_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    _enter_task(monkeypatch)
    python_worker.freeze_gc_after_first_tasks()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() > 0


@pytest.mark.skipif(_QUICK_ACK is None, reason="Linux only")
def test_connections_to_the_same_machine_acknowledge_at_once() -> None:
    assert _QUICK_ACK is not None
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        others = [*socket.socketpair(), socket.socket(), socket.socket(type=socket.SOCK_DGRAM)]
        for other in others:
            stack.enter_context(other)
        client = stack.enter_context(socket.create_connection(listener.getsockname()))
        client.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 0)
        assert client.getsockopt(socket.IPPROTO_TCP, _QUICK_ACK) == 0
        python_worker.acknowledge_at_once()
        assert client.getsockopt(socket.IPPROTO_TCP, _QUICK_ACK) == 1
        for each in (listener, client, *others):
            os.fstat(each.fileno())  # still open
