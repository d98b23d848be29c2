"""Plots of a run: CPU and speed of every client on every row, and latency against rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.clients import AIOKAFKA, ASYNC_SUBMIT, COLOURS, MAIN, POLL_THREAD
from benchmarks.figures import CPU, SPEED, Row, Spread, rows_of
from benchmarks.low_rate import ASYNC, ASYNC_PEER, OURS, PEER

_METRICS = (
    (CPU, 1.0, "CPU µs / record (less is better)"),
    (SPEED, 1e-3, "1000 records / s (more is better)"),
)


#: Of the clients of the latency plot.
_LATENCY_COLOURS = {
    OURS: COLOURS[MAIN],
    PEER: COLOURS[POLL_THREAD],
    ASYNC_PEER: COLOURS[AIOKAFKA],
    ASYNC: COLOURS[ASYNC_SUBMIT],
}


def write_plots(folder: Path, results: dict[str, Any]) -> list[Path]:
    """Write the plots as SVG; returns their paths."""
    import matplotlib

    matplotlib.use("Agg")
    # Text stays text, which reduces the size by 90%. The salt makes the output reproducible.
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "kproducer"
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    rows = [row for row in rows_of(results["runs"]) if row.family == "own defaults"]
    for cluster in dict.fromkeys(row.cluster for row in rows):
        path = folder / f"performance-{cluster}.svg"
        _plot_rows(path, [row for row in rows if row.cluster == cluster])
        written.append(path)
    if results["low_rate"]:
        written.append(folder / "performance-latency.svg")
        _plot_latency(written[-1], results["low_rate"])
    return written


def _plot_rows(path: Path, rows: list[Row]) -> None:
    """CPU above and speed below, by row; a dot per client, with a line for the spread of its rounds."""
    import matplotlib.pyplot as plt

    found = {client for row in rows for client in row.clients}
    clients = [client for client in COLOURS if client in found][::-1]
    size = (1.8 + 2.6 * len(rows), 1.2 + 0.42 * len(clients))
    figure, axes = plt.subplots(2, len(rows), figsize=size, squeeze=False, sharex="row", sharey=True)
    for column, row in enumerate(rows):
        axes[0][column].set_title(row.name, fontsize=9)
        for line, (metric, scale, label) in enumerate(_METRICS):
            axis = axes[line][column]
            for place, client in enumerate(clients):
                spread = row.spread(client, metric)
                if spread is not None:
                    _plot_spread(axis, place, spread, scale, COLOURS[client])
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_yticks(range(len(clients)), clients, fontsize=7)
            axis.tick_params(axis="both", labelsize=7, length=2)
            axis.minorticks_off()
            axis.grid(axis="x", linewidth=0.4, alpha=0.5)
            axis.set_xlabel(label, fontsize=7)
            axis.margins(x=0.22)
            axis.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def _plot_spread(axis: Any, place: int, spread: Spread, scale: float, colour: str) -> None:
    median, low, high = (value * scale for value in (spread.median, spread.low, spread.high))
    axis.plot([low, high], [place, place], color=colour, linewidth=2.5, solid_capstyle="butt")
    axis.plot([median], [place], "o", color=colour, markersize=5)
    text = f"{median:,.0f}" if median >= 100 else f"{median:.3g}"
    axis.annotate(text, (high, place), (5, 0), textcoords="offset points", va="center", fontsize=6)


def _plot_latency(path: Path, runs: list[dict[str, Any]]) -> None:
    """A panel per cluster: p50 (solid) and p99 (dashed) of each client against the rate."""
    import matplotlib.pyplot as plt

    rows = [row for row in rows_of(runs) if not row.runs[0]["busy"]]
    clusters = list(dict.fromkeys(row.cluster for row in rows))
    figure, axes = plt.subplots(
        1, len(clusters), figsize=(4.6 * len(clusters), 3.2), squeeze=False, sharey=True
    )
    for axis, cluster in zip(axes[0], clusters, strict=True):
        chosen = [row for row in rows if row.cluster == cluster]
        for client, colour in _LATENCY_COLOURS.items():
            for metric, style in (("p50_ms", "-"), ("p99_ms", "--")):
                points = [
                    (row.runs[0]["rate"], spread.median)
                    for row in chosen
                    if (spread := row.spread(client, metric)) is not None
                ]
                if not points:
                    continue
                label = f"{client}, {metric.removesuffix('_ms')}"
                axis.plot(
                    *zip(*points, strict=True), style, color=colour, marker="o", markersize=3, label=label
                )
        axis.set_xscale("log")
        axis.set_yscale("log")
        for each in (axis.xaxis, axis.yaxis):
            each.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.tick_params(axis="both", labelsize=7)
        axis.minorticks_off()
        axis.grid(linewidth=0.4, alpha=0.5)
        axis.set_title("Apache Kafka" if cluster == "kafka" else "Embedded cluster", fontsize=8)
        axis.set_xlabel("records/s", fontsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("ms, from send() to the callback", fontsize=7)
    axes[0][0].legend(fontsize=6, frameon=False)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
