"""The garbage collector of a worker."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kproducer.spark import worker_collector


@pytest.fixture(autouse=True)
def _thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_collector, "_is_done", False)
    gc.unfreeze()
    yield
    gc.unfreeze()


def _enter_task(monkeypatch: pytest.MonkeyPatch) -> None:
    class RunningTask:
        @staticmethod
        def get() -> object:
            return object()

    monkeypatch.setattr(worker_collector, "TaskContext", RunningTask)


def test_outside_of_a_task_nothing_changes() -> None:
    worker_collector.spare_what_stays()
    assert gc.get_freeze_count() == 0


def test_in_a_task_what_is_there_is_spared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _enter_task(monkeypatch)
    worker_collector.spare_what_stays()
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    worker_collector.spare_what_stays()
    assert gc.get_freeze_count() == 0


def test_what_comes_later_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    _enter_task(monkeypatch)
    worker_collector.spare_what_stays()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() > 0
