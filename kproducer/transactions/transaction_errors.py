"""What the error codes of the coordinators mean for a transaction: one table for each API.

A code that no table has is retried when Kafka's own table says that it may be, and ends the producer
otherwise. Source: KIP-98, KIP-360, KIP-447, KIP-588, KIP-654, KIP-890, KIP-1050; Kafka's
``TransactionManager`` and its handlers. Where we differ, the line says why.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from kproducer.errors.broker_errors import error_for_code
from kproducer.protocol.registry import ApiKey


class Reaction(enum.IntEnum):
    """What to do after an answer; of several in one answer the highest counts."""

    DONE = 0
    #: The same request again after a pause.
    RETRY = 1
    #: ... and look for the coordinator before.
    RELOCATE = 2
    #: The transaction can only be aborted; the producer stays usable.
    ABORT = 3
    #: This call has failed; it may be made again.
    REFUSE = 4
    #: The producer is of no use any more.
    FATAL = 5
    #: ... because another one has taken over.
    FENCED = 6


_COORDINATOR: Final = {
    7: Reaction.RETRY,  # REQUEST_TIMED_OUT
    14: Reaction.RETRY,  # COORDINATOR_LOAD_IN_PROGRESS
    15: Reaction.RELOCATE,  # COORDINATOR_NOT_AVAILABLE
    16: Reaction.RELOCATE,  # NOT_COORDINATOR
    47: Reaction.FENCED,  # INVALID_PRODUCER_EPOCH: what coordinators before 2.7 say for 90
    51: Reaction.RETRY,  # CONCURRENT_TRANSACTIONS
    53: Reaction.FATAL,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    90: Reaction.FENCED,  # PRODUCER_FENCED
    120: Reaction.ABORT,  # TRANSACTION_ABORTABLE
}

#: The coordinator has forgotten the transactional id (transactional.id.expiration.ms), or the producer id.
_FORGOTTEN: Final = {49: Reaction.ABORT, 59: Reaction.ABORT}

REACTIONS: Final[dict[int, dict[int, Reaction]]] = {
    ApiKey.FIND_COORDINATOR: {
        15: Reaction.RETRY,
        16: Reaction.RETRY,
        30: Reaction.ABORT,  # GROUP_AUTHORIZATION_FAILED: the transaction may go on without these offsets
        53: Reaction.FATAL,
        120: Reaction.ABORT,
    },
    ApiKey.INIT_PRODUCER_ID: {
        **_COORDINATOR,
        # Permissions are often granted a moment too late: the application may ask again.
        31: Reaction.REFUSE,  # CLUSTER_AUTHORIZATION_FAILED
        53: Reaction.REFUSE,
        120: Reaction.REFUSE,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        **_COORDINATOR,
        **_FORGOTTEN,
        3: Reaction.RETRY,  # UNKNOWN_TOPIC_OR_PARTITION
        29: Reaction.ABORT,  # TOPIC_AUTHORIZATION_FAILED
        48: Reaction.FATAL,  # INVALID_TXN_STATE
        55: Reaction.ABORT,  # OPERATION_NOT_ATTEMPTED: another partition was at fault
        -1: Reaction.ABORT,
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {**_COORDINATOR, **_FORGOTTEN, 30: Reaction.ABORT, 48: Reaction.FATAL},
    ApiKey.TXN_OFFSET_COMMIT: {
        **_COORDINATOR,
        # Differs from Kafka, for which these two are fatal here: an abort mends them as it does elsewhere.
        **_FORGOTTEN,
        3: Reaction.RETRY,
        12: Reaction.ABORT,  # OFFSET_METADATA_TOO_LARGE
        22: Reaction.ABORT,  # ILLEGAL_GENERATION
        25: Reaction.ABORT,  # UNKNOWN_MEMBER_ID
        27: Reaction.ABORT,  # REBALANCE_IN_PROGRESS
        29: Reaction.ABORT,
        30: Reaction.ABORT,
        43: Reaction.FATAL,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
        48: Reaction.FATAL,
        69: Reaction.ABORT,  # GROUP_ID_NOT_FOUND
        82: Reaction.ABORT,  # FENCED_INSTANCE_ID
        100: Reaction.RETRY,  # UNKNOWN_TOPIC_ID
        113: Reaction.ABORT,  # STALE_MEMBER_EPOCH
    },
    ApiKey.END_TXN: {**_COORDINATOR, **_FORGOTTEN, 48: Reaction.FATAL},
}

#: In the answer to a Produce request these end the producer; any other failure ends the transaction only.
#: INVALID_PRODUCER_EPOCH is none of them: a leader may say so where the coordinator would not (KIP-588).
FATAL_PRODUCE_CODES: Final = frozenset({31, 53, 90})


def reaction_to(api_key: int, code: int) -> Reaction:
    """What an error code in the answer to this API means."""
    if code == 0:
        return Reaction.DONE
    known = REACTIONS[api_key].get(code)
    if known is not None:
        return known
    return Reaction.RETRY if error_for_code(code).retriable else Reaction.FATAL


def worst(api_key: int, codes: Iterable[int]) -> tuple[Reaction, int]:
    """The reaction to several codes of one answer, and the code it comes from (0: none)."""
    return max(((reaction_to(api_key, code), code) for code in codes), default=(Reaction.DONE, 0))
