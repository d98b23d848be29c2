"""Installs what a command of the Makefile needs: ``python -m build_tools.environment VENV NEED``.

A need is a group of ``pyproject.toml``, or ``kerberos`` or ``browser``: programs for tests, of which Debian
has packages (root can install them). ``VENV/.installed-GROUP`` tells ``make`` that a group is complete.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from build_tools.commands import run

#: GitHub's runners have Chrome; their Ubuntu has Chromium only as a snap.
_BROWSER = "google-chrome" if shutil.which("google-chrome") else "chromium"
#: Programs, and Debian's packages that have them.
_PROGRAMS = {
    "browser": (f"{_BROWSER} chromedriver", "chromium chromium-driver"),
    "kerberos": (
        "krb5kdc kdb5_util kadmin.local kinit krb5-config",
        "krb5-kdc krb5-admin-server krb5-user libkrb5-dev",
    ),
}


@contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    with open(lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except KeyboardInterrupt:
            sys.exit(130)
        yield


def install_programs(need: str) -> None:
    """Install Debian's packages, unless all programs are there."""
    programs, packages = map(str.split, _PROGRAMS[need])
    os.environ["PATH"] += ":/usr/sbin"
    if missing := [program for program in programs if not shutil.which(program)]:
        if not shutil.which("apt-get"):
            sys.exit(f"make {need}: {', '.join(missing)} not found, and no apt-get: install them yourself")
        # An `apt-get update` may delete the packages that another apt-get has just downloaded.
        with _one_at_a_time(Path("/tmp/kproducer-apt.lock")):
            run("apt-get", "update", "--quiet=2")
            options = ("--quiet=2", "--yes", "--no-install-recommends")
            run("apt-get", "install", *options, *packages, DEBIAN_FRONTEND="noninteractive")


def install_packages(folder: Path, *requirements: str) -> None:
    """Install them into the virtual environment, which is created if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet")
    with _one_at_a_time(folder / ".lock"):  # make -j installs several groups
        if not (folder / ".created").exists():
            run(sys.executable, "-m", "venv", folder)
            run(*pip, "--upgrade", "pip")
            (folder / ".created").touch()
        constraints = Path(__file__).with_name("constraints.txt")
        # Commands compile the native core later.
        run(*pip, "-c", constraints, *requirements, KPRODUCER_NATIVE="0", PYTHONWARNINGS="ignore")


def main(folder: Path, need: str) -> None:
    if need not in _PROGRAMS:
        install_packages(folder, "-e", f".[{need}]")
        (folder / f".installed-{need}").touch()
    else:
        install_programs(need)
        if need == "kerberos":  # compiled with headers of Debian's packages
            install_packages(folder, "gssapi>=1.9")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
