"""The results of a run: tables on the console, and the tables and plots of docs/performance.md and README.md.

``python -m benchmarks.report FILE`` prints the results in FILE; with ``--document`` it also writes the tables
between the markers of docs/performance.md and README.md, and the plots into docs/images. That needs the
results of a whole run, so that all tables are of one run.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import tables
from benchmarks.clients import MAIN, REFERENCE
from benchmarks.figures import CPU, SPEED, Table, rows_of
from benchmarks.plots import write_plots
from benchmarks.workload import FAMILIES, LINGER_MS, OWN_DEFAULTS

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
DOCUMENT = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
IMAGES = ROOT / "docs" / "images"

#: The clients that README.md shows.
_COMPARED = (
    MAIN,
    "kproducer send_many",
    "kproducer send_arrow",
    "kproducer send, pure Python",
    REFERENCE,
    "confluent-kafka, no callback",
    "aiokafka",
    "kafka-python",
)
#: Load average of a machine that does nothing else, and the warning for a higher one.
_QUIET_LOAD = 0.5
_DISTURBED = (
    "**The machine did other work at the same time: records/s and latencies are not reliable, and CPU "
    "figures are rough.**"
)
_LEAST_WIDTH = 165
_CLUSTERS = {"embedded": "Embedded cluster", "kafka": "Apache Kafka"}


def newest_results() -> Path:
    """Raises ``FileNotFoundError`` if there are no results."""
    found = sorted(RESULTS.glob("*-bench.json"))
    if not found:
        raise FileNotFoundError(f"no results in {RESULTS}: run `make bench` first")
    return found[-1]


def new_console() -> Console:
    """A console that is wide enough for the tables, also in a narrower terminal."""
    return Console(highlight=False, markup=False, width=max(Console().width, _LEAST_WIDTH))


def print_results(console: Console, results: dict[str, Any]) -> None:
    """Print all results in the order in which they were measured."""
    for each in _all_tables(results):
        if each.rows:
            tables.print_table(console, each)
    for line in facts_of(results):
        console.print(line)
    for line in results["failures"]:
        console.print(line, style="red")


def _all_tables(results: dict[str, Any]) -> list[Table]:
    return [
        *tables.throughput_tables(results),
        tables.target_table(results),
        tables.adapters_table(results),
        tables.ceiling_table(results),
        tables.low_rate_table(results),
        tables.growth_table(results),
        tables.idempotence_table(results),
        tables.formats_table(results),
        tables.memory_table(results),
        tables.import_table(results),
        *tables.request_tables(results),
        *tables.profile_tables(results),
        tables.goals_table(results),
    ]


def facts_of(results: dict[str, Any]) -> list[str]:
    """Date, machine, clusters and versions of the measurement."""
    rounds = ", ".join(f"{name}: {count}" for name, count in results["rounds"].items())
    return [
        f"Measured {results['when']}: {'; '.join(results['clusters'].values())}; {results['machine']}; "
        f"Python {results['python']}.",
        f"Every client: acks=all, linger {LINGER_MS} ms unless a table says otherwise, no idempotence. "
        f"Rounds: {rounds}. Load average when it began: {results['load_average']:.1f}.",
        *([_DISTURBED] if results["load_average"] > _QUIET_LOAD else []),
        "Versions: " + ", ".join(f"{name} {version}" for name, version in results["versions"].items()) + ".",
        "Batches by default, bytes: "
        + ", ".join(f"{name} {size:,}" for name, size in results["default_batch_bytes"].items())
        + ".",
        *(f"Left out: {line}." for line in results["left_out"]),
    ]


# -- docs/performance.md and README.md -----------------------------------------------------------------------


def sections(results: dict[str, Any]) -> dict[str, str]:
    """Markdown per marker of the documents."""
    summaries = []
    details = []
    for cluster in results["clusters"]:
        for family in FAMILIES:
            summary = tables.summary_table(results, cluster, family.name)
            if summary.rows:
                summaries.append(f"{_CLUSTERS[cluster]}, {family.name}:\n\n{tables.as_markdown(summary)}")
        if any(run["cluster"] == cluster for run in results["runs"]):
            summaries.append(
                f"![{OWN_DEFAULTS.name}, {_CLUSTERS[cluster]}](images/performance-{cluster}.svg)"
            )
    for each in tables.throughput_tables(results):
        details.append(f"### {each.title}\n\n{tables.as_markdown(each)}")
    low_rate = [
        tables.as_markdown(tables.low_rate_table(results)),
        "![latency](images/performance-latency.svg)",
    ]
    return {
        "facts": "\n".join(f"* {line}" for line in [*facts_of(results), *results["failures"]]),
        "summary": "\n\n".join(summaries),
        "comparison": _comparison(results),
        "adapters": tables.as_markdown(tables.adapters_table(results)),
        "ratios": tables.as_markdown(tables.target_table(results)),
        "ceiling": tables.as_markdown(tables.ceiling_table(results)),
        "low-rate": "\n\n".join(low_rate),
        "growth": tables.as_markdown(tables.growth_table(results)),
        "idempotence": tables.as_markdown(tables.idempotence_table(results)),
        "formats": tables.as_markdown(tables.formats_table(results)),
        "memory": tables.as_markdown(tables.memory_table(results)),
        "goals": tables.as_markdown(tables.goals_table(results)),
        "import": tables.as_markdown(tables.import_table(results)),
        "requests": _titled(tables.request_tables(results)),
        "profile": _titled(tables.profile_tables(results)),
        "rows": "\n\n".join(details),
    }


def _titled(found: list[tables.Table]) -> str:
    return "\n\n".join(f"{each.title}\n\n{tables.as_markdown(each)}" for each in found)


def _comparison(results: dict[str, Any]) -> str:
    """The section of README.md: one family's table on the embedded cluster, and the ratios in words."""
    shown = tables.summary_table(results, "embedded", OWN_DEFAULTS.name, _COMPARED)
    rows = [row for row in rows_of(results["runs"]) if (row.cluster, row.family) == ("embedded", shown.title)]
    speeds = [ratio.median for row in rows if (ratio := row.ratio(MAIN, SPEED))]
    cpus = [ratio.median for row in rows if (ratio := row.ratio(MAIN, CPU))]
    rounds = results["rounds"].get("embedded, throughput", 0)
    lines = [
        f"Measured in one run ({results['clusters'].get('embedded', '')}, {results['machine']}, "
        f"Python {results['python']}): acks=all, linger {LINGER_MS} ms, no idempotence, otherwise each "
        f"client's own defaults; {'one round' if rounds == 1 else f'medians of {rounds} rounds'}, each "
        "client in its own process. Thousand records per second · CPU microseconds per record:",
        tables.as_markdown(shown),
    ]
    if speeds:
        lines.append(
            f"Compared with `{REFERENCE}`, `{MAIN}` sends {min(speeds):.1f} to {max(speeds):.1f} times "
            f"as many records per second, for {min(cpus):.2f} to {max(cpus):.2f} of the CPU per record."
        )
    return "\n\n".join(lines)


