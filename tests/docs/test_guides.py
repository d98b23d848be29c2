"""docs/tour.md and docs/guides/ are correct: their examples run, their links lead somewhere, nothing is left out."""

from __future__ import annotations

import ast
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kproducer
from kproducer import METRICS, KafkaError, ProducerConfig, errors
from kproducer.config.producer_config import SETTINGS
from tests.support.kafka.mock_cluster import MockCluster

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [DOCS / "tour.md", *sorted((DOCS / "guides").glob("*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page, text in TEXTS.items()
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE), 1)
]


@pytest.mark.parametrize("kernel", ["auto", "pure"])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_pasted_block_runs(block: str, kernel: str, mock_cluster: MockCluster, tmp_path: Path) -> None:
    program = block.replace("localhost:9092", mock_cluster.bootstrap_servers.split(",")[0])
    if "import fastapi" in block or "from fastapi" in block:
        check_without_running(program)
        return
    command = ["-W", "error", "-c", program]
    if "import pytest" in block:
        (tmp_path / "test_example.py").write_text(program)
        command = ["-m", "pytest", "-p", "no:cacheprovider", "-W", "error", str(tmp_path / "test_example.py")]
    finished = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "KPRODUCER_KERNEL": kernel},
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "events" in finished.stdout or "1 passed" in finished.stdout
    # A producer without a broker logs a warning, unless it is closed first.
    assert finished.stderr == "" or '"localhost:1"' in block


def check_without_running(program: str) -> None:
    """For a block whose framework is not installed: its imports of ours exist, and its settings are accepted."""
    nodes = list(ast.walk(ast.parse(program)))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "kproducer"]
    producers = [node for node in nodes if isinstance(node, ast.Call) and "KafkaProducer" in ast.unparse(node.func)]
    assert imports
    assert producers
    for node in imports:
        assert all(hasattr(kproducer, alias.name) for alias in node.names)
    for call in producers:
        settings = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        ProducerConfig.from_keywords({"bootstrap_servers": ast.literal_eval(call.args[0]), **settings})


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub and MyST give to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", TEXTS[page])
    assert links
    broken = []
    for path, anchor in links:
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors_of(target)):
            broken.append(f"{path}#{anchor}")
    assert broken == []


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
            elif logging.getLevelName(method.upper()) not in range(logging.WARNING, 100) and method != "exception":
                continue
            if arguments and isinstance(arguments[0], ast.Constant):
                found[str(arguments[0].value)] = path.name
    return found


def test_every_warning_and_error_in_the_log_is_explained() -> None:
    messages = logged_messages()
    assert len(messages) > 30
    # What the page quotes, with "..." for what varies.
    quotes = [quote for quote in re.findall(r"`([^`\n]+)`", TEXTS[DOCS / "guides/operations.md"]) if " " in quote]
    patterns = [re.compile(".*".join(map(re.escape, quote.split("...")))) for quote in quotes]
    unexplained = {
        text: name for text, name in messages.items() if not any(each.match(text) for each in patterns)
    }
    assert unexplained == {}, "docs/guides/operations.md lacks these messages"


def test_every_message_in_the_tables_of_the_log_exists() -> None:
    page = TEXTS[DOCS / "guides/operations.md"]
    quotes = re.findall(r"^\| (?:WARNING|ERROR) \| `([^`]+)` \|", page, re.MULTILINE)
    assert len(quotes) > 25
    messages = logged_messages()
    patterns = {quote: re.compile(".*".join(map(re.escape, quote.split("...")))) for quote in quotes}
    assert [quote for quote, each in patterns.items() if not any(map(each.match, messages))] == []


def test_every_class_of_errors_is_explained() -> None:
    classes = [
        name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, KafkaError)
    ]
    assert len(classes) > 25
    named = set(re.findall(r"\b(\w+Error)\b", TEXTS[DOCS / "guides/errors.md"]))
    assert [name for name in classes if name not in named] == []


def test_every_error_in_a_heading_exists() -> None:
    headings = re.findall(r"^### (\w+)$", TEXTS[DOCS / "guides/errors.md"], re.MULTILINE)
    assert len(headings) > 40
    missing = [
        name for name in headings if not (hasattr(errors, name) or hasattr(errors.broker_errors, name))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_setting_and_metric_exists(page: Path) -> None:
    arguments = {"timestamp_ms", "timestamps_ms"}
    names = re.findall(r"(?<![\w.])[a-z]+(?:_[a-z]+)*_(?:ms|bytes|size|memory|type|total|avg|max)\b", TEXTS[page])
    assert [name for name in names if name not in SETTINGS and name not in METRICS and name not in arguments] == []
