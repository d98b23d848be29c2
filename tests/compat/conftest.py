"""Fixtures of the tests of adapters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def run_without() -> Callable[[str, str], str]:
    """Runs a program in which a module cannot be imported; returns what it prints."""

    def run(module: str, program: str) -> str:
        text = f"import sys\nsys.modules[{module!r}] = None\n{program}"
        result = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run
