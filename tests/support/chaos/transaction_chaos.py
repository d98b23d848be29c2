"""Random faults while producers write transactions: ``make transaction-chaos``.

Producers, brokers and the process that ends prepared transactions are killed, stopped and frozen at random.
Then the records that a ``read_committed`` reader sees are compared with the producers' ledgers. Prints each
fault and the verdict. The exit code is 0 if no record is lost, duplicated, out of order or visible without a
commit, and no transaction is torn. ``--break isolation`` (``read_uncommitted``) and ``--break repeat``
(records are sent twice) must fail.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

from confluent_kafka import KafkaException

from kproducer import KafkaProducer
from tests.support.chaos.broker_faults import SETTLE_SECONDS, BrokerFaults
from tests.support.chaos.command_line import access_of_producers, fault_arguments, say, three_nodes
from tests.support.chaos.transaction_ledger import State, Transaction, Verdict, compare, read_ledgers
from tests.support.chaos.transaction_worker import PARTITIONS, TOPICS, again, position_of
from tests.support.chaos.worker_processes import WorkerProcesses
from tests.support.kafka.cluster import KafkaCluster, KafkaNode
from tests.support.kafka.committed_records import await_no_open_transaction, committed_offset
from tests.support.kafka.reader import partition_values
from tests.support.kafka.topics import create_topic, partition_leader

CHAOS_PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "replica.fetch.backoff.ms": "50",
}
READ_SECONDS = 600.0
_COORDINATORS = "__transaction_state"


class TransactionChaos:
    """One run on a cluster of three nodes, driven from the thread that started the cluster.

    Args:
        cluster: its brokers are killed; all of them run again at the end.
        seed: of every random choice; the run as a whole is still not repeatable.
        worker_count: number of producers.
        repeats: the producers send some records twice: the verdict must fail.
        say: prints a line.
        tls: the producers use TLS.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        seed: int,
        worker_count: int = 3,
        repeats: bool = False,
        say: Callable[[str], None] = print,
        *,
        tls: bool = False,
    ) -> None:
        self._cluster = cluster
        self._servers = cluster.bootstrap_servers
        self._chance = random.Random(seed)
        self._names = [f"chaos{number}" for number in range(worker_count)]
        self._say = say
        self._worker_servers, ca_file = access_of_producers(cluster, tls)
        self._workers = WorkerProcesses("transaction-chaos-", self._tell, ca_file)
        self._folder = self._workers.folder
        if repeats:
            (self._folder / "repeat").touch()
        self._started = time.monotonic()
        self._brokers = BrokerFaults(
            cluster, self._chance, dict.fromkeys((*TOPICS, _COORDINATORS), 3), self._tell
        )
        self.faults: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Send records and inject faults for this time, then end all producers and bring up all brokers."""
        for topic in TOPICS:
            create_topic(self._servers, topic, PARTITIONS)
        try:
            for name in (*self._names, "finisher"):
                self._spawn(name)
            self._await_first_transactions()
            while time.monotonic() - self._started < seconds:
                self._one_fault()
                time.sleep(self._chance.uniform(0.2, 2.5))
            self._end_workers()
        finally:
            self._workers.kill_all()

    def remove_ledgers(self) -> None:
        self._workers.remove_folder()

    def _tell(self, text: str) -> None:
        self._say(f"[{time.monotonic() - self._started:6.1f} s] {text}")

    # -- producers -------------------------------------------------------------------------------------

    def _spawn(self, name: str) -> None:
        role = "finisher" if name == "finisher" else "worker"
        seed = self._chance.randrange(2**31)
        arguments = (role, self._worker_servers, str(self._folder), name, str(seed))
        pid = self._workers.start(name, "tests.support.chaos.transaction_worker", *arguments)
        # A fenced producer reads this file to see whether it was replaced.
        part = self._folder / f"{name}.owner-part"
        part.write_text(str(pid))
        part.rename(self._folder / f"{name}.owner")

    def _await_first_transactions(self) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while not all((self._folder / f"{name}.0000.jsonl").exists() for name in self._names):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"the producers did not start their first transactions, see {self._folder}"
                )
            time.sleep(0.01)

    def _end_workers(self) -> None:
        (self._folder / "stop").touch()
        self._tell("ending the producers")
        deadline = time.monotonic() + SETTLE_SECONDS
        for name, child in self._workers.running.items():
            try:
                child.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._tell(f"{name} did not end in time: kill -9")
                child.kill()

    # -- faults ----------------------------------------------------------------------------------------

    def _one_fault(self) -> None:
        faults: list[tuple[int, Callable[[], str]]] = [
            (3, self._kill_worker),
            (2, self._replace_frozen_worker),
            (2, self._freeze_worker),
            (1, self._kill_finisher),
            (2, self._freeze_broker),
            (2, lambda: self._take_down(self._brokers.any_node(), "kill")),
            (2, lambda: self._take_down(self._coordinator(), "kill")),
            (1, lambda: self._take_down(self._coordinator(), "stop")),
            (1, self._rolling_restart),
        ]
        for name in self._workers.running:
            self._workers.check(name)
        (fault,) = self._chance.choices([f for _, f in faults], [weight for weight, _ in faults])
        self.faults[fault()] += 1

    def _kill_worker(self) -> str:
        name = self._chance.choice(self._names)
        self._workers.kill(name)
        self._spawn(name)
        return "producer killed"

    def _kill_finisher(self) -> str:
        self._workers.kill("finisher")
        self._spawn("finisher")
        return "finisher killed"

    def _replace_frozen_worker(self) -> str:
        name = self._chance.choice(self._names)
        zombie = self._workers.replace_frozen(name)
        self._spawn(name)
        time.sleep(self._chance.uniform(0.2, 2))
        zombie.send_signal(signal.SIGCONT)
        return "zombie"

    def _freeze_worker(self) -> str:
        self._workers.freeze(self._chance.choice(self._names), self._chance.uniform(0.5, 11))
        return "producer frozen"

    def _coordinator(self) -> KafkaNode:
        try:
            leader = partition_leader(self._servers, _COORDINATORS, 0)
        except KafkaException:
            return self._brokers.any_node()
        return self._cluster.nodes.get(leader) or self._brokers.any_node()

    def _freeze_broker(self) -> str:
        self._brokers.freeze(self._brokers.any_node(), self._chance.uniform(0.5, 7))
        return "broker frozen"

    def _take_down(self, node: KafkaNode, how: str) -> str:
        self._brokers.take_down(node, how)
        return f"broker down ({how})"

    def _rolling_restart(self) -> str:
        for node in self._cluster.nodes.values():
            self._brokers.take_down(node, "stop")
        return "rolling restart"

    # -- verdict ---------------------------------------------------------------------------------------

    def judge(self, isolation_level: str = "read_committed") -> Verdict:
        """After ``run``: compare what a reader sees with the ledgers. ``read_uncommitted`` must fail."""
        for name in self._names:
            # The successor of a killed producer aborts the transaction that it left open.
            with KafkaProducer(bootstrap_servers=self._servers, transactional_id=name) as producer:
                again(producer.init_transactions)
        ends = {
            topic: await_no_open_transaction(self._servers, topic, range(PARTITIONS), SETTLE_SECONDS)
            for topic in TOPICS
        }
        transactions = read_ledgers(self._folder)
        places = {
            f"{topic}-{number}": (
                value
                for _, value in partition_values(
                    self._servers, topic, number, end, READ_SECONDS, isolation_level
                )
            )
            for topic, of_topic in ends.items()
            for number, end in of_topic.items()
        }
        verdict = compare(transactions, places)
        self._check_positions(transactions, verdict)
        self._tell_all(transactions, verdict)
        return verdict

    def _check_positions(self, transactions: list[Transaction], verdict: Verdict) -> None:
        for name in self._names:
            positions = [
                position_of(each.incarnation, each.number)
                for each in transactions
                if each.incarnation.name == name
                and (str(each.incarnation), each.number) in verdict.seen_transactions
            ]
            expected = max((each for each in positions if each is not None), default=None)
            found = committed_offset(self._servers, f"group-{name}", TOPICS[0])
            if found != expected:
                verdict.wrong_positions += 1
                verdict.note(f"group-{name} is at offset {found}, expected {expected}")

    def _tell_all(self, transactions: list[Transaction], verdict: Verdict) -> None:
        states = Counter(each.state for each in transactions)
        prepared = len(list(self._folder.glob("*.finisher.jsonl")))
        self._say(f"faults: {', '.join(f'{what} {count}' for what, count in sorted(self.faults.items()))}")
        self._say(
            f"transactions {len(transactions)}: committed {states[State.COMMITTED]}, aborted "
            f"{states[State.ABORTED] + states[State.BEGUN]}, unknown {states[State.COMMITTING]}; producers "
            f"{len({each.incarnation for each in transactions})}, prepared for another process {prepared}"
        )
        self._say(str(verdict))
        for example in verdict.examples:
            self._say(f"  {example}")
        self._say("PASSED" if verdict.is_good else f"FAILED; ledgers and logs are in {self._folder}")


def main() -> int:
    parser = fault_arguments(__doc__, ("isolation", "repeat"))
    parser.add_argument("--workers", type=int, default=3)
    arguments = parser.parse_args()
    with three_nodes(arguments, CHAOS_PROPERTIES, f"{arguments.workers} producers") as cluster:
        chaos = TransactionChaos(
            cluster,
            arguments.seed,
            arguments.workers,
            arguments.breakage == "repeat",
            say,
            tls=arguments.tls,
        )
        chaos.run(arguments.seconds)
        verdict = chaos.judge("read_uncommitted" if arguments.breakage == "isolation" else "read_committed")
    if verdict.is_good:
        chaos.remove_ledgers()
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
