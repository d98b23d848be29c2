"""The garbage collector of a Python worker, and its connection to the JVM."""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from types import ModuleType

import pytest

from kproducer.spark import python_worker

_QUICK_ACK = getattr(socket, "TCP_QUICKACK", None)


@pytest.fixture(autouse=True)
def _thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(python_worker, "_frozen_modules", 0)
    gc.unfreeze()
    yield
    gc.unfreeze()


def _enter_task(monkeypatch: pytest.MonkeyPatch) -> None:
    class RunningTask:
        @staticmethod
        def get() -> object:
            return object()

    monkeypatch.setattr(python_worker, "TaskContext", RunningTask)


def _is_frozen_again() -> bool:
    gc.unfreeze()
    python_worker.freeze_gc_if_modules_were_imported()
    return gc.get_freeze_count() > 0


def test_outside_of_a_worker_nothing_changes() -> None:
    assert not _is_frozen_again()


def test_what_the_daemon_started_is_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["daemon.py", "pyspark.sql.worker.commit_data_source_write"])
    assert _is_frozen_again()


def test_objects_are_frozen_again_after_modules_were_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    _enter_task(monkeypatch)
    assert _is_frozen_again()
    assert not _is_frozen_again()
    monkeypatch.setitem(sys.modules, "a_new_module", ModuleType("a_new_module"))
    assert _is_frozen_again()


def test_what_comes_later_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    _enter_task(monkeypatch)
    assert _is_frozen_again()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() > 0


@pytest.mark.skipif(_QUICK_ACK is None, reason="Linux only")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_connections_over_loopback_acknowledge_at_once(host: str) -> None:
    assert _QUICK_ACK is not None
    with ExitStack() as stack:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = stack.enter_context(socket.create_server((host, 0), family=family))
        except OSError:
            pytest.skip(f"{host} is not available")
        others = [*socket.socketpair(), socket.socket(), socket.socket(type=socket.SOCK_DGRAM)]
        for other in others:
            stack.enter_context(other)
        client = stack.enter_context(socket.create_connection(listener.getsockname()[:2]))
        client.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 0)
        assert client.getsockopt(socket.IPPROTO_TCP, _QUICK_ACK) == 0
        python_worker.acknowledge_at_once()
        assert client.getsockopt(socket.IPPROTO_TCP, _QUICK_ACK) == 1
        for each in (listener, client, *others):
            os.fstat(each.fileno())  # still open


def test_connections_stay_blocking_with_a_default_timeout() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        try:
            socket.setdefaulttimeout(30)
            python_worker.acknowledge_at_once()
        finally:
            socket.setdefaulttimeout(None)
        assert os.get_blocking(client.fileno())
