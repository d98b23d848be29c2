"""The data plane under gcc's sanitizers, with C threads and without an interpreter: no false reports."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from build_tools.native_build import ROOT

_CORE = ROOT / "kproducer" / "_core" / "kernel" / "native"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("variant", ["", "LINGER", "TRANSACTIONS", "COMPRESSION"])
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_order_is_kept_and_nothing_is_stranded(tmp_path: Path, sanitizer: str, variant: str) -> None:
    program = tmp_path / "stress"
    sources = [Path(__file__).with_name("data_plane_stress.c"), _CORE / "plane.c"]
    command = ["gcc", "-std=gnu11", "-g", "-O1", f"-fsanitize={sanitizer}", f"-I{_CORE}", *map(str, sources)]
    built = subprocess.run(
        [*command, "-o", str(program), "-lpthread"], capture_output=True, text=True, check=False
    )
    if "cannot find" in built.stderr:
        pytest.skip("this gcc has no sanitizers")
    assert built.returncode == 0, built.stderr
    environment = {**os.environ, "TSAN_OPTIONS": "report_thread_leaks=0", "ASAN_OPTIONS": "detect_leaks=0"}
    if variant:
        environment[variant] = "1"
    done = subprocess.run(
        [program], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok ")


@pytest.mark.parametrize("source", ["plane.c", "codec.c"])
def test_the_core_compiles_without_python(tmp_path: Path, source: str) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    command = [
        "gcc",
        "-std=c11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-c",
        str(_CORE / source),
    ]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "plane.o")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Python.h" not in "".join(
        line for line in (_CORE / source).read_text().splitlines() if line.startswith("#include")
    )
