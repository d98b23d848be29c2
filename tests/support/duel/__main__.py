"""The same load and the same faults for several clients, one after the other: ``make duel``.

Each client gets a new cluster of three nodes, a proxy in front of every broker, and two processes: one with
an idempotent producer and one with a transactional producer, with the client's own defaults. Leaders move,
brokers are killed, frozen and restarted, responses to Produce and EndTxn are lost, and EndTxn requests arrive
late. Then the log is compared with what each client said. Prints each fault and a table. The exit code is 0
if nothing is wrong with kproducer, if it took part. ``--break`` makes the workers do something wrong, which
the table must show: ``claim`` (acknowledged, but never sent), ``twice``, ``swap``, ``commit`` (aborted, but
reported as committed).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.report import new_console, with_sections
from benchmarks.tables import as_markdown, print_table
from tests.support.chaos.command_line import fault_arguments, say, three_nodes
from tests.support.chaos.transaction_chaos import CHAOS_PROPERTIES
from tests.support.duel.load import MOST_FAILED_IN_A_ROW
from tests.support.duel.run import CLIENTS, DuelRun, Part, missing_faults
from tests.support.duel.schedule import BROKER_FAULTS, CONNECTION_FAULTS, schedule
from tests.support.duel.table import MARKER, table_of
from tests.support.duel.worker import BREAKAGES

DOCUMENT = Path(__file__).parents[3] / "docs" / "guides" / "reliability.md"
OURS = "kproducer"
_WORDS = (
    "Falsely successful: acknowledged at another offset, or committed but invisible to read_committed. Torn: "
    "only a part of a transaction is visible. Unknown: the client does not say whether it was written, or "
    "committed. Producers needed: another one after a fatal error, or after "
    f"{MOST_FAILED_IN_A_ROW} failed records in a row."
)
KINDS = (*BROKER_FAULTS, *CONNECTION_FAULTS)
_SETTINGS = (
    "acks=all, idempotence (on by default, except in confluent-kafka and aiokafka), one transactional id, "
    "else the defaults"
)
_OWN_TIMEOUTS = (
    "Timeout of a record: confluent-kafka 300 s, in transactions 60 s; aiokafka none if idempotent; the "
    "others 120 s"
)


def main() -> int:
    arguments = _arguments()
    faults = [
        fault for fault in schedule(arguments.seed, arguments.seconds) if fault.kind in arguments.faults
    ]
    parts = []
    for client in arguments.clients:
        load_average = os.getloadavg()[0]
        with three_nodes(
            arguments, CHAOS_PROPERTIES, f"{client}, load average {load_average:.1f}"
        ) as cluster:
            run = DuelRun(cluster, client, arguments.delivery_seconds, arguments.breakage or "", say)
            parts.append(run.run(faults, arguments.seconds))
        parts[-1].load_average = load_average
        _tell(parts[-1], run)
    console = new_console()
    table = table_of(parts)
    print_table(console, table)
    facts = _facts(parts, arguments, Counter(fault.kind for fault in faults))
    for line in facts:
        console.print(line)
    if arguments.document:
        section = "\n".join([*(f"* {line}" for line in facts), "", as_markdown(table)])
        DOCUMENT.write_text(with_sections(DOCUMENT.read_text(), {MARKER: section}))
    ours = [part for part in parts if part.client == OURS]
    return 0 if all(part.is_good and not missing_faults(part, arguments.faults) for part in ours) else 1


def _arguments() -> argparse.Namespace:
    parser = fault_arguments(__doc__, BREAKAGES, seconds=120)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="comma-separated, default: %(default)s")
    parser.add_argument(
        "--delivery-seconds",
        type=float,
        default=0.0,
        help="timeout of each record; of a request, half of it; default: the clients' own",
    )
    parser.add_argument(
        "--faults",
        default=",".join(KINDS),
        help=f"comma-separated list of: {', '.join(KINDS)}; default: all",
    )
    parser.add_argument("--document", action="store_true", help=f"write the table into {DOCUMENT.name}")
    arguments = parser.parse_args()
    arguments.clients = arguments.clients.split(",")
    if unknown := set(arguments.clients).difference(CLIENTS):
        parser.error(f"no client {', '.join(sorted(unknown))}: choose from {', '.join(CLIENTS)}")
    arguments.faults = [each.strip() for each in arguments.faults.split(",")]
    if unknown := set(arguments.faults).difference(KINDS):
        parser.error(f"no fault {', '.join(sorted(unknown))}: choose from {', '.join(KINDS)}")
    return arguments


def _tell(part: Part, run: DuelRun) -> None:
    """What the table does not say."""
    say(f"{part.client} {part.version}: {_counts(part.faults)}")
    say(f"  brokers' answers to late EndTxn requests, by error code: {_counts(part.late_answers)}")
    for mode, verdict in part.records.items():
        say(f"  {mode}: {verdict}")
        for example in verdict.examples:
            say(f"    {example}")
    for example in part.transactions.examples:
        say(f"    {example}")
    if part.is_good:
        run.remove_files()
    else:
        say(f"  something is wrong; ledgers and logs are in {run.folder}")


def _facts(parts: list[Part], arguments: argparse.Namespace, planned: Counter[str]) -> list[str]:
    loads = ", ".join(f"{part.load_average:.1f}" for part in parts)
    timeouts = (
        f"Timeout of a record: {arguments.delivery_seconds:g} s, of a request: half of it"
        if arguments.delivery_seconds
        else _OWN_TIMEOUTS
    )
    return [
        f"Apache Kafka {arguments.kafka}, 3 nodes on one machine ({platform.machine()}, {os.cpu_count()} "
        f"cores); {arguments.seconds:g} s per client, seed {arguments.seed}; Python "
        f"{platform.python_version()}. Load average when each client began: {loads}.",
        "Versions: " + ", ".join(f"{part.client} {part.version}" for part in parts) + ".",
        f"Every client: {_SETTINGS}. {timeouts}.",
        "Planned faults of brokers: "
        + _counts(Counter({kind: planned[kind] for kind in BROKER_FAULTS}))
        + "; of the connections of each producer: "
        + _counts(Counter({kind: planned[kind] for kind in CONNECTION_FAULTS}))
        + ".",
        _WORDS,
    ]


def _counts(counter: Counter[Any]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counter.items()))


if __name__ == "__main__":
    sys.exit(main())
