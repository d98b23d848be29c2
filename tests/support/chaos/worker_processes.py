"""Starts, freezes and kills processes with producers for runs with random faults."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

#: Environment of a process: the certificate of the authority that brokers are checked with.
CA_FILE_VARIABLE = "CHAOS_CA_FILE"


def security_settings() -> dict[str, Any]:
    """In a process: how its producers connect to the brokers."""
    ca_file = os.environ.get(CA_FILE_VARIABLE)
    return {} if ca_file is None else {"security_protocol": "SSL", "ssl_cafile": ca_file}


class WorkerProcesses:
    """Processes by name, and the folder with their ledgers and logs. For one thread.

    Args:
        prefix: of the folder's name.
        tell: prints what happens to the processes.
        ca_file: their producers use TLS; ``None``: plaintext.

    Attributes:
        folder: shared with the processes; ``NAME.log`` is the output of a process.
        running: the current process of each name.
    """

    def __init__(self, prefix: str, tell: Callable[[str], None], ca_file: Path | None = None) -> None:
        self._environment = {} if ca_file is None else {CA_FILE_VARIABLE: str(ca_file)}
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._tell = tell
        self._replaced: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, module: str, *arguments: str, **environment: str) -> int:
        """Start a process of this name that runs a Python module, and return its pid."""
        return self.start_command(name, [sys.executable, "-m", module, *arguments], **environment)

    def start_command(self, name: str, command: Sequence[str], **environment: str) -> int:
        """Start a process of this name and return its pid."""
        with (self.folder / f"{name}.log").open("ab") as log:
            variables = {**os.environ, **self._environment, **environment}
            self.running[name] = subprocess.Popen(command, stderr=log, env=variables)
        return self.running[name].pid

    def kill(self, name: str) -> None:
        self._tell(f"kill -9 of {name}; a new process takes its name")
        child = self.running.pop(name)
        child.kill()
        child.wait()

    def freeze(self, name: str, seconds: float) -> None:
        self._tell(f"{name} is frozen for {seconds:.1f} s")
        self.running[name].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.running[name].send_signal(signal.SIGCONT)

    def replace_frozen(self, name: str) -> subprocess.Popen[bytes]:
        """Freeze a process and release its name; the caller resumes it."""
        self._tell(f"{name} is frozen and replaced, then resumes as a zombie")
        zombie = self.running.pop(name)
        zombie.send_signal(signal.SIGSTOP)
        self._replaced.append(zombie)
        return zombie

    def check(self, name: str, may_end: bool = False) -> None:
        """Raise RuntimeError if the process ended with an error, or ended at all without ``may_end``."""
        code = self.running[name].poll()
        if code is not None and (code or not may_end):
            raise RuntimeError(f"{name} ended unexpectedly (exit code {code}), see {self.folder / name}.log")

    def kill_all(self) -> None:
        for child in (*self.running.values(), *self._replaced):
            child.kill()
            child.wait()

    def remove_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
