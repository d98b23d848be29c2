"""The benchmark counts only what arrived, gives everybody the same records, and leaves its figures behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.workload import Workload, all_workloads, records

pytestmark = pytest.mark.mock_cluster

ROOT = Path(__file__).resolve().parents[2]


def test_a_short_run_of_every_client_leaves_figures_and_a_plot(tmp_path):
    arguments = ["--seconds", "1", "--count", "400", "--codecs", "lz4", "--sizes", "100"]
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, "--results", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (figures,) = tmp_path.glob("*.json")
    found = json.loads(figures.read_text())
    assert found["failures"] == []
    clients = {"kproducer", "confluent-kafka", "kafka-python", "aiokafka"}
    assert {run["client"] for run in found["runs"]} == clients
    assert all(run["acknowledged"] == 400 and run["cpu_us_per_message"] > 0 for run in found["runs"])
    assert list(tmp_path.glob("*.png"))


def test_records_have_the_size_that_is_named_and_are_the_same_each_time():
    for workload in all_workloads(100):
        made = records(workload, 5000)
        assert {len(value) for _, value in made} == {workload.value_bytes}
        assert all((key is not None) is workload.with_key for key, _ in made)
        assert made == records(workload, 5000)


def test_workloads_cover_sizes_keys_and_codecs():
    workloads = all_workloads(100)
    assert len(set(workloads)) == 12
    assert Workload(1000, True, "zstd", 40) in workloads
