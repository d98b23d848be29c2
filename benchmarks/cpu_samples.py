"""CPU samples of kproducer from ``perf``, by thread and by kind of code.

``perf record`` covers only the timed part: the sending process switches it on and off. Without ``perf``
there is no profile. Each sample belongs to the function that ran, not to its caller.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SAMPLES_PER_SECOND = 2000
_TOP_FUNCTIONS = 12
_LINE = re.compile(r"^\s*(?P<tid>\d+)\s+[0-9a-f]+\s+(?P<symbol>.*?)(?:\+0x[0-9a-f]+)?\s+\((?P<object>.*)\)$")
_SYSTEM = "system calls (sockets, memory)"


def is_possible() -> bool:
    """Whether ``perf`` is installed and may sample this user's processes."""
    if shutil.which("perf") is None:
        return False
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-o", os.devnull, "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def sampled(result: dict[str, Any]) -> Iterator[None]:
    """Sample this process while the block runs; ``result`` gets ``places`` and ``functions``."""
    with tempfile.TemporaryDirectory(prefix="kproducer-profile-") as name:
        folder = Path(name)
        control, answer, data = folder / "control", folder / "answer", folder / "perf.data"
        os.mkfifo(control)
        os.mkfifo(answer)
        command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(_SAMPLES_PER_SECOND), "--delay=-1"]
        command += ["-p", str(os.getpid()), "-o", str(data), f"--control=fifo:{control},{answer}"]
        perf = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with control.open("w") as commands, answer.open() as answers:
                _tell(commands, answers, "enable")
                yield
                _tell(commands, answers, "disable")
                _tell(commands, answers, "stop")
            perf.wait(30)
        finally:
            perf.kill()
            perf.wait()
        listing = subprocess.run(
            ["perf", "script", "-i", str(data), "-F", "tid,ip,sym,dso"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    result.update(_summary(listing))


def _tell(commands: Any, answers: Any, command: str) -> None:
    commands.write(f"{command}\n")
    commands.flush()
    answers.readline()


def _summary(listing: str) -> dict[str, Any]:
    """Shares of all samples, by (thread, kind of code) and by function."""
    places: Counter[tuple[str, str]] = Counter()
    functions: Counter[tuple[str, str]] = Counter()
    for line in listing.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        thread = "application" if int(match["tid"]) == os.getpid() else "I/O"
        kind = kind_of(match["object"])
        places[thread, kind] += 1
        functions[kind if kind == _SYSTEM else match["symbol"], kind] += 1
    total = max(places.total(), 1)
    return {
        "samples": total,
        "places": [
            {"thread": thread, "kind": kind, "share": count / total}
            for (thread, kind), count in places.most_common()
        ],
        "functions": [
            {"function": symbol, "kind": kind, "share": count / total}
            for (symbol, kind), count in functions.most_common(_TOP_FUNCTIONS)
        ],
    }


def kind_of(shared_object: str) -> str:
    """The name of the kind of code that a file contains."""
    if "kernel/native" in shared_object:
        return f"native kernel, {Path(shared_object).name.partition('.')[0]}"
    name = Path(shared_object).name
    if shared_object.startswith("[") or name.endswith(".ko") or name == "vmlinux":
        return _SYSTEM
    if name.startswith(("python", "libpython")):
        return "Python interpreter"
    if name.startswith(("libc.", "libc-", "ld-", "libpthread")):
        return "C library (copies, locks)"
    return name.partition(".")[0]
