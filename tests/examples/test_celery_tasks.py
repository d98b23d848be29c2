"""examples/celery_tasks.py in a Celery worker with two child processes, against the mock cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kproducer._core.client.api_keys import ApiKey
from tests.support.kafka.mock_cluster import MockCluster
from tests.support.kafka.reader import ReadRecord, read_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.mock_cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
INVALID_RECORD = 87


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 4)
    return mock_cluster


def environment(cluster: MockCluster) -> dict[str, str]:
    servers = {"KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap_servers}
    return {**os.environ, **servers, "PYTHONPATH": str(EXAMPLES)}


def call(cluster: MockCluster, folder: Path, statements: str) -> None:
    """Put tasks into the queue, before a worker runs: Celery's queue of files is read without a lock."""
    command = [sys.executable, "-c", f"from celery_tasks import *\n{statements}"]
    subprocess.run(command, cwd=folder, env=environment(cluster), check=True, timeout=60)


@contextmanager
def worker(cluster: MockCluster, folder: Path) -> Iterator[Path]:
    """A worker with two processes; yields its log. It must end by SIGTERM, without errors of its own."""
    log = folder / "log"
    command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--concurrency", "2", "--loglevel", "INFO"],
            cwd=folder,
            env=environment(cluster),
            stdout=output,
            stderr=output,
        )
    try:
        yield log
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
        assert set(re.findall(r"(ForkPoolWorker-\d+)\] .*the producer is closed", log.read_text())) == {
            "ForkPoolWorker-1",
            "ForkPoolWorker-2",
        }
    finally:
        process.kill()
        process.wait()


def records(cluster: MockCluster) -> list[ReadRecord]:
    return read_topic(cluster.bootstrap_servers, "orders")


def test_each_task_is_delivered_although_the_cluster_is_down_at_first(
    cluster: MockCluster, tmp_path: Path
) -> None:
    call(
        cluster,
        tmp_path,
        "for number in range(40): publish_order.delay({'customer': f'c{number}'})\n"
        "publish_orders.delay([{'customer': f'm{number}'} for number in range(1000)])",
    )
    cluster.set_down()
    with worker(cluster, tmp_path) as log:
        wait_until(lambda: "MetadataTimeoutError" in log.read_text())
        cluster.set_up()
        wait_until(lambda: log.read_text().count(" succeeded in ") == 41)
    found = records(cluster)
    customers = [f"c{number}" for number in range(40)] + [f"m{number}" for number in range(1000)]
    assert sorted(json.loads(each.value or b"")["customer"] for each in found) == sorted(customers)
    assert all(json.loads(each.value or b"")["customer"].encode() == each.key for each in found)
    assert len({dict(each.headers)["task-id"] for each in found}) == 41
    assert re.search(r"publish_order\[\S+\] retry: Retry in ", log.read_text())


def test_only_the_orders_that_may_succeed_are_sent_again(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.push_partition_errors("orders", 0, ApiKey.PRODUCE, INVALID_RECORD)
    call(
        cluster,
        tmp_path,
        "publish_orders.delay([{'customer': f'c{number}'} for number in range(100)]"
        " + [{'customer': 'large', 'item': 'x' * 2_000_000}])",
    )
    with worker(cluster, tmp_path) as log:
        wait_until(lambda: " succeeded in " in log.read_text())
    assert re.search(r"ERROR/.*order of large: ", log.read_text())
    assert len(re.findall(r"retry: Retry in ", log.read_text())) == 1
    found = sorted(each.key or b"" for each in records(cluster))
    assert found == sorted(b"c%d" % number for number in range(100))
