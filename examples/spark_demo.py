"""The two Spark jobs on a cluster, each record checked: ``python -m examples.spark_demo [batch|stream]``.

Creates data, runs the job in its own process as a user would, reads the topic back with another client
(confluent-kafka) and compares. The cluster is a mock cluster, or the one at ``--bootstrap``. The exit code is
0 only if every record arrived exactly once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from tests.support.kafka.mock_cluster import MockCluster
from tests.support.kafka.reader import iterate_topic
from tests.support.kafka.topics import create_topic

DEFAULT_COUNT = 100_000
PARTITIONS = 8
_FOLDER = Path(__file__).resolve().parent
_JOB_TIMEOUT_SECONDS = 600
#: Length of the output shown for a failed job; Spark's start-up messages come before it.
_SHOWN_ERROR_CHARACTERS = 3000


def show_batch(
    bootstrap_servers: str,
    topic: str,
    count: int,
    console: Console,
    *,
    security: Mapping[str, str] | None = None,
    reader_servers: str | None = None,
) -> bool:
    """Parquet to Kafka; returns whether each row arrived once, with its key.

    Args:
        security: settings for a cluster with encryption or authentication, by Kafka's dotted names.
        reader_servers: a listener of the same cluster without them; ``None``: ``bootstrap_servers``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    expected = Counter(
        (f"customer-{number % 1000}", number, round(number * 0.25, 2)) for number in range(count)
    )
    with tempfile.TemporaryDirectory() as folder:
        table = pa.table(
            {
                "customer": [customer for customer, _, _ in expected],
                "order": [order for _, order, _ in expected],
                "amount": [amount for _, _, amount in expected],
            }
        )
        pq.write_table(table, f"{folder}/orders.parquet", row_group_size=max(1, count // 4))
        options = Path(folder, "options.json")
        # In a file, because other users of the machine can read the arguments of a process.
        options.touch(mode=0o600)
        options.write_text(json.dumps({f"kafka.{name}": value for name, value in (security or {}).items()}))
        places = ("--parquet", f"{folder}/orders.parquet", "--options", str(options))
        seconds = _run("spark_parquet_to_kafka.py", bootstrap_servers, topic, *places)
    found: Counter[tuple[str, int, float]] = Counter()
    for record in iterate_topic(reader_servers or bootstrap_servers, topic):
        order = json.loads(record.value or b"{}")
        key = (record.key or b"").decode()
        found[key if key == order["customer"] else "?", order["order"], order["amount"]] += 1
    return _judge(
        f"Spark batch, parquet to Kafka ({seconds:.1f} s with Spark's start)", expected, found, console
    )


def show_stream(bootstrap_servers: str, topic: str, count: int, console: Console) -> bool:
    """Files to Kafka, in two runs with one checkpoint; returns whether each line arrived once."""
    lines = [f"line {number}" for number in range(count)]
    halves = (lines[: count // 2], lines[count // 2 :])
    seconds = 0.0
    with tempfile.TemporaryDirectory() as folder:
        incoming, checkpoint = Path(folder, "incoming"), str(Path(folder, "checkpoint"))
        incoming.mkdir()
        for number, half in enumerate(halves):
            (incoming / f"{number}.txt").write_text("".join(f"{line}\n" for line in half))
            places = ("--folder", str(incoming), "--checkpoint", checkpoint, "--once")
            seconds += _run("spark_files_to_kafka.py", bootstrap_servers, topic, *places)
    found = Counter((record.value or b"").decode() for record in iterate_topic(bootstrap_servers, topic))
    title = f"Spark stream, files to Kafka, restarted once ({seconds:.1f} s with Spark's starts)"
    return _judge(title, Counter(lines), found, console)


def show_in_demo(
    bootstrap_servers: str,
    console: Console,
    *,
    is_mock: bool,
    security: Mapping[str, str],
    reader_servers: str,
) -> bool:
    """The batch job on the demo's cluster."""
    topic = f"kproducer-spark-demo-{uuid.uuid4().hex[:8]}"
    if not is_mock:  # a mock cluster creates topics on the first request for them
        create_topic(reader_servers, topic, PARTITIONS)
    with console.status("a Spark job, parquet to Kafka"):
        return show_batch(
            bootstrap_servers,
            topic,
            DEFAULT_COUNT,
            console,
            security=security,
            reader_servers=reader_servers,
        )


def require_java() -> None:
    """Raise RuntimeError if there is no Java to run Spark."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise RuntimeError("Spark needs Java 17 (Debian: apt-get install openjdk-17-jdk-headless)")


def _run(job: str, bootstrap_servers: str, topic: str, *arguments: str) -> float:
    """Run a job; returns its seconds. Raises ``RuntimeError`` with the end of its output."""
    started = time.monotonic()
    finished = subprocess.run(
        [sys.executable, str(_FOLDER / job), "--bootstrap", bootstrap_servers, "--topic", topic, *arguments],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_JOB_TIMEOUT_SECONDS,
        check=False,
    )
    if finished.returncode != 0:
        raise RuntimeError(f"{job} failed:\n{finished.stderr[-_SHOWN_ERROR_CHARACTERS:]}")
    return time.monotonic() - started


def _judge(title: str, expected: Counter, found: Counter, console: Console) -> bool:  # type: ignore[type-arg]
    total = expected.total()
    there = (expected & found).total()
    console.print(f"\n[bold]{title}[/]")
    console.print(f"[bold {'green' if found == expected else 'red'}]verified {there:,} of {total:,}[/]")
    if found - expected:
        console.print(f"[red]{(found - expected).total():,} unexpected records[/]")
    return found == expected


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the Spark jobs of this folder and check each record.")
    parser.add_argument("job", nargs="?", choices=["batch", "stream"], help="default: both")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use an existing cluster")
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT, help="number of rows or lines")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    try:
        require_java()
    except RuntimeError as error:
        sys.exit(str(error))
    shows = {"batch": show_batch, "stream": show_stream}
    chosen = [arguments.job] if arguments.job else list(shows)
    holds = True
    for name in chosen:
        topic = f"kproducer-spark-{name}-{uuid.uuid4().hex[:8]}"
        if arguments.bootstrap:
            create_topic(arguments.bootstrap, topic, PARTITIONS)
            holds &= shows[name](arguments.bootstrap, topic, arguments.count, console)
        else:
            with MockCluster.start() as mock:
                mock.create_topic(topic, PARTITIONS)
                holds &= shows[name](mock.bootstrap_servers, topic, arguments.count, console)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
