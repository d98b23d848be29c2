"""Ports that say which step of the exactly-once protocol is about to be taken.

Each call of a port is a step. Two more are ``prepared``, before a task hands its transaction over, and
``committed``, which follows ``DriverProtocol.commit``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

TASK_STEPS = {
    "current_offset": "decision",
    "initialize": "initialize",
    "stable_offset": "marker",
    "begin": "begin",
    "send": "send",
    "flush": "flush",
    "add_marker": "add_marker",
    "prepare": "prepare",
}
DRIVER_STEPS = (
    "look",
    "fence_driver",
    "decision",
    "fence_tasks",
    "markers",
    "decide",
    "drop",
    "commit",
    "confirm",
)


class SteppingTaskPort:
    """``TaskPort`` that calls ``on_step`` with the name of each step before it is taken."""

    def __init__(self, port: Any, on_step: Callable[[str], None]) -> None:
        self._port = port
        self._on_step = on_step

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in TASK_STEPS:
            return method

        def step(*arguments: Any) -> Any:
            self._on_step(TASK_STEPS[name])
            result = method(*arguments)
            if name == "prepare":
                self._on_step("prepared")
            return result

        return step


class SteppingDriverPort:
    """``DriverPort`` that calls ``on_step`` with the name of each step before it is taken."""

    def __init__(self, port: Any, on_step: Callable[[str], None]) -> None:
        self._port = port
        self._on_step = on_step
        self._has_decided = False

    def current_offset(self, group: str) -> Any:
        self._on_step("look")
        return self._port.current_offset(group)

    def fence(self, transactional_ids: Sequence[str]) -> None:
        self._on_step("fence_driver" if transactional_ids[0].endswith("-driver") else "fence_tasks")
        self._port.fence(transactional_ids)

    def stable_offsets(self, groups: Sequence[str]) -> Any:
        step = "confirm" if self._has_decided else "decision"
        self._on_step(step if groups[0].endswith("-driver") else "markers")
        return self._port.stable_offsets(groups)

    def decide(self, *arguments: Any) -> None:
        self._on_step("decide")
        self._has_decided = True
        self._port.decide(*arguments)

    def commit(self, prepared: Sequence[Any]) -> Any:
        self._on_step("commit")
        return self._port.commit(prepared)

    def abort(self, *arguments: Any) -> None:
        if self._has_decided:
            self._on_step("drop")
        self._port.abort(*arguments)
