"""docs/images/demo.svg: a recording of ``make demo`` that plays once, is small, and names no path."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.record_demo import COLUMNS, IMAGE, LONGEST_SECONDS, Screen, pieces, printed, svg, timeline
from tests.support.browser import open_browser

_G, _TEXT = ("{http://www.w3.org/2000/svg}" + name for name in ("g", "text"))


def texts(image: ElementTree.Element, kind: str) -> list[str]:
    """The texts of lines that stay (``last``) or vanish (``past``)."""
    return [
        "  ".join(text.text or "" for text in group.iter(_TEXT))
        for group in image.iter(_G)
        if group.get("class") == kind
    ]


@pytest.fixture(scope="module")
def image() -> ElementTree.Element:
    return ElementTree.fromstring(IMAGE.read_text(encoding="utf-8"))


def test_the_last_screen_has_the_figures_of_both_clients_as_text(image: ElementTree.Element) -> None:
    shown = "\n".join(texts(image, "last"))
    for row in ("kproducer, futures", "kproducer, callbacks", "confluent-kafka, callbacks"):
        assert re.search(rf"^{row}  [\d,]+  \d+\.\d\d µs$", shown, re.MULTILINE)
        assert re.search(rf"^{row}  verified  1000000/1000000$", shown, re.MULTILINE)
    for row in ("kproducer", "confluent-kafka"):
        assert re.search(rf"^{row}  [\d,.]+ ms  [\d,.]+ ms$", shown, re.MULTILINE)
    assert "verified 1,000,000 of 1,000,000" in shown
    assert "native kernel, compiled client" in shown


def test_it_is_small_and_short(image: ElementTree.Element) -> None:
    assert IMAGE.stat().st_size < 100_000
    numbers = [re.findall(r"[\d.]+(?=s)", group.get("style") or "") for group in image.iter(_G)]
    ends = [sum(map(float, found)) for found in numbers]
    assert 2 < max(ends) <= 20


def test_it_needs_no_other_file_and_names_no_place_of_the_machine(image: ElementTree.Element) -> None:
    said = "\n".join([*texts(image, "last"), *texts(image, "past")])
    assert not re.search(r"(?<![\w.])[/~]\w|[A-Z]:\\|\w@\w", said)
    raw = IMAGE.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|href|url\(|@import|<script|<image", raw)


@pytest.mark.browser
@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_a_browser_plays_it_or_shows_the_last_screen(image: ElementTree.Element, motion: str) -> None:
    last = "\n".join(texts(image, "last")).replace("\n", "  ").split("  ")
    with tempfile.TemporaryDirectory() as profile, open_browser(Path(profile)) as browser:
        feature = {"features": [{"name": "prefers-reduced-motion", "value": motion}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
        browser.get(IMAGE.as_uri())

        def visible(milliseconds: int) -> list[str]:
            script = """
            for (const each of document.getAnimations()) { each.pause(); each.currentTime = arguments[0] }
            return [...document.querySelectorAll("text")]
                .filter(each => getComputedStyle(each).visibility == "visible").map(each => each.textContent)
            """
            found: list[str] = browser.execute_script(script, milliseconds)
            return found

        assert sorted(visible(20_000)) == sorted(last)
        if motion == "reduce":
            assert sorted(visible(1)) == sorted(last)
        else:
            assert "$ make demo" in visible(1)
            assert len(visible(1)) < 3


def test_a_program_in_a_terminal_is_recorded_with_colours_and_overwritten_lines() -> None:
    program = """
from rich.console import Console
print(Console().width)
print("\\x1b[?25l\\x1b[1;32mone ✓\\x1b[0m\\x1b[?25h")
print("\\x1b[1A\\r\\x1b[2Ktwo  columns")
"""
    events = list(printed([sys.executable, "-c", program]))
    lines, seconds = timeline(events)
    assert [line.text for line in lines if line.end is None][1:] == [str(COLUMNS), "two  columns"]
    assert ElementTree.fromstring(svg(lines, seconds)) is not None


def test_lines_change_in_frames_and_the_image_is_faster_if_the_run_was_long() -> None:
    long = LONGEST_SECONDS * 2
    lines, seconds = timeline([(0.01, "a\n"), (0.02, "b\n"), (1.0, "\x1b[1A\r\x1b[2K<c>"), (long, "\nd")])
    states = [(line.row, line.end is None, line.text) for line in lines]
    assert sorted(states)[1:] == [(1, True, "a"), (2, False, "b"), (2, True, "<c>"), (3, True, "d")]
    image = ElementTree.fromstring(svg(lines, seconds))
    assert texts(image, "last") == ["$ make demo", "a", "<c>", "d", "played 2.0 times as fast"]
    assert texts(image, "past") == ["b"]


def test_styles_become_classes() -> None:
    line = "\x1b[1;32mverified 3\x1b[0m of 3  \x1b[2mdim\x1b[0m \x1b[38;5;237m━━\x1b[0m"
    assert list(pieces(line)) == [
        (0, "verified 3", ["bold", "good"]),
        (11, "of 3", []),
        (17, "dim", ["dim"]),
        (21, "━━", ["rest"]),
    ]


def test_an_unknown_escape_sequence_is_named() -> None:
    with pytest.raises(ValueError, match=r"does not know the escape sequence '\\x1b\[5B'"):
        Screen().write("\x1b[5B")
