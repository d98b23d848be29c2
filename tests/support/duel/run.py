"""One client's part of a duel, on a cluster of its own."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.chaos.broker_faults import BrokerFaults
from tests.support.chaos.idempotence_ledger import Verdict, read_ledgers
from tests.support.chaos.worker_processes import WorkerProcesses
from tests.support.duel.connection_faults import FIRST_OF_PROTOCOL_2, ConnectionFaults
from tests.support.duel.ledger import read_transactions
from tests.support.duel.load import MODES, TOPICS, TRANSACTIONAL
from tests.support.duel.schedule import (
    BROKER_FAULTS,
    CONNECTION_FAULTS,
    FROZEN,
    KILLED,
    LEADER_MOVED,
    NODES,
    PARTITIONS,
    RESTARTED,
    Fault,
)
from tests.support.duel.verdict import TransactionVerdict, judge_records, judge_transactions, numbers_in
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.cluster_changes import move_leader
from tests.support.kafka.committed_records import await_no_open_transaction
from tests.support.kafka.java_process import compile_java, java_arguments
from tests.support.kafka.proxy import KafkaProxy
from tests.support.kafka.python_admin import open_transactions
from tests.support.kafka.reader import partition_values
from tests.support.kafka.topics import await_topic, create_topic, partition_leader

JAVA = "java"
CLIENTS = ("kproducer", "confluent-kafka", JAVA, "aiokafka", "kafka-python")
ENDED, HUNG, CRASHED = "ended", "hung", "crashed"
#: More than the default timeout of a record in most clients: two minutes.
END_SECONDS = 150.0
_START_SECONDS = 60.0
_READ_SECONDS = 300.0
#: EndTxn is answered before the markers are written.
_MARKER_SECONDS = 10.0
#: More than the default timeout of a transaction: one minute.
_STUCK_SECONDS = 100.0
_SUPPORT = Path(__file__).parents[1]
_JAVA_SOURCE = _SUPPORT / "kafka" / "DuelWorker.java"
_JAVA_HEAP_MB = 256
_COORDINATORS = "__transaction_state"
#: How many each topic has, and where: leaders take turns. With chance, clients would get different faults.
_REPLICAS = {**dict.fromkeys(TOPICS.values(), len(NODES)), _COORDINATORS: len(NODES)}
_REPLICA_NODES = [[*NODES[number % 3 :], *NODES[: number % 3]] for number in range(PARTITIONS)]


@dataclass
class Part:
    """What came out for one client.

    Attributes:
        seconds: from the start of the faults until the workers were told to stop.
        records, ends, lives: by mode: the verdict; how the process ended; how many producers it needed.
        is_stuck: a transaction stayed open for longer than its timeout.
        cpu_seconds: of both processes; ``None`` if one did not end by itself.
        faults: that took place; those of connections in both processes together.
        late_answers: see ``ConnectionFaults``.
        protocol: the version of the transaction protocol that the client used: 2 is KIP-890.
        load_average: of the machine, when it began.
    """

    client: str
    version: str = ""
    seconds: float = 0.0
    records: dict[str, Verdict] = field(default_factory=dict)
    transactions: TransactionVerdict = field(default_factory=TransactionVerdict)
    ends: dict[str, str] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    is_stuck: bool = False
    cpu_seconds: float | None = None
    faults: Counter[str] = field(default_factory=Counter)
    late_answers: Counter[int] = field(default_factory=Counter)
    protocol: int = 1
    load_average: float = 0.0

    @property
    def is_good(self) -> bool:
        return (
            all(verdict.is_good and not verdict.not_told for verdict in self.records.values())
            and self.transactions.is_good
            and all(end == ENDED for end in self.ends.values())
            and not self.is_stuck
        )


class DuelRun:
    """Drive it from the thread that started the cluster.

    Args:
        cluster: three nodes, without topics.
        client: one of ``CLIENTS``.
        delivery_seconds: the timeout of each record; 0: the client's default.
        breakage: see ``worker.py``; empty: nothing.
        say: prints a line.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        client: str,
        delivery_seconds: float = 0.0,
        breakage: str = "",
        say: Callable[[str], None] = print,
    ) -> None:
        self._cluster = cluster
        self._servers = cluster.bootstrap_servers
        self._client = client
        self._delivery_seconds = delivery_seconds
        self._breakage = breakage
        self._say = say
        self._started = time.monotonic()
        self._workers = WorkerProcesses(f"duel-{client}-", self._tell)
        self.folder = self._workers.folder
        self._brokers = BrokerFaults(cluster, random.Random(0), _REPLICAS, self._tell)
        self._part = Part(client)

    def run(self, faults: list[Fault], seconds: float) -> Part:
        for topic in TOPICS.values():
            create_topic(self._servers, topic, PARTITIONS, replicas=_REPLICA_NODES)
        if self._client == JAVA:
            compile_java(self._cluster.version, _JAVA_SOURCE, self.folder)
        connections = {mode: ConnectionFaults(faults) for mode in MODES}
        proxies = {mode: KafkaProxy(self._servers, each) for mode, each in connections.items()}
        try:
            for mode in MODES:
                command = self._command(mode, proxies[mode].bootstrap_servers, seconds)
                self._workers.start_command(mode, command)
            self._await_first_records()
            move_leader(self._servers, _COORDINATORS, 0, NODES[0])
            self._brokers.await_replicas()
            self._started = time.monotonic()
            for each in connections.values():
                each.start()
            self._make_faults(faults, seconds)
            self._part.seconds = time.monotonic() - self._started
            for each in connections.values():
                each.stop()
                self._part.faults.update(each.counts)
                self._part.late_answers.update(each.late_answers)
            self._part.protocol = 2 if connections[TRANSACTIONAL].end_version >= FIRST_OF_PROTOCOL_2 else 1
            self._end_workers()
        finally:
            self._workers.kill_all()
            for proxy in proxies.values():
                proxy.close()
        self._judge()
        return self._part

    def remove_files(self) -> None:
        self._workers.remove_folder()

    def _tell(self, text: str) -> None:
        self._say(f"[{time.monotonic() - self._started:6.1f} s] {self._client}: {text}")

    # -- processes ---------------------------------------------------------------------------------------

    def _command(self, mode: str, servers: str, seconds: float) -> list[str]:
        arguments = [mode, servers, str(self.folder), str(self._delivery_seconds)]
        if self._client == JAVA:
            version = self._cluster.version
            arguments = [*arguments, version]
            command = java_arguments(version, "DuelWorker", arguments, _JAVA_HEAP_MB, classes=self.folder)
        else:
            module = ("-W", "ignore", "-m", "tests.support.duel.worker")
            command = [sys.executable, *module, self._client, *arguments, self._breakage]
        lifetime = int(2 * seconds + _START_SECONDS + END_SECONDS + 120)
        return [sys.executable, str(_SUPPORT / "bounded_exec.py"), str(lifetime), *command]

    def _await_first_records(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not all((self.folder / f"{mode}.ready").exists() for mode in MODES):
            for mode in MODES:
                self._workers.check(mode)
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._client} acknowledged no records in time, see {self.folder}")
            time.sleep(0.05)

    def _end_workers(self) -> None:
        (self.folder / "stop").touch()
        self._tell("ending the producers")
        deadline = time.monotonic() + END_SECONDS
        for mode, child in self._workers.running.items():
            try:
                code = child.wait(max(0.0, deadline - time.monotonic()))
                self._part.ends[mode] = CRASHED if code else ENDED
            except subprocess.TimeoutExpired:
                self._part.ends[mode] = HUNG
                # Writes the stacks of its threads to its log.
                child.send_signal(signal.SIGQUIT)
                time.sleep(1)
                child.kill()
            if self._part.ends[mode] != ENDED:
                self._tell(f"the {mode} worker {self._part.ends[mode]}, see {self.folder}")
        ends = [self.folder / f"{mode}.end" for mode in MODES]
        texts = [path.read_text().split(" ", 1) for path in ends if path.exists()]
        if len(texts) == len(MODES):
            self._part.cpu_seconds = sum(float(seconds) for seconds, _ in texts)
        self._part.version = next((version for _, version in texts), "")

    # -- faults ------------------------------------------------------------------------------------------

    def _make_faults(self, faults: list[Fault], seconds: float) -> None:
        for fault in faults:
            if fault.kind in BROKER_FAULTS:
                self._wait_until(fault.at)
                self._make(fault)
                self._part.faults[fault.kind] += 1
        self._wait_until(seconds)

    def _wait_until(self, at: float) -> None:
        time.sleep(max(0.0, self._started + at - time.monotonic()))

    def _make(self, fault: Fault) -> None:
        node = self._cluster.nodes[fault.node]
        if fault.kind == FROZEN:
            self._brokers.freeze(node, fault.seconds)
        elif fault.kind in (KILLED, RESTARTED):
            self._brokers.take_down(node, "kill" if fault.kind == KILLED else "stop", fault.seconds)
        elif fault.kind == LEADER_MOVED:
            for topic in TOPICS.values():
                leader = partition_leader(self._servers, topic, fault.partition)
                target = fault.node if fault.node != leader else fault.node % len(self._cluster.nodes) + 1
                self._tell(f"{topic}-{fault.partition} moves from {leader} to {target}")
                move_leader(self._servers, topic, fault.partition, target)
            self._brokers.await_replicas()

    # -- verdict -----------------------------------------------------------------------------------------

    def _judge(self) -> None:
        part = self._part
        self._brokers.await_replicas()
        leaked = self._leaked()
        lanes = {mode: read_ledgers([self.folder / f"{mode}.ledger"]) for mode in MODES}
        logs = {mode: self._logs(mode, "read_uncommitted") for mode in MODES}
        for mode in MODES:
            part.lives[mode] = len(lanes[mode])
            part.records[mode] = judge_records(lanes[mode], TOPICS[mode], logs[mode])
        topic = TOPICS[TRANSACTIONAL]
        try:
            await_no_open_transaction(self._servers, topic, range(PARTITIONS), _STUCK_SECONDS)
        except TimeoutError as error:
            self._tell(str(error))
            part.is_stuck = True
        part.transactions = judge_transactions(
            read_transactions(self.folder / f"{TRANSACTIONAL}.ledger", lanes[TRANSACTIONAL]),
            lanes[TRANSACTIONAL],
            numbers_in(logs[TRANSACTIONAL]),
            numbers_in(self._logs(TRANSACTIONAL, "read_committed")),
        )
        part.transactions.leaked = leaked

    def _leaked(self) -> int:
        deadline = time.monotonic() + _MARKER_SECONDS
        topics = {TOPICS[TRANSACTIONAL]: PARTITIONS}
        while (found := open_transactions(self._servers, topics)) and time.monotonic() < deadline:
            time.sleep(0.5)
        return len(found)

    def _logs(self, mode: str, isolation_level: str) -> dict[int, list[tuple[int, bytes]]]:
        topic = TOPICS[mode]
        ends = await_topic(self._servers, topic, PARTITIONS)
        is_whole = isolation_level == "read_uncommitted" or not self._part.is_stuck
        return {
            partition: list(
                partition_values(
                    self._servers, topic, partition, end if is_whole else 0, _READ_SECONDS, isolation_level
                )
            )
            for partition, end in enumerate(ends)
        }


def missing_faults(part: Part, kinds: Iterable[str] = (*BROKER_FAULTS, *CONNECTION_FAULTS)) -> list[str]:
    """Those of the kinds that did not take place."""
    return [kind for kind in kinds if not part.faults[kind]]
