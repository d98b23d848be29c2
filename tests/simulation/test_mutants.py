"""The simulation finds planted bugs: the quickest ones here, all of them with ``make simulate MUTANTS=1``."""

from __future__ import annotations

import attrs
import pytest

from tests.simulation.mutant_list import MUTANTS
from tests.simulation.mutants import find
from tests.simulation.mutation import MisfitError, Mutant, Replacement, mutated_sources

_BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
#: One for each kind of check: outcomes, order, memory, bytes, transactions.
_QUICK = (
    "lost-response-is-rejected",
    "partition-not-muted",
    "memory-returned-twice",
    "write-repeats-bytes",
    "failed-record-is-committed",
)
#: They need one second of CPU time.
_SECONDS = 20.0


@pytest.mark.parametrize("name", _QUICK)
def test_a_planted_bug_is_found(name: str) -> None:
    verdict = find(_BY_NAME[name], _SECONDS)

    assert not verdict.error
    assert verdict.finding


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_fits_the_code(mutant: Mutant) -> None:
    for path, source in mutated_sources(mutant).items():
        compile(source, path, "exec")


def test_a_text_that_does_not_occur_once_is_an_error_that_names_the_mutant() -> None:
    for old, count in (("no such text", "0 times"), ("self", r"\d+ times")):
        misfit = attrs.evolve(MUTANTS[0], replacements=(Replacement("_core/sender/sender.py", old, ""),))
        with pytest.raises(
            MisfitError, match=f"{MUTANTS[0].name}.* occurs {count} in _core/sender/sender.py"
        ):
            mutated_sources(misfit)
        assert "occurs" in find(misfit).error
