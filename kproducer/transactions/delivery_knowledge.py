"""What is known about a batch, as the ends of its attempts are learnt one by one: a small pure state machine.

``Knowledge`` is about the batch, ``AttemptEnd`` about one attempt to send it, and ``TRANSITIONS`` lists every
pair. UNKNOWN is never taken back: a later refusal says nothing about what an earlier attempt wrote.
Who decides what to do next is ``SequenceTracker`` (numbered batches) and ``BatchCompletion``.

Source: Kafka's ``DelayedProduce`` and ``ReplicaManager`` (which errors can follow an append), Kafka's
``ProducerAppendInfo`` (45, 59), ``docs/transactions.md``.
"""

from __future__ import annotations

import enum
from typing import Final

from kproducer.errors import BrokerError, KafkaError, Outcome

#: A leader that has appended the batch may answer with one of these. While it waits for replicas, the time
#: can run out (7), replicas can leave the ISR (20), it can lose the leadership (6) or the partition (3), and
#: its disk can fail (56). -1 can be anything; 13 is a proxy's word for a connection that it lost.
_MAYBE_APPENDED_CODES: Final = frozenset({-1, 3, 6, 7, 13, 20, 56})
_OUT_OF_ORDER_SEQUENCE_NUMBER = 45
_DUPLICATE_SEQUENCE_NUMBER = 46
_UNKNOWN_PRODUCER_ID = 59
#: The meaning of a code that is newer than this one is not known.
_NEWEST_KNOWN_CODE = 133


class Knowledge(enum.Enum):
    """What is known about a batch that is not in flight."""

    NEVER_SENT = "no request with it has left this process"
    REJECTED = "every attempt was answered with an error that rules out an append"
    UNKNOWN = "an attempt may have appended it"
    WRITTEN = "a broker said that it is in the log"

    @property
    def outcome(self) -> Outcome | None:
        """What to tell the application if the batch fails now; ``None``: it has not failed."""
        return _OUTCOMES[self]


_OUTCOMES: Final = {
    Knowledge.NEVER_SENT: Outcome.NOT_SENT,
    Knowledge.REJECTED: Outcome.REJECTED,
    Knowledge.UNKNOWN: Outcome.UNKNOWN,
    Knowledge.WRITTEN: None,
}


class AttemptEnd(enum.Enum):
    """How one attempt to send a batch ended."""

    NOT_TRANSMITTED = "the request did not leave this process"
    NO_ANSWER = "the connection or the time ended before the answer"
    ACKNOWLEDGED = "no error: appended now, or recognised as appended before"
    DUPLICATE = "46: appended before, at an offset that is no longer known"
    MAYBE_APPENDED = "an error that a leader can give after the append"
    REJECTED = "an error that a leader gives instead of the append"
    OUT_OF_ORDER = "45: the sequence number is not the one that the leader expects"
    UNKNOWN_PRODUCER_ID = "59: the leader has no state for the producer id"


TRANSITIONS: Final = {
    (Knowledge.NEVER_SENT, AttemptEnd.NOT_TRANSMITTED): Knowledge.NEVER_SENT,
    (Knowledge.NEVER_SENT, AttemptEnd.NO_ANSWER): Knowledge.UNKNOWN,
    (Knowledge.NEVER_SENT, AttemptEnd.ACKNOWLEDGED): Knowledge.WRITTEN,
    (Knowledge.NEVER_SENT, AttemptEnd.DUPLICATE): Knowledge.WRITTEN,
    (Knowledge.NEVER_SENT, AttemptEnd.MAYBE_APPENDED): Knowledge.UNKNOWN,
    (Knowledge.NEVER_SENT, AttemptEnd.REJECTED): Knowledge.REJECTED,
    (Knowledge.NEVER_SENT, AttemptEnd.OUT_OF_ORDER): Knowledge.REJECTED,
    (Knowledge.NEVER_SENT, AttemptEnd.UNKNOWN_PRODUCER_ID): Knowledge.REJECTED,
    (Knowledge.REJECTED, AttemptEnd.NOT_TRANSMITTED): Knowledge.REJECTED,
    (Knowledge.REJECTED, AttemptEnd.NO_ANSWER): Knowledge.UNKNOWN,
    (Knowledge.REJECTED, AttemptEnd.ACKNOWLEDGED): Knowledge.WRITTEN,
    (Knowledge.REJECTED, AttemptEnd.DUPLICATE): Knowledge.WRITTEN,
    (Knowledge.REJECTED, AttemptEnd.MAYBE_APPENDED): Knowledge.UNKNOWN,
    (Knowledge.REJECTED, AttemptEnd.REJECTED): Knowledge.REJECTED,
    (Knowledge.REJECTED, AttemptEnd.OUT_OF_ORDER): Knowledge.REJECTED,
    (Knowledge.REJECTED, AttemptEnd.UNKNOWN_PRODUCER_ID): Knowledge.REJECTED,
    (Knowledge.UNKNOWN, AttemptEnd.NOT_TRANSMITTED): Knowledge.UNKNOWN,
    (Knowledge.UNKNOWN, AttemptEnd.NO_ANSWER): Knowledge.UNKNOWN,
    (Knowledge.UNKNOWN, AttemptEnd.ACKNOWLEDGED): Knowledge.WRITTEN,
    (Knowledge.UNKNOWN, AttemptEnd.DUPLICATE): Knowledge.WRITTEN,
    (Knowledge.UNKNOWN, AttemptEnd.MAYBE_APPENDED): Knowledge.UNKNOWN,
    (Knowledge.UNKNOWN, AttemptEnd.REJECTED): Knowledge.UNKNOWN,
    (Knowledge.UNKNOWN, AttemptEnd.OUT_OF_ORDER): Knowledge.UNKNOWN,
    (Knowledge.UNKNOWN, AttemptEnd.UNKNOWN_PRODUCER_ID): Knowledge.UNKNOWN,
}


def knowledge_after(knowledge: Knowledge, end: AttemptEnd) -> Knowledge:
    """What is known once an attempt has ended. KeyError for a batch that is WRITTEN: it is not sent again."""
    return TRANSITIONS[knowledge, end]


def attempt_end(error: KafkaError) -> AttemptEnd:
    """What the error of an attempt says about an append.

    Args:
        error: of the attempt; its ``outcome`` counts where the code that raised it has set one.
    """
    if isinstance(error, BrokerError):
        code = error.code
        if code == _OUT_OF_ORDER_SEQUENCE_NUMBER:
            return AttemptEnd.OUT_OF_ORDER
        if code == _DUPLICATE_SEQUENCE_NUMBER:
            return AttemptEnd.DUPLICATE
        if code == _UNKNOWN_PRODUCER_ID:
            return AttemptEnd.UNKNOWN_PRODUCER_ID
    if error.outcome is Outcome.NOT_SENT:
        return AttemptEnd.NOT_TRANSMITTED
    if error.outcome is Outcome.REJECTED:
        return AttemptEnd.REJECTED
    if not isinstance(error, BrokerError) or error.outcome is Outcome.UNKNOWN:
        return AttemptEnd.NO_ANSWER
    if error.code in _MAYBE_APPENDED_CODES or error.code > _NEWEST_KNOWN_CODE:
        return AttemptEnd.MAYBE_APPENDED
    return AttemptEnd.REJECTED
