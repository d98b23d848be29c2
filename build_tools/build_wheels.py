"""Builds Linux wheels with the Pythons of this machine: ``make wheels``.

Each interpreter compiles the sdist twice, with zig's C compiler: for manylinux_2_17 (glibc) and for
musllinux_1_2 (musl), both for this machine's processor, or for that of ``--machine``. Each wheel is
compressed with zopfli (``recompress_wheels.py``), and checked for symbols that not every system with its tag
has. One for glibc and this processor is also installed and tried (``tests/packaging/wheel_check.py``). The
last lines name the wheels of a release that were left out, and why. ``cibuildwheel`` builds releases in
containers; this needs none.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from build_tools.commands import output_of
from build_tools.recompress_wheels import recompress

#: The folder for the wheels, and how many records the demo sends from each.
DIST = Path("dist")
DEMO_COUNT = 10_000
#: Tested versions, with which the commands install packages.
CONSTRAINTS = Path(__file__).with_name("constraints.txt")
#: What the sdist needs to be compiled, besides the compiler; constraints.txt pins it.
BUILD_NEEDS = ("attrs", "Cython", "mypy", "setuptools", "ziglang", "auditwheel")
MACHINE = platform.machine()
#: What uname and wheels call the processors of a release.
MACHINES = ("x86_64", "aarch64")
#: Wheels of a release that cannot be built here.
OTHER_SYSTEMS = {
    "macOS": "they need Apple's SDK",
    "Windows": "kproducer does not run there",
}
#: Folders in which pyenv and uv keep interpreters that are not in PATH.
_INSTALLATIONS = (
    (Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions"), "{0}.*/bin/python{0}"),
    (Path.home() / ".local/share/uv/python", "cpython-{0}.*/bin/python{0}"),
)
#: Prints what is wrong with an interpreter, or nothing.
_FIND_PROBLEM = """
import importlib.util, pathlib, platform, sys, sysconfig
if platform.python_implementation() != "CPython":
    print("is not CPython")
elif sysconfig.get_config_var("Py_GIL_DISABLED"):
    print("is a free-threaded build, which kproducer refuses")
elif not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
    print("has no header files (on Debian: python3-dev)")
elif not importlib.util.find_spec("ensurepip"):
    print("cannot create virtual environments (on Debian: python3-venv)")
"""


class Target(NamedTuple):
    """A processor and a C library: in tags of wheels, for zig, and in names of modules."""

    tag: str
    zig: str
    suffix: str


def targets_of(machine: str) -> tuple[Target, Target]:
    """With glibc and with musl."""
    return (
        Target(f"manylinux_2_17_{machine}", f"{machine}-linux-gnu.2.17", f"{machine}-linux-gnu"),
        Target(f"musllinux_1_2_{machine}", f"{machine}-linux-musl", f"{machine}-linux-musl"),
    )


# -- interpreters ----------------------------------------------------------------------------------------


def released_versions(pyproject: str) -> list[str]:
    """The versions of Python that releases have wheels for, such as ``3.10``."""
    (builds,) = re.findall(r'^build = "([^"]*)"$', pyproject, re.MULTILINE)
    return [f"3.{minor}" for minor in re.findall(r"cp3(\d+)-", builds)]


def problem_of(interpreter: str) -> str | None:
    """Why this interpreter cannot build wheels; ``None``: it can."""
    try:
        found = subprocess.run(
            [interpreter, "-c", _FIND_PROBLEM], capture_output=True, text=True, check=False
        )
    except OSError:
        return "is not installed"
    if found.returncode != 0:
        return "does not run"  # such as pyenv's shim for a version that is not activated
    return found.stdout.strip() or None


def interpreters_of(version: str) -> Iterator[str]:
    """The places of this version's interpreters, those in PATH first."""
    if in_path := shutil.which(f"python{version}"):
        yield in_path
    for folder, pattern in _INSTALLATIONS:
        yield from map(str, sorted(folder.glob(pattern.format(version)), reverse=True))


