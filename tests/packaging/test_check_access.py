"""The check of ``make lint`` for private attributes finds them, and the package has none."""

from __future__ import annotations

from pathlib import Path

import pytest

import kproducer
from build_tools.check_access import violations

_ENGINE = """
class ProducerEngine:
    def __init__(self, sender, clock):
        self.sender = sender
        self.clock = clock
        self._ended = False
"""
_LIFECYCLE = """
class Lifecycle:
    def __init__(self):
        self._engine = None
        self._lock = None
"""
_USER = """
from kproducer._core.engine.lifecycle import Lifecycle, _helper

class User:
    def __init__(self, lifecycle: Lifecycle, other: "User"):
        self._lock = lifecycle._lock
        self._lifecycle = lifecycle
        other._lock = self._lifecycle._lock
        {}
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package named kproducer with a few modules; the second statement of its user is to be added."""
    engine = tmp_path / "kproducer" / "_core" / "engine"
    engine.mkdir(parents=True)
    (engine / "producer_engine.py").write_text(_ENGINE)
    (engine / "lifecycle.py").write_text(_LIFECYCLE)
    return tmp_path / "kproducer"


def _found(package: Path, statement: str) -> list[str]:
    (package / "user.py").write_text(_USER.format(statement))
    return [each.partition(": ")[2].partition(":")[0] for each in violations(package)]


_ALWAYS = ["imports _helper of another package, kproducer._core.engine.lifecycle"]
_ALWAYS += ["lifecycle._lock", "self._lifecycle._lock"]


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("anything._ended", ["anything._ended"]),
        ("Lifecycle()._lock", ["Lifecycle()._lock"]),
        ("made = Lifecycle(); made._lock", ["made._lock"]),
        ("self.engine.sender.run()", ["self.engine.sender"]),
        ("lifecycle.running_engine().sender", ["lifecycle.running_engine().sender"]),
        ("self.engine.clock", []),
        ("self.engine.flush()", []),
        ("self.sender.run()", []),
        ("self._anything", []),
        ("frame = sys._getframe(1)", []),
        ("row._replace(a=1)", []),
    ],
)
def test_what_a_module_must_not_use(package: Path, statement: str, found: list[str]) -> None:
    assert sorted(_found(package, statement)) == sorted([*_ALWAYS, *found])


def test_within_a_package_both_are_allowed(package: Path) -> None:
    source = (
        "def f(lifecycle: Lifecycle, engine):\n    return lifecycle._lock, engine.sender, engine._ended\n"
    )
    (package / "_core" / "engine" / "close.py").write_text(source)
    assert list(violations(package)) == []


def test_the_package_keeps_the_rules() -> None:
    assert list(violations(Path(kproducer.__file__).parent)) == []
