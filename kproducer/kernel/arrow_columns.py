"""What both twins of the Arrow rooms agree on: rows of a plan, why one is refused, what it is hashed with."""

from __future__ import annotations

from typing import Final

#: Rows that are planned and sorted by partition at a time: their cells and 100 bytes each fit a core's cache.
BLOCK_ROWS: Final = 4096

#: Why a row cannot be sent, by its status in a plan. The first one that applies is told.
REASONS: Final = (
    "",
    "row is null",
    "topic is null",
    "topic failed",
    "partition",
    "timestamp",
    "size",
    "header is null",
    "header name",
)

#: Of the checksum of rows: for lengths, words, numbers, the start of a row; and what a row counts that cannot
#: be written. Digits of pi in base 16, where an odd number of 64 bits comes of them.
HASH_SECRETS: Final = (
    0x243F6A8885A308D3,
    0x082EFA98EC4E6C89,
    0x452821E638D01377,
    0xC0AC29B7C97C50DD,
    0x3F84D5B5B5470917,
)
