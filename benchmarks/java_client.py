"""Java's producer, measured with its own tool, ``org.apache.kafka.tools.ProducerPerformance``.

Uses the newest published version of the tool, with its client. The tool does not support keys and uses a
callback per record. It runs only against Apache Kafka, because Java's client cannot read the metadata of
librdkafka's mock cluster. The tool runs twice, once only for the warm-up; the difference is the CPU of the
timed part, without the start of the JVM.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.process_costs import children_cpu_seconds
from benchmarks.workload import LINGER_MS, Workload, distinct_records
from tests.support.kafka.maven_artifacts import java_command, tools_class_path

TOOLS_VERSION = "4.3.0"
WARM_UP_RECORDS = 200_000
BYTES_OF_A_RUN = 80_000_000
_TIMEOUT_SECONDS = 90
_RATE = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)


def measure(bootstrap_servers: str, topic: str, workload: Workload) -> dict[str, Any]:
    """As ``run_client.measure``. Raises ``RuntimeError`` if the tool fails."""
    timed = max(WARM_UP_RECORDS, BYTES_OF_A_RUN // workload.value_bytes)
    with tempfile.NamedTemporaryFile(suffix=".payload") as payload:
        values = [value.replace(b"\n", b" ") for _, value in distinct_records(workload)]
        Path(payload.name).write_bytes(b"\n".join(values) + b"\n")
        cpu_of_warm_up, _ = _run(bootstrap_servers, topic, workload, payload.name, WARM_UP_RECORDS, 0)
        cpu_of_all, rate = _run(
            bootstrap_servers, topic, workload, payload.name, WARM_UP_RECORDS + timed, WARM_UP_RECORDS
        )
    return {
        "count": timed,
        "acknowledged": timed,
        "warm_up": 2 * WARM_UP_RECORDS,
        "seconds": timed / rate,
        "records_per_second": rate,
        "cpu_us_per_record": (cpu_of_all - cpu_of_warm_up) / timed * 1e6,
        "client_version": TOOLS_VERSION,
    }


def _run(
    bootstrap_servers: str, topic: str, workload: Workload, payload: str, count: int, warm_up: int
) -> tuple[float, float]:
    """Returns (CPU seconds of the JVM, records per second after the warm-up)."""
    settings = [
        f"bootstrap.servers={bootstrap_servers}",
        "acks=all",
        "enable.idempotence=false",
        f"linger.ms={LINGER_MS}",
        f"compression.type={workload.codec}",
    ]
    if workload.settings.batch_bytes is not None:
        settings.append(f"batch.size={workload.settings.batch_bytes}")
    if workload.settings.buffer_bytes is not None:
        settings.append(f"buffer.memory={workload.settings.buffer_bytes}")
    before = children_cpu_seconds()
    finished = subprocess.run(
        [
            java_command(),
            "-cp",
            tools_class_path(TOOLS_VERSION),
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--throughput", "-1", "--payload-file", payload),
            *("--num-records", str(count)),
            *(("--warmup-records", str(warm_up)) if warm_up else ()),
            "--command-property",
            *settings,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    rates = _RATE.findall(finished.stdout)
    if finished.returncode != 0 or not rates:
        raise RuntimeError(f"ProducerPerformance: {finished.stdout[-300:]} {finished.stderr[-300:]}")
    return children_cpu_seconds() - before, float(rates[-1][1])
