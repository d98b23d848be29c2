"""What docs and docstrings say about the structure of the code, where ``make lint`` cannot check it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import kproducer

_PACKAGE = Path(kproducer.__file__).parent
_UNIT_TESTS = Path(__file__).parent
_QUEUE = "_core/accumulator/partition_queue.py"
#: What changes a deque.
_CHANGES = {"append", "appendleft", "clear", "extend", "extendleft", "insert", "pop", "popleft", "remove"}


def _changes_of_queues(source: str) -> Iterator[str]:
    """The expressions that change a queue's batches, its open batch or its slot."""
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        for target in targets:
            text = ast.unparse(target)
            if text.endswith((".open_batch", ".slot.appender", "queue.batches")):
                yield text
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            text = ast.unparse(node.func)
            if text.startswith("queue.batches."):
                yield text


def test_only_a_queue_changes_its_batches_and_its_slot() -> None:
    found = {
        str(path.relative_to(_PACKAGE)): changes
        for path in _PACKAGE.rglob("*.py")
        if (changes := [*_changes_of_queues(path.read_text())])
    }
    assert set(found) == {_QUEUE}, found


def test_each_package_has_a_folder_of_unit_tests() -> None:
    packages = {
        path.parent.name for folder in (_PACKAGE, _PACKAGE / "_core") for path in folder.glob("*/__init__.py")
    }
    # Their tests need the client that they replace, Spark, or are in folders of their own.
    elsewhere = {"_core", "compat", "spark", "testing"}
    assert packages - elsewhere == {
        folder.name for folder in _UNIT_TESTS.iterdir() if any(folder.glob("test_*.py"))
    } - {"support"}
