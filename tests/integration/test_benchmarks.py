"""The benchmark counts only delivered records, gives all clients the same records, and writes its results."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

from benchmarks import (
    cpu_samples,
    formats,
    idempotence,
    import_time,
    java_client,
    low_rate,
    memory,
    plots,
    portable_io,
    report,
    secured,
    spark_sinks,
)
from benchmarks.clients import (
    AIOKAFKA_MANY_SENDS,
    AIOKAFKA_SENDS,
    ASYNC_MANY_SENDS,
    ASYNC_SENDS,
    CLIENTS,
    CLIENTS_OF_GROUP,
    MAIN,
    ON_ONE_ROW,
    POLL_THREAD,
    PORTABLE,
    REFERENCE,
    available_clients,
)
from benchmarks.clusters import MockBench, record_count
from benchmarks.figures import CPU, SPEED, Spread, percentile, rows_of
from benchmarks.goals import goals_of
from benchmarks.tables import as_markdown, formats_table, summary_table, target_table
from benchmarks.throughput import clients_of_row, run_once, run_python
from benchmarks.workload import (
    DISTINCT_RECORDS,
    FAMILIES,
    GROUPS,
    ONE_ROW,
    OWN_DEFAULTS,
    PARTITION_COUNT,
    Workload,
    distinct_records,
    repeated,
)
from kproducer._core.records.compression import Compression
from kproducer.testing import FakeKafka
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.kafka.topics import create_topic

ROOT = Path(__file__).resolve().parents[2]
ALL_ROWS = [row for rows in GROUPS.values() for row in rows]
MANY_KEYS = Workload(OWN_DEFAULTS, 100, has_keys=True)


@pytest.fixture(scope="module")
def cluster():
    cluster = MockBench(300)
    yield cluster
    cluster.close()


def some_results() -> dict[str, Any]:
    """Two rounds; kproducer is twice as fast as confluent-kafka, for a quarter of the CPU."""
    runs = [
        {
            "cluster": "embedded",
            "family": "own defaults",
            "row": "100 B",
            "client": client,
            "round": number,
            SPEED: speed * (1 + number),
            CPU: cpu,
            "cluster_cpu_us_per_record": 0.05,
        }
        for number in (0, 1)
        for client, speed, cpu in ((MAIN, 2_000_000.0, 0.5), (REFERENCE, 1_000_000.0, 2.0))
    ]
    low_rates = [
        {
            "cluster": "embedded",
            "family": low_rate.FAMILY,
            "row": low_rate.Case(rate).name,
            "rate": rate,
            "busy": False,
            "client": client,
            "round": 0,
            "p50_ms": p99 / 2,
            "p99_ms": p99,
            "cpu_percent": cpu,
            "cpu_us": cpu * 10,
            "turns_per_second": 0.0,
        }
        for rate in (0, 100, 1000)
        for client, p99, cpu in ((low_rate.OURS, 1.0, 12.5), (low_rate.PEER, 1.1, 10.0))
    ]
    return {
        "is_whole": True,
        "when": "2026-01-01T00:00:00+00:00",
        "machine": "x86_64, 2 cores",
        "python": "3.13.0",
        "load_average": 0.1,
        "versions": {"kproducer": "0.1.0"},
        "default_batch_bytes": {"kproducer": 16384},
        "clients": [MAIN, REFERENCE],
        "left_out": ["Apache Kafka: no Java"],
        "clusters": {"embedded": "mock"},
        "rounds": {"embedded": 2},
        "failures": [],
        "runs": runs,
        "ceiling": [
            {
                "cluster": "embedded",
                "batch_bytes": 16384,
                SPEED: 6e6,
                CPU: 0.03,
                "cluster_cpu_us_per_record": 0.04,
            }
        ],
        "low_rate": low_rates,
        "memory": [
            {
                "cluster": "embedded",
                "family": memory.FAMILY,
                "row": memory.CASES[0].name,
                "client": "kproducer",
                "round": 0,
                "resident_mb": 80.0,
                "producer_mb": 50.0,
                "sockets": 2,
            }
        ],
        "formats": [
            {
                "cluster": "embedded",
                "family": formats.FAMILY,
                "row": case.name,
                "client": client,
                "round": 0,
                **case._asdict(),
                SPEED: 1e6 / cost,
                CPU: cost,
            }
            for case, client, cost in (
                (formats.Case(formats.AVRO_DICTIONARIES, 6), formats.OURS[formats.AVRO_DICTIONARIES], 3.0),
                (formats.Case(formats.AVRO_DICTIONARIES, 6), formats.CONFLUENT, 5.0),
                (formats.Case(formats.AVRO, 6), formats.OURS[formats.AVRO], 0.2),
                (formats.Case(formats.AVRO, 6), formats.FASTAVRO, 4.0),
                (formats.Case(formats.AVRO, 30), formats.OURS[formats.AVRO], 1.0),
            )
        ],
        "idempotence": [
            {
                "cluster": "embedded",
                "family": idempotence.FAMILY,
                "row": "send",
                "client": mode,
                "round": 0,
                CPU: cpu,
            }
            for mode, cpu in ((idempotence.WITHOUT, 0.5), (idempotence.TRANSACTIONAL, 0.6))
        ],
        "import_time": [{"client": "kproducer", **dict.fromkeys(import_time.FIGURES, 100.0)}],
        "profile": [
            {
                "client": MAIN,
                CPU: 0.5,
                "samples": 100,
                "places": [{"thread": "I/O", "kind": "Python interpreter", "share": 0.4}],
                "functions": [{"function": "eval", "kind": "Python interpreter", "share": 0.3}],
                "io_functions": [{"function": "sender.run_once", "share": 0.2, "calls": 7}],
            }
        ],
    }


def short_run(folder: Path, group: str, *arguments: str) -> tuple[dict[str, Any], str]:
    """One round of a group on the embedded cluster; returns the results and the console's text."""
    arguments = ("--only", group, "--rounds", "1", "--no-kafka", *arguments)
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, "--results", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (figures,) = folder.glob("*.json")
    found: dict[str, Any] = json.loads(figures.read_text())
    assert found["failures"] == []
    return found, finished.stdout


