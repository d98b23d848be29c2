"""docs/exactly-once.md names existing steps and tests."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.spark import stepping_ports

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/exactly-once.md").read_text()


def test_every_step_is_in_the_diagram_and_in_the_table_of_crashes() -> None:
    steps = {*stepping_ports.TASK_STEPS.values(), *stepping_ports.DRIVER_STEPS}
    assert len(steps) > 12
    diagram = PAGE.partition("```mermaid")[2].partition("```")[0]
    table = PAGE.partition("| crash before |")[2].partition("\n\n")[0]
    assert [step for step in sorted(steps - {"prepare"}) if step not in diagram] == []
    assert [step for step in sorted(steps) if f"`{step}`" not in table] == []


def test_the_tests_that_are_named_exist() -> None:
    names = set(re.findall(r"`((?:tests/)?[\w/]*test_\w+\.py)`", PAGE))
    assert len(names) >= 2
    missing = [
        name for name in names if not any((base / name).is_file() for base in (ROOT, ROOT / "tests/spark"))
    ]
    assert missing == []


def test_every_error_is_explained() -> None:
    errors = (ROOT / "kproducer/spark/errors.py").read_text()
    names = re.findall(r"class (\w+)\(ExactlyOnceError\)", errors)
    assert len(names) == 5
    assert [name for name in names if name not in PAGE] == []
