"""Builds wheels for other Linux distributions and Pythons than those of this machine: ``make wheels``.

Each interpreter given compiles the sdist twice, with zig's C compiler: for manylinux_2_17 (glibc) and for
musllinux_1_2 (musl), both for this machine's processor. A wheel of the first kind is installed and tried
(``tests/packaging/wheel_check.py``). One of the second kind cannot run here: its tag is checked against the
symbols that its modules need. ``cibuildwheel`` builds releases in containers; this needs none.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

#: What the sdist needs to be compiled, besides the compiler; constraints.txt pins it.
BUILD_NEEDS = ("attrs", "Cython", "mypy", "setuptools", "ziglang", "auditwheel")
MACHINE = platform.machine()


class Target(NamedTuple):
    """A C library, and what differs with it."""

    tag: str
    zig: str
    suffix: str


TARGETS = (
    Target(f"manylinux_2_17_{MACHINE}", f"{MACHINE}-linux-gnu.2.17", "linux-gnu"),
    Target(f"musllinux_1_2_{MACHINE}", f"{MACHINE}-linux-musl", "linux-musl"),
)


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"wheels: {' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def environment_for(interpreter: str, scratch: Path) -> tuple[Path, str]:
    """Create a virtual environment that can compile; return its Python and what to call its version."""
    question = "import json, sys; print(json.dumps([sys.implementation.cache_tag, sys.version_info[:2]]))"
    cache_tag, (major, minor) = json.loads(run(interpreter, "-c", question))
    folder = scratch / cache_tag
    run(interpreter, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--upgrade", "-c", "constraints.txt", *BUILD_NEEDS)
    return python, f"{major}{minor}"


def build(python: Path, version: str, target: Target, sdist: Path, dist: Path) -> Path:
    """Compile the sdist for the target; return the wheel."""
    before = set(dist.glob("*.whl"))
    run(
        *(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", dist),
        f"--config-settings=--build-option=--plat-name={target.tag}",
        sdist,
        CC=f"{python.absolute()} -m ziglang cc -target {target.zig}",
        SETUPTOOLS_EXT_SUFFIX=f".cpython-{version}-{MACHINE}-{target.suffix}.so",
        KPRODUCER_REQUIRE_NATIVE="1",
    )
    (wheel,) = set(dist.glob("*.whl")) - before
    return wheel


def check_symbols(python: Path, wheel: Path, target: Target, scratch: Path) -> None:
    """Exit unless the modules need only what every system with this tag has."""
    if target.suffix == "linux-gnu":
        found = run(python, "-m", "auditwheel", "show", wheel)
        (tag,) = set(re.findall(r'"(\w*linux_\w+)"', found))
        if not re.match(r"manylinux_2_(\d|1[0-7])_", tag):
            sys.exit(f"wheels: {wheel.name} is only fit for {tag}")
        return
    unpacked = scratch / "symbols"
    shutil.rmtree(unpacked, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        modules = [unpacked / name for name in archive.namelist() if name.endswith(".so")]
        archive.extractall(unpacked)
    if glibc := [module.name for module in modules if b"GLIBC_" in module.read_bytes()]:
        sys.exit(f"wheels: {wheel.name} needs glibc: {', '.join(glibc)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build Linux wheels with zig's C compiler.")
    parser.add_argument("sdist", type=Path)
    parser.add_argument("interpreters", nargs="+", help="Python interpreters, such as python3.12")
    parser.add_argument("--dist", type=Path, default=Path("dist"), help="folder for the wheels")
    parser.add_argument("--demo-count", default="10000", help="records of the demo; 0: none")
    arguments = parser.parse_args()
    scratch = Path("build", "wheels")
    missing = []
    for interpreter in arguments.interpreters:
        # pyenv's shims exist for versions that are not activated.
        if subprocess.run(["sh", "-c", f"{interpreter} --version"], capture_output=True).returncode != 0:
            missing.append(interpreter)
            continue
        python, version = environment_for(interpreter, scratch)
        for target in TARGETS:
            wheel = build(python, version, target, arguments.sdist, arguments.dist)
            check_symbols(python, wheel, target, scratch)
            if target.suffix == "linux-gnu" and platform.libc_ver()[0] == "glibc":
                count = f"--demo-count={arguments.demo_count}"
                run(python, "-m", "tests.packaging.wheel_check", count, wheel)
            print(f"wheels: {wheel.name}, {wheel.stat().st_size:,} bytes", flush=True)
    if missing:
        sys.exit(f"wheels: not built, because they are not installed: {', '.join(missing)}")


if __name__ == "__main__":
    main()
