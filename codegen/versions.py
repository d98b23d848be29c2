"""Ranges of versions in the notation of the specs: ``3+``, ``0-12``, ``7``, ``none``.

A range is contiguous; an open one ends at the highest version that an int16 can hold.
Source: the syntax of Kafka's message specs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import attrs

#: The highest version, because API versions are int16.
HIGHEST = 32767

_SYNTAX = re.compile(r"(?P<low>\d+)(?:(?P<open>\+)|-(?P<high>\d+))?")


@attrs.frozen
class Versions:
    """All versions from ``lowest`` to ``highest``, both included; empty when ``lowest > highest``."""

    lowest: int
    highest: int

    NONE: ClassVar[Versions]

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read a range.

        Raises:
            ValueError: the text is not a range; the message names the valid forms.
        """
        text = text.strip()
        if text == "none":
            return cls.NONE
        match = _SYNTAX.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a version range; write '3+', '0-12', '7' or 'none'")
        lowest = int(match["low"])
        highest = HIGHEST if match["open"] else int(match["high"] or lowest)
        if max(lowest, highest) > HIGHEST:
            raise ValueError(f"the highest version is {HIGHEST}, and {text!r} exceeds it")
        if lowest > highest:
            raise ValueError(f"the range {text!r} ends before it begins; did you mean '{highest}-{lowest}'?")
        return cls(lowest, highest)

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lowest, self.highest + 1))

    def __and__(self, other: Versions) -> Versions:
        """The versions in both ranges."""
        both = Versions(max(self.lowest, other.lowest), min(self.highest, other.highest))
        return both if both else Versions.NONE

    def __le__(self, other: Versions) -> bool:
        """Whether every version of this range is in the other."""
        return not self or (other.lowest <= self.lowest and self.highest <= other.highest)

    @property
    def is_open(self) -> bool:
        """Whether the range is open."""
        return self.highest == HIGHEST

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.is_open:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


Versions.NONE = Versions(0, -1)