# -- a run ---------------------------------------------------------------------------------------------------


@pytest.mark.mock_cluster
def test_a_short_run_of_every_client_writes_results(tmp_path):
    found, printed = short_run(tmp_path, "throughput", "--count", "400", "--rows", "100 B")
    assert {run["client"] for run in found["runs"]} == {client.name for client in available_clients()[0]}
    assert all(run["acknowledged"] == 400 and run[CPU] > 0 for run in found["runs"])
    assert REFERENCE in printed


@pytest.mark.mock_cluster
@pytest.mark.parametrize(
    ("group", "row"), [("small-batches", "1 kB, 10,000 keys"), ("partitions", "100 partitions")]
)
def test_a_group_of_rows_is_measured_with_its_clients(tmp_path: Path, group: str, row: str) -> None:
    found, _ = short_run(tmp_path, group, "--count", "400", "--rows", row)
    assert {run["client"] for run in found["runs"]} == set(CLIENTS_OF_GROUP[group])
    assert {run["row"] for run in found["runs"]} == {row}
    assert all(run["acknowledged"] == 400 and run[CPU] > 0 for run in found["runs"])


@pytest.mark.mock_cluster
def test_latency_and_cpu_are_measured_at_each_rate(tmp_path: Path) -> None:
    found, printed = short_run(tmp_path, "low-rate", "--count", "40")
    assert {run["row"] for run in found["low_rate"]} == {case.name for case in low_rate.CASES}
    assert {run["client"] for run in found["low_rate"]} == set(low_rate.DRIVERS)
    assert all(run["p99_ms"] >= run["p50_ms"] > 0 and run["cpu_percent"] > 0 for run in found["low_rate"])
    assert "10,000/s" in printed


@pytest.mark.mock_cluster
def test_only_the_named_clients_are_measured_at_fixed_rates(tmp_path: Path) -> None:
    found, _ = short_run(tmp_path, "low-rate", "--count", "40", "--clients", f"{low_rate.OURS};aiokafka")
    assert {run["client"] for run in found["low_rate"]} == {low_rate.OURS, "aiokafka"}


