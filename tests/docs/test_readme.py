"""The README is correct: its links exist, and its Python examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka.mock_cluster import MockCluster

README = Path(__file__).parents[2] / "README.md"
PYTHON_BLOCKS = [
    block
    for block in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    if "security_protocol" not in block  # integration/test_kafka_tls.py runs them
]


@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=lambda block: block.splitlines()[0])
def test_a_pasted_block_runs(block: str, mock_cluster: MockCluster) -> None:
    address = mock_cluster.bootstrap_servers.split(",")[0]
    program = block.replace("localhost:9092", address)
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "events" in finished.stdout
    assert finished.stderr == ""


def test_every_linked_file_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
