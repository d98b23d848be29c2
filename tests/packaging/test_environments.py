"""The Makefile installs what a command needs, and no more."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from build_tools.native_build import ROOT


def installed_by(target: str, venv: Path, *variables: str) -> list[str]:
    """The groups that ``make`` would install for the target."""
    command = ["make", "--dry-run", target, f"VENV={venv}", *variables]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return re.findall(r"pip install .* -e '\.\[(\w+)\]'", said)


@pytest.mark.parametrize(
    ("target", "groups"),
    [
        ("generate", ["codegen"]),
        ("generate-check", ["codegen"]),
        ("lint", ["lint"]),
        ("native", ["native"]),
        ("docs", ["docs"]),
        ("demo", ["demo"]),
        ("test", ["dev", "native"]),
        ("setup", ["dev"]),
    ],
)
def test_a_command_installs_its_group(tmp_path: Path, target: str, groups: list[str]) -> None:
    assert installed_by(target, tmp_path / "none") == groups


def test_all_groups_are_installed_at_once_on_request(tmp_path: Path) -> None:
    assert installed_by("lint", tmp_path / "none", "ALL=1") == ["dev"]


def test_nothing_is_installed_after_make_setup(tmp_path: Path) -> None:
    for name in (".created", ".installed-dev"):
        (tmp_path / name).touch()
    for target in ("test", "lint", "docs", "demo", "generate", "wheel"):
        assert installed_by(target, tmp_path) == []


def test_an_interrupted_installation_is_repeated(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nkill -INT $$\n")
    python.chmod(0o755)
    (tmp_path / ".created").touch()
    done = subprocess.run(["make", "lint", f"VENV={tmp_path}"], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode != 0
    assert installed_by("lint", tmp_path) == ["lint"]
