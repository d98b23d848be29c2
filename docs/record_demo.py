"""Run ``make demo`` in a terminal and write what it prints, when it prints it, as an animated SVG.

    make record-demo

The image plays once and ends with the last screen. A browser that prefers reduced motion shows only that.
A run of more than ``LONGEST_SECONDS`` is played faster, and the image says so.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
IMAGE = ROOT / "docs/images/demo.svg"
#: Narrow, so that the text stays legible on a phone.
COLUMNS, ROWS = 60, 60
LONGEST_SECONDS = 12.0
#: Between frames, while something moves.
_FRAME_SECONDS = 0.2
_PROMPT = "\x1b[1m$ make demo\x1b[0m\n"

_FONT, _CELL, _LINE, _MARGIN = 14, 8.4, 19, 12
#: As benchmarks/plots.py: its own background, because a page's theme may differ from the system's.
_STYLE = """
svg { --page: #ffffff; --text: #1f2328; --dim: #59636e; --bar: #0b6bcb; --rest: #d1d9e0 }
svg { --good: #1a7f37; --bad: #cf222e }
@media (prefers-color-scheme: dark) {
  svg { --page: #131416; --text: #e6edf3; --dim: #9198a1; --bar: #4da3ff; --rest: #3d444d }
  svg { --good: #3fb950; --bad: #ff7b72 }
}
text { font: %(font)dpx ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
text { fill: var(--text) } .bold { font-weight: 600 } .dim { fill: var(--dim) }
.good { fill: var(--good) } .bad { fill: var(--bad) }
.page { fill: var(--page) } .bar { fill: var(--bar) } .rest { fill: var(--rest) }
.past { visibility: hidden }
@media (prefers-reduced-motion: no-preference) {
  .past { animation: past 1s } .last { animation: last 1ms both }
}
@keyframes past { from, to { visibility: visible } }
@keyframes last { from { visibility: hidden } to { visibility: visible } }
"""

_ESCAPES = re.compile(r"(\r|\n|\x1b\[[0-9;?]*[A-Za-z])")


class Screen:
    """The lines of a terminal that prints text and moves up only to draw lines again, as rich does."""

    def __init__(self) -> None:
        #: With escape sequences for colours.
        self.lines = [""]
        self._row = 0

    def write(self, text: str) -> None:
        """Take what a program prints.

        Raises:
            ValueError: it has an escape sequence that is not known here.
        """
        for part in _ESCAPES.split(text):
            if part == "\n":
                self._row += 1
                if self._row == len(self.lines):
                    self.lines.append("")
            elif part == "\x1b[2K":
                self.lines[self._row] = ""
            elif up := re.fullmatch(r"\x1b\[(\d+)A", part):
                self._row -= int(up[1])
            elif part.startswith("\x1b[") and part[-1] != "m" and part not in ("\x1b[?25l", "\x1b[?25h"):
                raise ValueError(f"the recorder does not know the escape sequence {part!r}")
            elif part and part != "\r" and not part.startswith("\x1b[?"):
                self.lines[self._row] += part


def printed(command: Sequence[str], columns: int = COLUMNS) -> Iterator[tuple[float, str]]:
    """Run the command in a terminal; what it prints, with the seconds since the start.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    own_end, its_end = pty.openpty()
    fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    environment = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "COLORTERM")
    }
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env={**environment, "TERM": "xterm-256color"}, stdout=its_end, stderr=its_end
    )
    os.close(its_end)
    rest = b""
    with os.fdopen(own_end, "rb", buffering=0) as terminal:
        while True:
            try:
                read = terminal.read(65536)
            except OSError:  # Linux, when the command has closed its end
                break
            if not read:
                break
            # Whole characters and escape sequences.
            complete, rest = _whole(rest + read)
            yield time.monotonic() - started, complete.decode()
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)


def _whole(read: bytes) -> tuple[bytes, bytes]:
    """Split off an escape sequence or a character that is not complete."""
    cut = re.search(rb"(?:\x1b(?:\[[0-9;?]*)?|[\xc0-\xff][\x80-\xbf]{0,2})\Z", read)
    if cut is None or _is_complete(cut[0]):
        return read, b""
    return read[: cut.start()], cut[0]


def _is_complete(end: bytes) -> bool:
    try:
        return not end.startswith(b"\x1b") and bool(end.decode())
    except UnicodeDecodeError:
        return False


class Line(NamedTuple):
    """A line of the screen while it does not change; ``end`` is ``None`` on the last screen."""

    row: int
    start: float
    end: float | None
    text: str


def timeline(events: Sequence[tuple[float, str]]) -> tuple[list[Line], float]:
    """Every state of every line, and when the last one appears. Changes are drawn in frames."""
    screen = Screen()
    screen.write(_PROMPT)
    shown: dict[int, tuple[float, str]] = {0: (0.0, screen.lines[0])}
    lines: list[Line] = []
    frames = [(int(at / _FRAME_SECONDS) + 1) * _FRAME_SECONDS for at, _ in events]
    for (at, (_, text)), following in zip(
        zip(frames, events, strict=True), [*frames[1:], float("inf")], strict=True
    ):
        screen.write(text)
        if following == at:
            continue
        for row, line in enumerate(screen.lines):
            since, before = shown.get(row, (at, ""))
            if line != before:
                if before:
                    lines.append(Line(row, since, at, before))
                shown[row] = at, line
    lines += [Line(row, since, None, text) for row, (since, text) in shown.items() if text]
    return lines, frames[-1] if frames else 0.0


def svg(lines: Sequence[Line], seconds: float) -> str:
    """The image."""
    speed = max(1.0, seconds / LONGEST_SECONDS)
    rows = 1 + max(line.row for line in lines)
    note = f"played {speed:.1f} times as fast" if speed >= 1.05 else ""
    width = round(COLUMNS * _CELL + 2 * _MARGIN)
    height = (rows + bool(note)) * _LINE + 2 * _MARGIN
    image = ElementTree.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=str(width),
        height=str(height),
        role="img",
    )
    ElementTree.SubElement(image, "title").text = "What make demo prints"
    ElementTree.SubElement(image, "style").text = _STYLE % {"font": _FONT}
    page = {"class": "page", "width": str(width), "height": str(height), "rx": "8"}
    ElementTree.SubElement(image, "rect", page)
    for line in sorted(lines, key=lambda line: (line.row, line.start)):
        _draw(image, line, speed)
    if note:
        _draw(image, Line(rows, 0.0, None, f"\x1b[2m{note}\x1b[0m"), speed)
    ElementTree.indent(image, "")
    return ElementTree.tostring(image, encoding="unicode") + "\n"


