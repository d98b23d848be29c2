"""What a session's errors say: the cause without advice about a producer, and which permission is missing.

Source: Kafka's documentation of operations and resources in the protocol (ACLs).
"""

from __future__ import annotations

import copy
from typing import Final

from kproducer.errors import (
    AbortTransactionError,
    AuthorizationError,
    BrokerError,
    FatalProducerError,
    KafkaError,
)

_TOPIC_CODE, _GROUP_CODE, _CLUSTER_CODE, _TRANSACTIONAL_ID_CODE = 29, 30, 31, 53

#: By error code: the kind of resource and the permissions that a write needs.
_NEEDED_TO_WRITE: Final = {
    _TOPIC_CODE: "Read on the topic",
    _GROUP_CODE: "Read on the group",
    _CLUSTER_CODE: "IdempotentWrite on the cluster",
    _TRANSACTIONAL_ID_CODE: "Write and Describe on the transactional id",
}
_NEEDED_TO_READ: Final = {_TOPIC_CODE: "Describe on the topic", _GROUP_CODE: "Describe on the group"}


def plain(error: KafkaError) -> KafkaError:
    """The cause of an error that tells what to do with a producer: whoever asks has none."""
    cause = error.__cause__
    if isinstance(error, (AbortTransactionError, FatalProducerError)) and isinstance(cause, KafkaError):
        return cause
    return error


def explained(error: KafkaError, of_whom: str, *, reads: bool = False) -> KafkaError:
    """A copy that says whom it is about, and which permission is missing if it is one.

    Args:
        error: what happened.
        of_whom: "transactional id 'x'" or the like.
        reads: offsets were to be read.
    """
    told = copy.copy(error)
    told.__cause__ = error.__cause__
    text = str(error)
    needed = None
    if isinstance(error, AuthorizationError) and isinstance(error, BrokerError):
        needed = (_NEEDED_TO_READ if reads else _NEEDED_TO_WRITE).get(error.code)
    permission = f": needs the permission {needed}" if needed is not None else ""
    told.args = (f"{of_whom}{permission}: {text}",)
    return told
