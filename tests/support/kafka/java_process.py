"""A Java process, such as a broker: started, watched for a line in its output, stopped by its pid.

A watcher thread reads the output line by line and writes it to a log file, so readiness is an event. The
process ends with the thread that started it and after a maximum time, even if this process is killed.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.support.kafka.maven_artifacts import class_path, java_command

STOP_TIMEOUT_SECONDS = 30
_BOUNDED_EXEC = Path(__file__).parents[1] / "bounded_exec.py"


class JavaProcess:
    """A Java program in its own process. Start and stop it from one long-lived thread.

    Args:
        command: see ``java_arguments``.
        log_path: gets the output.
        ready_pattern: of the line that reports readiness.
        lifetime_seconds: after which the process is killed.
    """

    def __init__(
        self, command: Sequence[str], log_path: Path, ready_pattern: str, *, lifetime_seconds: int
    ) -> None:
        self.log_path = log_path
        self._ready_pattern = re.compile(ready_pattern.encode())
        self._is_ready = threading.Event()
        self._has_ended = threading.Event()
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(_BOUNDED_EXEC),
                str(lifetime_seconds),
                *command,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in a terminal must not end it before its clients
        )
        self._watcher = threading.Thread(target=self._watch, name=f"watch {log_path.name}", daemon=True)
        self._watcher.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def await_ready(self, timeout_seconds: float) -> None:
        """Wait for the line that reports readiness.

        Raises:
            RuntimeError: the process ended or was not ready in time; the message has the end of its log.
        """
        if not self._is_ready.wait(timeout_seconds) or self._has_ended.is_set():
            state = "ended" if self._has_ended.is_set() else f"was not ready after {timeout_seconds} s"
            tail = "\n".join(self.log_path.read_text(errors="replace").splitlines()[-25:])
            raise RuntimeError(f"{self.log_path.name} {state}:\n{tail}")

    def stop(self) -> None:
        """Request a shutdown, wait, and kill the process if it does not end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process, as in a crash."""
        self._end(signal.SIGKILL)

    def request_stop(self) -> None:
        """Request a shutdown without waiting; ``stop`` waits."""
        if self.is_alive:
            self._process.terminate()

    def _end(self, with_signal: signal.Signals) -> None:
        if self.is_alive:
            self._process.send_signal(with_signal)
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._watcher.join()

    def _watch(self) -> None:
        output = self._process.stdout
        assert output is not None
        with self.log_path.open("ab") as log, output:
            for line in output:
                log.write(line)
                log.flush()
                if not self._is_ready.is_set() and self._ready_pattern.search(line):
                    self._is_ready.set()
        self._has_ended.set()
        self._is_ready.set()


def java_arguments(
    version: str,
    main_class: str,
    arguments: Sequence[str],
    heap_mb: int,
    options: Sequence[str] = (),
    classes: Path | None = None,
) -> list[str]:
    """The command line of a main class from one Kafka version's artifacts, with a folder of other classes."""
    return [
        java_command(),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-Djava.awt.headless=true",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dzookeeper.jmx.log4j.disable=true",
        *options,
        "-cp",
        class_path(version) if classes is None else f"{class_path(version)}:{classes}",
        main_class,
        *arguments,
    ]


def run_java(
    version: str,
    main_class: str,
    arguments: Sequence[str],
    timeout_seconds: float = 120,
    options: Sequence[str] = (),
) -> str:
    """Run a main class to its end and return its standard output.

    Raises:
        RuntimeError: it failed; the message has its output.
    """
    finished = subprocess.run(
        java_arguments(version, main_class, arguments, 256, ["-XX:TieredStopAtLevel=1", *options]),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_seconds,
        check=False,
    )
    output = finished.stdout.decode(errors="replace")
    if finished.returncode != 0:
        raise RuntimeError(f"{main_class} failed:\n{output}\n{finished.stderr.decode(errors='replace')}")
    return output


def compile_java(version: str, source: Path, folder: Path) -> None:
    """Compile a Java file against one Kafka version's artifacts into a folder, for ``classes``.

    Raises:
        RuntimeError: it does not compile, or this Java cannot compile.
    """
    compiler = [java_command(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-proc:none"]
    # The compiler itself, unlike its launcher, which may not be installed, knows no wildcards.
    jars = ":".join(map(str, Path(class_path(version)).parent.glob("*.jar")))
    finished = subprocess.run(
        [*compiler, "-cp", jars, "-d", str(folder), str(source)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    if finished.returncode != 0:
        raise RuntimeError(f"{source.name} was not compiled:\n{finished.stderr.decode(errors='replace')}")
