"""Fixtures of the Spark tests: one small classic session, and jobs in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.fixtures import start_or_skip, versions_under_test
from tests.support.kafka.maven_artifacts import NEWEST_VERSION, KafkaUnavailableError, java_command
from tests.support.requirements import REQUIRE_KAFKA, skip_or_fail
from tests.support.spark.run_pipelines import connect_port

_JOB = Path(__file__).with_name("write_job.py")
_JOB_TIMEOUT_SECONDS = 280

#: Small and quiet: a browser interface, many partitions and large heaps cost seconds and megabytes.
SMALL_SPARK = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Dlog4j2.level=ERROR",
}


#: Transactions of protocol 2, and the last 3.x, whose clusters have protocol 1.
_PROTOCOLS = [each for each in (NEWEST_VERSION, "3.9.2") if each in versions_under_test()]


@pytest.fixture(scope="session", params=_PROTOCOLS)
def each_protocol(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One node, that soon ends transactions which ran out of time."""
    interval = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with start_or_skip(request.param, properties=interval) as cluster:
        yield cluster


def require_java() -> None:
    """Skip where there is no Java (or fail, where brokers are required: those need it too)."""
    try:
        java_command()
    except KafkaUnavailableError as error:
        skip_or_fail(REQUIRE_KAFKA, f"Spark needs Java 17: {error}")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A classic session: two cores, two attempts for each task. The sink is not registered."""
    require_java()
    from pyspark.sql import SparkSession

    # Workers would otherwise be of whichever Python comes first on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2,2]").appName("kproducer tests")
    for name, value in SMALL_SPARK.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def run_job() -> Callable[..., dict[str, Any]]:
    """Run ``write_job.py`` in a process of its own; its last line is the answer, with ``stderr``."""
    require_java()

    def run(kind: str, *arguments: str) -> dict[str, Any]:
        with connect_port() if kind == "connect" else contextlib.nullcontext():
            finished = subprocess.run(
                [sys.executable, str(_JOB), kind, *arguments],
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_JOB_TIMEOUT_SECONDS,
                check=False,
            )
        assert finished.returncode == 0, finished.stderr[-4000:]
        answer: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
        answer["stderr"] = finished.stderr
        return answer

    return run
