"""The results of a run: tables on the console, and the tables and plots of the documentation.

``python -m benchmarks.report FILE`` prints the results in FILE; with ``--document`` it also writes the tables
between the markers of ``DOCUMENTS``, the plots into docs/images, and their figures into the alternative texts
of the ``PAGES_WITH_PLOTS``. That needs the results of a whole run, so that all tables are of one run.
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
from benchmarks.goals import goals_of
from benchmarks.plots import COMPARED, plots_of, with_descriptions, write_plots
from benchmarks.workload import FAMILIES, LINGER_MS, OWN_DEFAULTS

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
#: The results that matter, and every table.
DOCUMENTS = (ROOT / "docs" / "performance.md", ROOT / "docs" / "measurements.md")
PAGES_WITH_PLOTS = (ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "performance.md")
IMAGES = ROOT / "docs" / "images"

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
        tables.goals_table(goals_of(results)),
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


# -- the documents -------------------------------------------------------------------------------------------


def sections(results: dict[str, Any]) -> dict[str, str]:
    """Markdown per marker of the documents."""
    summaries = []
    details = []
    for cluster in results["clusters"]:
        for family in FAMILIES:
            summary = tables.summary_table(results, cluster, family.name)
            if summary.rows:
                summaries.append(f"{_CLUSTERS[cluster]}, {family.name}:\n\n{tables.as_markdown(summary)}")
    for each in tables.throughput_tables(results):
        details.append(f"### {each.title}\n\n{tables.as_markdown(each)}")
    return {
        "facts": "\n".join(f"* {line}" for line in [*facts_of(results), *results["failures"]]),
        "summary": "\n\n".join(summaries),
        "comparison": _comparison(results),
        "adapters": tables.as_markdown(tables.adapters_table(results)),
        "ceiling": tables.as_markdown(tables.ceiling_table(results)),
        "low-rate": tables.as_markdown(tables.low_rate_table(results)),
        "growth": tables.as_markdown(tables.growth_table(results)),
        "idempotence": tables.as_markdown(tables.idempotence_table(results)),
        "formats": tables.as_markdown(tables.formats_table(results)),
        "memory": tables.as_markdown(tables.memory_table(results)),
        "goals": tables.as_markdown(tables.goals_table(goals_of(results))),
        "import": tables.as_markdown(tables.import_table(results)),
        "rows": "\n\n".join(details),
    }


def _comparison(results: dict[str, Any]) -> str:
    """The section of docs/performance.md: a line per workload of one family on the embedded cluster."""
    header = ("records", *COMPARED.values(), f"CPU, ratio to {COMPARED[REFERENCE]}")
    cells = []
    for row in rows_of(results["runs"]):
        if (row.cluster, row.family) == ("embedded", OWN_DEFAULTS.name):
            speeds = (row.spread(client, SPEED) for client in COMPARED)
            thousands = (f"{speed.median / 1000:,.0f}" if speed else "-" for speed in speeds)
            ratio = row.ratio(MAIN, CPU)
            cells.append((row.name, *thousands, f"{ratio.median:.2f}" if ratio else "-"))
    rounds = results["rounds"].get("embedded, throughput", 0)
    return (
        f"Thousand records per second ({results['clusters'].get('embedded', '')}, {results['machine']}, "
        f"Python {results['python']}; {'one round' if rounds == 1 else f'medians of {rounds} rounds'}):\n\n"
        + tables.as_markdown(Table("comparison", header, cells))
    )


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
    """Write the tables and plots into the documents. Returns the files that were written."""
    found = sections(results)
    plots = plots_of(results)
    changed = {path: path.read_text(encoding="utf-8") for path in (*DOCUMENTS, *PAGES_WITH_PLOTS)}
    changed |= {path: with_sections(changed[path], found) for path in DOCUMENTS}
    changed |= {path: with_descriptions(changed[path], plots) for path in PAGES_WITH_PLOTS}
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return [*changed, *write_plots(IMAGES, plots)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", help="results of a run; default: the newest")
    parser.add_argument("--document", action="store_true", help="write the documentation's tables and plots")
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
