"""``python -m tests.spark.exactly_once_model``: all scenarios, the large ones too, with figures.

Minutes of one processor; each scenario gives up after ``--states``.
"""

from __future__ import annotations

import argparse
import sys

from tests.spark.exactly_once_model.explorer import Report
from tests.spark.exactly_once_model.scenarios import CONTROLS, COURTESIES, DEFAULT, LARGE, Scenario


def main() -> int:
    """Explore; 1 when something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=3_000_000, help="for each scenario, at most")
    parser.add_argument("--only", default="", help="scenarios with this text in their names")
    arguments = parser.parse_args()
    wrong = 0
    total = Report()
    for title, scenarios in (
        ("The protocol as it is", [*DEFAULT, *LARGE]),
        ("One part taken out", CONTROLS),
        ("Parts that no row depends on, taken out", COURTESIES),
    ):
        print(f"\n{title}", flush=True)
        for scenario in scenarios:
            if arguments.only in scenario.name:
                report = scenario.run(arguments.states)
                wrong += not _show(scenario, report)
                total.states += report.states
                total.transitions += report.transitions
                total.seconds += report.seconds
    print(
        f"\n{total.states} states, {total.transitions} steps, {total.seconds:.0f} s, {wrong} not as expected"
    )
    return 1 if wrong else 0


def _show(scenario: Scenario, report: Report) -> bool:
    """Print a line, and the trace of a violation that should not be. Whether all is as expected."""
    if scenario.wrong is not None and report.violation is not None:
        is_expected = scenario.wrong in report.violation
        print(f"  {scenario.name}: {report.violation.splitlines()[0]} ({report.states} states)", flush=True)
        return is_expected
    is_expected = scenario.wrong is None and report.violation is None
    print(f"  {'' if is_expected else 'UNEXPECTED '}{scenario.name}: {report}", flush=True)
    return is_expected


if __name__ == "__main__":
    sys.exit(main())
