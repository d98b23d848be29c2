"""One message of many."""

from __future__ import annotations

from kproducer._core.runtime.guarded_logger import LogRepeats


def test_the_first_of_a_kind_passes_and_the_next_ones_are_counted() -> None:
    repeats = LogRepeats(1000)
    assert repeats.suffix("a", 0) == ""
    assert [repeats.suffix("a", now_ms) for now_ms in (0, 500, 999)] == [None] * 3
    assert repeats.suffix("b", 999) == ""
    assert repeats.suffix("a", 1000) == " (3 more like this since the last such message)"
    assert repeats.suffix("a", 1001) is None
    assert repeats.suffix("b", 5000) == ""


def test_endless_kinds_take_no_endless_memory() -> None:
    repeats = LogRepeats(1000)
    for kind in range(10_000):
        assert repeats.suffix(kind, 0) == ""
    assert len(repeats._kinds) <= 256
    assert repeats.suffix(9_999, 1) is None
