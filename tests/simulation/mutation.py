"""Mutation: a bug that is planted in a process, in the source text of modules, when they are imported."""

from __future__ import annotations

import importlib.machinery
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs

from tests.simulation.plan import Plan
from tests.simulation.random_plans import random_plan

ROOT = Path(__file__).parents[2]


@attrs.frozen
class Replacement:
    """One change of a source file.

    Attributes:
        file: relative to ``kproducer/``.
        old: what is replaced; occurs exactly once.
        new: what it is replaced by.
    """

    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        return ROOT / "kproducer" / self.file


@attrs.frozen
class Mutant:
    """One bug.

    Attributes:
        name: unique, also an argument of the command.
        what: the bug, in one sentence.
        replacements: how it is planted.
        plans: makes the plan of a seed: a kind that can reach the bug, if random ones seldom do.
        reaches: whether a plan can reach it; others are skipped, to save time.
        kernel: which kernel runs: "native" or "pure".
    """

    name: str
    what: str
    replacements: tuple[Replacement, ...]
    plans: Callable[[int], Plan] = random_plan
    reaches: Callable[[Plan], bool] = lambda plan: True
    kernel: str = "native"


class MisfitError(Exception):
    """A mutant no longer fits the code: change it together with the code."""


def mutated_sources(mutant: Mutant) -> dict[str, str]:
    """The changed sources by path.

    Raises:
        MisfitError: an ``old`` text does not occur exactly once.
    """
    sources: dict[str, str] = {}
    for each in mutant.replacements:
        path = str(each.path)
        source = sources.get(path) or each.path.read_text("utf-8")
        count = source.count(each.old)
        if count != 1:
            raise MisfitError(
                f"mutant {mutant.name}: the text to be replaced occurs {count} times in {each.file}, and has"
                f" to occur once: {each.old!r}"
            )
        sources[path] = source.replace(each.old, each.new)
    return sources


def plant(mutant: Mutant) -> Callable[[], Iterable[str]]:
    """Change the sources that this process imports from now on. No file is changed.

    Returns:
        Which of the changed files were not imported; empty if the bug is planted.
    """
    sources = mutated_sources(mutant)
    missing = set(sources)
    get_code = importlib.machinery.SourceFileLoader.get_code

    def get_mutated_code(loader: Any, name: str) -> Any:
        source = sources.get(loader.path)
        if source is None:
            return get_code(loader, name)
        missing.discard(loader.path)
        return compile(source, loader.path, "exec", dont_inherit=True)

    importlib.machinery.SourceFileLoader.get_code = get_mutated_code  # type: ignore[method-assign]
    return lambda: sorted(missing)
