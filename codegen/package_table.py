"""The table of packages in docs/architecture.md: their docstrings, and what pyproject.toml forbids them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import tomli

#: What each contract of import-linter keeps from the packages that it does not allow.
_KEPT = {
    "Only these layers know batches": "batches",
    "Only these layers know requests": "requests",
    "Only the network layer touches sockets": "sockets",
}


def package_table(root: Path) -> str:
    """The rows, from the highest layer to the lowest.

    Args:
        root: of the project.
    """
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    contracts = {each["name"]: each for each in tomli.loads(text)["tool"]["importlinter"]["contracts"]}
    rows = ["| package | what it has | must not know |", "| --- | --- | --- |"]
    for layer in contracts["Imports go downward only"]["layers"]:
        path = Path(*layer.split("."))
        is_package = (root / path).is_dir()
        shown = path.relative_to("kproducer/_core" if "_core" in path.parts else ".")
        name = f"{shown}/" if is_package else f"{shown}.py"
        source = root / (path / "__init__.py" if is_package else path.with_suffix(".py"))
        rows.append(f"| `{name}` | {_first_sentence(source)} | {', '.join(_unknown(layer, contracts))} |")
    return "\n".join(rows) + "\n"


def _unknown(layer: str, contracts: dict[str, Any]) -> list[str]:
    """What a layer must not know, apart from the layers above it."""
    unknown = []
    for name, what in _KEPT.items():
        contract = contracts[name]
        if contract["type"] == "forbidden":
            knows = layer not in contract["source_modules"]
            exceptions = [each.partition(" ")[0] for each in contract["ignore_imports"]]
        else:
            allowed = [*contract["allowed_importers"], *contract["protected_modules"]]
            knows = layer in allowed or any(
                each.startswith(f"{layer}.") for each in contract["protected_modules"]
            )
            exceptions = allowed
        inside = [each.removeprefix(f"{layer}.") for each in exceptions if each.startswith(f"{layer}.")]
        if not knows:
            named = ", ".join(f"`{each}`" for each in inside)
            unknown.append(f"{what} (except {named})" if inside else what)
    return unknown


def _first_sentence(source: Path) -> str:
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".").replace("``", "`")
