"""The benchmark's results as a JSON file, tables and a plot. Medians over the rounds, nothing left out."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.workload import CODECS

METRICS = (
    ("messages_per_second", "messages / s (more is better)", 1.0),
    ("cpu_us_per_message", "CPU \u00b5s / message (less is better)", 1.0),
    ("peak_memory_bytes", "peak memory, MB (less is better)", 1e-6),
)
COLOURS = {
    "kproducer": "#1b6ca8",
    "confluent-kafka": "#e07b39",
    "kafka-python": "#9aa5b1",
    "aiokafka": "#6aa84f",
}

#: (codec, workload name, client) -> {metric: median}
Medians = dict[tuple[str, str, str], dict[str, float]]


def medians(runs: list[dict[str, Any]]) -> Medians:
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["codec"], run["name"], run["client"]), []).append(run)
    return {
        key: {metric: statistics.median(run[metric] for run in group) for metric, _, _ in METRICS}
        for key, group in groups.items()
    }


def write_json(path: Path, facts: dict[str, Any], runs: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps({**facts, "runs": runs}, indent=1))


def print_tables(console: Console, runs: list[dict[str, Any]], clients: list[str]) -> None:
    """A table for each metric: a row a workload, a column a client. Then CPU as a ratio to each peer."""
    found = medians(runs)
    rows = list(dict.fromkeys((run["codec"], run["name"]) for run in runs))
    for metric, label, scale in METRICS:
        table = Table(title=label, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        table.add_column("codec")
        table.add_column("records", no_wrap=True)
        for client in clients:
            table.add_column(client, justify="right", no_wrap=True)
        digits = 1 if metric == "cpu_us_per_message" else 0
        for index, (codec, name) in enumerate(rows):
            values = [found.get((codec, name, client), {}).get(metric) for client in clients]
            cells = ["-" if value is None else f"{value * scale:,.{digits}f}" for value in values]
            ends_codec = index + 1 < len(rows) and rows[index + 1][0] != codec
            table.add_row(codec, name, *cells, end_section=ends_codec)
        console.print(table)
    for peer in clients[1:]:
        _print_ratio(console, found, clients[0], peer)


def _print_ratio(console: Console, found: Medians, ours: str, peer: str) -> None:
    ratios = [
        found[codec, name, peer]["cpu_us_per_message"] / values["cpu_us_per_message"]
        for (codec, name, client), values in found.items()
        if client == ours and (codec, name, peer) in found
    ]
    if ratios:
        console.print(
            f"CPU per message, {peer} / {ours}: median {statistics.median(ratios):.2f} "
            f"(from {min(ratios):.2f} to {max(ratios):.2f})"
        )


def plot(path: Path, title: str, runs: list[dict[str, Any]], clients: list[str]) -> None:
    """Small multiples: a row a metric, a column a codec, a group of bars a workload."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = medians(runs)
    names = list(dict.fromkeys(run["name"] for run in runs))
    codecs = [codec for codec in CODECS if any(run["codec"] == codec for run in runs)]
    figure, axes = plt.subplots(
        len(METRICS), len(codecs), figsize=(4.2 * len(codecs), 9), sharey="row", squeeze=False
    )
    width = 0.8 / len(clients)
    for row, (metric, label, scale) in enumerate(METRICS):
        for column, codec in enumerate(codecs):
            axis = axes[row][column]
            for index, client in enumerate(clients):
                heights = [found.get((codec, name, client), {}).get(metric, 0) * scale for name in names]
                places = [place + (index - (len(clients) - 1) / 2) * width for place in range(len(names))]
                axis.bar(places, heights, width * 0.92, color=COLOURS[client], label=client)
            axis.set_xticks(range(len(names)), names, fontsize=8)
            axis.spines[["top", "right"]].set_visible(False)
            axis.grid(axis="y", linewidth=0.4, alpha=0.6)
            axis.set_axisbelow(True)
            axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            if row == 0:
                axis.set_title(codec)
            if column == 0:
                axis.set_ylabel(label, fontsize=9)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="upper center", ncols=len(clients), frameon=False, bbox_to_anchor=(0.5, 0.955)
    )
    figure.suptitle(title, fontsize=10, y=0.985)
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    figure.savefig(path, dpi=110)
    plt.close(figure)
