"""docs/tour.md and docs/guides/ name what exists, and leave out no error and no message of the log."""

from __future__ import annotations

import ast
import logging
import re
from pathlib import Path

import attrs
import pytest

from codegen.broker_error_advice import BROKER_ERROR_ADVICE
from kproducer import METRICS, ProducerHealth
from kproducer._core.config.producer_config import SETTINGS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    DOCS / "metrics.md",
    DOCS / "tour.md",
    DOCS / "testing.md",
    *sorted((DOCS / "guides").glob("*.md")),
]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}


def logged_messages() -> dict[str, str]:
    """Every text that is logged as WARNING or above, with its file."""
    found = {}
    for path in (ROOT / "kproducer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and re.search(r"\b_?log(ger)?\.\w+$", ast.unparse(node.func))):
                continue
            method, arguments = ast.unparse(node.func).rpartition(".")[2], list(node.args)
            if method == "log":
                level = ast.unparse(arguments.pop(0))
                if "INFO" in level and "WARNING" not in level:
                    continue
            elif (
                logging.getLevelName(method.upper()) not in range(logging.WARNING, 100)
                and method != "exception"
            ):
                continue
            if arguments and isinstance(arguments[0], ast.Constant):
                found[str(arguments[0].value)] = path.name
    return found


def pattern_of(quote: str) -> re.Pattern[str]:
    """The messages that a page quotes, with "..." for what varies."""
    return re.compile(".*".join(map(re.escape, quote.split("..."))))


def test_every_warning_and_error_in_the_log_is_explained() -> None:
    messages = logged_messages()
    assert len(messages) > 30
    quotes = [
        quote for quote in re.findall(r"`([^`\n]+)`", TEXTS[DOCS / "guides/operations.md"]) if " " in quote
    ]
    patterns = [pattern_of(quote) for quote in quotes]
    unexplained = {
        text: name for text, name in messages.items() if not any(each.match(text) for each in patterns)
    }
    assert unexplained == {}, "docs/guides/operations.md lacks these messages"


def test_every_message_in_the_tables_of_the_log_exists() -> None:
    page = TEXTS[DOCS / "guides/operations.md"]
    cells = re.findall(r"^\| (?:WARNING|ERROR) \| ([^|]+) \|", page, re.MULTILINE)
    quotes = [quote for cell in cells for quote in re.findall(r"`([^`]+)`", cell)]
    assert len(quotes) > 25
    messages = logged_messages()
    assert [quote for quote in quotes if not any(map(pattern_of(quote).match, messages))] == []


#: Bases, and errors that the producer does not raise: their subclasses say what to do.
NO_ADVICE = {
    "KafkaError",
    "FatalProducerError",
    "IncompleteResponseError",
    "InvalidMetadataError",
    "NoBrokersAvailableError",
    "RetriableError",
}


def test_the_reference_says_what_to_do_about_each_class_of_errors() -> None:
    page = (DOCS / "reference/errors.md").read_text(encoding="utf-8").partition("## Error codes")[0]
    advice = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", page, re.MULTILINE))
    assert {name for name, text in advice.items() if not text.strip()} == NO_ADVICE


def test_each_advice_about_a_broker_error_is_in_the_reference() -> None:
    page = (DOCS / "reference/errors.md").read_text(encoding="utf-8").partition("## Error codes")[2]
    rows = dict(re.findall(r"^\| (-?\d+) \|.*\| (.*) \|$", page, re.MULTILINE))
    assert {int(code): text for code, text in rows.items() if text.strip()} == BROKER_ERROR_ADVICE


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.stem)
def test_every_setting_exists(page: Path) -> None:
    arguments = {
        "timestamp_ms",
        "timestamps_ms",
        "error_type",
        "message_type",  # of a FileDescriptorProto
        *(field.name for field in attrs.fields(ProducerHealth)),
    }
    names = re.findall(
        r"(?<![\w.])[a-z]+(?:_[a-z]+)*_(?:ms|bytes|size|memory|type|total|avg|max)\b", TEXTS[page]
    )
    assert [name for name in names if name not in SETTINGS and name not in arguments] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_metric_exists(page: Path) -> None:
    metrics = {name for group in METRICS.values() for name in group}
    names = re.findall(r"`([a-z]+(?:-[a-z]+)*-(?:total|avg|max|rate|ratio|bytes|age))`", TEXTS[page])
    assert [name for name in names if name not in metrics] == []
