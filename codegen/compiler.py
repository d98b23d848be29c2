"""Compiles a folder of specs into the files of a package, and compares them with those on disk.

The only module of the compiler that uses the file system, except for the templates.
"""

from __future__ import annotations

from pathlib import Path

from codegen.check import check
from codegen.errors import Problem, SpecError
from codegen.model import MessageSpec
from codegen.naming import module_name
from codegen.parser import parse
from codegen.render import render_package

#: The start of the first line of a generated file; only such files are ever removed.
_MARK = b"# DO NOT EDIT: generated from "


def load_folder(spec_dir: Path) -> list[MessageSpec]:
    """Read and check all specs of a folder, sorted by file name.

    Raises:
        SpecError: with every problem; for a file that cannot be parsed, only the first.
    """
    paths = sorted(spec_dir.glob("*.json"))
    if not paths:
        raise SpecError([Problem(str(spec_dir), 1, "", "the folder has no *.json specs")])
    specs: list[MessageSpec] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            spec = parse(str(path), path.read_bytes())
        except SpecError as error:
            problems += error.problems
            continue
        problems += check(spec)
        specs.append(spec)
    problems += _clashes(specs)
    if problems:
        raise SpecError(problems)
    return specs


def _clashes(specs: list[MessageSpec]) -> list[Problem]:
    """Messages with the same name, or with the same API key and direction."""
    problems = []
    names: dict[object, MessageSpec] = {}
    for spec in specs:
        module = module_name(spec.name)
        keys: list[tuple[object, str]] = [(module, f"the name {spec.name} ({module}.py) is taken")]
        if spec.api_key is not None:
            keys.append(
                ((spec.type, spec.api_key), f"API key {spec.api_key} already has a {spec.type.value}")
            )
        for key, reason in keys:
            other = names.setdefault(key, spec)
            if other is not spec:
                reason += f" ({other.path})"
                problems.append(Problem(spec.path, spec.line, spec.name, reason))
    return problems


def compile_folder(spec_dir: Path) -> dict[str, str]:
    """Compile all specs of a folder; return file name to text. Raises SpecError as ``load_folder``."""
    return render_package(load_folder(spec_dir), spec_dir.resolve().name)


def stale_files(files: dict[str, str], out_dir: Path) -> list[str]:
    """One line per difference between the files and the folder."""
    lines = []
    for name, text in files.items():
        path = out_dir / name
        if not path.is_file():
            lines.append(f"{path}: missing")
        elif path.read_bytes() != text.encode():
            lines.append(f"{path}: differs")
    return lines + [f"{path}: no spec for this module" for path in _orphans(files, out_dir)]


def write_package(files: dict[str, str], out_dir: Path) -> int:
    """Write the files; return how many changed. Files that were not generated stay."""
    out_dir.mkdir(parents=True, exist_ok=True)
    changed = 0
    for name, text in files.items():
        path = out_dir / name
        data = text.encode()
        if not path.is_file() or path.read_bytes() != data:
            path.write_bytes(data)
            changed += 1
    for path in _orphans(files, out_dir):
        path.unlink()
        changed += 1
    return changed


def _orphans(files: dict[str, str], out_dir: Path) -> list[Path]:
    """Generated modules whose spec was removed."""
    found = sorted(out_dir.glob("*.py")) if out_dir.is_dir() else []
    return [path for path in found if path.name not in files and path.read_bytes().startswith(_MARK)]
