"""How well a topic compresses, learnt from its batches: a batch is filled by this estimate.

The estimate moves fast to a worse ratio and slowly to a better one, because a batch that turns out too large
costs more than one that could have been fuller. Knows nothing of codecs' workings.
Source: Kafka's ``CompressionRatioEstimator``.
"""

from __future__ import annotations

from typing import Final

from kproducer.records.compression import CompressionType

INITIAL_RATIO: Final = 1.0
IMPROVING_STEP: Final = 0.005
DETERIORATING_STEP: Final = 0.05


class TopicCompressionRatio:
    """The estimate for one topic and codec. Any thread: a lost update does no harm.

    Attributes:
        ratio: compressed size divided by plain size, headers of batches left out.
    """

    __slots__ = ("ratio",)

    def __init__(self) -> None:
        self.ratio = INITIAL_RATIO

    def observe(self, observed_ratio: float) -> None:
        """Learn from a finished batch: at least one step up if worse, at most one step down if better."""
        ratio = self.ratio
        if observed_ratio > ratio:
            self.ratio = max(ratio + DETERIORATING_STEP, observed_ratio)
        elif observed_ratio < ratio:
            self.ratio = max(ratio - IMPROVING_STEP, observed_ratio)

    def reset_after_split(self, observed_ratio: float) -> None:
        """Start over, because a batch was too large for the broker; what it showed is the least to expect."""
        self.ratio = max(INITIAL_RATIO, observed_ratio)


class CompressionRatioEstimator:
    """The estimates of one producer, by topic and codec. Any thread."""

    __slots__ = ("_ratios",)

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, CompressionType], TopicCompressionRatio] = {}

    def topic_ratio(self, topic: str, compression_type: CompressionType) -> TopicCompressionRatio:
        """Return the estimate for this topic and codec; the same object every time, so it may be kept."""
        key = (topic, compression_type)
        found = self._ratios.get(key)
        # setdefault decides who is first when two threads meet here
        return found if found is not None else self._ratios.setdefault(key, TopicCompressionRatio())