def refusal(*arguments: str) -> str:
    """What ``python -m`` prints before it refuses these arguments."""
    command = [sys.executable, "-m", *arguments]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 2
    return finished.stderr


def test_a_client_that_does_not_exist_is_an_error() -> None:
    assert "no such client: kprod" in refusal("benchmarks", "--clients", "kprod")


@pytest.mark.parametrize(
    "narrowing", [["--only", "formats"], ["--rows", "100 B"], ["--no-kafka"], ["--count", "10"]]
)
def test_a_part_of_the_benchmark_does_not_replace_the_tables_of_a_whole_run(narrowing: list[str]) -> None:
    assert "--document writes every table" in refusal("benchmarks", "--document", *narrowing)


def test_the_results_of_a_part_do_not_replace_the_tables_of_a_whole_run(tmp_path: Path) -> None:
    path = tmp_path / "part-bench.json"
    path.write_text(json.dumps({**some_results(), "is_whole": False}))
    assert "--document writes every table" in refusal("benchmarks.report", "--document", str(path))


@pytest.mark.mock_cluster
def test_memory_is_measured_after_every_partition_has_a_record(tmp_path: Path) -> None:
    found, printed = short_run(tmp_path, "memory", "--count", "20")
    assert {run["row"] for run in found["memory"]} == {case.name for case in memory.CASES}
    assert {run["client"] for run in found["memory"]} == set(memory.DRIVERS)
    assert all(run["resident_mb"] > run["producer_mb"] > 0 < run["sockets"] for run in found["memory"])
    assert "memory at rest" in printed


@pytest.mark.mock_cluster
def test_idempotence_and_transactions_are_compared_in_turn(tmp_path: Path) -> None:
    found, printed = short_run(tmp_path, "idempotence", "--count", "100")
    modes = {idempotence.WITHOUT, idempotence.IDEMPOTENT, idempotence.TRANSACTIONAL}
    for case in idempotence.CASES:
        runs = [run for run in found["idempotence"] if run["row"] == case.name]
        assert sorted(run["client"] for run in runs) == sorted([*modes, *modes])
        assert all(run[CPU] > 0 for run in runs)
    assert "send, transactional: CPU, ratio" in printed


@pytest.mark.mock_cluster
def test_formats_are_measured_with_every_client_of_a_case(tmp_path: Path) -> None:
    found, printed = short_run(tmp_path, "formats", "--count", "50")
    measured = [(run["row"], run["client"]) for run in found["formats"]]
    assert measured == [(case.name, client) for case in formats.CASES for client in case.clients]
    assert all(run["count"] == 50 and run[CPU] > 0 for run in found["formats"])
    assert "Avro of dictionaries, 6 fields: CPU, ratio" in printed


@pytest.mark.parametrize("case", formats.CASES, ids=lambda case: case.name)
def test_all_clients_of_a_case_write_the_same_values(case: formats.Case) -> None:
    written = {}
    with FakeSchemaRegistry() as registry:
        for client in case.clients:
            with FakeKafka() as kafka, ExitStack() as resources:
                kafka.create_topic("rows", partitions=1)
                servers = kafka.bootstrap_servers
                target = formats.Target(servers, "rows", registry.url, case.fields, 20, resources)
                assert formats.DRIVERS[client](target)(2) == 40
                written[client] = [bytes(record.value) for record in kafka.topic("rows").records()]
    assert all(len(values) == 40 and len(set(values)) == 20 for values in written.values())
    if case.format == formats.JSON:
        # Times are written in different ways, and numbers with as many digits as each writer likes.
        written = {
            client: [
                {name: value for name, value in json.loads(each).items() if not name.startswith("at")}
                for each in values
            ]
            for client, values in written.items()
        }
    assert all(values == written[case.clients[0]] for values in written.values())


