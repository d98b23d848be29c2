"""What a client said, compared with what is in the log: pure functions, without Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.chaos.idempotence_ledger import Checker, Lane, LogRecord, Result, Verdict, identity
from tests.support.chaos.transaction_ledger import State
from tests.support.duel.ledger import ToldTransaction

#: Records of a partition as (offset, value), in the order of the log.
Log = Sequence[tuple[int, bytes]]
_MOST_EXAMPLES = 20


@dataclass
class TransactionVerdict:
    """Numbers of transactions; of records, ``lost`` and ``false_successes``."""

    #: What the client says.
    committed: int = 0
    aborted: int = 0
    #: The client does not say whether the transaction was committed.
    unknown: int = 0
    #: Of the unknown ones, those that were committed.
    unknown_committed: int = 0
    #: Some of its records are visible, others are not. Of any state except aborted.
    torn: int = 0
    #: Committed, but none of its records is visible.
    missing: int = 0
    #: Aborted, but records of it are visible.
    aborted_visible: int = 0
    #: Records that were acknowledged, in transactions that were committed, and not in the log.
    lost: int = 0
    #: Records that were acknowledged, in transactions that were committed, and in the log but not visible.
    false_successes: int = 0
    #: Still open when the producer had been closed. Set by the caller, who asks the brokers.
    leaked: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not (self.torn or self.missing or self.aborted_visible or self.false_successes or self.leaked)

    def note(self, example: str) -> None:
        if len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(example)


def judge_records(lanes: Iterable[Lane], topic: str, logs: Mapping[int, Log]) -> Verdict:
    """Compare with the log as a ``read_uncommitted`` reader sees it, by partition."""
    lanes = list(lanes)
    checker = Checker(lanes)
    for partition, records in logs.items():
        checker.read(topic, partition, (LogRecord(offset, value) for offset, value in records))
    verdict = checker.judge()
    if verdict.lost or verdict.false_successes:
        verdict.examples += _instead(lanes, logs)
    return verdict


def _instead(lanes: list[Lane], logs: Mapping[int, Log]) -> list[str]:
    """What is in the log at offsets at which other records were acknowledged."""
    there = {(partition, offset): identity(value) for partition, log in logs.items() for offset, value in log}
    examples: list[str] = []
    for lane in lanes:
        for number, (partition, offset) in enumerate(zip(lane.partitions, lane.offsets, strict=True)):
            found = there.get((partition, offset))
            if lane.results[number] == Result.ACKNOWLEDGED and found and found != (lane.name, number):
                example = f"{lane.name} {number} acknowledged at {partition} @{offset}, where {found} is"
                examples.append(example)
    return examples[:_MOST_EXAMPLES]


def numbers_in(logs: Mapping[int, Log]) -> dict[str, set[int]]:
    """The numbers of the records in the log, by lane."""
    found: dict[str, set[int]] = {}
    for records in logs.values():
        for _, value in records:
            lane, number = identity(value)
            found.setdefault(lane, set()).add(number)
    return found


def judge_transactions(
    transactions: Iterable[ToldTransaction],
    lanes: Iterable[Lane],
    written: Mapping[str, set[int]],
    visible: Mapping[str, set[int]],
) -> TransactionVerdict:
    """Compare transactions with the log.

    Args:
        written: see ``numbers_in``, of a ``read_uncommitted`` reader.
        visible: of a ``read_committed`` reader.
    """
    verdict = TransactionVerdict()
    results = {lane.name: lane.results for lane in lanes}
    for each in transactions:
        numbers = set(range(each.first, each.end))
        seen = numbers & visible.get(each.lane, set())
        is_torn = is_missing = is_wrongly_visible = False
        if each.state is State.COMMITTED:
            acknowledged = {number for number in numbers if results[each.lane][number] == Result.ACKNOWLEDGED}
            in_log = acknowledged & written.get(each.lane, set())
            is_torn, is_missing = bool(seen) and seen != numbers, bool(numbers) and not seen
            verdict.committed += 1
            verdict.lost += len(acknowledged - in_log)
            verdict.false_successes += len(in_log - seen)
        elif each.state is State.COMMITTING:
            is_torn = bool(seen) and seen != numbers
            verdict.unknown += 1
            verdict.unknown_committed += bool(seen)
        else:
            is_wrongly_visible = bool(seen)
            verdict.aborted += 1
        verdict.torn += is_torn
        verdict.missing += is_missing
        verdict.aborted_visible += is_wrongly_visible
        if is_torn or is_missing or is_wrongly_visible:
            verdict.note(
                f"transaction {each.number} of {each.lane} ({each.state.value}): "
                f"{len(seen)} of {len(numbers)} records are visible"
            )
    return verdict
