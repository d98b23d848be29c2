"""docs/architecture.md names files, functions and classes that exist."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kproducer"
CORE = PACKAGE / "_core"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PATHS = dict(re.findall(r"<!-- (\S+) -->\n(.*?)<!-- end of \1 -->", TEXT, re.DOTALL))
STEP = re.compile(r"^\d+\. .*: `([^`]+)`, `([^`]+)`$", re.MULTILINE)
STEPS = [step for path in PATHS.values() for step in STEP.findall(path)]


@cache
def names_defined_in(path: Path) -> frozenset[str]:
    """Functions and classes of a module, and ``Class.method`` for methods."""
    text = path.read_text(encoding="utf-8")
    found: set[str] = set()
    if path.suffix == ".pyx":
        # Not Python: read by line. A method belongs to the class before it.
        owner = ""
        for line in text.splitlines():
            if match := re.match(r"(?:cdef )?class (\w+)|(?:def|cpdef [\w.*]+) (\w+)\(", line):
                owner = match[1] or ""
                found.add(match[1] or match[2])
            elif match := re.match(r"cdef (?:inline )?\w+ (\w+)\(", line):
                found.add(match[1])
            elif (match := re.match(r"    (?:def|cpdef [\w.*]+) (\w+)\(", line)) and owner:
                found.add(f"{owner}.{match[1]}")
        return frozenset(found)
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
            found.update(f"{node.name}.{method.name}" for method in methods)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return frozenset(found)


@cache
def all_names() -> frozenset[str]:
    paths = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyx")]
    return frozenset().union(*(names_defined_in(path) for path in paths))


def test_each_path_has_all_its_steps() -> None:
    assert list(PATHS) == ["journey", "below", "retry", "commit", "micro-batch", "columns"]
    for path in PATHS.values():
        numbers = re.findall(r"^(\d+)\. ", path, re.MULTILINE)
        assert numbers == [str(number) for number in range(1, len(STEP.findall(path)) + 1)]
        assert len(numbers) > 4


@pytest.mark.parametrize(("name", "most"), [("journey", 8), ("retry", 6), ("commit", 6), ("micro-batch", 8)])
def test_a_path_leads_through_few_files(name: str, most: int) -> None:
    assert len({file for file, _ in STEP.findall(PATHS[name])}) <= most


@pytest.mark.parametrize(("file", "function"), STEPS)
def test_a_step_names_a_function_of_its_file(file: str, function: str) -> None:
    found = [folder / file for folder in (CORE, PACKAGE) if (folder / file).is_file()]
    assert len(found) == 1, f"{file} does not exist: correct docs/architecture.md"
    assert function in names_defined_in(found[0]), f"{file} has no {function}: correct the page"


def test_every_class_and_method_on_the_page_exists() -> None:
    named = set(re.findall(r"`([A-Z][a-z]\w*(?:\.\w+)?)`", TEXT))
    assert "ReadyQueues" in named
    unknown = {name for name in named - all_names() if not hasattr(builtins, name)}
    assert not unknown, f"docs/architecture.md names undefined functions or classes: {sorted(unknown)}"


def test_every_directory_exists() -> None:
    folders = re.findall(r"`((?:specs|codegen|generated|kproducer)/[\w/.]*)`", TEXT)
    assert len(folders) > 10
    assert [each for each in folders if not (ROOT / each).exists()] == []


def test_every_package_is_in_the_table_of_directories() -> None:
    packages = [f"kproducer/{each.parent.name}/" for each in PACKAGE.glob("*/__init__.py")]
    packages += [f"{each.parent.name}/" for each in CORE.glob("*/__init__.py")]
    assert [name for name in packages if f"`{name}`" not in TEXT] == []
