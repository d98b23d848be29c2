"""examples/parquet_to_kafka.py as a process, against the mock cluster."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kproducer._core.client.api_keys import ApiKey
from tests.support.kafka.mock_cluster import MockCluster
from tests.support.kafka.reader import read_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.mock_cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "parquet_to_kafka.py"
INVALID_RECORD = 87


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 16)
    return mock_cluster


def command(cluster: MockCluster, source: Path, *more: str) -> list[str]:
    """The example; failed rows go to SOURCE.failed."""
    columns = ["--key", "customer", "--value", "payload", "--failed", f"{source}.failed"]
    servers = ["--bootstrap", cluster.bootstrap_servers, "--topic", "orders"]
    return [sys.executable, "-W", "error", str(EXAMPLE), str(source), *servers, *columns, *more]


def run(cluster: MockCluster, source: Path, *more: str) -> tuple[int, str]:
    """Exit status and stderr."""
    finished = subprocess.run(
        command(cluster, source, *more), stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    return finished.returncode, finished.stderr


def write(path: Path, count: int, size: int = 10) -> dict[bytes, bytes]:
    """A file of orders; returns their records."""
    customers = [f"customer-{number}" for number in range(count)]
    payloads = [f"{number} ".ljust(size, "x") for number in range(count)]
    pq.write_table(pa.table({"customer": customers, "unused": range(count), "payload": payloads}), path)
    return {key.encode(): value.encode() for key, value in zip(customers, payloads, strict=True)}


def delivered(cluster: MockCluster) -> list[tuple[bytes, bytes]]:
    records = read_topic(cluster.bootstrap_servers, "orders")
    return sorted((each.key or b"", each.value or b"") for each in records)


def test_a_file_larger_than_the_buffer_is_delivered(cluster: MockCluster, tmp_path: Path) -> None:
    source = tmp_path / "orders.parquet"
    expected = write(source, 50_000, size=1000)
    cluster.set_rtt_ms(20)
    status, said = run(cluster, source)
    cluster.set_rtt_ms(0)
    assert (status, said) == (0, "50,000 rows delivered, 0 failed\n")
    assert delivered(cluster) == sorted(expected.items())
    assert not Path(f"{source}.failed").exists()


def test_failed_rows_are_in_a_file_that_can_be_sent_again(cluster: MockCluster, tmp_path: Path) -> None:
    source, failed = tmp_path / "orders.parquet", tmp_path / "orders.parquet.failed"
    expected = write(source, 30_000)
    cluster.push_partition_errors("orders", 3, ApiKey.PRODUCE, INVALID_RECORD)
    status, said = run(cluster, source)
    assert status == 1
    rows = pq.read_table(failed)
    assert f"{30_000 - len(rows):,} rows delivered, {len(rows):,} failed" in said
    assert set(rows["outcome"].to_pylist()) == {"rejected"}
    assert all("INVALID_RECORD" in error for error in rows["error"].to_pylist())
    assert run(cluster, failed) == (0, f"{len(rows):,} rows delivered, 0 failed\n")
    assert delivered(cluster) == sorted(expected.items())


def test_failures_of_another_run_are_not_overwritten(cluster: MockCluster, tmp_path: Path) -> None:
    source = tmp_path / "orders.parquet"
    write(source, 1)
    Path(f"{source}.failed").touch()
    status, said = run(cluster, source)
    assert status == 2
    assert "exists already" in said
    assert delivered(cluster) == []


def test_a_column_that_does_not_exist_is_an_error(cluster: MockCluster, tmp_path: Path) -> None:
    source = tmp_path / "orders.parquet"
    write(source, 1)
    status, said = run(cluster, source, "--value", "body")
    assert status == 1
    assert "not all rows were sent: InvalidArgumentError: " in said
    assert "'body'" in said
    assert delivered(cluster) == []


def test_ctrl_c_accounts_for_the_rows_that_were_read(cluster: MockCluster, tmp_path: Path) -> None:
    source = tmp_path / "orders.parquet"
    write(source, 50_000, size=1000)
    cluster.set_rtt_ms(200)
    cluster.start_request_tracking()
    with subprocess.Popen(command(cluster, source), stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: len(cluster.requests(ApiKey.PRODUCE)) > 0)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    cluster.set_rtt_ms(0)
    assert process.returncode == 130
    found = delivered(cluster)
    assert 0 < len(found) < 50_000
    assert said == f"{len(found):,} rows delivered, 0 failed\n"
