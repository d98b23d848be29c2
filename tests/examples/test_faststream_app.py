"""examples/faststream_app.py in a process of its own, on Apache Kafka: it answers, and ends cleanly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kproducer import KafkaProducer
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, sys
sys.path.insert(0, "examples")
import faststream_app
from kproducer.compat.confluent_kafka import Producer
from faststream.confluent.helpers import client
assert client.Producer is Producer
asyncio.run(faststream_app.app.run())
"""


def test_orders_become_invoices(kafka: KafkaCluster, tmp_path: Path) -> None:
    for topic in ("orders", "invoices"):
        create_topic(kafka.bootstrap_servers, topic, 1)
    with KafkaProducer(kafka.bootstrap_servers) as producer:
        for number in range(5):
            order = {"customer": f"c{number}", "quantity": 2, "price": number}
            producer.send("orders", json.dumps(order))
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers},
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: process.poll() is not None or len(invoices(kafka)) == 5)
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert invoices(kafka) == [{"customer": f"c{number}", "total": 2 * number} for number in range(5)]


def invoices(kafka: KafkaCluster) -> list[object]:
    return [json.loads(each.value or b"") for each in read_topic(kafka.bootstrap_servers, "invoices")]
