"""The estimate of a topic's compression ratio goes up fast and down slowly."""

from __future__ import annotations

import pytest

from kproducer._core.records.batch_sizing import TopicCompressionRatio


def test_a_topic_starts_with_no_compression_expected() -> None:
    assert TopicCompressionRatio().ratio == 1.0


def test_a_better_ratio_is_believed_in_small_steps() -> None:
    estimate = TopicCompressionRatio()
    estimate.observe(0.5)
    assert estimate.ratio == pytest.approx(0.995)
    estimate.observe(0.993)
    assert estimate.ratio == pytest.approx(0.993)


def test_a_worse_ratio_is_believed_at_once() -> None:
    estimate = TopicCompressionRatio()
    for _ in range(200):
        estimate.observe(0.3)
    assert estimate.ratio == pytest.approx(0.3)
    estimate.observe(0.31)
    assert estimate.ratio == pytest.approx(0.35)
    estimate.observe(0.9)
    assert estimate.ratio == pytest.approx(0.9)


def test_an_equal_ratio_changes_nothing() -> None:
    estimate = TopicCompressionRatio()
    estimate.observe(1.0)
    assert estimate.ratio == 1.0


@pytest.mark.parametrize(("observed", "expected"), [(0.4, 1.0), (1.3, 1.3)])
def test_a_split_starts_over(observed: float, expected: float) -> None:
    estimate = TopicCompressionRatio()
    estimate.observe(0.2)
    estimate.reset_after_split(observed)
    assert estimate.ratio == expected
