"""The result of a duel as a table: a column for each client."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.figures import Table
from tests.support.chaos.idempotence_ledger import Verdict
from tests.support.duel.load import IDEMPOTENT, TRANSACTIONAL
from tests.support.duel.run import ENDED, Part

MARKER = "duel"
_NOTHING = "-"


def _of_both(count: Callable[[Verdict], int]) -> Callable[[Part], str]:
    """Of the idempotent producer, and of the transactional one."""
    return lambda part: " / ".join(f"{count(part.records[mode]):,}" for mode in (IDEMPOTENT, TRANSACTIONAL))


def _end(part: Part) -> str:
    wrong = [f"{mode}: {end}" for mode, end in part.ends.items() if end != ENDED]
    return "; ".join(wrong) or "no"


#: Name of a row and its cells. Records: of the idempotent producer / of the transactional producer.
_ROWS: tuple[tuple[str, Callable[[Part], str]], ...] = (
    ("acknowledged", _of_both(lambda each: each.acknowledged)),
    ("lost", _of_both(lambda each: each.lost)),
    ("lost in committed transactions", lambda part: f"{part.transactions.lost:,}"),
    ("doubled", _of_both(lambda each: each.duplicated)),
    ("reordered", _of_both(lambda each: each.reordered)),
    (
        "falsely successful",
        lambda part: (
            f"{part.records[IDEMPOTENT].false_successes:,} / "
            f"{part.records[TRANSACTIONAL].false_successes + part.transactions.false_successes:,}"
        ),
    ),
    ("rejected", _of_both(lambda each: each.rejected)),
    ("rejected but written", _of_both(lambda each: each.false_failures)),
    ("unknown", _of_both(lambda each: each.unknown - each.not_told)),
    ("unknown or never told, and written", _of_both(lambda each: each.unknown_written)),
    ("never told", _of_both(lambda each: each.not_told)),
    ("transaction protocol", lambda part: str(part.protocol)),
    ("transactions committed", lambda part: f"{part.transactions.committed:,}"),
    ("aborted", lambda part: f"{part.transactions.aborted:,}"),
    (
        "unknown, of these committed",
        lambda part: f"{part.transactions.unknown:,}, {part.transactions.unknown_committed:,}",
    ),
    ("committed but missing", lambda part: f"{part.transactions.missing:,}"),
    ("torn", lambda part: f"{part.transactions.torn:,}"),
    ("aborted but visible", lambda part: f"{part.transactions.aborted_visible:,}"),
    (
        "left open",
        lambda part: f"{part.transactions.leaked:,}" + (", stuck" if part.is_stuck else ""),
    ),
    ("producers needed", lambda part: f"{part.lives[IDEMPOTENT]} / {part.lives[TRANSACTIONAL]}"),
    ("hung or crashed", _end),
    (
        "records acknowledged per second",
        lambda part: f"{sum(each.acknowledged for each in part.records.values()) / part.seconds:,.0f}",
    ),
    ("CPU seconds", lambda part: _NOTHING if part.cpu_seconds is None else f"{part.cpu_seconds:.0f}"),
    ("faults that took place", lambda part: f"{part.faults.total()}"),
)


def table_of(parts: list[Part]) -> Table:
    """Records: of the idempotent producer / of the transactional one."""
    header = ("", *(f"{part.client} {part.version.split(' ')[0]}" for part in parts))
    return Table(MARKER, header, [(name, *(cell(part) for part in parts)) for name, cell in _ROWS])
