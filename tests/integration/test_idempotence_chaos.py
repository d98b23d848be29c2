"""A short form of ``make idempotence-chaos``."""

from __future__ import annotations

import pytest

from tests.support.chaos.idempotence_chaos import CHAOS_PROPERTIES, PROXY_FAULTS, IdempotenceChaos
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.maven_artifacts import NEWEST_VERSION

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SECONDS = 20
KINDS = ("broker killed", "leader moved", "limit lowered", "ids expired", "recreated at rest", *PROXY_FAULTS)


def test_random_faults():
    with start_or_skip(NEWEST_VERSION, 3, CHAOS_PROPERTIES) as cluster:
        chaos = IdempotenceChaos(cluster, seed=7, worker_count=3, kinds=KINDS)
        chaos.run(SECONDS)
        assert chaos.report(chaos.judge()) == []
    chaos.remove_ledgers()