def with_sections(text: str, found: dict[str, str]) -> str:
    """The document with everything between ``<!-- measured: NAME -->`` and ``<!-- end -->`` replaced.

    Raises:
        ValueError: the document has a marker without results.
    """

    def replaced(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in found:
            raise ValueError(f"no results for the marker {name!r}")
        return f"<!-- measured: {name} -->\n{found[name]}\n<!-- end -->"

    pattern = r"<!-- measured: (?P<name>[\w-]+) -->\n.*?<!-- end -->"
    return re.sub(pattern, replaced, text, flags=re.DOTALL)


def write_document(results: dict[str, Any]) -> list[Path]:
    """Write the tables into the documents, and the plots. Returns the files that were written."""
    found = sections(results)
    for path in (DOCUMENT, README):
        path.write_text(with_sections(path.read_text(encoding="utf-8"), found), encoding="utf-8")
    return [DOCUMENT, README, *write_plots(IMAGES, results)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", help="results of a run; default: the newest")
    parser.add_argument("--document", action="store_true", help="write docs/performance.md")
    arguments = parser.parse_args()
    console = new_console()
    path = arguments.file or newest_results()
    results = json.loads(path.read_text())
    if arguments.document and not results["is_whole"]:
        parser.error(f"--document writes every table, and {path} has the results of a part of the benchmark")
    print_results(console, results)
    if arguments.document:
        for written in write_document(results):
            console.print(f"{written.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()
