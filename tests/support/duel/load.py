"""The load of a duel, by arithmetic instead of chance: the workers in Python and in Java send the same.

``tests/support/kafka/DuelWorker.java`` repeats it.
"""

from __future__ import annotations

from tests.support.duel.schedule import PARTITIONS

IDEMPOTENT, TRANSACTIONAL = "idempotent", "transactional"
MODES = (IDEMPOTENT, TRANSACTIONAL)
TOPICS = {IDEMPOTENT: "duel-idempotent", TRANSACTIONAL: "duel-transactional"}
VALUE_BYTES = 100
#: Records that are sent one after the other, every ``PAUSE_SECONDS``.
BURST = {IDEMPOTENT: 20, TRANSACTIONAL: 10}
PAUSE_SECONDS = 0.02
#: Neighbours go to the same partition.
_RUN = 5
#: Unsettled records at which a worker waits.
MOST_PENDING = 10_000
#: After more failed records in a row, any producer is replaced.
MOST_FAILED_IN_A_ROW = 500


def partition_of(number: int) -> int:
    return number // _RUN % PARTITIONS


def bursts_of(transaction: int) -> int:
    """How many bursts a transaction has."""
    return 3 + transaction * 7 % 11


def is_committed(transaction: int) -> bool:
    """Four of five are meant to be committed."""
    return transaction % 5 != 4
