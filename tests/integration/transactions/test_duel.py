"""A short form of ``make duel`` with kproducer: each kind of fault takes place, and nothing is wrong."""

from __future__ import annotations

import pytest

from tests.support.duel.run import DuelRun, missing_faults
from tests.support.duel.schedule import schedule

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SECONDS = 3


def test_kproducer_in_a_duel(kafka_three_nodes):
    run = DuelRun(kafka_three_nodes, "kproducer")
    part = run.run(schedule(1, SECONDS), SECONDS)
    assert part.is_good, f"{part}, see {run.folder}"
    assert missing_faults(part) == []
    assert part.transactions.committed > 0
    run.remove_files()
