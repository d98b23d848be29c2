"""Random faults while idempotent producers send: ``make idempotence-chaos``.

Brokers and producers are killed and frozen, leaders move, topics are deleted and recreated, producer ids
expire, batch size limits are lowered, and a proxy drops and forges responses. At the end the logs are
compared with the outcomes that the producers reported for each record. Prints each fault and the verdict. The
exit code is 0 if no record was lost, duplicated, reordered or reported wrongly, and every kind of fault was
injected. ``--break repeat`` (records are sent twice), ``--break skip`` and ``--break swap`` (the reader skips
or swaps records) must fail.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from uuid import UUID

from kproducer import build_info
from tests.support.chaos.broker_faults import SETTLE_SECONDS, BrokerFaults
from tests.support.chaos.command_line import access_of_producers, fault_arguments, say, three_nodes
from tests.support.chaos.idempotence_ledger import Checker, Expiration, LogRecord, Verdict, read_ledgers
from tests.support.chaos.idempotence_worker import TOPICS, Obeyed, Orders
from tests.support.chaos.produce_faults import ProduceFaults, Rates
from tests.support.chaos.worker_processes import WorkerProcesses
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.cluster_changes import (
    await_topic_id,
    move_leader,
    set_broker_config,
    set_topic_config,
)
from tests.support.kafka.proxy import KafkaProxy
from tests.support.kafka.python_admin import await_no_producers
from tests.support.kafka.reader import iterate_topic
from tests.support.kafka.topics import create_topic, delete_topic, partition_leader

BRIEF = "brief"
REPLICAS = {"triple": 3, "single": 1, BRIEF: 3}
_EXPIRATION = "producer.id.expiration.ms"
_LONG_MS, _SHORT_MS = "3600000", "2000"
#: Within this time brokers apply a change of their settings.
_APPLIED_MS = 5000
_LIMIT, _USUAL_LIMIT = "max.message.bytes", "1048588"
CHAOS_PROPERTIES = {
    _EXPIRATION: _LONG_MS,
    "producer.id.expiration.check.interval.ms": "200",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    # Leaders return to the preferred broker soon after a restart.
    "leader.imbalance.check.interval.seconds": "3",
    "leader.imbalance.per.broker.percentage": "0",
    "replica.fetch.backoff.ms": "50",
}
TOPIC_CONFIG = {
    # Brokers compare a producer's last timestamp with the current time to decide whether its id has expired.
    # With CreateTime, records that waited for a long time would expire the id as soon as they are appended.
    "message.timestamp.type": "LogAppendTime",
}
#: Faults that the proxy counts, and the minimum of each.
PROXY_FAULTS = ("dropped", "rejected", "failed after append")
LEAST_PROXY_FAULTS = 10
LEAST_ACKNOWLEDGED = 1000
READ_SECONDS = 600.0
BREAKAGES = ("repeat", "skip", "swap")

Records = Iterator[LogRecord]


class IdempotenceChaos:
    """One run on a cluster of three nodes, driven from the thread that started the cluster.

    Args:
        cluster: started with ``CHAOS_PROPERTIES``; all its brokers run again at the end.
        seed: of every random choice; the run as a whole is still not repeatable.
        worker_count: number of processes with producers.
        kinds: faults to choose from, keys of ``FAULTS`` and ``PROXY_FAULTS``. Default: all.
        breakage: one of ``BREAKAGES``: the verdict must fail.
        say: prints a line.
        tls: the producers use TLS, and no proxy injects faults.

    Attributes:
        faults: number of faults of each kind.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        seed: int,
        worker_count: int = 4,
        kinds: Collection[str] = (),
        breakage: str | None = None,
        say: Callable[[str], None] = print,
        *,
        tls: bool = False,
    ) -> None:
        self._cluster = cluster
        self._servers = cluster.bootstrap_servers
        self._chance = random.Random(seed)
        self._worker_count = worker_count
        # The proxy reads requests, so it is not between brokers and producers that use TLS.
        self._uses_proxy = not tls
        possible = FAULTS if tls else (*FAULTS, *PROXY_FAULTS)
        self._kinds = [kind for kind in possible if not kinds or kind in kinds]
        self._breakage = breakage
        self._say = say
        self._kernels = ("pure",) if build_info().missing_modules else ("native", "pure")
        self._worker_servers, ca_file = access_of_producers(cluster, tls)
        self._workers = WorkerProcesses("idempotence-chaos-", self._tell, ca_file)
        self._folder = self._workers.folder
        self._worker_names = 0
        self._started = time.monotonic()
        self._brokers = BrokerFaults(cluster, self._chance, REPLICAS, self._tell)
        self._produce_faults = ProduceFaults(self._chance.randrange(2**31))
        self._orders = Orders(repeat=breakage == "repeat")
        #: By topic-partition: the lowest end offset that the log may have.
        self._ends: dict[str, int] = {}
        #: Records read from topics before they were deleted: topic, partition, records.
        self._deleted_logs: list[tuple[str, int, list[LogRecord]]] = []
        #: When ids expired: first and last time, in ms since 1970.
        self._expirations: list[tuple[int, int]] = []
        self._topic_id: UUID | None = None
        self.faults: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Send records and inject faults for this time, then end all producers and bring up all brokers."""
        for topic in TOPICS:
            self._create(topic)
        self._topic_id = await_topic_id(self._servers, BRIEF, lambda found: found is not None)
        with contextlib.ExitStack() as stack:
            if self._uses_proxy:
                proxy = stack.enter_context(KafkaProxy(self._servers, self._produce_faults))
                self._worker_servers = proxy.bootstrap_servers
            self._orders.write(self._folder)
            try:
                for _ in range(self._worker_count):
                    self._spawn()
                self._order()
                self._started = time.monotonic()
                self._make_faults(seconds)
                self._end_workers()
            finally:
                self._workers.kill_all()
        self.faults.update({kind: self._produce_faults.counts[kind] for kind in PROXY_FAULTS})
        self._brokers.await_replicas()

    def remove_ledgers(self) -> None:
        self._workers.remove_folder()

    def _tell(self, text: str) -> None:
        self._say(f"[{time.monotonic() - self._started:6.1f} s] {text}")

    def _create(self, topic: str) -> None:
        replicas = REPLICAS[topic]
        config = {**TOPIC_CONFIG, "min.insync.replicas": str(min(2, replicas))}
        create_topic(self._servers, topic, TOPICS[topic], replicas, config)

    # -- producers -------------------------------------------------------------------------------------

    def _spawn(self) -> None:
        name = f"w{self._worker_names}"
        kernel = self._kernels[self._worker_names % len(self._kernels)]
        self._worker_names += 1
        seed = self._chance.randrange(2**31)
        arguments = (self._worker_servers, str(self._folder), name, str(seed))
        self._workers.start(
            name, "tests.support.chaos.idempotence_worker", *arguments, KPRODUCER_KERNEL=kernel
        )

    def _order(
        self,
        held: tuple[str, ...] = (),
        vanishing: tuple[str, ...] = (),
        idle: bool = False,
        stop: bool = False,
    ) -> None:
        """Give the workers an order, and wait until everything they sent before it is settled."""
        if not self._orders.held:
            # Otherwise the records might not settle until they time out.
            self._produce_faults.rates = Rates()
        number = self._orders.number + 1
        self._orders = self._orders._replace(
            number=number, held=held, vanishing=vanishing, idle=idle, stop=stop
        )
        self._orders.write(self._folder)
        deadline = time.monotonic() + SETTLE_SECONDS
        for name in self._workers.running:
            while (answer := self._answer(name)) is None or answer.number < number:
                self._check_worker(name)
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{name} did not settle its records in time, see {self._folder}")
                time.sleep(0.01)
            for place, end in answer.ends.items():
                self._ends[place] = max(end, self._ends.get(place, 0))

    def _answer(self, name: str) -> Obeyed | None:
        try:
            return Obeyed.read(self._folder / f"{name}.obeyed")
        except FileNotFoundError:
            return None

    def _check_worker(self, name: str) -> None:
        self._workers.check(name, may_end=self._orders.stop)

    def _end_workers(self) -> None:
        self._tell("ending the producers")
        self._order(stop=True)
        for name, child in self._workers.running.items():
            child.wait(SETTLE_SECONDS)
            self._check_worker(name)

    # -- faults ----------------------------------------------------------------------------------------

    def _make_faults(self, seconds: float) -> None:
        """Inject all kinds in random order, repeatedly; each at least once, even if that exceeds the time."""
        own = [kind for kind in self._kinds if kind in FAULTS]
        deck = self._chance.sample(own, len(own))
        while deck:
            self._one_fault(deck.pop())
        end = self._started + seconds
        while time.monotonic() < end:
            deck = deck or self._chance.sample(own, len(own))
            self._one_fault(deck.pop() if deck else None)

    def _one_fault(self, kind: str | None) -> None:
        """Wait with new rates of the proxy's faults, then inject ``kind``, unless it is ``None``."""
        for name in self._workers.running:
            self._check_worker(name)
        self._change_rates()
        time.sleep(self._chance.uniform(0.3, 2.5))
        if kind is not None:
            self.faults[kind] += FAULTS[kind](self)

    def _change_rates(self) -> None:
        """Choose random rates, high for faults that have not occurred often enough."""
        counts = self._produce_faults.counts
        self._set_rates(
            Rates(
                *(
                    0.3 if counts[kind] < LEAST_PROXY_FAULTS else self._chance.choice((0, 0.02, 0.1, 0.3))
                    for kind in PROXY_FAULTS
                )
            )
        )

    def _set_rates(self, rates: Rates) -> None:
        """Set these rates, but 0 for faults that were not selected."""
        chosen = (rate if kind in self._kinds else 0 for kind, rate in zip(PROXY_FAULTS, rates, strict=True))
        self._produce_faults.rates = Rates(*chosen)

    def _kill_worker(self) -> bool:
        self._workers.kill(self._chance.choice(list(self._workers.running)))
        self._spawn()
        return True

    def _freeze_worker(self) -> bool:
        self._workers.freeze(self._chance.choice(list(self._workers.running)), self._chance.uniform(0.5, 6))
        return True

    def _kill_broker(self) -> bool:
        self._brokers.take_down(self._brokers.any_node(), "kill")
        return True

    def _restart_broker(self) -> bool:
        self._brokers.take_down(self._brokers.any_node(), "stop")
        return True

    def _freeze_broker(self) -> bool:
        self._brokers.freeze(self._brokers.any_node(), self._chance.uniform(0.3, 7))
        return True

    def _move_leader(self) -> bool:
        topic = self._chance.choice(list(TOPICS))
        partition = self._chance.randrange(TOPICS[topic])
        leader = partition_leader(self._servers, topic, partition)
        target = self._chance.choice([each for each in self._cluster.nodes if each != leader])
        self._tell(f"{topic}-{partition} moves from {leader} to {target}")
        has_moved = move_leader(self._servers, topic, partition, target)
        self._brokers.await_replicas()
        return has_moved

    def _lower_limit(self) -> bool:
        topic, limit = self._chance.choice(list(TOPICS)), self._chance.choice(("400", "1000", "3000"))
        self._tell(f"{topic} accepts batches of up to {limit} bytes")
        set_topic_config(self._servers, topic, _LIMIT, limit)
        time.sleep(self._chance.uniform(0.5, 3))
        set_topic_config(self._servers, topic, _LIMIT, _USUAL_LIMIT)
        return True

    def _recreate_at_rest(self) -> bool:
        """No producer sends while the topic is read and deleted; they send while the topic does not exist."""
        self._tell(f"topic {BRIEF} is deleted while idle and recreated")
        self._order(held=(BRIEF,))
        self._read_and_delete()
        await_topic_id(self._servers, BRIEF, lambda found: found is None)
        self._change_rates()
        self._order()
        time.sleep(self._chance.uniform(0, 1.5))
        self._create_again()
        return True

    def _recreate_in_use(self) -> bool:
        """Producers send all the time. Records appended after the log was read are deleted with the topic."""
        self._tell(f"topic {BRIEF} is deleted while in use and recreated")
        self._order(vanishing=(BRIEF,))
        self._read_and_delete()
        self._create_again()
        self._order()
        return True

    def _read_and_delete(self) -> None:
        for partition in range(TOPICS[BRIEF]):
            records = [each._replace(value=_identity(each.value)) for each in self._log(BRIEF, partition)]
            self._deleted_logs.append((BRIEF, partition, records))
            self._ends.pop(f"{BRIEF}-{partition}", None)
        delete_topic(self._servers, BRIEF)

    def _create_again(self) -> None:
        before = self._topic_id
        deadline = time.monotonic() + SETTLE_SECONDS
        self._create(BRIEF)
        self._topic_id = await_topic_id(self._servers, BRIEF, lambda found: found not in (None, before))
        assert time.monotonic() < deadline

    def _expire_ids(self) -> bool:
        """Pause all producers until no broker remembers their ids.

        Then some producers go on while brokers keep expiring ids, without the faults that make the second
        copy of a request arrive long after the first: brokers append it twice, and no producer can prevent
        that. On a busy machine it happens nevertheless.
        """
        self._tell("producer ids expire")
        began_ms = _now_ms()
        self._order(held=tuple(TOPICS))
        nodes = list(self._cluster.nodes)
        set_broker_config(self._servers, nodes, _EXPIRATION, _SHORT_MS)
        all_have = {topic: nodes if count == len(nodes) else None for topic, count in REPLICAS.items()}
        await_no_producers(self._servers, TOPICS, all_have)
        # The first batches are rejected while later ones are appended.
        self._set_rates(Rates(rejected=0.3))
        if self._chance.random() < 0.5:
            self._tell("producers send rarely, so their ids keep expiring")
            self._order(idle=True)
            time.sleep(self._chance.uniform(3, 8))
            if "leader moved" in self._kinds and self._chance.random() < 0.5:
                self._move_leader()
        set_broker_config(self._servers, nodes, _EXPIRATION, _LONG_MS)
        self._expirations.append((began_ms, _now_ms() + _APPLIED_MS))
        self._order()
        return True

    # -- verdict ---------------------------------------------------------------------------------------

    def judge(self) -> Verdict:
        """After ``run``: compare the logs with the ledgers."""
        expiration = Expiration(int(_SHORT_MS), self._expirations)
        checker = Checker(read_ledgers(sorted(self._folder.glob("*.ledger"))), expiration)
        for topic, partition, records in self._deleted_logs:
            checker.read(topic, partition, self._misread(iter(records)), is_deleted=True)
        for topic, count in TOPICS.items():
            for partition in range(count):
                checker.read(topic, partition, self._misread(self._log(topic, partition)))
        return checker.judge()

    def _log(self, topic: str, partition: int) -> Records:
        for record in iterate_topic(
            self._servers,
            topic,
            partitions=[partition],
            next_offsets={partition: self._ends.get(f"{topic}-{partition}", 0)},
            timeout_seconds=READ_SECONDS,
        ):
            assert record.is_log_append_time
            assert record.value is not None
            yield LogRecord(record.offset, record.value, record.timestamp_ms)

    def _misread(self, records: Records) -> Records:
        """With ``--break``: what a faulty reader would return."""
        for record in records:
            is_wrong = record.offset % 1000 == 7
            if is_wrong and self._breakage == "skip":
                continue
            if is_wrong and self._breakage == "swap" and (following := next(records, None)) is not None:
                yield record._replace(value=following.value)
                yield following._replace(value=record.value)
            else:
                yield record

    def reasons_to_fail(self, verdict: Verdict) -> list[str]:
        """Why the run failed; empty if it passed."""
        least = {kind: LEAST_PROXY_FAULTS if kind in PROXY_FAULTS else 1 for kind in self._kinds}
        reasons = [
            f"too few faults: {kind} {self.faults[kind]} of {count}"
            for kind, count in least.items()
            if self.faults[kind] < count
        ]
        if verdict.acknowledged < LEAST_ACKNOWLEDGED:
            reasons.append(f"too few records: {verdict.acknowledged} acknowledged")
        if not verdict.is_good:
            reasons.append("the logs do not agree with what the producers reported")
        return reasons

    def report(self, verdict: Verdict) -> list[str]:
        """Print the summary, and return the reasons to fail."""
        reasons = self.reasons_to_fail(verdict)
        self._say(f"faults: {', '.join(f'{kind} {self.faults[kind]}' for kind in self._kinds)}")
        producers = len(list(self._folder.glob("*.ledger")))
        self._say(
            f"producers {producers} in {self._worker_names} processes, kernels {', '.join(self._kernels)}"
        )
        self._say(str(verdict))
        for example in verdict.examples:
            self._say(f"  {example}")
        self._say(f"FAILED: {'; '.join(reasons)}; see {self._folder}" if reasons else "PASSED")
        return reasons


