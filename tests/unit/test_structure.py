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


#: Functions that may have more than 80 lines or 8 parameters, and why.
_LARGE = {
    # The signature of aiokafka's producer.
    "compat/aiokafka/aiokafka_producer.py:AIOKafkaProducer.__init__",
    # The fields of a record batch's header.
    "_core/kernel/batch_header.py:write_batch_header",
    # What tests replace: sockets, clock, name service, randomness.
    "_core/client/network_client.py:NetworkClient.__init__",
}


def _large_functions(source: str) -> Iterator[str]:
    """Functions with more than 80 lines, without their docstring, or more than 8 parameters, without self."""

    def look(node: ast.AST, prefix: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from look(child, f"{prefix}{child.name}.")
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                arguments = child.args
                names = [
                    each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                ]
                if names and names[0] in ("self", "cls"):
                    names = names[1:]
                docstring = ast.get_docstring(child, clean=False) or ""
                assert child.end_lineno is not None
                lines = child.end_lineno - child.lineno + 1 - len(docstring.splitlines())
                if lines > 80 or len(names) > 8:
                    yield f"{prefix}{child.name}"

    return look(ast.parse(source), "")


def test_functions_are_short_and_take_few_parameters() -> None:
    found = {
        f"{path.relative_to(_PACKAGE)}:{name}"
        for path in _PACKAGE.rglob("*.py")
        for name in _large_functions(path.read_text())
    }
    assert found == _LARGE
