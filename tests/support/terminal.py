"""A command in the foreground of a terminal: Ctrl-C signals its whole process group, not only the command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

#: Less than what a producer or a broker waits for by default: an interrupted command ends within a second.
END_SECONDS = 30
_MARK = "KPRODUCER_TEST_MARK"


class Foreground:
    """A running command and the processes that it has started, found by an inherited variable."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._mark = f"{_MARK}={uuid.uuid4().hex}".encode()
        name, value = self._mark.decode().split("=")
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            # The progress bars of rich are drawn although the output is a pipe.
            env={**os.environ, name: value, "FORCE_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def await_output(self, pattern: str) -> str:
        """Read its stdout until the pattern, in which a dot is any character, is found; return the match."""
        assert self.process.stdout is not None
        read = b""
        while (found := re.search(pattern.encode(), read, re.DOTALL)) is None:
            chunk = os.read(self.process.stdout.fileno(), 65536)
            assert chunk, f"ended without {pattern!r}: {read!r}"
            read += chunk
        return found[0].decode()

    def press_ctrl_c(self) -> tuple[int, str]:
        """Interrupt it; return its exit status and the rest of its stderr."""
        os.killpg(self.process.pid, signal.SIGINT)
        _, errors = self.process.communicate(timeout=END_SECONDS)
        return self.process.returncode, errors.decode()

    def pids(self) -> list[int]:
        """The processes that still run."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if self._is_part(path)]

    def await_end(self) -> None:
        """Wait until no process is left: processes may end shortly after those that started them."""
        wait_until(lambda: not self.pids())

    def _is_part(self, path: Path) -> bool:
        try:
            return self._mark in (path / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or belongs to another user
            return False


@contextmanager
def foreground(command: Sequence[str], folder: Path) -> Iterator[Foreground]:
    """Start the command; at the end of the block, kill all of its processes that still run."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("finds processes in /proc")
    running = Foreground(command, folder)
    try:
        yield running
    finally:
        for pid in running.pids():
            os.kill(pid, signal.SIGKILL)
        running.process.communicate()
