"""Every interleaving of callers, the I/O thread and a broker in ``plane.c``: see ``data_plane_model.c``.

``make interleavings`` also runs larger programs, and has the model find every mutant.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.unit.kernel.interleavings import MUTANTS, SCENARIOS, Model, Mutant, build, sources

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or not sys.platform.startswith("linux"), reason="needs gcc and glibc"
)
#: A hang guard.
_LIMIT_S = 300
#: Found soon. Of a wake-up, the order of batches, a hand-over, compression and a transaction.
_QUICK = (
    "wake-up-decided-too-early",
    "open-batch-goes-first",
    "detach-leaves-the-lists",
    "sent-while-it-is-compressed",
    "transaction-has-not-sent",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return build(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_interleaving_keeps_every_promise(model: Model, scenario: str) -> None:
    said = model.run(scenario, _LIMIT_S)
    assert said.startswith("ok "), said


@pytest.mark.parametrize(
    "mutant", [each for each in MUTANTS if each.name in _QUICK], ids=lambda each: each.name
)
def test_a_planted_bug_is_found(tmp_path: Path, mutant: Mutant) -> None:
    assert build(tmp_path, mutant).run(mutant.scenario, _LIMIT_S).startswith("FAILED: ")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_each_mutant_fits_the_code(mutant: Mutant) -> None:
    sources(mutant)