@pytest.mark.mock_cluster
def test_missing_records_invalidate_a_run(cluster, monkeypatch):
    monkeypatch.setattr("benchmarks.throughput.record_count", lambda *of: 399)
    with pytest.raises(RuntimeError, match=r"399 of [0-9]+ stored"):
        run_once(cluster, "kproducer send, pure Python", MANY_KEYS, 1, count=400)


@pytest.mark.mock_cluster
def test_a_failing_client_reports_the_reason(cluster):
    with pytest.raises(RuntimeError, match="no_such_client"):
        run_python("benchmarks.run_client", {"client": "no_such_client"}, {})


@pytest.mark.mock_cluster
def test_the_ceiling_counts_acknowledged_records(cluster):
    with cluster.topic() as (bootstrap, topic):
        task = {
            "bootstrap": bootstrap,
            "topic": topic,
            "cluster_pid": cluster.pid,
            "batch_bytes": 16384,
            "seconds": 0.2,
        }
        found = run_python("benchmarks.ceiling", task, {})
    assert found[SPEED] > 10_000


@pytest.mark.kafka
def test_javas_own_tool_is_measured_after_its_warm_up(kafka, monkeypatch):
    monkeypatch.setattr(java_client, "WARM_UP_RECORDS", 1000)
    monkeypatch.setattr(java_client, "BYTES_OF_A_RUN", 200_000)
    create_topic(kafka.bootstrap_servers, "bench-java", PARTITION_COUNT)
    found = java_client.measure(kafka.bootstrap_servers, "bench-java", Workload(OWN_DEFAULTS, 100))
    assert found["count"] == 2000
    assert found[SPEED] > 100
    assert record_count(kafka.bootstrap_servers, "bench-java") == found["warm_up"] + found["count"] == 4000


@pytest.mark.mock_cluster
def test_the_profile_names_functions_of_the_io_thread(cluster):
    with cluster.topic() as (bootstrap, topic):
        task = {
            "client": "kproducer send, pure Python",
            "workload": MANY_KEYS.as_dict(),
            "bootstrap": bootstrap,
            "topic": topic,
            "is_mock": True,
            "cluster_pid": cluster.pid,
            "count": 1000,
            "seconds": 1,
            "profile": "functions",
        }
        found = run_python("benchmarks.run_client", task, {"KPRODUCER_KERNEL": "pure"})
    assert any("." in each["function"] and each["calls"] > 0 for each in found["functions"])


def test_a_process_that_has_ended_has_no_name() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        process = psutil.Process(ended.pid)
    assert spark_sinks.name_of(process) == ""


def test_import_times_exclude_the_start_of_python():
    found = import_time.measure(repeats=1)
    assert [each["client"] for each in found] == list(import_time.IMPORTS)
    assert all(each["cpu_ms"] > 0 and each["median_cpu_ms"] > 0 for each in found)


# -- rows and clients ----------------------------------------------------------------------------------------


def test_records_have_the_named_size_and_are_reproducible():
    for workload in ALL_ROWS:
        made = distinct_records(workload)
        assert {len(value) for _, value in made} == {workload.value_bytes}
        assert made == distinct_records(workload)
    assert repeated([(None, b"a"), (None, b"b")], 3) == [(None, b"a"), (None, b"b"), (None, b"a")]


@pytest.mark.parametrize(("payload", "percent"), [("fields", 61), ("events", 32)])
def test_values_compress_as_the_document_says(payload: str, percent: int) -> None:
    values = [value for _, value in distinct_records(Workload(OWN_DEFAULTS, 1000, payload=payload))]
    plain = b"".join(values[:524])
    assert round(100 * len(Compression.of("lz4").compress(plain)) / len(plain)) == percent
    assert f"LZ4 leaves {percent} %" in (ROOT / "docs" / "performance.md").read_text()


def test_records_with_keys_have_as_many_as_the_row_says():
    assert len({key for key, _ in distinct_records(MANY_KEYS)}) == DISTINCT_RECORDS
    assert MANY_KEYS.name == "100 B, 10,000 keys"


