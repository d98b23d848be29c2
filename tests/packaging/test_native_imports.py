"""The sources of compiled modules. Those in Cython import only other modules in Cython.

import-linter sees Python sources only; this test reads the ``import`` and ``cimport`` lines of Cython.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from build_tools.native_build import ROOT, native_sources

_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\b|c?import\s+([\w., ]+))", re.MULTILINE)


def imports_of(source: str) -> set[str]:
    """The modules that a Cython source imports or cimports."""
    modules: set[str] = set()
    for origin, names in _IMPORT.findall(source):
        modules |= {origin} if origin else {name.split(" as ")[0].strip() for name in names.split(",")}
    return modules


def python_imports(path: Path) -> set[str]:
    """The modules of this project that the source at ``path`` imports and that are not in Cython."""
    in_cython = {
        ".".join(source.relative_to(start).with_suffix("").parts)
        for start in (ROOT, ROOT / "generated")
        for folder in ("kproducer", "kproducer_messages")
        for source in (start / folder).rglob("*.p[yx][xd]")
    }
    ours = ("kproducer", "kproducer_messages", "codegen")
    return {
        module
        for module in imports_of(path.read_text())
        if (module.startswith(".") or module.split(".")[0] in ours) and module not in in_cython
    }


@pytest.mark.parametrize(
    ("line", "modules"),
    [
        ("from kproducer.errors import KafkaError", {"kproducer.errors"}),
        ("    from kproducer.types cimport (", {"kproducer.types"}),
        ("cimport cython", {"cython"}),
        ("import os, kproducer.types as types", {"os", "kproducer.types"}),
        ("from . import errors", {"."}),
        ("important = from_here", set()),
    ],
)
def test_every_form_of_import_is_found(line: str, modules: set[str]) -> None:
    assert imports_of(f"x = 1\n{line}\n") == modules


def test_compiled_modules_import_no_python_code_of_this_project() -> None:
    sources = [source for source in native_sources(ROOT).values() if source.suffix == ".pyx"]
    sources += [source.with_suffix(".pxd") for source in sources if source.with_suffix(".pxd").exists()]
    found = {(source.name, module) for source in sources for module in python_imports(source)}
    assert found == set(), "a compiled module imports Python code of this project"


def test_no_slice_of_a_module_for_mypyc_calls_a_function() -> None:
    """mypyc evaluates the bounds of a slice twice if what is sliced is a memoryview, for example."""
    found = [
        f"{source.name}: {ast.unparse(node)}"
        for source in native_sources(ROOT).values()
        if source.suffix == ".py"
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Slice)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Call | ast.NamedExpr) and ast.unparse(inner).partition("(")[0] != "len"
    ]
    assert found == []


def test_python_modules_that_are_compiled_define_no_exceptions() -> None:
    """mypyc's subclass of an interpreted exception fails in ``copy`` and ``pickle``."""
    names = [name for name, source in native_sources(ROOT).items() if source.suffix == ".py"]
    found = [
        f"{name}.{value.__name__}"
        for name in names
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == name
    ]
    assert found == []
