"""examples/fastapi_app.py in a uvicorn process, against the mock cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from kproducer._core.client.api_keys import ApiKey
from tests.support.kafka.mock_cluster import MockCluster
from tests.support.kafka.reader import read_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.mock_cluster

EXAMPLES = Path(__file__).parents[2] / "examples"


class Service(NamedTuple):
    process: subprocess.Popen[bytes]
    client: httpx.Client
    log: Path

    def order(self, customer: str, item: str = "tea") -> httpx.Response:
        return self.client.post("/orders", json={"customer": customer, "item": item, "quantity": 2})


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 4)
    return mock_cluster


@pytest.fixture
def service(cluster: MockCluster, tmp_path: Path) -> Iterator[Service]:
    """The application on a free port, which uvicorn logs."""
    log = tmp_path / "log"
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "--port", "0", "fastapi_app:app"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap_servers},
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: "running on http" in log.read_text() or process.poll() is not None)
        address = re.search(r"running on (http://127\.0\.0\.1:\d+)", log.read_text())
        assert address, log.read_text()
        with httpx.Client(base_url=address[1], timeout=60, trust_env=False) as client:
            yield Service(process, client, log)
    finally:
        process.kill()
        process.wait()


def orders(cluster: MockCluster) -> dict[tuple[int, int], Any]:
    """The orders in the topic, by partition and offset."""
    records = read_topic(cluster.bootstrap_servers, "orders")
    assert all(json.loads(each.value or b"")["customer"].encode() == each.key for each in records)
    return {(each.partition, each.offset): json.loads(each.value or b"") for each in records}


def test_an_order_is_in_the_topic_when_its_request_is_answered(
    service: Service, cluster: MockCluster
) -> None:
    refusal = service.order("greedy", "x" * 2_000_000)
    assert refusal.status_code == 413
    assert "max_request_size" in refusal.json()["detail"]
    customers = [f"customer-{number}" for number in range(50)]
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(service.order, customers))
    assert {answer.status_code for answer in answers} == {201}
    found = orders(cluster)
    assert len(found) == len(customers)
    for customer, answer in zip(customers, answers, strict=True):
        place = answer.json()["partition"], answer.json()["offset"]
        assert found[place] == {"customer": customer, "item": "tea", "quantity": 2}


def test_a_full_buffer_is_answered_with_503_and_what_it_holds_is_delivered(
    service: Service, cluster: MockCluster
) -> None:
    assert service.order("first").status_code == 201
    cluster.set_down()
    with ThreadPoolExecutor(8) as pool:
        requests = {pool.submit(service.order, f"big-{number}", "x" * 900_000) for number in range(8)}
        answered, _ = wait(requests, return_when=FIRST_COMPLETED)
        refusal = answered.pop().result()
        cluster.set_up()
        answers = [request.result() for request in requests]
    assert refusal.status_code == 503
    assert refusal.json()["outcome"] == "not_sent"
    assert refusal.headers["retry-after"] == "1"
    # The second one if the producer has begun with the bootstrap servers again, because no broker answered.
    assert re.search(r"(BufferExhausted|MetadataTimeout)Error", service.log.read_text())
    accepted = [answer.json() for answer in answers if answer.status_code == 201]
    assert accepted
    assert len(accepted) + sum(answer.status_code == 503 for answer in answers) == 8
    big = {place for place, order in orders(cluster).items() if order["customer"].startswith("big-")}
    assert big == {(each["partition"], each["offset"]) for each in accepted}


def test_a_cluster_that_is_down_is_answered_with_503_until_it_is_back(
    service: Service, cluster: MockCluster
) -> None:
    cluster.set_down()
    refusal = service.order("early")
    assert (refusal.status_code, refusal.json()["outcome"]) == (503, "not_sent")
    cluster.set_up()
    wait_until(lambda: service.order("late").status_code == 201)
    assert [order["customer"] for order in orders(cluster).values()] == ["late"]


def test_an_open_request_is_answered_before_the_service_stops(service: Service, cluster: MockCluster) -> None:
    assert service.order("first").status_code == 201
    cluster.set_rtt_ms(500)
    cluster.start_request_tracking()
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(service.order, "last")
        wait_until(lambda: len(cluster.requests(ApiKey.PRODUCE)) == 1)
        service.process.send_signal(signal.SIGTERM)
        assert request.result().status_code == 201
    cluster.set_rtt_ms(0)
    # uvicorn shuts down, and then lets the signal end the process.
    assert service.process.wait(60) == -signal.SIGTERM
    log = service.log.read_text()
    assert "Application shutdown complete." in log
    assert "Traceback" not in log
    assert {order["customer"] for order in orders(cluster).values()} == {"first", "last"}
