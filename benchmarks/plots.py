"""Two small pictures of a run: CPU a record on every row, and latency at low rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.clients import COLOURS
from benchmarks.figures import CPU, SPEED, Row, percentile, rows_of


def write_plots(folder: Path, results: dict[str, Any]) -> list[Path]:
    """Write the pictures as SVG; returns their paths."""
    import matplotlib

    matplotlib.use("Agg")
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
    """Rows across; CPU above, speed below; a bar a client with the spread of its rounds."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(rows), figsize=(3.4 * len(rows), 7.2), squeeze=False)
    for column, row in enumerate(rows):
        clients = row.clients
        clients.sort(key=lambda client: list(COLOURS).index(client), reverse=True)
        for line, (metric, scale, label) in enumerate(
            (
                (CPU, 1.0, "CPU µs / record (less is better)"),
                (SPEED, 1e-3, "1000 records / s (more is better)"),
            )
        ):
            axis = axes[line][column]
            for place, client in enumerate(clients):
                spread = row.spread(client, metric)
                assert spread is not None
                value = spread.median * scale
                error = [[value - spread.low * scale], [spread.high * scale - value]]
                axis.barh(place, value, xerr=error, color=COLOURS[client], error_kw={"linewidth": 0.8})
                axis.annotate(
                    f" {value:,.2f}" if metric == CPU else f" {value:,.0f}",
                    (spread.high * scale, place),
                    va="center",
                    fontsize=6,
                )
            axis.set_xscale("log")
            low, high = axis.get_xlim()
            axis.set_xlim(low, high * 2.5)
            axis.set_yticks(range(len(clients)), clients if column == 0 else [""] * len(clients), fontsize=7)
            axis.tick_params(axis="x", labelsize=6)
            axis.set_xlabel(label, fontsize=7)
            axis.spines[["top", "right"]].set_visible(False)
            if line == 0:
                axis.set_title(row.name, fontsize=9)
    _save(figure, path)


def _plot_latency(path: Path, entries: list[dict[str, Any]]) -> None:
    import matplotlib.pyplot as plt

    panels = list(dict.fromkeys((entry["cluster"], entry["rate"]) for entry in entries))
    figure, axes = plt.subplots(1, len(panels), figsize=(3.4 * len(panels), 2.6), squeeze=False, sharey=True)
    for axis, (cluster, rate) in zip(axes[0], panels, strict=True):
        chosen = [entry for entry in entries if (entry["cluster"], entry["rate"]) == (cluster, rate)][::-1]
        for place, entry in enumerate(chosen):
            p50, p99 = (percentile(entry["milliseconds"], percent) for percent in (50, 99))
            colour = "#1b6ca8" if entry["client"].startswith("kproducer") else "#9aa5b1"
            axis.plot([p50, p99], [place, place], color=colour, linewidth=2)
            axis.plot([p50], [place], "o", color=colour)
            axis.plot([p99], [place], "|", color=colour, markersize=10)
        axis.set_yticks(range(len(chosen)), [entry["client"] for entry in chosen], fontsize=7)
        axis.set_xscale("log")
        axis.tick_params(axis="x", labelsize=6)
        axis.set_title(f"{cluster}, {rate:,} records/s", fontsize=8)
        axis.set_xlabel("ms: p50 (dot) to p99 (bar)", fontsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
