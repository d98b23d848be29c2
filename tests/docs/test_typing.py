"""Our types accept correct programs and report mistakes, with ``mypy --strict`` and with pyright."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("typed_program.py")
ROOT = PROGRAM.parents[2]
#: Each line with an error, and mypy's code for it.
MISTAKES = {
    (number, code)
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
    for code in re.findall(r"# error: (\S+)", line)
}


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        cwd=ROOT,
        # Pyright's Python wrapper would query a registry for newer versions.
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    return done.stdout + done.stderr


def test_mypy_reports_the_mistakes_and_nothing_else() -> None:
    output = run("mypy", "--strict", "--no-error-summary")
    found = re.findall(r"typed_program\.py:(\d+): error: .*\[(.+)\]$", output, re.MULTILINE)
    assert {(int(number), code) for number, code in found} == MISTAKES, output


def test_pyright_reports_the_mistakes_and_nothing_else() -> None:
    output = run("pyright", "--outputjson", "--pythonpath", sys.executable)
    found = json.loads(output)["generalDiagnostics"]
    # Lines count from 0.
    assert {each["range"]["start"]["line"] + 1 for each in found} == {line for line, _ in MISTAKES}, output