def test_rows_cover_each_family_and_can_be_serialized():
    assert len(set(ALL_ROWS)) == len(ALL_ROWS)
    assert {workload.settings for workload in ALL_ROWS} == set(FAMILIES)
    for workload in ALL_ROWS:
        assert Workload.from_dict(json.loads(json.dumps(workload.as_dict()))) == workload


def test_only_the_throughput_group_has_all_clients():
    names = [client.name for client in CLIENTS]
    mock = type("Mock", (), {"is_mock": True})
    assert clients_of_row(names, "throughput", ONE_ROW, mock) == names
    of_every_row = [name for name in names if name not in ON_ONE_ROW]
    assert clients_of_row(names, "throughput", MANY_KEYS, mock) == of_every_row
    for group, expected in CLIENTS_OF_GROUP.items():
        assert clients_of_row(names, group, GROUPS[group][0], mock) == list(expected)


# -- figures -------------------------------------------------------------------------------------------------


def test_ratios_are_taken_within_each_round():
    (row,) = rows_of(some_results()["runs"])
    assert row.ratio(MAIN, SPEED).median == pytest.approx(2)
    assert row.ratio(MAIN, CPU).median == pytest.approx(0.25)
    assert row.spread(MAIN, SPEED) == Spread(3e6, 2e6, 4e6)


def test_a_round_without_the_reference_gives_no_ratio():
    runs = [run for run in some_results()["runs"] if run["round"] == 0 or run["client"] == MAIN]
    (row,) = rows_of(runs)
    assert row.ratio(MAIN, SPEED).median == pytest.approx(2)
    (alone,) = rows_of([run for run in runs if run["client"] == MAIN])
    assert alone.ratio(MAIN, SPEED) is None


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (99, 99), (100, 100), (0, 1)])
def test_percentiles_are_of_the_nearest_rank(percent, expected):
    assert percentile([float(value) for value in range(1, 101)], percent) == expected


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (
            "/a/kproducer/_core/kernel/native/_append.cpython-311-x86_64-linux-gnu.so",
            "native kernel, _append",
        ),
        ("/usr/lib/libpython3.11.so.1.0", "Python interpreter"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "C library (copies, locks)"),
        ("[kernel.kallsyms]", "system calls (sockets, memory)"),
        ("/a/lz4/block/_block.cpython-311-x86_64-linux-gnu.so", "_block"),
    ],
)
def test_samples_are_classified_by_file(path, kind):
    assert cpu_samples.kind_of(path) == kind


# -- tables and the document ---------------------------------------------------------------------------------


def test_tables_have_medians_and_ratios_without_gaps():
    results = some_results()
    summary = as_markdown(summary_table(results, "embedded", "own defaults"))
    assert f"| **{MAIN}** | **3,000 · 0.50** |" in summary
    (ours,) = target_table(results).rows
    assert ours[2:] == ("2.00 (2.00 - 2.00)", "0.25 (0.25 - 0.25)")


def test_the_table_of_formats_has_the_ratio_of_our_cost_to_that_of_each_peer() -> None:
    rows = formats_table(some_results()).rows
    assert rows[2][0] == "Avro, 6 fields: kproducer send_arrow, Avro"
    assert [row[-1] for row in rows] == ["-", "0.60", "-", "0.05", "-"]


def test_every_marker_of_the_documents_has_results_and_every_result_a_marker():
    found = {name: f"NEW {name}" for name in report.sections(some_results())}
    texts = [path.read_text(encoding="utf-8") for path in report.DOCUMENTS]
    written = "".join(report.with_sections(text, found) for text in texts)
    assert [name for name in found if f"NEW {name}" not in written] == []


def row_runs(row: Workload, costs: dict[str, float]) -> list[dict[str, Any]]:
    """A round of these clients, whose speed is the reciprocal of their CPU."""
    place = {"cluster": "embedded", "family": row.settings.name, "row": row.name, "round": 0}
    return [
        {**place, "workload": row.as_dict(), "client": client, CPU: cost, SPEED: 1e6 / cost}
        for client, cost in costs.items()
    ]


