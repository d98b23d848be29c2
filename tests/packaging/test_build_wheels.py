"""Which interpreters ``make wheels`` uses, and which wheels it says it leaves out."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from build_tools import build_wheels
from build_tools.native_build import ROOT
from build_tools.recompress_wheels import recompress

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.fixture
def path_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only folder in PATH; there are no other places with interpreters."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build_wheels, "_INSTALLATIONS", ())
    return tmp_path


def put_interpreter(place: Path, *lines: str) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("\n".join(["#!/bin/sh", *lines]))
    place.chmod(0o755)
    return str(place)


def test_there_is_a_wheel_for_each_python_that_the_package_names() -> None:
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
    released = build_wheels.released_versions(PYPROJECT)
    assert released == [version for version in named if version in released]
    assert released[0] == named[0]


@pytest.mark.parametrize("machine", build_wheels.MACHINES)
def test_the_targets_of_a_machine_name_its_processor(machine: str) -> None:
    glibc, musl = build_wheels.targets_of(machine)
    assert glibc == (f"manylinux_2_17_{machine}", f"{machine}-linux-gnu.2.17", f"{machine}-linux-gnu")
    assert musl == (f"musllinux_1_2_{machine}", f"{machine}-linux-musl", f"{machine}-linux-musl")


def test_a_python_in_path_is_chosen(path_folder: Path) -> None:
    place = put_interpreter(path_folder / "python3.98", "exit 0")
    assert build_wheels.choose_interpreters(["3.98"]) == ([place], [])


def test_a_version_that_is_not_installed_is_left_out(path_folder: Path) -> None:
    assert build_wheels.choose_interpreters(["3.98"]) == ([], ["Python 3.98: it is not installed"])


def test_an_interpreter_outside_of_path_replaces_one_that_does_not_run(
    path_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_interpreter(path_folder / "python3.98", "exit 127")
    monkeypatch.setattr(build_wheels, "_INSTALLATIONS", ((path_folder / "versions", "{0}.*/bin/python{0}"),))
    place = put_interpreter(path_folder / "versions/3.98.1/bin/python3.98", "exit 0")
    put_interpreter(path_folder / "versions/3.9.8/bin/python3.9", "exit 0")
    assert build_wheels.choose_interpreters(["3.98"]) == ([place], [])


def test_an_interpreter_that_cannot_build_is_left_out_with_the_reason(path_folder: Path) -> None:
    place = put_interpreter(path_folder / "python3.98", "echo has no header files")
    found = build_wheels.choose_interpreters(["3.98"])
    assert found == ([], [f"Python 3.98: {place} has no header files"])


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("platform.python_implementation = lambda: 'PyPy'", "is not CPython"),
        ("sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1", "free-threaded"),
        ("sysconfig.get_path = lambda name: '/nonexistent'", "header files"),
    ],
)
def test_an_interpreter_says_what_is_wrong_with_it(state: str, problem: str) -> None:
    code = f"import platform, sysconfig\n{state}\n{build_wheels._FIND_PROBLEM}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert problem in done.stdout


def test_a_requested_interpreter_that_cannot_build_is_an_error(
    path_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["build_wheels.py", "sdist.tar.gz", "python3.98"])
    with pytest.raises(SystemExit, match=r"python3\.98 is not installed"):
        build_wheels.main()


def test_a_recompressed_wheel_has_the_same_files(tmp_path: Path) -> None:
    pytest.importorskip("zopfli")  # it needs Python 3.11
    wheel = tmp_path / "p-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (("b.py", b"answer = 42\n" * 500), ("a.py", b""), ("p-1.dist-info/RECORD", b"")):
            file = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
            file.external_attr = 0o644 << 16
            archive.writestr(file, content, zipfile.ZIP_DEFLATED)

    def files() -> list[tuple[object, ...]]:
        with zipfile.ZipFile(wheel) as archive:
            return [(i.filename, i.date_time, i.external_attr, archive.read(i)) for i in archive.infolist()]

    before, size = files(), wheel.stat().st_size
    recompress(wheel)
    assert files() == before
    assert wheel.stat().st_size < size
    once = wheel.read_bytes()
    recompress(wheel)
    assert wheel.read_bytes() == once
    assert list(tmp_path.iterdir()) == [wheel]
