"""Plots of a run as SVG: bars from zero on a linear axis, one per client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from benchmarks.clients import AIOKAFKA, KAFKA_PYTHON, MAIN, REFERENCE
from benchmarks.figures import SPEED, rows_of
from benchmarks.low_rate import ASYNC_PEER, OURS, PEER

#: The clients of the throughput plot: each as its users call it and with a result per record.
COMPARED = {
    MAIN: "kproducer",
    REFERENCE: "confluent-kafka",
    AIOKAFKA: "aiokafka",
    KAFKA_PYTHON: "kafka-python",
}
_LATENCY = {OURS: "kproducer", PEER: "confluent-kafka", ASYNC_PEER: "aiokafka"}
_LATENCY_RATE = 1000

#: Title and note of each plot.
_TITLES = {
    "throughput.svg": (
        "Records per second",
        "100-byte values, acks=all, own defaults, a result per record",
    ),
    "latency.svg": (
        "Median latency at 1,000 records per second",
        "Less is better; 100-byte values, linger_ms=0, Apache Kafka",
    ),
}

#: Narrow, so that the text stays legible on a phone.
_WIDTH, _LABELS, _VALUES = 480, 142, 96
_TOP, _STEP, _THICK = 56, 38, 24
#: The image has its own background, because a page's theme may differ from the one that the system prefers.
_STYLE = """
svg { --page: #ffffff; --text: #1f2328; --note: #59636e; --ours: #0b6bcb; --peer: #7d8590 }
@media (prefers-color-scheme: dark) {
  svg { --page: #131416; --text: #e6edf3; --note: #9198a1; --ours: #4da3ff; --peer: #848d97 }
}
text { font: 15px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--text) }
.title { font-weight: 600 } .note { font-size: 13px; fill: var(--note) }
.page { fill: var(--page) } .ours { fill: var(--ours) } .peer { fill: var(--peer) }
"""


class Bar(NamedTuple):
    """A client's figure: the label beside the bar, its length, and the text at its end."""

    label: str
    value: float
    text: str

    @property
    def is_ours(self) -> bool:
        return self.label == COMPARED[MAIN]


def bar_plot(title: str, note: str, bars: list[Bar]) -> str:
    """The plot as SVG. All bars start at zero and share one linear scale."""
    height = _TOP + _STEP * len(bars) + 8
    svg = ElementTree.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {height}",
        width=str(_WIDTH),
        height=str(height),
        role="img",
    )
    ElementTree.SubElement(svg, "title").text = title
    ElementTree.SubElement(svg, "style").text = _STYLE
    _add(svg, "rect", "page", x=0, y=0, width=_WIDTH, height=height, rx=8)
    _add(svg, "text", "title", x=16, y=26).text = title
    _add(svg, "text", "note", x=16, y=46).text = note
    scale = (_WIDTH - _LABELS - _VALUES) / max(bar.value for bar in bars)
    for number, bar in enumerate(bars):
        top = _TOP + 8 + _STEP * number
        middle = top + _THICK / 2 + 5
        length = bar.value * scale
        _add(svg, "text", "label", x=_LABELS - 12, y=middle, text_anchor="end").text = bar.label
        kind = "ours" if bar.is_ours else "peer"
        _add(svg, "rect", f"bar {kind}", x=_LABELS, y=top, width=f"{length:.1f}", height=_THICK)
        _add(svg, "text", "value", x=f"{_LABELS + length + 8:.1f}", y=middle).text = bar.text
    ElementTree.indent(svg)
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


def _add(parent: ElementTree.Element, tag: str, kind: str, **attributes: object) -> ElementTree.Element:
    texts = {name.replace("_", "-"): str(value) for name, value in attributes.items()}
    return ElementTree.SubElement(parent, tag, {"class": kind, **texts})


class Plot(NamedTuple):
    """A plot of the documentation: the name of its file, and one bar per client."""

    name: str
    bars: list[Bar]

    @property
    def description(self) -> str:
        """The plot in words, for those who do not see it."""
        title, _ = _TITLES[self.name]
        return f"{title}: " + ", ".join(f"{bar.label} {bar.text}" for bar in self.bars)


def plots_of(results: dict[str, Any]) -> list[Plot]:
    """The plots for which there are results."""
    plots = (Plot("throughput.svg", _throughput(results)), Plot("latency.svg", _latency(results)))
    return [plot for plot in plots if plot.bars]


def write_plots(folder: Path, plots: list[Plot]) -> list[Path]:
    """Write the plots as SVG; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for plot in plots:
        (folder / plot.name).write_text(bar_plot(*_TITLES[plot.name], plot.bars), encoding="utf-8")
    return [folder / plot.name for plot in plots]


def with_descriptions(text: str, plots: list[Plot]) -> str:
    """The page with the description of each plot as the alternative text of its images."""
    for plot in plots:
        text = re.sub(rf"!\[[^]]*\](?=\([^)]*images/{plot.name}\))", f"![{plot.description}]", text)
    return text


def _throughput(results: dict[str, Any]) -> list[Bar]:
    for row in rows_of(results["runs"]):
        if (row.cluster, row.family, row.name) == ("embedded", "own defaults", "100 B"):
            found = ((client, row.spread(client, SPEED)) for client in COMPARED)
            figures = [(COMPARED[client], spread.median) for client, spread in found if spread]
            return [Bar(label, value, f"{round(value, -3):,.0f}") for label, value in figures]
    return []


def _latency(results: dict[str, Any]) -> list[Bar]:
    for row in rows_of(results["low_rate"]):
        first = row.runs[0]
        if row.cluster == "kafka" and first["rate"] == _LATENCY_RATE and not first["busy"]:
            found = ((client, row.spread(client, "p50_ms")) for client in _LATENCY)
            figures = [(_LATENCY[client], spread.median) for client, spread in found if spread]
            return [Bar(label, value, f"{value:.2f} ms") for label, value in figures]
    return []
