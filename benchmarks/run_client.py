"""One client, one workload, one process: so that CPU time and peak memory are the client's own.

Called by ``python -m benchmarks``; takes a JSON argument and prints a JSON line.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.clients import SESSIONS
from benchmarks.workload import WARM_UP_RECORDS, Workload, records


def _memory_bytes(field: str) -> int:
    """``VmHWM`` (peak) or ``VmRSS``. Not ru_maxrss: exec hands that down from the parent process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    task = json.loads(sys.argv[1])
    workload = Workload(**task["workload"])
    sent = records(workload, workload.count)
    send_all, close = SESSIONS[task["client"]](
        task["bootstrap"], task["topic"], workload.codec, task["is_mock"]
    )
    warm = send_all(sent[:WARM_UP_RECORDS])
    gc.collect()
    memory_before = _memory_bytes("VmRSS")

    cpu_before, started = _cpu_seconds(), time.perf_counter()
    acknowledged = send_all(sent)
    seconds, cpu_seconds = time.perf_counter() - started, _cpu_seconds() - cpu_before

    result = {
        "acknowledged": acknowledged + warm - min(WARM_UP_RECORDS, workload.count),
        "seconds": seconds,
        "messages_per_second": workload.count / seconds,
        "cpu_us_per_message": cpu_seconds / workload.count * 1e6,
        "peak_memory_bytes": _memory_bytes("VmHWM"),
        "memory_before_bytes": memory_before,
        "client_version": version(task["client"]),
    }
    close()
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
