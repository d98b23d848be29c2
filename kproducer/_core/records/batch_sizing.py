"""How large batches and their buffers become: buffer sizes, and the compression ratio that a topic has shown.

Source of the ratio's rules: Kafka's ``CompressionRatioEstimator``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

#: Size of a batch's first buffer, unless batch_size is smaller. A partition with little traffic needs no
#: more.
FIRST_BUFFER_BYTES: Final = 16384
#: Size of the first buffer if so many partitions hold batches that larger ones would soon take all memory.
SMALLEST_BUFFER_BYTES: Final = 1024
#: How much larger each buffer is than the one before. With this factor there are few sizes, and only a third
#: of the bytes is copied again.
GROWTH_FACTOR: Final = 4
#: Records that will be compressed may take this many times ``batch_size`` before compression.
PLAIN_SIZE_FACTOR: Final = 2
#: The factor for small batches, as long as their records take less than ``WHOLE_BUFFER_BYTES``.
SMALL_BATCH_FACTOR: Final = 4
#: A full buffer of this size makes a full batch, however well it compresses: a larger batch would not be
#: cheaper to send.
WHOLE_BUFFER_BYTES: Final = 1 << 20
#: Safety margin: the estimated size is multiplied by it.
ESTIMATION_FACTOR: Final = 1.05

INITIAL_RATIO: Final = 1.0
IMPROVING_STEP: Final = 0.005
DETERIORATING_STEP: Final = 0.05


class TopicCompressionRatio:
    """How well the batches of one topic compress. Any thread may use it: a lost update does no harm.

    The estimate moves fast to a worse ratio and slowly to a better one, because a batch that turns out too
    large costs more than one that could have been fuller.

    Attributes:
        ratio: compressed size divided by plain size, without the headers of batches.
    """

    __slots__ = ("ratio",)

    def __init__(self) -> None:
        self.ratio = INITIAL_RATIO

    @property
    def factor(self) -> float:
        """Expected bytes on the wire per plain byte, with a safety margin."""
        return ESTIMATION_FACTOR * self.ratio

    def observe(self, observed_ratio: float) -> None:
        """Learn from a finished batch: at least one step up if worse, at most one step down if better."""
        ratio = self.ratio
        if observed_ratio > ratio:
            self.ratio = max(ratio + DETERIORATING_STEP, observed_ratio)
        elif observed_ratio < ratio:
            self.ratio = max(ratio - IMPROVING_STEP, observed_ratio)

    def reset_after_split(self, observed_ratio: float) -> None:
        """Start over after a batch was too large for the broker, with at least the ratio that it showed."""
        self.ratio = max(INITIAL_RATIO, observed_ratio)


@lru_cache(maxsize=64)
def buffer_sizes(largest_bytes: int) -> tuple[int, ...]:
    """The sizes of a batch's buffers while it grows up to ``largest_bytes``, smallest first."""
    sizes = [min(SMALLEST_BUFFER_BYTES, largest_bytes)]
    while sizes[-1] < largest_bytes:
        sizes.append(min(sizes[-1] * GROWTH_FACTOR, largest_bytes))
    return tuple(sizes)


def largest_buffer_bytes(batch_size: int, is_compressed: bool) -> int:
    """The size up to which the buffer of a batch grows."""
    if not is_compressed:
        return batch_size
    return max(batch_size * PLAIN_SIZE_FACTOR, min(batch_size * SMALL_BATCH_FACTOR, WHOLE_BUFFER_BYTES))


def expected_plain_bytes(batch_size: int, topic_ratio: TopicCompressionRatio | None) -> float:
    """Bytes of records that a batch is expected to take; ``topic_ratio`` is ``None`` without compression."""
    return batch_size if topic_ratio is None else batch_size / topic_ratio.factor
