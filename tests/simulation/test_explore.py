"""Explorations run each plan once, and report findings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tests.simulation.__main__ import _Progress, main
from tests.simulation.explore import BLOCK, Exploration, Limits, Tally
from tests.simulation.plan import Caller, Plan, Send
from tests.simulation.shrink import Shrunk

_PLAN = Plan(1, (Caller((Send(count=2),)),))
_WRONG = 30


def _plan_of(number: int) -> Plan:
    return attrs.evolve(_PLAN, seed=number, settings={"acks": "some"} if number == _WRONG else {})


def test_each_plan_runs_once_and_findings_are_shrunk() -> None:
    reports: list[tuple[int, float]] = []

    def on_progress(tally: Tally, seconds: float) -> None:
        reports.append((tally.schedules, seconds))

    with Exploration(_plan_of, 2) as exploration:
        tally = exploration.run(5, Limits(schedules=BLOCK + 10), on_progress)
        (shrunk,) = exploration.shrink(tally.findings)

    assert tally.schedules == BLOCK + 10
    assert tally.records == 2 * (BLOCK + 9)
    assert tally.counters["outcomes"] == {"delivered": 2 * (BLOCK + 9)}
    assert tally.findings.keys() == {_WRONG}
    assert "the simulation raised ConfigError" in tally.findings[_WRONG][0]
    assert [schedules for schedules, _ in reports] == sorted({schedules for schedules, _ in reports})
    assert reports[-1][0] == tally.schedules
    number, smallest = shrunk
    assert number == _WRONG
    assert isinstance(smallest, Shrunk)
    assert smallest.plan.callers == (Caller(()),)


def test_an_exploration_ends_with_its_time() -> None:
    with Exploration(_plan_of, 1) as exploration:
        assert exploration.run(0, Limits(seconds=0.0), lambda *_: None) == Tally()


def test_the_command_repeats_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--schedules", "1"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Plan(seed=3, ")
    assert printed.endswith("no findings\n")
    assert main(["--seed", "3", "--schedules", "1"]) == 0
    assert capsys.readouterr().out == printed


def test_the_command_repeats_a_combination(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--exhaustive", "--seed", "100", "--schedules", "1"]) == 0
    assert capsys.readouterr().out.startswith("Plan(seed=0, ")


def test_the_command_shows_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.simulation.random_plans.random_plan", lambda _: _plan_of(_WRONG))
        assert main(["--schedules", "1"]) == 1
    printed = capsys.readouterr().out
    assert "the simulation raised ConfigError" in printed
    assert "\ndef test_the_simulation_raised_configerror() -> None:\n" in printed


def test_ctrl_c_shows_what_was_found_until_then(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(progress: _Progress, tally: Tally, seconds: float) -> None:
        note(progress, tally, seconds)
        if tally.findings:
            raise KeyboardInterrupt

    note = _Progress.__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.simulation.random_plans.random_plan", _plan_of)
        patch.setattr(_Progress, "__call__", interrupt)
        assert main(["--seconds", "1000", "--processes", "1"]) == 130
    printed = capsys.readouterr().out
    assert f"plan {_WRONG}: the simulation raised ConfigError" in printed
    assert f"{2 * BLOCK} schedules in " in printed
    assert "1 schedules with findings" in printed


def test_ctrl_c_in_a_terminal_shows_no_traceback() -> None:
    arguments = [sys.executable, "-m", "tests.simulation", "--seconds", "1000", "--processes", "2"]
    # The terminal interrupts every process of the group.
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    ) as running:
        assert running.stdout is not None
        assert "plans from 0" in running.stdout.readline()
        os.killpg(running.pid, signal.SIGINT)
        printed, errors = running.communicate(timeout=120)
    assert errors == ""
    assert "schedules in " in printed
    assert running.returncode == 130
