"""BadRowLimit: how many rows of a write may be bad.

Imports no settings, because the driver uses it in the commit of each micro-batch. Independent of Spark's
classes.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kproducer.spark.write_summary import WriteSummary

_LIMIT = re.compile(r"(?P<number>\d{1,18})|(?P<percent>\d{1,3}(?:\.\d{1,9})?)\s*%")


class BadRowLimit(NamedTuple):
    """The option ``maxBadRows``: a number of rows, or a share of the rows of a write.

    Attributes:
        number: ``None``: it is a share.
        percent: ``None``: it is a number.
    """

    number: int | None
    percent: Fraction | None

    @classmethod
    def parse(cls, text: str) -> BadRowLimit | None:
        """Read ``"100"`` or ``"0.5%"``; ``None``: it is neither, or more than 100%."""
        found = _LIMIT.fullmatch(text.strip())
        if found is None:
            return None
        if found["number"] is not None:
            return cls(int(found["number"]), None)
        percent = Fraction(found["percent"])
        return cls(None, percent) if percent <= 100 else None

    def is_exceeded_in_task(self, summary: WriteSummary) -> bool:
        """Whether the rows of one task so far are too many already. A share is that of all tasks together."""
        return self.number is not None and summary.bad_rows > self.number

    def is_exceeded(self, total: WriteSummary) -> bool:
        """Whether all tasks together have more bad rows."""
        if self.percent is None:
            return self.is_exceeded_in_task(total)
        return 100 * total.bad_rows > self.percent * (total.rows + total.bad_rows)

    def __str__(self) -> str:
        return str(self.number) if self.percent is None else f"{float(self.percent):g}%"
