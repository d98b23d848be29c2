"""The demo prints `verified` only for correct records."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from examples.demo_clients import SETTINGS, Client, Confluent, KproducerCallbacks, KproducerFutures
from examples.demo_columns import decoder, orders, verified_rows
from examples.demo_journey import Journey, Reader
from examples.demo_source import FileLines, JsonEvents, portions
from kproducer import KafkaProducer
from kproducer.columnar import Avro
from kproducer.schema_registry import SchemaRegistryClient
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.kafka.mock_cluster import PARTITION_LIMIT_BYTES, MockCluster
from tests.support.terminal import foreground

pytestmark = pytest.mark.mock_cluster

ROOT = Path(__file__).resolve().parents[2]
_PRODUCE, _INVALID_RECORD = 0, 87


def _ignore(_step: int) -> None:
    return None


def _demo(*arguments: str, columns: int = 200) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "examples.demo", *arguments]
    environment = {**os.environ, "COLUMNS": str(columns)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_every_event_is_verified():
    finished = _demo("--count", "5000", "--compression", "lz4")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "verified 5,000 of 5,000 in each row" in finished.stdout
    assert "verified 5,000 of 5,000 Avro records" in finished.stdout


def test_both_clients_are_compared_at_full_speed_and_at_a_fixed_rate():
    finished = _demo("--count", "5000", columns=80)
    said = finished.stdout
    assert re.findall(r"^(\S.*?) +[\d,]+ +\d+\.\d\d µs", said, re.MULTILINE) == [
        "kproducer, futures",
        "kproducer, callbacks",
        "confluent-kafka, callbacks",
    ]
    assert re.findall(r"^(\S.*?) +[\d,.]+ ms +[\d,.]+ ms", said, re.MULTILINE) == [
        "kproducer",
        "confluent-kafka",
    ]
    assert "A result per record,\nacks=all, no idempotence, linger 5 ms, compression none." in said
    assert max(map(len, said.splitlines())) <= 80


def test_lines_of_a_file_are_verified_whatever_they_contain(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"first\n\n\xff\xfe not text\r\n\xe2\x9c\x93 last without an end")
    finished = _demo("--input", str(path))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "verified 4 of 4 in each row" in finished.stdout


@pytest.mark.kafka
def test_every_event_is_verified_on_a_cluster_with_sasl_ssl():
    finished = _demo("--secure", "--count", "5000")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "SASL_SSL (SCRAM-SHA-512)" in finished.stdout
    assert "verified 5,000 of 5,000 in each row" in finished.stdout
    assert "verified 5,000 of 5,000 Avro records" in finished.stdout


def _make_demo(tmp_path: Path, *variables: str) -> str:
    """The commands of ``make demo`` in a checkout without ``make setup``."""
    command = ["make", "--dry-run", "demo", f"VENV={tmp_path}/none", *variables]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_demo_installs_what_it_needs_and_no_more(tmp_path):
    commands = _make_demo(tmp_path)
    assert f"build_tools.environment {tmp_path}/none demo\n" in commands
    assert "--spark" not in commands


def test_spark_is_installed_and_run_on_request(tmp_path):
    commands = _make_demo(tmp_path, "SPARK=1")
    assert f"build_tools.environment {tmp_path}/none spark\n" in commands
    assert "--spark" in commands


def test_ctrl_c_ends_the_demo_at_once():
    with foreground([sys.executable, "-m", "examples.demo", "--count", "9000000"], ROOT) as demo:
        demo.await_output(r"kproducer, futures.*[1-9]\d*/9000000")
        assert demo.press_ctrl_c() == (130, "the demo was interrupted\n")
        demo.await_end()


def test_an_existing_cluster_is_not_also_started():
    finished = _demo("--bootstrap", "127.0.0.1:9", "--secure")
    assert finished.returncode == 2
    assert "--bootstrap uses an existing cluster; --kafka and --secure start one" in finished.stderr


def test_a_cluster_that_is_down_is_named_with_the_reason():
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # does not listen
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
        finished = _demo("--bootstrap", address)
    assert finished.returncode == 1
    assert finished.stderr.strip() == (
        f"the demo failed: no broker accepts connections ({address}: Connection refused): start one there, or"
        " correct the address"
    )


def test_a_server_that_is_no_broker_is_named():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        finished = _demo("--bootstrap", address)
    assert finished.returncode == 1
    assert f"the demo failed: {address} accepts connections, but no broker answers" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("kind", ["futures", "callbacks", "confluent-kafka"])
def test_a_record_that_differs_is_not_verified(mock_cluster: MockCluster, kind: str) -> None:
    servers, topic = mock_cluster.bootstrap_servers, f"journey-{kind}"
    mock_cluster.create_topic(topic, 3)
    settings = {**SETTINGS, "bootstrap.servers": servers}
    reader = Reader(servers, topic)
    with KafkaProducer.from_config(settings) as producer:
        client: Client = {
            "futures": lambda: KproducerFutures(producer, topic),
            "callbacks": lambda: KproducerCallbacks(producer, topic),
            "confluent-kafka": lambda: Confluent(settings, topic),
        }[kind]()
        records = [(b"user", b"%d" % number) for number in range(100)]
        journey = Journey(client, reader)
        journey.travel(records, _ignore, is_warm_up=False)
        assert (journey.holds(100), journey.failed, journey.measured_count) == (True, 0, 100)

        results = client.send(records)()
        producer.send(topic, b"not part of the journey").result(30)
        changed = [*records[:7], (b"user", b"something else"), *records[8:]]
        journey = Journey(client, reader)
        journey.verify(changed, results, _ignore)
    assert (journey.verified, journey.unexpected, journey.holds(100)) == (99, 2, False)


def test_a_record_at_another_offset_than_the_reported_one_is_not_verified(mock_cluster: MockCluster) -> None:
    servers = mock_cluster.bootstrap_servers
    mock_cluster.create_topic("positions", 1)
    with KafkaProducer(servers) as producer:
        client = KproducerFutures(producer, "positions")
        results = client.send([(None, b"one"), (None, b"two"), (None, b"three")])()
    swapped = [(None, b"two"), (None, b"one"), (None, b"three")]
    journey = Journey(client, Reader(servers, "positions"))
    journey.verify(swapped, results, _ignore)
    assert (journey.verified, journey.unexpected) == (1, 2)


def test_records_that_were_refused_are_counted_with_the_first_reason(mock_cluster: MockCluster) -> None:
    servers, topic = mock_cluster.bootstrap_servers, "refused"
    mock_cluster.create_topic(topic, 1)
    settings = {**SETTINGS, "bootstrap.servers": servers}
    reader = Reader(servers, topic)
    with KafkaProducer.from_config(settings) as producer:
        for client in (
            KproducerFutures(producer, topic),
            KproducerCallbacks(producer, topic),
            Confluent(settings, topic),
        ):
            mock_cluster.push_errors(_PRODUCE, _INVALID_RECORD)
            journey = Journey(client, reader)
            journey.travel([(None, b"1")], _ignore, is_warm_up=True)
            assert (journey.failed, journey.verified, journey.holds(1)) == (1, 0, False)
            assert journey.error is not None


@pytest.mark.parametrize("has_confluent", [True, False])
def test_a_row_that_differs_is_not_verified(
    mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch, has_confluent: bool
) -> None:
    if not has_confluent:
        monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry.avro", None)
    servers, table = mock_cluster.bootstrap_servers, orders(100)
    mock_cluster.create_topic("orders", 3)
    with FakeSchemaRegistry() as registry, KafkaProducer(servers) as producer:
        client = SchemaRegistryClient({"url": registry.url})
        changed = table.set_column(0, "order_id", pa.array([*range(99), 7]))
        value = Avro(table.column_names, registry=client)
        producer.send_arrow("orders", changed, value=value, key="user").result(30)
        with decoder(registry.url, "orders") as (decode, _):
            found = verified_rows(table, servers, "orders", decode)
    assert found == 99


def test_portions_contain_every_value_and_stay_small():
    events = list(JsonEvents(2500))
    first, second = portions(JsonEvents(2500))
    assert first + second == events
    assert len(first) == 250  # warms up
    assert len(set(events)) == 2500


def test_a_portion_without_keys_fits_into_one_partition(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes((b"x" * 99_999 + b"\n") * 60)
    assert max(sum(len(value) for _, value in portion) for portion in portions(FileLines(path))) < (
        PARTITION_LIMIT_BYTES
    )


def test_a_file_is_counted_as_it_is_read(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\nb\n\nc")
    source = FileLines(path)
    assert (source.count, list(source)) == (
        4,
        [(None, b"a"), (None, b"b"), (None, b""), (None, b"c")],
    )