FAULTS: dict[str, Callable[[IdempotenceChaos], bool]] = {
    "broker killed": IdempotenceChaos._kill_broker,
    "broker restarted": IdempotenceChaos._restart_broker,
    "broker frozen": IdempotenceChaos._freeze_broker,
    "leader moved": IdempotenceChaos._move_leader,
    "limit lowered": IdempotenceChaos._lower_limit,
    "ids expired": IdempotenceChaos._expire_ids,
    "recreated at rest": IdempotenceChaos._recreate_at_rest,
    "recreated in use": IdempotenceChaos._recreate_in_use,
    "producer killed": IdempotenceChaos._kill_worker,
    "producer frozen": IdempotenceChaos._freeze_worker,
}


def _now_ms() -> int:
    return int(time.time() * 1000)


def _identity(value: bytes) -> bytes:
    """A value without its padding."""
    return b"%s %s " % tuple(value.split(b" ", 2)[:2])


def main() -> int:
    parser = fault_arguments(__doc__, BREAKAGES)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--faults",
        default="",
        help=f"comma-separated list of: {', '.join((*FAULTS, *PROXY_FAULTS))}; default: all",
    )
    arguments = parser.parse_args()
    what = f"{arguments.workers} processes with producers"
    with three_nodes(arguments, CHAOS_PROPERTIES, what) as cluster:
        chaos = IdempotenceChaos(
            cluster,
            arguments.seed,
            arguments.workers,
            [each.strip() for each in arguments.faults.split(",") if each.strip()],
            arguments.breakage,
            say,
            tls=arguments.tls,
        )
        chaos.run(arguments.seconds)
        reasons = chaos.report(chaos.judge())
    if not reasons:
        chaos.remove_ledgers()
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
