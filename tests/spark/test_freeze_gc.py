"""The garbage collector of a Python worker."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kproducer.spark import partition_writer


@pytest.fixture(autouse=True)
def _thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(partition_writer, "_is_gc_frozen", False)
    gc.unfreeze()
    yield
    gc.unfreeze()


def _enter_task(monkeypatch: pytest.MonkeyPatch) -> None:
    class RunningTask:
        @staticmethod
        def get() -> object:
            return object()

    monkeypatch.setattr(partition_writer, "TaskContext", RunningTask)


def test_outside_of_a_task_nothing_changes() -> None:
    partition_writer.freeze_gc_after_first_task()
    assert gc.get_freeze_count() == 0


def test_in_a_task_the_present_objects_are_frozen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _enter_task(monkeypatch)
    partition_writer.freeze_gc_after_first_task()
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    partition_writer.freeze_gc_after_first_task()
    assert gc.get_freeze_count() == 0


def test_what_comes_later_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    _enter_task(monkeypatch)
    partition_writer.freeze_gc_after_first_task()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() > 0