def choose_interpreters(versions: list[str]) -> tuple[list[str], list[str]]:
    """An interpreter for each version, and a line for each version that has none."""
    chosen, left_out = [], []
    for version in versions:
        problems = {place: problem_of(place) for place in interpreters_of(version)}
        usable = [place for place, problem in problems.items() if problem is None]
        chosen += usable[:1]
        if not usable:
            reasons = [f"{place} {problem}" for place, problem in problems.items()]
            left_out.append(f"Python {version}: {'; '.join(reasons) or 'it is not installed'}")
    return chosen, left_out


def environment_for(interpreter: str, scratch: Path) -> tuple[Path, str]:
    """Create a virtual environment that can compile; return its Python and what to call its version."""
    version = output_of(interpreter, "-c", "import sys; print(*sys.version_info[:2], sep='')").strip()
    folder = scratch / f"cpython-{version}"
    output_of(interpreter, "-m", "venv", folder)
    python = folder / "bin" / "python"
    output_of(python, "-m", "pip", "install", "--quiet", "--upgrade", "-c", CONSTRAINTS, *BUILD_NEEDS)
    return python, version


# -- wheels ----------------------------------------------------------------------------------------------


def build(python: Path, version: str, target: Target, sdist: Path) -> Path:
    """Compile the sdist for the target; return the wheel."""
    before = set(DIST.glob("*.whl"))
    compiler = f"{python.absolute()} -m ziglang cc -target {target.zig}"
    output_of(
        *(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", DIST),
        f"--config-settings=--build-option=--plat-name={target.tag}",
        sdist,
        CC=compiler,
        # Python's own command to link may name a folder of this machine, in which modules then search.
        LDSHARED=f"{compiler} -shared",
        SETUPTOOLS_EXT_SUFFIX=f".cpython-{version}-{target.suffix}.so",
        KPRODUCER_REQUIRE_NATIVE="1",
    )
    (wheel,) = set(DIST.glob("*.whl")) - before
    return wheel


def check_symbols(python: Path, wheel: Path, target: Target, scratch: Path) -> None:
    """Exit unless the modules need only what every system with this tag has."""
    if target.suffix.endswith("gnu"):
        found = output_of(python, "-m", "auditwheel", "show", wheel)
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
    parser.add_argument(
        "interpreters",
        nargs="*",
        help="Python interpreters, such as python3.12; by default one of each released version that is found",
    )
    parser.add_argument("--machine", choices=MACHINES, default=MACHINE, help="default: this machine's")
    arguments = parser.parse_args()
    interpreters: list[str] = arguments.interpreters
    left_out: list[str] = []
    for interpreter in interpreters:
        if problem := problem_of(interpreter):
            sys.exit(f"wheels: {interpreter} {problem}")
    if not interpreters:
        versions = released_versions(Path("pyproject.toml").read_text(encoding="utf-8"))
        interpreters, left_out = choose_interpreters(versions)
    scratch = Path("build", "wheels")
    glibc_here = f"{MACHINE}-linux-gnu" if platform.libc_ver()[0] == "glibc" else None
    for interpreter in interpreters:
        python, version = environment_for(interpreter, scratch)
        for target in targets_of(arguments.machine):
            wheel = build(python, version, target, arguments.sdist)
            recompress(wheel)
            check_symbols(python, wheel, target, scratch)
            tried = "not tried: this machine has another processor or C library"
            if target.suffix == glibc_here:
                output_of(python, "-m", "tests.packaging.wheel_check", f"--demo-count={DEMO_COUNT}", wheel)
                tried = "installed and tried"
            print(f"wheels: {wheel.name}, {wheel.stat().st_size:,} bytes, {tried}", flush=True)
    left_out += [f"Linux on {other}: see --machine" for other in MACHINES if other != arguments.machine]
    left_out += [f"{system}: {reason}" for system, reason in OTHER_SYSTEMS.items()]
    print("\n".join(f"wheels: left out: {line}" for line in left_out))
    if not interpreters:
        sys.exit("wheels: no Python of this machine can build them")


if __name__ == "__main__":
    main()
