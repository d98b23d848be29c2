"""A short form of ``make transaction-chaos``, and that its verdict can be a bad one."""

from __future__ import annotations

import pytest

from tests.support.chaos.transaction_chaos import TransactionChaos

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SECONDS = 6


def test_random_faults(three_nodes):
    chaos = TransactionChaos(three_nodes, seed=4)
    chaos.run(SECONDS)
    verdict = chaos.judge()
    assert verdict.is_good, verdict
    # Aborted records are in the log, and a reader who does not mind them gets a bad verdict.
    careless = chaos.judge("read_uncommitted")
    assert not careless.is_good
    assert careless.aborted_seen > 0
    assert careless.duplicates == 0
    chaos.remove_ledgers()
