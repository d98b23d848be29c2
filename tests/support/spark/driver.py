"""A Spark application whose processes can be found and killed: Python driver, JVM, executors, Python workers.

All processes of one run carry its name in their environment, which children inherit even in process groups
of their own (such as those of PySpark's workers). Linux only (``/proc``).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark

_BOUNDED_EXEC = Path(__file__).parents[1] / "bounded_exec.py"
_ROOT = Path(__file__).parents[3]
#: Environment variable of every process: the run that it belongs to.
RUN_NAME = "SPARK_DRIVER_RUN"
_KILL_SECONDS = 120.0

WORKER = "pyspark.worker"
COMMITTER = "pyspark.sql.worker.python_streaming_sink_runner"
_EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"


def spark_home(folder: Path) -> Path:
    """Link PySpark's own Spark into a folder, so that a local cluster writes its files into this folder."""
    home = folder / "spark-home"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.name != "work":
            (home / each.name).symlink_to(each)
    return home


class SparkDriver:
    """One run of ``module`` as a driver. Ends by ``kill``, on its own, or after its lifetime.

    Args:
        name: of this run; no other run's name may begin with it.
        module: run with ``python -m`` in the root of the checkout.
        arguments: command-line arguments of the module.
        home: see ``spark_home``.
        log_path: receives the output of all processes.
        environment: additional environment variables of the processes.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: list[str],
        home: Path,
        log_path: Path,
        lifetime_seconds: int,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.log_path = log_path
        self._mark = f"{RUN_NAME}={name}\0".encode()
        command = [sys.executable, str(_BOUNDED_EXEC), str(lifetime_seconds)]
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, sys.executable, "-m", module, *arguments],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    RUN_NAME: name,
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "PYSPARK_PYTHON": sys.executable,
                    "PYTHONPATH": str(_ROOT),
                    **(environment or {}),
                },
            )

    def exit_code(self) -> int | None:
        """None: the driver is running."""
        return self._process.poll()

    def wait(self, seconds: float) -> int:
        """Wait for the driver to end, and return its exit code.

        Raises:
            subprocess.TimeoutExpired: the driver is still running.
        """
        return self._process.wait(seconds)

    def processes(self) -> list[int]:
        """All living processes, the driver's Python process first."""
        found = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
        return sorted(pid for pid in found if self._mark in _read(pid, "environ") and not _is_zombie(pid))

    def executors(self) -> list[int]:
        """JVMs that run tasks; empty with the master ``local``."""
        return [pid for pid in self.processes() if _EXECUTOR_CLASS.encode() in _read(pid, "cmdline")]

    def forked(self, module: str) -> list[int]:
        """Python workers forked by the daemon of a PySpark module, without the daemon itself."""
        daemons = {pid for pid in self.processes() if _is_daemon_of(module, pid)}
        return [pid for pid in daemons if _parent(pid) in daemons]

    def workers_of(self, executor: int) -> list[int]:
        """Python workers of one executor."""
        return [pid for pid in self.forked(WORKER) if _parent(_parent(pid)) == executor]

    def freeze(self) -> None:
        """SIGSTOP to every process."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT to every process."""
        self._signal_all(signal.SIGCONT)

    def kill(self) -> bool:
        """Send SIGKILL to every process, and return when none is left: whether the driver was running."""
        deadline = time.monotonic() + _KILL_SECONDS
        while self._signal_all(signal.SIGKILL) or self._process.poll() is None:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"processes of the driver are still alive after SIGKILL: {self.processes()}"
                )
            time.sleep(0.01)
        return self._process.returncode == -signal.SIGKILL

    def _signal_all(self, number: signal.Signals) -> int:
        pids = self.processes()
        for pid in pids:
            send_signal(pid, number)
        return len(pids)


def send_signal(pid: int, number: signal.Signals) -> bool:
    """Send a signal to a process; False if it no longer exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _is_daemon_of(module: str, pid: int) -> bool:
    return _read(pid, "cmdline").endswith(f"\0pyspark.daemon\0{module}\0".encode())


def _fields(pid: int) -> list[bytes]:
    """Fields of /proc/PID/stat, from the state on."""
    return _read(pid, "stat").rpartition(b")")[2].split()


def _is_zombie(pid: int) -> bool:
    return _fields(pid)[:1] == [b"Z"]


def _parent(pid: int) -> int:
    fields = _fields(pid)
    return int(fields[1]) if fields else 0
