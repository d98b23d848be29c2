"""A streaming query that is killed at every step: ``python -m tests.support.exactly_once_chaos --kills 30``.

Spark reads files and writes their rows to a topic, exactly once; its driver, executors and Python workers are
killed at random moments and at named steps of the protocol, while brokers go down and come back. A reader of
committed records follows, and another reads everything at the end. Prints a history and the verdict; the exit
code is 0 when each row is there once, no task was ever visible by half, and no replay was refused.
``--break markers`` (no task looks whether it was committed), ``--break delivery`` (the sink that writes at
least once) and ``--break isolation`` (the reader does not mind) have to fail.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaException

from tests.support.exactly_once_query import ExactlyOnceQuery, Judgement, failures_of
from tests.support.exactly_once_rows import PARTITIONS
from tests.support.kafka_cluster import KafkaCluster, KafkaNode
from tests.support.maven_artifacts import NEWEST_VERSION
from tests.support.spark_driver import COMMITTER, WORKER, send_signal
from tests.support.topics import await_in_sync, create_topic, in_sync_count

CHAOS_PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "replica.fetch.backoff.ms": "50",
    # So that transactions and groups have several coordinators.
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}
TOPIC = "exactly-once"
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
SETTLE_SECONDS = 180.0
#: Steps in a task and in the driver's commit: at each, the process that comes there is killed.
TASK_STEPS = ("marker", "send", "add_marker", "prepare", "prepared")
DRIVER_STEPS = ("fence_driver", "decide", "commit_first", "commit_rest", "confirm", "committed")
#: At each of these everything is killed, another time.
LAST_STEPS = ("prepared", "commit_first", "commit_rest", "committed")
#: Where a driver stands still until another has taken over, and then goes on.
ZOMBIE_STEPS = ("prepare", "decide", "commit_rest")
#: A step of a task comes several times in a batch: not always the first of them.
_TASK_CHANCE = 0.5

Fault = Callable[[], None]


class ExactlyOnceChaos:
    """Faults for a query on a cluster of three nodes, from the thread that made the cluster.

    Attributes:
        kills: of processes of Spark, by kind.
        named: those of them at a named step.
        zombies: drivers that were replaced while they stood still at a step, and then went on.
        brokers: faults of brokers, by kind.
    """

    def __init__(self, cluster: KafkaCluster, query: ExactlyOnceQuery, seed: int) -> None:
        self._cluster = cluster
        self._query = query
        self._chance = random.Random(seed)
        self._down: KafkaNode | None = None
        self.kills: Counter[str] = Counter()
        self.named = 0
        self.zombies = 0
        self.brokers: Counter[str] = Counter()

    def run(self, batches: int, kills: int, deadline_seconds: float) -> None:
        """Faults until there were so many, spread over so many micro-batches; then all brokers are up."""
        started = time.monotonic()
        self._query.start_driver()
        self._query.await_batch(2)
        plan = self._plan(kills)
        for done, fault in enumerate(plan):
            if time.monotonic() - started > deadline_seconds:
                self._query.tell(f"time is up; {len(plan) - done} faults were not tried")
                break
            fault()
            # What is left of the batches, over what is left of the faults.
            share = max(1, (batches - self._query.batch) // (len(plan) - done))
            self._query.await_batch(self._query.batch + self._chance.randint(1, 2 * share - 1))
            time.sleep(self._chance.uniform(0, 1))
        if self._down is not None:
            self._bring_up()
        while self._query.batch < batches and time.monotonic() - started < deadline_seconds:
            self._query.await_batch(self._query.batch + 1)

    def _plan(self, kills: int) -> list[Fault]:
        """Every named step, random kills up to the number, and brokers in between."""
        steps = self._query.steps_of
        named: list[Fault] = [partial(self.kill_one_at, step) for step in steps(*TASK_STEPS, *DRIVER_STEPS)]
        named += [partial(self.kill_all_at, step) for step in steps(*LAST_STEPS)]
        zombies: list[Fault] = [partial(self.revive_at, step) for step in steps(*ZOMBIE_STEPS)]
        anywhere = [
            self._kill_worker,
            self._kill_executor,
            self._kill_driver,
            self._orphan_worker,
            self._kill_committer,
        ]
        weights = [4, 2, 0, 2, 2]
        count = max(len(anywhere), kills - len(named))
        # Each kind of them at least once.
        random_kills = anywhere + self._chance.choices(anywhere, weights, k=count - len(anywhere))
        faults = [*named, *random_kills]
        self._chance.shuffle(faults)
        faults = faults[:kills] + zombies[: kills // 10]
        self._chance.shuffle(faults)
        brokers = [self._disturb_brokers] * (len(faults) // 2)
        return [
            each
            for pair in itertools.zip_longest(faults[::2], brokers, faults[1::2])
            for each in pair
            if each
        ]

    # -- at a named step -------------------------------------------------------------------------------

    def kill_one_at(self, step: str) -> None:
        """SIGKILL of the process that comes to a step of the protocol."""
        pid = self._catch(step, dies=True)
        self._count(f"{_process_of(step)} at a step", f"kill -9 of {_process_of(step)} {pid} before {step!r}")
        self.named += 1

    def kill_all_at(self, step: str) -> None:
        """SIGKILL of everything when a process comes to a step of the protocol."""
        pid = self._catch(step, dies=False)
        self._query.driver.kill()
        self._count("driver at a step", f"kill -9 of the driver and all of it, {pid} was before {step!r}")
        self.named += 1
        self._query.trap.release()
        self._query.start_driver()

    def revive_at(self, step: str) -> None:
        """A driver that stands still at a step until another has replaced it, and then goes on."""
        pid = self._catch(step, dies=False)
        zombie, batch = self._query.driver, self._query.batch
        known = len(failures_of(zombie))
        zombie.freeze()
        self._query.tell(f"the driver is frozen, {pid} is before {step!r}; another one takes over")
        self._query.start_driver()
        self._query.await_batch(batch + self._chance.randint(1, 3))
        self._query.tell("the frozen driver goes on as a zombie")
        self._query.trap.release()
        zombie.thaw()
        deadline = time.monotonic() + self._chance.uniform(4, 12)
        while zombie.exit_code() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        zombie.kill()
        reasons = failures_of(zombie)[known:]
        how = f"ended: {reasons[0][:300]}" if reasons else "was killed"
        self.zombies += 1
        self._query.tell(f"the zombie {how}")

    def _catch(self, step: str, dies: bool) -> int:
        trap = self._query.trap
        trap.set(step, dies, _TASK_CHANCE if step in TASK_STEPS else 1.0)
        self._query.wait(lambda: trap.caught_pid() is not None, f"somebody at {step!r}")
        pid = trap.caught_pid()
        assert pid is not None
        return pid

    # -- at any moment ---------------------------------------------------------------------------------

    def _kill_worker(self) -> None:
        if pids := self._query.driver.forked(WORKER):
            pid = self._chance.choice(pids)
            send_signal(pid, signal.SIGKILL)
            self._count("Python worker", f"kill -9 of Python worker {pid}")

    def _kill_executor(self) -> None:
        if pids := self._query.driver.executors():
            pid = self._chance.choice(pids)
            send_signal(pid, signal.SIGKILL)
            self._count("executor", f"kill -9 of executor {pid}")
        else:
            self._kill_worker()

    def _orphan_worker(self) -> None:
        """A Python worker sleeps while its executor dies and its task is done again, and wakes up then."""
        driver = self._query.driver
        workers = {pid: driver.workers_of(pid) for pid in driver.executors()}
        executors = [pid for pid, of_it in workers.items() if of_it]
        if not executors:
            return self._kill_worker()
        executor = self._chance.choice(executors)
        for pid in workers[executor]:
            send_signal(pid, signal.SIGSTOP)
        send_signal(executor, signal.SIGKILL)
        self._count("executor", f"kill -9 of executor {executor}, its worker {workers[executor]} sleeps")
        self._query.await_batch(self._query.batch + 2)
        for pid in workers[executor]:
            send_signal(pid, signal.SIGCONT)
        self._query.tell(f"worker {workers[executor]} wakes up")

    def _kill_committer(self) -> None:
        if pids := self._query.driver.forked(COMMITTER):
            pid = self._chance.choice(pids)
            send_signal(pid, signal.SIGKILL)
            self._count("committing process", f"kill -9 of committing process {pid}")

    def _kill_driver(self) -> None:
        self._query.driver.kill()
        self._count("driver", "kill -9 of the driver and all of it")
        self._query.start_driver()

    def _count(self, kind: str, text: str) -> None:
        self.kills[kind] += 1
        self._query.tell(f"kill {self.kills.total()}: {text}")

    # -- brokers ---------------------------------------------------------------------------------------

    def _disturb_brokers(self) -> None:
        """Take one down, or bring it up that is: never two at a time, nothing could be committed."""
        if self._down is not None:
            return self._bring_up()
        self._await_replicas()
        node = self._chance.choice(list(self._cluster.nodes.values()))
        how = self._chance.choice(("kill", "stop"))
        getattr(node, how)()
        self._down = node
        self.brokers[f"broker down ({how})"] += 1
        self._query.tell(f"broker {node.node_id} goes down ({how})")

    def _bring_up(self) -> None:
        assert self._down is not None
        self._down.start()
        self._query.tell(f"broker {self._down.node_id} is back")
        self._down = None

    def _await_replicas(self) -> None:
        await_in_sync(self._are_in_sync, SETTLE_SECONDS)

    def _are_in_sync(self) -> bool:
        topics = (self._query.topic, "__transaction_state", "__consumer_offsets")
        try:
            return all(in_sync_count(self._cluster.bootstrap_servers, topic) in (0, 3) for topic in topics)
        except (KafkaException, KeyError):
            return False


def _process_of(step: str) -> str:
    return "Python worker" if step in TASK_STEPS else "committing process"


def report(chaos: ExactlyOnceChaos, query: ExactlyOnceQuery, judgement: Judgement) -> None:
    """The verdict in print."""

    def listed(counts: Counter[str]) -> str:
        return ", ".join(f"{what} {count}" for what, count in sorted(counts.items())) or "none"

    print(f"kills {chaos.kills.total()}, {chaos.named} of them at named steps: {listed(chaos.kills)}")
    print(f"drivers that were replaced and came back as zombies: {chaos.zombies}")
    print(f"brokers: {listed(chaos.brokers)}; drivers started {query.runs}; micro-batches {query.batch + 1}")
    print(f"queries that failed and were started again: {listed(query.failures)}")
    print(f"a reader that followed: {judgement.live}")
    print(f"a reader at the end:    {judgement.final}")
    print(f"replays that were refused: {len(judgement.refusals)}")
    for example in (*judgement.refusals, *judgement.live.examples[:10], *judgement.final.examples[:10]):
        print(f"  {example}")
    print("PASSED" if judgement.is_good else f"FAILED; checkpoint and logs are in {query.folder}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--kills", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=3000, help="no more faults after that")
    parser.add_argument("--kafka", default=NEWEST_VERSION)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--master", default=LOCAL_CLUSTER)
    parser.add_argument("--break", dest="breakage", choices=("markers", "delivery", "isolation"))
    parser.add_argument("--keep", action="store_true", help="keep checkpoint and logs")
    arguments = parser.parse_args()
    print(
        f"Apache Kafka {arguments.kafka}, 3 nodes; Spark on {arguments.master}; at least {arguments.batches} "
        f"micro-batches and {arguments.kills} kills; seed {arguments.seed}",
        flush=True,
    )
    lifetime = int(arguments.seconds) + 1200
    with KafkaCluster(arguments.kafka, 3, properties=CHAOS_PROPERTIES, lifetime_seconds=lifetime) as cluster:
        create_topic(cluster.bootstrap_servers, TOPIC, PARTITIONS)
        query = ExactlyOnceQuery(
            cluster.bootstrap_servers,
            TOPIC,
            arguments.master,
            breakage=arguments.breakage,
            seed=arguments.seed,
            lifetime_seconds=lifetime,
            say=lambda line: print(line, flush=True),
        )
        try:
            chaos = ExactlyOnceChaos(cluster, query, arguments.seed)
            chaos.run(arguments.batches, arguments.kills, arguments.seconds)
            query.finish()
            judgement = query.judge()
        finally:
            query.close()
    report(chaos, query, judgement)
    if judgement.is_good and not arguments.keep:
        query.remove_folder()
    return 0 if judgement.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
