"""What an attempt to send a batch has done, what is known of the batch then, and what to do with it.

Three steps, each a pure function: ``attempt_end`` reads the error of an attempt, ``knowledge_after`` adds it
to what was known of the batch, and ``decide`` says what follows for a batch with sequence numbers. A batch
stays UNKNOWN: a later refusal says nothing about what an earlier attempt has written. An acknowledged batch
is done and needs no state. ``SequenceTracker`` knows the partition; ``BatchCompletion`` applies the limits of
time and retries.

Source: Kafka's ``DelayedProduce`` and ``ReplicaManager`` (which errors can follow an append), Kafka's
``ProducerAppendInfo`` (45, 59), ``TransactionManager`` (canRetry); docs/internals/transactions.md,
docs/decisions/0015-unknown-is-final.md
"""

from __future__ import annotations

import enum
from typing import Final

from kproducer.errors import BrokerError, KafkaError, Outcome

#: A leader may return these after it has appended the batch. While it waits for replicas, the request can
#: time out (7), replicas can leave the ISR (20), the leader can lose the leadership (6) or the partition (3),
#: and its disk can fail (56). -1 can be anything; proxies return 13 when they have lost a connection.
_MAYBE_APPENDED_CODES: Final = frozenset({-1, 3, 6, 7, 13, 20, 56})
#: The meaning of newer codes is not known.
_NEWEST_KNOWN_CODE = 136


class AttemptEnd(enum.Enum):
    """How an attempt ended that was not acknowledged."""

    NOT_TRANSMITTED = "the request did not leave this process"
    NO_ANSWER = (
        "no usable response: connection lost, request timed out, or partition missing from the response"
    )
    DUPLICATE = "46: appended by an earlier attempt, at an offset that is no longer known"
    MAYBE_APPENDED = "an error that a leader may return after the append"
    REJECTED = "an error that a leader returns instead of appending"
    OUT_OF_ORDER = "45: the sequence number is not the one that the leader expects"
    UNKNOWN_PRODUCER_ID = "59: the leader has no state for the producer id"


_SEQUENCE_CODES: Final = {
    45: AttemptEnd.OUT_OF_ORDER,
    46: AttemptEnd.DUPLICATE,
    59: AttemptEnd.UNKNOWN_PRODUCER_ID,
}


def attempt_end(error: KafkaError) -> AttemptEnd:
    """What the error of an attempt says about whether the batch was appended.

    Args:
        error: of the attempt. If its ``outcome`` is set, that counts.
    """
    if isinstance(error, BrokerError) and error.code in _SEQUENCE_CODES:
        return _SEQUENCE_CODES[error.code]
    if error.outcome is Outcome.NOT_SENT:
        return AttemptEnd.NOT_TRANSMITTED
    if error.outcome is Outcome.REJECTED:
        return AttemptEnd.REJECTED
    if not isinstance(error, BrokerError) or error.outcome is Outcome.UNKNOWN:
        return AttemptEnd.NO_ANSWER
    if error.code in _MAYBE_APPENDED_CODES or error.code > _NEWEST_KNOWN_CODE:
        return AttemptEnd.MAYBE_APPENDED
    return AttemptEnd.REJECTED


class Knowledge(enum.Enum):
    """What is known about a batch that is not in flight.

    Attributes:
        outcome: the outcome of its records if the batch fails now; ``None``: it is in the log.
    """

    #: No request with it has left this process.
    NEVER_SENT = Outcome.NOT_SENT
    #: Every attempt was answered with an error that rules out an append.
    REJECTED = Outcome.REJECTED
    #: An attempt may have appended it.
    UNKNOWN = Outcome.UNKNOWN
    #: A broker has recognised it as a duplicate of a batch in the log.
    WRITTEN = None

    def __init__(self, outcome: Outcome | None) -> None:
        self.outcome = outcome


def knowledge_after(knowledge: Knowledge, end: AttemptEnd) -> Knowledge:
    """What is known after an attempt, given what was known before. A WRITTEN batch is not sent again."""
    if end is AttemptEnd.DUPLICATE:
        return Knowledge.WRITTEN
    if end in (AttemptEnd.NO_ANSWER, AttemptEnd.MAYBE_APPENDED):
        return Knowledge.UNKNOWN
    if knowledge is Knowledge.UNKNOWN or end is AttemptEnd.NOT_TRANSMITTED:
        return knowledge
    return Knowledge.REJECTED


class Verdict(enum.Enum):
    """What to do with a batch after an attempt, apart from the limits of time and retries."""

    RETRY = "send it again"
    RESTART = "number it and the pending batches behind it under a new epoch, then send it again"
    FAIL = "fail its records"
    WRITTEN = "it is in the log, at an offset that is not known"


def decide(
    knowledge: Knowledge,
    end: AttemptEnd,
    *,
    retriable: bool,
    is_first: bool,
    is_passed: bool,
    is_transactional: bool,
) -> Verdict:
    """What to do with a numbered batch. The table in docs/internals/transactions.md lists every case.

    Args:
        knowledge: about the batch, this attempt included.
        end: of this attempt.
        retriable: whether the error says that the same request may succeed later.
        is_first: no earlier batch of the partition is pending.
        is_passed: a later batch was acknowledged.
        is_transactional: a gap aborts the transaction, and nothing is renumbered.
    """
    if end is AttemptEnd.DUPLICATE:
        return Verdict.WRITTEN
    if end not in (AttemptEnd.OUT_OF_ORDER, AttemptEnd.UNKNOWN_PRODUCER_ID):
        return Verdict.RETRY if retriable else Verdict.FAIL
    if end is AttemptEnd.OUT_OF_ORDER and not is_first:
        # The leader waits for the batch before it.
        return Verdict.RETRY
    if is_transactional or is_passed or knowledge is Knowledge.UNKNOWN:
        # A batch that later ones have passed would be written after them. One that may have been written
        # could be written twice under another number: the leader may refuse it only because it remembers
        # later batches.
        return Verdict.FAIL
    return Verdict.RESTART
