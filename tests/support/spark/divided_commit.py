"""A driver that has committed one task but not yet the others, as after a crash during the commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

#: The step between the commit of the first task and those of the others.
COMMIT_REST = "commit_rest"


class DividedCommit:
    """``DriverPort`` that commits the first task alone, and the others after an additional step.

    Args:
        port: the wrapped ``DriverPort``.
        on_step: called with ``COMMIT_REST`` between the two commits.
    """

    def __init__(self, port: Any, on_step: Callable[[str], None]) -> None:
        self._port = port
        self._on_step = on_step

    def commit(self, prepared: Sequence[Any]) -> list[Any]:
        outcomes: list[Any] = self._port.commit(prepared[:1])
        self._on_step(COMMIT_REST)
        if len(prepared) > 1:
            outcomes += self._port.commit(prepared[1:])
        return outcomes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)
