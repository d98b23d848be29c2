"""Exactly once, in a model: every order of events within bounds, walks at random beyond them.

The model runs the protocols of ``kproducer.spark.exactly_once`` themselves. Whether records are encoded by
one kernel or the other is nothing to them, so one run of the two is enough.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kproducer import build_info
from tests.spark.exactly_once_model.explorer import bounds_of, walk
from tests.spark.exactly_once_model.scenarios import CONTROLS, COURTESIES, DEFAULT, LARGE, Scenario

pytestmark = pytest.mark.skipif(
    build_info().kernel == "pure" and bool(build_info().native_modules),
    reason="the same with both kernels; the run with the native one has it",
)


def _names(scenario: Scenario) -> str:
    return scenario.name


@pytest.mark.parametrize("scenario", DEFAULT, ids=_names)
def test_no_order_of_events_shows_a_row_twice_or_never_or_refuses_without_need(scenario: Scenario) -> None:
    report = scenario.run()
    assert report.violation is None, str(report)
    assert report.is_complete


@pytest.mark.parametrize("scenario", CONTROLS, ids=_names)
def test_without_a_part_something_goes_wrong(scenario: Scenario) -> None:
    report = scenario.run()
    assert report.violation is not None, "the model does not show what this part is for"
    assert scenario.wrong is not None
    assert scenario.wrong in report.violation, str(report)


@pytest.mark.parametrize("scenario", COURTESIES, ids=_names)
def test_without_a_courtesy_nothing_goes_wrong(scenario: Scenario) -> None:
    report = scenario.run()
    assert report.violation is None, str(report)
    assert report.is_complete


def test_faithful_restarts_alone_are_never_refused() -> None:
    """With one division, and no offsets lost, every restart ends with all rows: the explorer tries each."""
    report = Scenario(name="", bounds=bounds_of(["a", "b"], time_outs=1, lost_answers=1)).run(8_000)
    assert report.violation is None, str(report)
    assert report.crashes > 100
    assert not any("ReplayMismatch" in end or "Uncertain" in end or "Stale" in end for end in report.ends)


_EVERYTHING = [
    Scenario(
        name=f"everything, protocol {version}",
        bounds=bounds_of(
            ["ac", "b", "d"],
            ["acbd"],
            ["a", "cd", "b"],
            ["", "bd", "", "ca"],
            batches=3,
            runs=5,
            attempts=3,
            task_failures=1,
            time_outs=3,
            lost_answers=3,
            failed_calls=3,
            expiries=3,
            copies=3,
            restores=3,
            rows_in_chunk=1,
            fine=True,
        ),
        kafka={"version": version, "slow_markers": True, "last_epoch": 6},
    )
    for version in (1, 2)
]


_LIMITS = ("attempts", "time_outs", "lost_answers", "failed_calls", "expiries", "copies", "restores")


@pytest.mark.parametrize("scenario", _EVERYTHING, ids=_names)
def test_walks_with_everything_at_once(scenario: Scenario) -> None:
    actors = scenario.new_actors()

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(
        choices=st.lists(st.integers(0, 4000), min_size=40, max_size=300),
        limits=st.fixed_dictionaries({name: st.integers(0, 3) for name in _LIMITS}),
    )
    def walks(choices: list[int], limits: dict[str, int]) -> None:
        world = scenario.world(actors)
        world.budgets.update(limits)
        assert walk(world, choices) is None

    walks()


def test_the_large_scenarios_start_without_a_violation() -> None:
    """``make exactly-once-model`` goes through all of their states."""
    for scenario in LARGE:
        report = scenario.run(1_000)
        assert report.violation is None, str(report)
