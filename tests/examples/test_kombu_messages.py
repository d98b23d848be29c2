"""examples/kombu_messages.py: kombu's Kafka transport with the adapter, on Apache Kafka."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

EXAMPLE = Path(__file__).parents[2] / "examples" / "kombu_messages.py"


def run(cluster: KafkaCluster, command: str) -> str:
    result = subprocess.run(
        [sys.executable, str(EXAMPLE), command, cluster.bootstrap_servers, "5"],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_messages_that_one_process_sends_and_another_receives(kafka: KafkaCluster) -> None:
    create_topic(kafka.bootstrap_servers, "reports", 1)
    run(kafka, "send")
    assert ast.literal_eval(run(kafka, "receive")) == [{"report": number} for number in range(5)]
