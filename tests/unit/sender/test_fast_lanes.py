"""FastLanes: what any thread may do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kproducer._core.sender.fast_lanes import FastLanes


def test_a_flush_that_begins_while_another_one_ends_is_not_forgotten() -> None:
    # The thread whose flush ends looks; before it tells the plane, another flush begins.
    seen = iter([False, True, True])
    told: list[bool] = []
    lanes: Any = SimpleNamespace(
        _accumulator=SimpleNamespace(ready_batches=SimpleNamespace(sends_everything=lambda: next(seen))),
        _sends_everything=True,
        _plane=SimpleNamespace(send_everything=told.append),
    )
    FastLanes.update_sends_everything(lanes)
    assert told[-1] is True