def _draw(image: ElementTree.Element, line: Line, speed: float) -> None:
    start = round(line.start / speed, 2)
    style = f"animation-delay:{start:.2f}s"
    if line.end is not None:
        style += f";animation-duration:{round(line.end / speed, 2) - start:.2f}s"
    kind = "last" if line.end is None else "past"
    group = ElementTree.SubElement(image, "g", {"class": kind, "style": style})
    baseline = _MARGIN + line.row * _LINE + _FONT
    for column, text, classes in pieces(line.text):
        left = f"{_MARGIN + column * _CELL:.1f}"
        length = f"{len(text) * _CELL:.1f}"
        if set(text) <= set("━╸╺"):
            place = {"x": left, "y": str(baseline - 6), "width": length, "height": "4"}
            ElementTree.SubElement(group, "rect", {"class": "rest" if "rest" in classes else "bar", **place})
            continue
        attributes = {"x": left, "y": str(baseline), "textLength": length}
        if classes:
            attributes["class"] = " ".join(classes)
        ElementTree.SubElement(group, "text", attributes).text = text


def pieces(line: str) -> Iterator[tuple[int, str, list[str]]]:
    """The parts of a line that have one style and no wide gap: (column, text, classes)."""
    text = Text.from_ansi(line)
    borders = sorted({0, len(text), *(border for span in text.spans for border in (span.start, span.end))})
    for start, end in pairwise(borders):
        styles = [span.style for span in text.spans if span.start <= start < span.end]
        style = Style.combine([Style(), *(each for each in styles if isinstance(each, Style))])
        for found in re.finditer(r"\S+(?: \S+)*", text.plain[start:end]):
            yield start + found.start(), found[0], _classes(style)


def _classes(style: Style) -> list[str]:
    names = [name for name, is_set in (("bold", style.bold), ("dim", style.dim)) if is_set]
    if style.color is not None:
        # 237: what rich draws the rest of a bar with
        colours = {2: "good", 1: "bad", 237: "rest"}
        names += [name for number, name in colours.items() if style.color.number == number]
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description="Record make demo as an animated SVG.")
    parser.add_argument("--output", type=Path, default=IMAGE, metavar="FILE")
    parser.add_argument("demo_arguments", nargs="*", help="of the demo, after --")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "examples.demo", *arguments.demo_arguments]
    try:
        lines, seconds = timeline(list(printed(command)))
    except subprocess.CalledProcessError as error:
        sys.exit(f"the demo failed with status {error.returncode}; nothing was written")
    arguments.output.write_text(svg(lines, seconds), encoding="utf-8")
    print(f"{arguments.output}: {arguments.output.stat().st_size:,} bytes, {seconds:.0f} s")


if __name__ == "__main__":
    main()