def test_goals_compare_with_the_better_way_to_poll() -> None:
    results = some_results()
    one, hundred = GROUPS["partitions"][:2]
    results["runs"] = [
        *row_runs(GROUPS["small-batches"][0], {MAIN: 0.5, REFERENCE: 1.25, POLL_THREAD: 0.8}),
        *row_runs(one, {MAIN: 0.2}),
        *row_runs(hundred, {MAIN: 0.3, REFERENCE: 1.0}),
    ]
    found = {goal.what: (round(goal.figure, 3), goal.is_met) for goal in goals_of(results)}
    small = "16 KiB batches, 100 B, send, futures kept"
    assert found[f"{small}: records/s, ratio"] == (1.6, False)
    assert found[f"{small}: CPU, ratio"] == (0.625, False)
    assert found["keys over partitions, 100 partitions: CPU, ratio"] == (0.3, False)
    assert found["keys over partitions, 100 partitions: CPU, times 1 partition"] == (1.5, False)
    assert found["1,000/s, embedded: p99, ratio"] == (0.909, True)
    assert found["1,000/s, embedded: CPU, ratio"] == (1.25, False)
    assert found["one at a time, embedded: p50, ratio"] == (0.909, True)
    assert found["send, transactional: CPU, ratio to none"] == (1.2, False)
    assert found["Avro of dictionaries, 6 fields: CPU, ratio"] == (0.6, False)
    assert found["Avro, 6 fields: CPU µs/record"] == (0.2, True)
    assert "Avro, 30 fields: CPU µs/record" not in found
    assert found["import, least wall ms"] == (100.0, False)


def test_goals_of_spark_compare_with_the_connector() -> None:
    def run(rate: float, jvm_us: float, python_us: float) -> list[dict[str, float]]:
        cpu = {"jvm_cpu_us_per_row": jvm_us, "python_cpu_us_per_row": python_us, "broker_cpu_us_per_row": 9.0}
        return [{"rows_per_second": rate, **cpu}]

    found = {"kproducer": run(150.0, 0.5, 1.5), "kafka": run(100.0, 2.0, 0.0)}
    labels = ["1000 B, none, no key", "100 B, lz4, key", "100 B, own defaults, no key"]
    report = {
        "results": dict.fromkeys(labels, found),
        "formats": {"avro, 6 fields": found},
        "small_write_ms": {"kproducer": 50.0, "kafka": 40.0},
    }
    assert [(goal.what, goal.figure, goal.is_met) for goal in spark_sinks.goals_of(report)] == [
        ("100 B, lz4, key: rows/s", 1.5, False),
        ("1000 B, none, no key: rows/s", 1.5, True),
        ("1000 B, none, no key: CPU", 1.0, False),
        ("avro, 6 fields: rows/s", 1.5, False),
        ("a write of 4 rows: time", 1.25, False),
    ]


def test_goals_of_asyncio_compare_equal_numbers_of_gathered_sends() -> None:
    results = some_results()
    costs = {ASYNC_SENDS: 2.0, AIOKAFKA_SENDS: 12.0, ASYNC_MANY_SENDS: 2.0, AIOKAFKA_MANY_SENDS: 8.0}
    results["runs"] = row_runs(ONE_ROW, costs)
    found = {goal.what: (round(goal.figure, 3), goal.is_met) for goal in goals_of(results)}
    assert len(found) > 2
    assert found[f"{ASYNC_SENDS}, embedded: records/s, ratio"] == (6.0, True)
    assert found[f"{ASYNC_MANY_SENDS}, embedded: records/s, ratio"] == (4.0, False)


def test_the_comparison_has_a_line_per_workload_and_the_ratio_of_cpu() -> None:
    text = report.sections(some_results())["comparison"]
    assert text.splitlines()[-1] == "| 100 B | 3,000 | 1,500 | - | - | 0.25 |"


def test_a_marker_that_nothing_fills_is_an_error():
    with pytest.raises(ValueError, match="'unheard-of'"):
        report.with_sections("<!-- measured: unheard-of -->\n<!-- end -->", {})


def test_plots_have_a_bar_for_each_client_in_proportion_to_its_figure(tmp_path: Path) -> None:
    written = plots.write_plots(tmp_path, plots.plots_of(results_with_plots()))
    assert [path.name for path in written] == ["throughput.svg", "latency.svg"]
    bars = [ElementTree.parse(path).findall(".//{*}rect[@class!='page']") for path in written]
    lengths = [[float(bar.attrib["width"]) for bar in plot] for plot in bars]
    assert [ours / peer for ours, peer in lengths] == [pytest.approx(2, 0.01), pytest.approx(1 / 1.1, 0.01)]


def test_each_page_with_plots_has_their_figures_as_alternative_texts() -> None:
    drawn = plots.plots_of(results_with_plots())
    pages = [path.read_text(encoding="utf-8") for path in report.PAGES_WITH_PLOTS]
    written = [plots.with_descriptions(page, drawn) for page in pages]
    for page in written:
        assert "![Records per second: kproducer 3,000,000, confluent-kafka 1,500,000](" in page
    latencies = "kproducer 0.50 ms, confluent-kafka 0.55 ms"
    assert f"![Median latency at 1,000 records per second: {latencies}](" in written[-1]
    nothing_else = [re.sub(r"!\[(Records|Median)[^]]*\]", "", page) for page in written]
    assert nothing_else == [re.sub(r"!\[(Records|Median)[^]]*\]", "", page) for page in pages]


def results_with_plots() -> dict[str, Any]:
    results = some_results()
    results["low_rate"] += [{**run, "cluster": "kafka"} for run in results["low_rate"]]
    return results


def test_the_cost_of_tls_is_the_median_of_the_differences_of_rounds() -> None:
    def case(client: str, speeds: tuple[float, float], costs: list[tuple[float, float]]) -> dict[str, Any]:
        rounds = [[(speeds[side], each[side]) for each in costs] for side in (0, 1)]
        return {"client": client, "row": "100 B", "bytes": 100, "rounds": rounds}

    results = {
        "machine": "x86_64, 2 cores",
        "load_average": 0.1,
        "versions": {"kproducer": "0.1.0"},
        "rounds": 3,
        "throughput": [
            case(MAIN, (2e6, 1e6), [(0.4, 0.43), (9.0, 9.04), (0.5, 0.55)]),
            case(REFERENCE, (1e6, 4e5), [(1.3, 1.5)] * 3),
        ],
        "low_rate": [
            {"client": "kproducer", "connect_ms": [[3.0], [9.0]], "latency_ms": [[0.5, 2.0], [0.6, 2.5]]}
        ],
    }
    table = secured.as_markdown(results)
    assert f"| 100 B | {MAIN} | 2,000,000 | 1,000,000 | 0.50 | 0.55 | +0.040 | 0.05 | 2.00 | 2.50 |" in table
    assert "| kproducer | 3.0 | 9.0 | 0.50 | 0.60 | 2.00 | 2.50 |" in table


def test_a_secured_comparison_counts_acknowledged_records(cluster: MockBench) -> None:
    with cluster.topic() as (bootstrap, topic):
        task = {
            "client": MAIN,
            "topic": topic,
            "rounds": 2,
            "workload": Workload(OWN_DEFAULTS, 100).as_dict(),
        }
        task["listeners"] = [(bootstrap, {}), (bootstrap, {"security_protocol": "PLAINTEXT"})]
        found = secured.compare(task)
    assert [len(side) for side in found["rounds"]] == [2, 2]
    assert found["count"] >= 5000


def test_the_cost_of_portable_io_is_compared_within_each_round(cluster: MockBench) -> None:
    row = Workload(OWN_DEFAULTS, 100)
    runs = []
    for number in (0, 1):
        for client, speed in ((MAIN, 2.0), (PORTABLE, 1.0)):
            run = run_once(cluster, client, row, 0.1, count=100)
            runs.append({**run, "round": number, SPEED: speed * (1 + number), CPU: 1 / speed})
    (line,) = portable_io.as_markdown(runs).splitlines()[2:]
    assert line == "| 100 B, own defaults | 0.50 | 1.00 | 2.00 (2.00 to 2.00) | 0.50 (0.50 to 0.50) |"
