"""examples/django_site.py in gunicorn and in Django's own server, against the mock cluster."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.kafka.mock_cluster import MockCluster
from tests.support.kafka.reader import read_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.mock_cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
GUNICORN = (
    "-m",
    "gunicorn",
    "--preload",
    "--workers",
    "2",
    "--bind",
    "127.0.0.1:0",
    "django_site:application",
)


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 2)
    return mock_cluster


@contextmanager
def running(
    cluster: MockCluster, tmp_path: Path, *command: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", *command],
            cwd=EXAMPLES,
            env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap_servers, **environment},
            stdout=output,
            stderr=output,
        )
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


def order(address: str, count: int) -> set[int]:
    """Send orders, each over a connection of its own; returns the processes that answered."""
    processes = set()
    for number in range(count):
        answer = httpx.post(f"{address}/orders", content=b"%d" % number, timeout=60, trust_env=False)
        assert answer.status_code == 201, answer.text
        processes.add(answer.json()["process"])
    return processes


def values(cluster: MockCluster) -> list[int]:
    return sorted(int(each.value or b"") for each in read_topic(cluster.bootstrap_servers, "orders"))


@pytest.mark.parametrize("warm_up", ["", "1"])
def test_forked_workers_a_reload_and_the_shutdown(cluster: MockCluster, tmp_path: Path, warm_up: str) -> None:
    with running(cluster, tmp_path, *GUNICORN, WARM_UP=warm_up) as (process, log):
        wait_until(lambda: "Listening at: http" in log.read_text() or process.poll() is not None)
        found = re.search(r"Listening at: (http://127\.0\.0\.1:\d+)", log.read_text())
        assert found, log.read_text()
        before = order(found[1], 10)
        process.send_signal(signal.SIGHUP)  # new workers
        wait_until(lambda: log.read_text().count("Booting worker") >= 4)
        wait_until(lambda: not any(alive(each) for each in before))
        assert order(found[1], 10).isdisjoint(before)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    assert values(cluster) == sorted([*range(10)] * 2)
    assert "were lost" not in log.read_text()


def test_djangos_own_server_with_reload(cluster: MockCluster, tmp_path: Path) -> None:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    command = ("django_site.py", "runserver", f"127.0.0.1:{port}", "--skip-checks")
    with running(cluster, tmp_path, *command) as (process, log):
        wait_until(lambda: "Quit the server" in log.read_text() or process.poll() is not None)
        wait_until(lambda: accepts(port))
        order(f"http://127.0.0.1:{port}", 3)
        # The server is a child of the process that watches the files.
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert values(cluster) == [0, 1, 2]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
