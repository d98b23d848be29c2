"""The cost of idempotence and of transactions, in CPU time of the process per record.

Three producers in one process, without idempotence, idempotent and transactional, send the same records in
turn; a transaction has all records of a round, and the commit counts. The ratios are those of adjacent
rounds, so that other work on the machine affects all of them almost equally. Idempotence costs CPU per batch,
so one case has small batches.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

from benchmarks.figures import CPU
from benchmarks.process_costs import own_cpu_seconds

WITHOUT, IDEMPOTENT, TRANSACTIONAL = "no idempotence", "idempotent", "transactional"
#: The name of these rows' family in tables.
FAMILY = "idempotence"
ROUNDS = 10
RECORDS = 300_000
VALUE = b"x" * 100
_MODES: dict[str, dict[str, Any]] = {
    WITHOUT: {"enable_idempotence": False},
    IDEMPOTENT: {"enable_idempotence": True},
    TRANSACTIONAL: {"transactional_id": "bench"},
}
_BUFFER_BYTES = 256 * 1024 * 1024
_CHUNK = 10_000
_FLUSH_SECONDS = 120.0


class Case(NamedTuple):
    """The records of a case and how they are sent.

    Attributes:
        name: in the table.
        method: ``send`` or ``send_many``.
        settings: of all producers.
        share: of the records of a round.
    """

    name: str
    method: str
    settings: dict[str, Any]
    share: float


CASES = (
    Case("send", "send", {}, 1),
    Case("send_many", "send_many", {}, 3),
    Case("send, 16 KiB batches", "send", {"batch_size": 16_384}, 1),
)


def _round(producer: Any, topic: str, mode: str, method: str, count: int) -> float:
    """CPU microseconds per record."""
    before = own_cpu_seconds()
    if mode == TRANSACTIONAL:
        producer.begin_transaction()
    if method == "send":
        send = producer.send
        for _ in range(count):
            send(topic, VALUE)
    else:
        values = [VALUE] * min(_CHUNK, count)
        for _ in range(count // len(values)):
            producer.send_many(topic, values)
    if mode == TRANSACTIONAL:
        producer.commit_transaction()
    else:
        producer.flush(_FLUSH_SECONDS)
    return (own_cpu_seconds() - before) / count * 1e6


def run_case(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one case in this process; returns a run per round and mode."""
    from kproducer import KafkaProducer

    case = Case(*task["case"])
    count = int(task["records"] * case.share)
    producers = {
        mode: KafkaProducer(
            bootstrap_servers=task["bootstrap"], buffer_memory=_BUFFER_BYTES, **settings, **case.settings
        )
        for mode, settings in _MODES.items()
    }
    producers[TRANSACTIONAL].init_transactions()
    found = []
    modes = list(producers)
    for number in range(-2, task["rounds"]):
        # The order rotates; the first rounds, which connect, do not count.
        turn = number % len(modes)
        for mode in modes[turn:] + modes[:turn]:
            cost = _round(producers[mode], task["topic"], mode, case.method, count)
            if number >= 0:
                place = {"cluster": "embedded", "family": FAMILY, "row": case.name}
                found.append({**place, "client": mode, "round": number, CPU: cost})
    for mode, producer in producers.items():
        metrics = producer.metrics()["producer-metrics"]
        expected = count * (2 + task["rounds"])
        if metrics["record-error-total"] or metrics["record-send-total"] != expected:
            raise RuntimeError(f"{mode}: {metrics['record-send-total']} of {expected} records acknowledged")
        producer.close()
    return found


if __name__ == "__main__":
    print(json.dumps(run_case(json.loads(sys.argv[1]))), flush=True)
