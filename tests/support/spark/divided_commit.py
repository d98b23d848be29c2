"""A driver that has committed one task and not yet the others, as one that crashes may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

#: The step between the first task's commit and that of the others.
COMMIT_REST = "commit_rest"


class DividedCommit:
    """``DriverKafka`` that commits the first task alone, and the others after a step of its own.

    Args:
        port: the one that does it.
        on_step: called with ``COMMIT_REST`` in between.
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
