"""The errors of the compiler.

Every problem has a place (file and line), a subject (the path of the field) and a reason, which includes the
remedy.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Problem:
    """One problem of a spec."""

    path: str
    line: int
    subject: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}"
        return f"{place}: {self.subject}: {self.reason}" if self.subject else f"{place}: {self.reason}"


class SpecError(Exception):
    """One or more specs are invalid; nothing was generated.

    Attributes:
        problems: all problems that were found, in the order of the files and their lines.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems
