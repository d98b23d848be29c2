"""The benchmark's results as tables, for the console and for the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks import formats, idempotence, import_time
from benchmarks.clients import ADAPTERS, REFERENCE
from benchmarks.figures import CLUSTER_CPU, CPU, SPEED, Row, Spread, Table, partition_rows, rows_of
from benchmarks.goals import Goal

_NOTHING = "-"
#: Functions and libraries with a smaller share of the samples are not listed.
_LEAST_SHARE = 0.01
_HEADER = (
    "client",
    "records/s",
    "least - most",
    "CPU µs/record",
    "least - most",
    "records/s, ratio",
    "CPU, ratio",
    "cluster's CPU µs/record",
)


def throughput_tables(results: dict[str, Any]) -> list[Table]:
    """A table for each row of the benchmark; ratios are to confluent-kafka with callbacks."""
    return [_throughput_table(row) for row in rows_of(results["runs"])]


def title_of(row: Row) -> str:
    return f"{row.name}; {row.family}; {_cluster(row)}"


def _cluster(row: Row) -> str:
    return "Apache Kafka" if row.cluster == "kafka" else "embedded cluster"


def _throughput_table(row: Row) -> Table:
    ordered = sorted(row.clients, key=lambda client: _median(row.spread(client, CPU)))
    cells = []
    for client in ordered:
        speed, cpu = row.spread(client, SPEED), row.spread(client, CPU)
        cells.append(
            (
                client,
                _number(speed, 0),
                _range(speed, 0),
                _number(cpu, 2),
                _range(cpu, 2),
                _number(row.ratio(client, SPEED), 2),
                _number(row.ratio(client, CPU), 2),
                _number(row.spread(client, CLUSTER_CPU), 2),
            )
        )
    return Table(title_of(row), _HEADER, cells, _ours(ordered))


def summary_table(results: dict[str, Any], cluster: str, family: str) -> Table:
    """Clients by rows: thousand records per second · CPU microseconds per record."""
    rows = [row for row in rows_of(results["runs"]) if (row.cluster, row.family) == (cluster, family)]
    found = dict.fromkeys(client for row in rows for client in row.clients)
    clients = [client for client in results["clients"] if client in found]
    cells = []
    for client in clients:
        line = [client]
        for row in rows:
            speed, cpu = row.spread(client, SPEED), row.spread(client, CPU)
            line.append(
                _NOTHING
                if speed is None or cpu is None
                else f"{speed.median / 1000:,.0f} · {cpu.median:.{_digits(cpu.median)}f}"
            )
        cells.append(tuple(line))
    return Table(family, ("client", *(row.name for row in rows)), cells, _ours(clients))


def target_table(results: dict[str, Any]) -> Table:
    """Our client compared with confluent-kafka with callbacks on every row: ratios of speed and of CPU."""
    cells = []
    for row in rows_of(results["runs"]):
        for client in row.clients:
            speed, cpu = row.ratio(client, SPEED), row.ratio(client, CPU)
            if not client.startswith("kproducer") or speed is None or cpu is None:
                continue
            cells.append(
                (
                    f"{client}: {title_of(row)}",
                    _number(row.spread(client, CPU), 2),
                    f"{speed.median:.2f} ({speed.low:.2f} - {speed.high:.2f})",
                    f"{cpu.median:.2f} ({cpu.low:.2f} - {cpu.high:.2f})",
                )
            )
    header = ("what", "CPU µs/record", "records/s, ratio (least - most)", "CPU, ratio (least - most)")
    return Table(f"ratios to {REFERENCE}, of the rounds", header, cells)


def adapters_table(results: dict[str, Any]) -> Table:
    """Each adapter compared with the client whose interface it has, of the rounds."""
    cells = []
    for row in rows_of(results["runs"]):
        for adapter, original in ADAPTERS.items():
            speed, cpu = row.ratio(adapter, SPEED, original), row.ratio(adapter, CPU, original)
            if speed is not None and cpu is not None:
                cells.append(
                    (
                        f"{adapter}; {row.name}; {_cluster(row)}",
                        _number(row.spread(adapter, CPU), 2),
                        _number(row.spread(original, CPU), 2),
                        f"{speed.median:.2f} ({speed.low:.2f} - {speed.high:.2f})",
                        f"{cpu.median:.2f} ({cpu.low:.2f} - {cpu.high:.2f})",
                    )
                )
    header = (
        "adapter",
        "CPU µs/record",
        "CPU µs/record of the original",
        "records/s, ratio (least - most)",
        "CPU, ratio (least - most)",
    )
    return Table("adapters, ratios to the clients whose interface they have", header, cells)


def low_rate_table(results: dict[str, Any]) -> Table:
    cells = []
    for row in rows_of(results["low_rate"]):
        for client in row.clients:
            turns = row.spread(client, "turns_per_second")
            cells.append(
                (
                    f"{client}, {row.name}, {_cluster(row)}",
                    *(_number(row.spread(client, metric), 2) for metric in ("p50_ms", "p99_ms")),
                    _range(row.spread(client, "p99_ms"), 2),
                    _number(row.spread(client, "cpu_percent"), 1),
                    _range(row.spread(client, "cpu_percent"), 1),
                    _number(row.spread(client, "cpu_us"), 0),
                    f"{turns.median / 1e6:.1f}" if turns and turns.median else _NOTHING,
                )
            )
    header = (
        "client and rate",
        "p50 ms",
        "p99 ms",
        "least - most",
        "CPU %",
        "least - most",
        "CPU µs/record",
        "busy thread, M turns/s",
    )
    return Table("from send() to the callback, linger 0", header, cells)


def growth_table(results: dict[str, Any]) -> Table:
    """CPU per record of the rows with many partitions, and its ratio to the first row, of the rounds."""
    rows = partition_rows(results["runs"])
    cells = [
        (
            f"{client}: {row.name}{row.family.removeprefix(rows[0].family)}",
            _number(row.spread(client, CPU), 2),
            _number(row.growth(client, rows[0]), 2),
            _number(row.spread(client, SPEED), 0),
        )
        for row in rows
        for client in row.clients
    ]
    header = ("client and topic", "CPU µs/record", "times the first row", "records/s")
    return Table("keys over partitions", header, cells)


def idempotence_table(results: dict[str, Any]) -> Table:
    cells = [
        (
            f"{row.name}, {mode}",
            _number(row.spread(mode, CPU), 3),
            _range(row.spread(mode, CPU), 3),
            _number(row.ratio(mode, CPU, idempotence.WITHOUT), 3),
        )
        for row in rows_of(results["idempotence"])
        for mode in row.clients
    ]
    header = ("method and mode", "CPU µs/record", "least - most", "ratio")
    return Table("CPU of idempotence and transactions", header, cells)


def memory_table(results: dict[str, Any]) -> Table:
    cells = [
        (
            f"{client}, {row.name}",
            *(_number(row.spread(client, metric), 0) for metric in ("resident_mb", "producer_mb", "sockets")),
        )
        for row in rows_of(results["memory"])
        for client in row.clients
    ]
    return Table("memory at rest", ("client", "resident MB", "of the producer, MB", "sockets"), cells)


def formats_table(results: dict[str, Any]) -> Table:
    """CPU per record by format and client, and the ratio of ours to each other client, of the rounds."""
    cells = []
    strong = set()
    for row in rows_of(results.get("formats", [])):
        ours = formats.OURS[row.runs[0]["format"]]
        for client in row.clients:
            cells.append(
                (
                    f"{row.name}: {client}",
                    _number(row.spread(client, CPU), 2),
                    _range(row.spread(client, CPU), 2),
                    _number(row.spread(client, SPEED), 0),
                    _NOTHING if client == ours else _number(row.ratio(ours, CPU, client), 2),
                )
            )
            if client == ours:
                strong.add(cells[-1][0])
    header = (
        "values and client",
        "CPU µs/record",
        "least - most",
        "records/s",
        "kproducer's CPU, ratio to it",
    )
    return Table("values in Avro, JSON and Protobuf", header, cells, frozenset(strong))


def goals_table(goals: Iterable[Goal], reference: str = REFERENCE) -> Table:
    cells = [
        (
            goal.what,
            f"{'at least' if goal.is_least else 'at most'} {goal.limit:g}",
            f"{goal.figure:.2f}",
            "yes" if goal.is_met else "NO",
        )
        for goal in goals
    ]
    return Table("goals", (f"what (ratios are to {reference})", "goal", "figure", "met"), cells)


def import_table(results: dict[str, Any]) -> Table:
    cells = [
        (each["client"], *(f"{each[name]:.0f}" for name in import_time.FIGURES))
        for each in results["import_time"]
    ]
    header = ("client", "wall ms, least", "median", "CPU ms, least", "median")
    return Table("importing the client", header, cells)


def ceiling_table(results: dict[str, Any]) -> Table:
    cells = [
        (
            f"{each['cluster']}, batches of {each['batch_bytes']:,} bytes",
            f"{each['records_per_second']:,.0f}",
            f"{each['cpu_us_per_record']:.3f}",
            f"{each['cluster_cpu_us_per_record']:.3f}",
        )
        for each in results["ceiling"]
    ]
    header = ("cluster", "records/s", "sender's CPU µs/record", "cluster's CPU µs/record")
    return Table("what the cluster accepts at most (batches encoded in advance)", header, cells)


def request_tables(results: dict[str, Any]) -> list[Table]:
    """What a request or a batch costs each thread, and which functions that is."""
    measured = results.get("requests", [])
    costs = []
    functions = []
    for entry in measured:
        for thread, cost in entry["threads"].items():
            calls = entry["calls"][thread]
            costs.append(
                (
                    f"{entry['case']}, per {entry['unit']}: {thread} thread",
                    f"{cost['cpu_us']:.0f}",
                    f"{calls['python']:.0f}",
                    f"{calls['c']:.0f}",
                    f"{entry['instructions'][thread]['total']:,.0f}",
                    f"{cost['waits']:.2f}",
                    f"{cost['preempted']:.2f}",
                )
            )
        total = sum(each["total"] for each in entry["instructions"].values())
        rows = [
            (f"{thread} thread: `{function}`", f"{count:.0f}", f"{count / total:.1%}")
            for thread, each in entry["instructions"].items()
            for function, count in each["functions"]
        ]
        title = f"{entry['case']}: bytecode instructions per {entry['unit']}"
        functions.append(Table(title, ("function", "instructions", "share"), rows))
    header = (
        "work",
        "CPU µs",
        "Python calls",
        "C calls",
        "instructions",
        "waits",
        "preempted",
    )
    return [Table("what a request or a batch costs", header, costs), *functions]


def profile_tables(results: dict[str, Any]) -> list[Table]:
    """Per method: samples by thread and library, by function, and by Python function of the I/O thread."""
    made = []
    for entry in results["profile"]:
        if "samples" in entry:
            made += _sample_tables(entry)
        functions = [
            (f"`{each['function']}`", f"{each['share']:.1%}", f"{each['calls']:,}")
            for each in entry.get("io_functions", ())
        ]
        title = f"{entry['client']}: Python functions of the I/O thread, by their own CPU time"
        made.append(Table(title, ("function", "share", "calls"), functions))
    return made


def _sample_tables(entry: dict[str, Any]) -> list[Table]:
    cpu = entry["cpu_us_per_record"]
    places = [
        (f"{each['thread']} thread: {each['kind']}", f"{each['share'] * cpu:.3f}", f"{each['share']:.0%}")
        for each in entry["places"]
        if each["share"] >= _LEAST_SHARE
    ]
    functions = [
        (f"`{each['function']}` ({each['kind']})", f"{each['share'] * cpu:.3f}", f"{each['share']:.0%}")
        for each in entry["functions"]
    ]
    title = f"{entry['client']}: {cpu:.2f} µs of CPU per record, of {entry['samples']:,} samples"
    return [
        Table(title, ("where", "µs/record", "share"), places),
        Table(f"{entry['client']}: machine functions", ("function", "µs/record", "share"), functions),
    ]


def print_table(console: Console, table: Table) -> None:
    """Print the table on a terminal."""
    shown = RichTable(title=table.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for number, name in enumerate(table.header):
        shown.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(*row, style="bold" if row[0] in table.strong else None)
    console.print(shown)


def as_markdown(table: Table) -> str:
    """The table without its title; a sentence if it has no rows."""
    if not table.rows:
        return "Not measured in this run."
    lines = ["| " + " | ".join(table.header) + " |", "|---" + "|---:" * (len(table.header) - 1) + "|"]
    for row in table.rows:
        cells = (f"**{cell}**" for cell in row) if row[0] in table.strong else row
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ours(clients: list[str]) -> frozenset[str]:
    return frozenset(client for client in clients if client.startswith("kproducer"))


def _median(spread: Spread | None) -> float:
    return float("inf") if spread is None else spread.median


def _number(spread: Spread | None, digits: int) -> str:
    return _NOTHING if spread is None else f"{spread.median:,.{digits}f}"


def _range(spread: Spread | None, digits: int) -> str:
    if spread is None or spread.low == spread.high:
        return _NOTHING  # of one round
    return f"{spread.low:,.{digits}f} - {spread.high:,.{digits}f}"


def _digits(value: float) -> int:
    return 2 if value < 10 else 0
