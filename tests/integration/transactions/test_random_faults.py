"""A short form of ``make transaction-chaos``, and a check that its verdict can fail."""

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
    # Aborted records are in the log, so the verdict on a read_uncommitted reader fails.
    careless = chaos.judge("read_uncommitted")
    assert not careless.is_good
    assert careless.aborted_seen > 0
    assert careless.duplicates == 0
    chaos.remove_ledgers()
