"""CPU seconds and memory of this process and of others (Linux: /proc)."""

from __future__ import annotations

import os
import resource
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def own_cpu_seconds() -> float:
    """User and system time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def children_cpu_seconds() -> float:
    """User and system time of the children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cpu_seconds_of(pid: int) -> float:
    """User and system time of another process, with a resolution of 0.01 s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def own_memory_bytes(field: str) -> int:
    """``VmHWM`` (peak) or ``VmRSS``. Not ru_maxrss, which exec inherits from the parent process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")
