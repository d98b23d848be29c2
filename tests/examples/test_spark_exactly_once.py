"""examples/spark_exactly_once.py on PySpark and Apache Kafka; the mock cluster does not fence producers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.conftest import SMALL_SPARK, require_java
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.committed_records import read_committed
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_exactly_once.py"
CONFIGURATION = [word for pair in SMALL_SPARK.items() for word in ("--conf", "=".join(pair))]
ENVIRONMENT = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
#: Runs the example once for each line, its arguments as JSON: a JVM for each run would take most of the time.
RUNS = f"""
import json, runpy, sys
for line in sys.stdin:
    sys.argv[1:] = json.loads(line)
    runpy.run_path({str(EXAMPLE)!r}, run_name="__main__")
    print("done", flush=True)
"""


def submit(arguments: list[str]) -> None:
    # With its whole path: the virtual environment of the tests may not be activated.
    program = str(Path(sys.executable).with_name("spark-submit"))
    finished = subprocess.run(
        [program, "--master", "local[2]", *CONFIGURATION, str(EXAMPLE), *arguments],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]


@contextmanager
def driver(log: Path) -> Iterator[Callable[[list[str]], None]]:
    """A process that runs the example repeatedly; it yields the function that does this."""
    settings = subprocess.list2cmdline(["--master", "local[2]", *CONFIGURATION, "pyspark-shell"])
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-c", RUNS],
            env={**ENVIRONMENT, "PYSPARK_SUBMIT_ARGS": settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        ) as process,
    ):
        assert process.stdin
        assert process.stdout

        def run(arguments: list[str]) -> None:
            print(json.dumps(arguments), file=process.stdin, flush=True)
            assert process.stdout
            assert process.stdout.readline() == "done\n", log.read_text()[-4000:]

        try:
            yield run
            process.stdin.close()
            assert process.wait(60) == 0
        finally:
            process.kill()


def add(folder: Path, name: str, numbers: range) -> None:
    """A file of orders, renamed into place: a stream must not see half of it."""
    folder.mkdir(exist_ok=True)
    orders = [{"customer": f"c{number}", "item": "tea", "quantity": number} for number in numbers]
    part = folder / f".{name}"
    part.write_text("".join(json.dumps(order) + "\n" for order in orders))
    part.rename(folder / name)


def quantities(cluster: KafkaCluster, topic: str) -> list[int]:
    partitions = read_committed(cluster.bootstrap_servers, topic, 2)
    return sorted(json.loads(value or b"")["quantity"] for values in partitions for value in values)


def test_a_repeated_batch_and_a_restarted_stream_write_each_order_once(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    require_java()
    servers, orders = kafka.bootstrap_servers, tmp_path / "orders"
    for topic in ("example-batch", "example-stream"):
        create_topic(servers, topic, 2)
    places = ["--bootstrap", servers, "--source", str(orders)]
    batch = ["batch", *places, "--topic", "example-batch", "--write-id", "orders-of-monday"]
    checkpoint = ["--checkpoint", str(tmp_path / "checkpoint"), "--once"]
    stream = ["stream", *places, "--topic", "example-stream", *checkpoint]
    add(orders, "one.json", range(500))
    submit(batch)
    assert quantities(kafka, "example-batch") == list(range(500))
    with driver(tmp_path / "log") as run:
        run(batch)
        assert quantities(kafka, "example-batch") == list(range(500))
        run(stream)
        assert quantities(kafka, "example-stream") == list(range(500))
        add(orders, "two.json", range(500, 1000))
        run(stream)
        assert quantities(kafka, "example-stream") == list(range(1000))
