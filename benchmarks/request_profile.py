"""Where the work of one request goes: calls, instructions of the interpreter and waits, by function.

One process per case. Three passes over the same work, because tracing changes the times: the plain one gives
CPU time, context switches and garbage collections, the second the calls, the third the bytecode instructions
of each function. Calls and instructions do not depend on the load of the machine.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from kproducer import KafkaProducer

_THREADS = ("application", "I/O")
_WARM_UP = 300
_TRACED_REQUESTS = 100
_LISTED_FUNCTIONS = 14
_TIMEOUT_S = 30


class Case(NamedTuple):
    """How the records are sent; ``rate`` 0: as many as possible."""

    name: str
    rate: int
    value_bytes: int
    settings: dict[str, Any]
    records_per_unit: int = 1
    unit: str = "request"
    topic: tuple[int, int] = (1, 1)


CASES = (
    Case("100 records/s", 100, 100, {"linger_ms": 0}),
    Case("1,000 records/s", 1000, 100, {"linger_ms": 0}),
    Case("16 KiB batches of 1 kB records", 0, 1000, {"linger_ms": 5, "batch_size": 16384}, 16, "batch"),
)


class _Work:
    """A producer, and the records of one case."""

    def __init__(self, case: Case, bootstrap: str, topic: str) -> None:
        self._case, self._topic = case, topic
        self._value = b"x" * case.value_bytes
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, acks="all", enable_idempotence=False, **case.settings
        )
        self.send(_WARM_UP)

    def send(self, units: int) -> float:
        """Send the records of so many requests or batches, and wait for all of them.

        Returns how many requests or batches there were: while a request is slow, several records wait for the
        next one.
        """
        before = self._sent_units()
        producer, case = self._producer, self._case
        started = time.perf_counter()
        for number in range(units * case.records_per_unit):
            if case.rate:
                left_s = started + number / case.rate - time.perf_counter()
                if left_s > 0:
                    time.sleep(left_s)
            producer.send(self._topic, self._value)
        producer.flush(_TIMEOUT_S)
        return self._sent_units() - before

    def _sent_units(self) -> float:
        name = {"batch": "batch-total", "request": "produce-request-total"}[self._case.unit]
        count: float = self._producer.metrics()["producer-metrics"][name]
        return count

    def on_io_thread(self, function: Callable[[], object]) -> None:
        """Call a function on the thread that completes records."""
        future = self._producer.send(self._topic, b"", on_delivery=lambda metadata, error: function())
        future.result(_TIMEOUT_S)

    def close(self) -> None:
        self._producer.close()


def _plain(work: _Work, units: int) -> dict[str, Any]:
    """CPU time and context switches of each thread, and garbage collections, per unit."""
    task_ids: list[int] = [threading.get_native_id()]
    work.on_io_thread(lambda: task_ids.append(threading.get_native_id()))
    collections_before = sum(each["collections"] for each in gc.get_stats())
    before = [_thread_costs(each) for each in task_ids]
    sent = work.send(units)
    after = [_thread_costs(each) for each in task_ids]
    collections = sum(each["collections"] for each in gc.get_stats()) - collections_before
    rows = {}
    for name, old, new in zip(_THREADS, before, after, strict=True):
        cpu_us, voluntary, involuntary = ((b - a) / sent for a, b in zip(old, new, strict=True))
        rows[name] = {"cpu_us": cpu_us, "waits": voluntary, "preempted": involuntary}
    return {"threads": rows, "collections": collections / sent}


def _thread_costs(task_id: int) -> tuple[float, int, int]:
    """(CPU microseconds, voluntary context switches, others) of a thread. Linux only."""
    folder = Path(f"/proc/self/task/{task_id}")
    nanoseconds = int((folder / "schedstat").read_text().split()[0])
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    voluntary, involuntary = (int(status[f"{kind}_ctxt_switches"]) for kind in ("voluntary", "nonvoluntary"))
    return nanoseconds / 1000, voluntary, involuntary


def _calls(work: _Work, units: int) -> dict[str, Any]:
    """Calls of Python functions, and of C functions by these, by each thread, per unit."""
    found = {name: Counter[str]() for name in _THREADS}
    application = threading.get_ident()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        counter = found["application" if threading.get_ident() == application else "I/O"]
        if event == "call":
            counter["python"] += 1
        elif event == "c_call":
            counter["c"] += 1

    work.on_io_thread(lambda: sys.setprofile(profile))
    for counter in found.values():
        counter.clear()
    sys.setprofile(profile)
    sent = work.send(units)
    sys.setprofile(None)
    totals = {name: {key: count / sent for key, count in counter.items()} for name, counter in found.items()}
    work.on_io_thread(lambda: sys.setprofile(None))
    return totals


def _instructions(work: _Work, units: int) -> dict[str, Any]:
    """Bytecode instructions of each function, by thread, per unit: the most expensive ones and the total."""
    found = {name: Counter[str]() for name in _THREADS}
    application = threading.get_ident()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode":
            thread = "application" if threading.get_ident() == application else "I/O"
            found[thread][_qualified_name(frame)] += 1
        return trace

    work.on_io_thread(lambda: sys.settrace(trace))
    for counter in found.values():
        counter.clear()
    sys.settrace(trace)
    sent = work.send(units)
    sys.settrace(None)
    result = {}
    for name, counter in found.items():
        counter = Counter({each: n for each, n in counter.items() if not each.startswith("_Work.")})
        result[name] = {
            "total": counter.total() / sent,
            "functions": [(each, count / sent) for each, count in counter.most_common(_LISTED_FUNCTIONS)],
        }
    work.on_io_thread(lambda: sys.settrace(None))
    return result


def _qualified_name(frame: FrameType) -> str:
    code = frame.f_code
    return getattr(code, "co_qualname", code.co_name)


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Run the passes of the case with this name."""
    case = next(each for each in CASES if each.name == task["case"])
    work = _Work(case, task["bootstrap"], task["topic"])
    units = task["count"] or _TRACED_REQUESTS
    plain_units = units * (10 if case.rate != 100 else 3)
    found = {
        "case": case.name,
        "unit": case.unit,
        **_plain(work, plain_units),
        "calls": _calls(work, units),
        "instructions": _instructions(work, units),
    }
    work.close()
    return found


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))), flush=True)
    os._exit(0)
