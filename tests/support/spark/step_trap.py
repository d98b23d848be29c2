"""A named step of the exactly-once protocol at which a process is caught; set by one process for all others.

The trap is a file in a folder. The first process to reach the step removes the file and is caught: it dies
there, or stops until the process that set the trap kills or releases it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

#: Longer than the setter of the trap takes to kill or release the caught process.
STANDSTILL_SECONDS = 300.0
POLL_SECONDS = 0.01


class StepTrap:
    """One trap at a time, in a folder shared by all processes. Picklable."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._set = folder / "trap"
        self._caught = folder / "trap.caught"

    # -- the process that sets the trap ----------------------------------------------------------------

    def set(self, step: str, dies: bool, chance: float = 1.0) -> None:
        """Catch the next process that reaches ``step``, or each with a probability until one is caught."""
        self._caught.unlink(missing_ok=True)
        part = self._folder / "trap.part"
        part.write_text(json.dumps({"step": step, "dies": dies, "chance": chance}))
        part.rename(self._set)

    def caught_pid(self) -> int | None:
        """The process that was caught, if any."""
        try:
            return int(self._caught.read_text())
        except FileNotFoundError:
            return None

    def release(self) -> None:
        """Resume the caught process and remove the trap."""
        self._set.unlink(missing_ok=True)
        self._caught.unlink(missing_ok=True)

    # -- processes that may be caught ------------------------------------------------------------------

    def is_set_at(self, step: str) -> bool:
        """Whether a process may be caught at this step."""
        try:
            return bool(json.loads(self._set.read_text())["step"] == step)
        except FileNotFoundError:
            return False

    def on_step(self, step: str) -> None:
        """Called immediately before each step."""
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
            return  # another process was caught
        mine.write_text(str(os.getpid()))
        mine.rename(self._caught)
        if trap["dies"]:
            os.kill(os.getpid(), signal.SIGKILL)
        deadline = time.monotonic() + STANDSTILL_SECONDS
        while self._caught.exists() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
