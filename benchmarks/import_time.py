"""The import time of each client: wall time and CPU of ``python -c``, minus those of starting Python.

Bytecode is cached, as after an installation with pip, in a folder of the benchmark; an uncounted first start
fills it. The least of the runs is what counts, because other work on the machine can only add time; how far
the median is from it says how much other work there was.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.process_costs import children_cpu_seconds

REPEATS = 21
#: Of a row, in the order of the table.
FIGURES = ("wall_ms", "median_wall_ms", "cpu_ms", "median_cpu_ms")
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
    """A row per client: the least and the median time of its import, without starting Python."""
    statements = {"bare": ("pass", {}), **IMPORTS}
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in statements}
    with tempfile.TemporaryDirectory(prefix="kproducer-bytecode-") as folder:
        common = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        common["PYTHONPYCACHEPREFIX"] = folder
        for number in range(1 + repeats):
            for name, (statement, environment) in statements.items():
                taken = _start(statement, {**common, **environment})
                if number:
                    runs[name].append(taken)
    found = {name: _least_and_median(taken) for name, taken in runs.items()}
    bare = found.pop("bare")
    return [
        {"client": name, **{key: (value - bare[key]) * 1000 for key, value in times.items()}}
        for name, times in found.items()
    ]


def _least_and_median(runs: list[tuple[float, float]]) -> dict[str, float]:
    wall, cpu = zip(*runs, strict=True)
    figures = (min(wall), statistics.median(wall), min(cpu), statistics.median(cpu))
    return dict(zip(FIGURES, figures, strict=True))
