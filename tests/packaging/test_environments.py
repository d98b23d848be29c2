"""The Makefile installs what a command needs, and no more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from build_tools.native_build import ROOT
from tests.support.terminal import foreground


def installed_by(target: str, venv: Path, *variables: str) -> list[str]:
    """The groups that ``make`` would install for the target."""
    command = ["make", "--dry-run", target, f"VENV={venv}", *variables]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return re.findall(r"-m build_tools\.environment \S+ (\w+)", said)


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


def environment_with(python: str, folder: Path) -> Path:
    """A virtual environment whose Python runs a shell script."""
    program = folder / "venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    put_program(program, python)
    (folder / "venv" / ".created").touch()
    return folder / "venv"


def put_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def make(target: str, venv: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", target, f"VENV={venv}", f"PYTHON={sys.executable}"],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_group_is_installed_in_place_with_tested_versions_and_once(tmp_path: Path) -> None:
    venv = environment_with(f'echo "$KPRODUCER_NATIVE: $*" >>{tmp_path}/commands', tmp_path)
    for _ in range(2):
        make("generate-check", venv)
    first, second, *_ = (tmp_path / "commands").read_text().splitlines()
    constraints = ROOT / "build_tools" / "constraints.txt"
    assert first == f"0: -m pip install --quiet -c {constraints} -e .[codegen]"
    assert "-m codegen" in second
    assert "pip" not in (tmp_path / "commands").read_text().partition("\n")[2]


def test_an_interrupted_installation_is_repeated(tmp_path: Path) -> None:
    venv = environment_with("kill -INT $$", tmp_path)
    done = make("lint", venv)
    assert done.returncode != 0
    assert "Error 130" in done.stderr
    assert "Traceback" not in done.stderr
    assert installed_by("lint", venv) == ["lint"]


@pytest.mark.parametrize("missing", ["kinit", ""])
def test_debian_packages_are_installed_if_a_program_is_missing(tmp_path: Path, missing: str) -> None:
    venv = environment_with(f'echo "pip: $*" >>{tmp_path}/commands', tmp_path)
    (venv / ".installed-dev").touch()
    put_program(tmp_path / "apt-get", f'echo "apt-get: $1" >>{tmp_path}/commands')
    for program in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "krb5-config"):
        if program != missing:
            put_program(tmp_path / program, "")
    command = [sys.executable, "-m", "build_tools.environment", venv, "kerberos"]
    # Without /usr/bin, which may have the programs.
    subprocess.run(command, cwd=ROOT, env={"PATH": str(tmp_path)}, check=True, timeout=120)
    steps = [line.split()[1] for line in (tmp_path / "commands").read_text().splitlines()]
    assert steps == (["update", "install", "-m"] if missing else ["-m"])


def test_ctrl_c_waits_for_the_command_and_keeps_its_exit_status() -> None:
    """subprocess.run() would kill it after 0.25 s."""
    command = (
        "import time\n"
        "try:\n"
        "    print('started', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(0.5); raise SystemExit(3)\n"
    )
    code = f"import sys; from build_tools.commands import run; run(sys.executable, '-c', {command!r})"
    with foreground([sys.executable, "-c", code], ROOT) as running:
        running.await_output("started")
        assert running.press_ctrl_c() == (3, "")
