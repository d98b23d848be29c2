"""Runs commands for the scripts that ``make`` calls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def run(*command: str | Path, **variables: str) -> None:
    """Run a command with additional environment variables, as a shell does.

    Ctrl-C also reaches the command, which ends in its own way; this process waits for it.

    Raises:
        SystemExit: the command failed. The status is the command's, or 128 plus the number of a signal.
    """
    # Not SIG_IGN, which the command would inherit.
    interrupt = signal.signal(signal.SIGINT, lambda *_: None)
    with subprocess.Popen([*map(str, command)], env={**os.environ, **variables}) as process:
        terminate = signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        status = process.wait()
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, terminate)
    if status != 0:
        sys.exit(status if status > 0 else 128 - status)


def output_of(*command: str | Path, **variables: str) -> str:
    """What a command with additional environment variables prints.

    Raises:
        SystemExit: the command failed; says what it printed.
    """
    done = subprocess.run(
        [*map(str, command)],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout
