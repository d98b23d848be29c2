"""What both twins of the Arrow reader agree on: how much is planned at a time, and why a row is refused."""

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
