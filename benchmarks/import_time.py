"""The import time of each client: wall time and CPU of ``python -c``, minus those of starting Python.

Bytecode is cached, as after an installation with pip, in a folder of the benchmark; an uncounted first start
fills it. The result is the minimum of several runs, because other work on the machine can only add time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.process_costs import children_cpu_seconds

REPEATS = 9
IMPORTS: dict[str, tuple[str, dict[str, str]]] = {
    "kproducer": ("from kproducer import KafkaProducer", {}),
    "kproducer, pure Python": ("from kproducer import KafkaProducer", {"KPRODUCER_KERNEL": "pure"}),
    "confluent-kafka": ("from confluent_kafka import Producer", {}),
    "aiokafka": ("from aiokafka import AIOKafkaProducer", {}),
    "kafka-python": ("from kafka import KafkaProducer", {}),
}


def _start(statement: str, environment: Mapping[str, str]) -> tuple[float, float]:
    """Run a statement in a new Python; returns its (wall, CPU) seconds."""
    cpu_before, started = children_cpu_seconds(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", statement],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started, children_cpu_seconds() - cpu_before


def measure(repeats: int = REPEATS) -> list[dict[str, Any]]:
    """A row per client: ``wall_ms`` and ``cpu_ms`` of its import, without starting Python."""
    statements = {"bare": ("pass", {}), **IMPORTS}
    best: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory(prefix="kproducer-bytecode-") as folder:
        common = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        common["PYTHONPYCACHEPREFIX"] = folder
        for number in range(1 + repeats):
            for name, (statement, environment) in statements.items():
                wall, cpu = _start(statement, {**common, **environment})
                best_wall, best_cpu = best.get(name, (wall, cpu))
                if number:
                    best[name] = (min(wall, best_wall), min(cpu, best_cpu))
    bare_wall, bare_cpu = best.pop("bare")
    return [
        {"client": name, "wall_ms": (wall - bare_wall) * 1000, "cpu_ms": (cpu - bare_cpu) * 1000}
        for name, (wall, cpu) in best.items()
    ]
