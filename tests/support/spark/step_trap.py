"""A named step of the exactly-once protocol at which a process has to die, set by one process for all others.

A file in a folder is the trap; whoever comes to the step first takes it away and is caught: it dies there, or
stands still until it is killed or released by the one who set it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

#: Longer than whoever set it needs to do something about a process that stands still.
STANDSTILL_SECONDS = 300.0
POLL_SECONDS = 0.01


class StepTrap:
    """One trap at a time in a folder that all processes see. Picklable."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._set = folder / "trap"
        self._caught = folder / "trap.caught"

    # -- the one who sets it ---------------------------------------------------------------------------

    def set(self, step: str, dies: bool, chance: float = 1.0) -> None:
        """Catch the next process that comes to ``step``, or each with a probability until one is caught."""
        self._caught.unlink(missing_ok=True)
        part = self._folder / "trap.part"
        part.write_text(json.dumps({"step": step, "dies": dies, "chance": chance}))
        part.rename(self._set)

    def caught_pid(self) -> int | None:
        """Who was caught, if somebody was."""
        try:
            return int(self._caught.read_text())
        except FileNotFoundError:
            return None

    def release(self) -> None:
        """Let a process go on that stands still, and catch nobody any more."""
        self._set.unlink(missing_ok=True)
        self._caught.unlink(missing_ok=True)

    # -- those who may be caught -----------------------------------------------------------------------

    def is_set_at(self, step: str) -> bool:
        """Whether somebody may be caught there."""
        try:
            return bool(json.loads(self._set.read_text())["step"] == step)
        except FileNotFoundError:
            return False

    def on_step(self, step: str) -> None:
        """Called at each step, just before it is taken."""
        try:
            trap = json.loads(self._set.read_text())
        except FileNotFoundError:
            return
        if trap["step"] != step or random.random() >= trap["chance"]:
            return
        mine = self._folder / f"trap.{os.getpid()}"
        try:
            self._set.rename(mine)
        except FileNotFoundError:
            return  # another was faster
        mine.write_text(str(os.getpid()))
        mine.rename(self._caught)
        if trap["dies"]:
            os.kill(os.getpid(), signal.SIGKILL)
        deadline = time.monotonic() + STANDSTILL_SECONDS
        while self._caught.exists() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
