"""The types that we ship accept what is right and refuse what is wrong, in the eyes of ``mypy --strict``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("typed_program.py")
ROOT = PROGRAM.parents[2]


def test_an_application_with_strict_types() -> None:
    expected = {
        (number, code)
        for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
        for code in re.findall(r"# error: (\S+)", line)
    }
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, cwd=ROOT)
    found = re.findall(r"typed_program\.py:(\d+): error: .*\[(.+)\]$", done.stdout, re.MULTILINE)
    assert {(int(number), code) for number, code in found} == expected, done.stdout + done.stderr
