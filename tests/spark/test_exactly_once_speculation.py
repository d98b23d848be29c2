"""Speculative copies of a task that really run, beside the original, and fence it: rows are there once.

On the newest Kafka alone: ``test_exactly_once_kafka`` fences copies in both transaction protocols.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import require_java
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.committed_records import read_committed
from tests.support.kafka.topics import create_topic
from tests.support.spark.driver import SparkDriver, spark_home
from tests.support.spark.speculation_job import HOSTS, PLAN, PLANS, ROWS

#: Seven Java processes; tens of seconds where nothing else runs.
JOB_SECONDS = 600

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(JOB_SECONDS + 300),
    pytest.mark.skipif(
        os.environ.get("KPRODUCER_KERNEL") == "pure",
        reason="a Spark cluster takes a minute, and the kernel has no part in the protocol",
    ),
]


class Speculation:
    """What the job came to: the errors of its writes, and Spark's event log."""

    def __init__(self, cluster: KafkaCluster, folder: Path) -> None:
        self.cluster = cluster
        self.topics = {plan: f"speculation-{plan}-{uuid.uuid4().hex}" for plan in PLANS}
        for topic in self.topics.values():
            create_topic(cluster.bootstrap_servers, topic, 2)
        log = folder / "driver.log"
        driver = SparkDriver(
            f"speculation-{uuid.uuid4().hex}",
            "tests.support.spark.speculation_job",
            [str(folder), cluster.bootstrap_servers, *self.topics.values()],
            spark_home(folder),
            log,
            JOB_SECONDS,
        )
        try:
            code = driver.wait(JOB_SECONDS)
        finally:
            driver.kill()
        assert code == 0, log.read_text()[-4000:]
        self.errors: dict[str, list[str]] = json.loads((folder / "errors.json").read_text())
        (events,) = (folder / "events").iterdir()
        self._events: list[dict[str, Any]] = [json.loads(line) for line in events.read_text().splitlines()]

    def attempts(self, plan: str, kind: str) -> list[dict[str, Any]]:
        """Spark's events of the second task in the write that followed a plan."""
        stages = {
            stage
            for event in self._events
            if event["Event"] == "SparkListenerJobStart" and event["Properties"].get(PLAN) == plan
            for stage in event["Stage IDs"]
        }
        return [
            event
            for event in self._events
            if event["Event"] == f"SparkListenerTask{kind}"
            and event["Stage ID"] in stages
            and event["Task Info"]["Index"] == 1
        ]

    def rows(self, plan: str) -> list[str]:
        partitions = read_committed(self.cluster.bootstrap_servers, self.topics[plan], 2)
        return sorted(value.decode() for values in partitions for value in values)


@pytest.fixture(scope="module")
def speculation(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Speculation:
    require_java()
    return Speculation(kafka, tmp_path_factory.mktemp("speculation"))


def test_rows_are_there_once_whichever_attempt_spark_takes(speculation: Speculation) -> None:
    # One test, so that no other process of the test run needs a job of its own.
    for plan in PLANS:
        assert_that_a_copy_has_run_on_another_host_than_its_original(speculation, plan)
    for plan in PLANS:
        assert_that_spark_has_taken_the_attempt_that_the_plan_says_and_ended_the_other(speculation, plan)
    for plan in PLANS:
        assert_that_rows_are_there_once_and_a_repetition_completes_them(speculation, plan)
    assert_that_a_commit_succeeds_where_spark_takes_the_copy(speculation)
    assert_that_a_commit_fails_where_spark_takes_an_original_that_its_copy_has_fenced(speculation)


def assert_that_a_copy_has_run_on_another_host_than_its_original(speculation: Speculation, plan: str) -> None:
    attempts = [event["Task Info"] for event in speculation.attempts(plan, "Start")]
    assert [each["Speculative"] for each in attempts] == [False, True]
    assert {each["Host"] for each in attempts} == set(HOSTS)


def assert_that_spark_has_taken_the_attempt_that_the_plan_says_and_ended_the_other(
    speculation: Speculation, plan: str
) -> None:
    ends = {
        "copy" if event["Task Info"]["Speculative"] else "original": event["Task End Reason"]["Reason"]
        for event in speculation.attempts(plan, "End")
    }
    assert ends.pop(plan) == "Success"
    assert set(ends.values()) <= {"TaskKilled"}


def assert_that_rows_are_there_once_and_a_repetition_completes_them(
    speculation: Speculation, plan: str
) -> None:
    assert speculation.errors[plan][-1] == ""
    assert speculation.rows(plan) == [f"{number:02d}" for number in range(ROWS)]


def assert_that_a_commit_succeeds_where_spark_takes_the_copy(speculation: Speculation) -> None:
    assert speculation.errors["copy"] == ["", ""]


def assert_that_a_commit_fails_where_spark_takes_an_original_that_its_copy_has_fenced(
    speculation: Speculation,
) -> None:
    first = speculation.errors["original"][0]
    assert "CommitFailedError" in first
    assert "1 of 2 tasks could not be committed" in first
