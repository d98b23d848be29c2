"""Streaming queries whose processes are killed at every step of the protocol: ``make exactly-once-chaos``.

Spark reads files and writes their rows to a topic, exactly once: as text, in each format, and as a pipeline
that is run again and again. Rows that cannot be written become dead letters, except of the text. The driver,
executors and Python workers are killed at random moments and at named steps of the protocol, while brokers go
down and come back. One ``read_committed`` reader follows each topic, and another reads everything at the end.
Prints a history and a verdict for each variant. The exit code is 0 if each row and each dead letter is there
once, in order and in the same transaction as the others of its task, no task was ever partly visible, no
replay was refused, and each variant reached its share of the requested kills and micro-batches. Only kills of
Spark's processes count; if the process had already ended, another kill replaces it.
``--break markers`` (tasks do not check whether they were committed), ``--break delivery`` (the at-least-once
sink) and ``--break isolation`` (``read_uncommitted``) must fail.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaException

from tests.support.chaos.command_line import EXTRA_LIFETIME_SECONDS, fault_arguments, say, three_nodes
from tests.support.kafka.cluster import KafkaCluster, KafkaNode
from tests.support.kafka.topics import await_in_sync, in_sync_count
from tests.support.spark.driver import COMMITTER, WORKER, send_signal
from tests.support.spark.exactly_once_query import ExactlyOnceQuery, Judgement, failures_of
from tests.support.spark.exactly_once_variants import VARIANTS, Variant
from tests.support.spark.run_pipelines import connect_port

CHAOS_PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "replica.fetch.backoff.ms": "50",
    # Transactions and groups have several coordinators.
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
SETTLE_SECONDS = 180.0
#: Steps in a task and in the driver's commit: the process that reaches each of them is killed.
TASK_STEPS = ("marker", "send", "add_marker", "prepare", "prepared")
DRIVER_STEPS = ("fence_driver", "decide", "commit", "commit_rest", "confirm", "committed")
#: Steps at which, another time, all processes are killed.
LAST_STEPS = ("prepared", "commit", "commit_rest", "committed")
#: Steps at which a driver is frozen until another has taken over, and then resumes.
ZOMBIE_STEPS = ("prepare", "decide", "commit_rest")
#: Tasks reach their steps several times per batch: do not always choose the first time.
_TASK_CHANCE = 0.5

#: Returns False if there was no process to kill.
Fault = Callable[[], bool]


class Asked(NamedTuple):
    """Minimum numbers of kills of Spark's processes and of micro-batches: with fewer, the run fails.

    Attributes:
        share, shares: which of so many parts of all faults.
    """

    batches: int
    kills: int
    share: int = 0
    shares: int = 1

    def part(self, share: int, shares: int) -> Asked:
        """One of several equal parts."""
        return Asked(self.batches // shares, self.kills // shares, share, shares)


class ExactlyOnceChaos:
    """Faults for a query on a cluster of three nodes, driven from the thread that started the cluster.

    Attributes:
        kills: successful kills of Spark's processes, by kind.
        named: those of them at a named step.
        zombies: drivers that were frozen at a step, replaced, and then resumed.
        brokers: faults of brokers, by kind.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        query: ExactlyOnceQuery,
        seed: int,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._query = query
        self._pause = pause
        self._seed = seed
        self._chance = random.Random(seed)
        self._down: KafkaNode | None = None
        self.kills: Counter[str] = Counter()
        self.named = 0
        self.zombies = 0
        self.brokers: Counter[str] = Counter()

    def run(self, asked: Asked, deadline_seconds: float) -> None:
        """Spread the kills over the micro-batches until done or out of time; then bring up all brokers."""
        self._chance = random.Random(f"{self._seed} {asked.share}")
        deadline = time.monotonic() + deadline_seconds
        self._query.start_driver()
        self._query.await_batch(2)
        faults = self._plan(asked)
        while faults:
            if time.monotonic() > deadline:
                self._query.tell(f"time is up; {len(faults)} faults were not tried")
                break
            if not faults[0]():
                self._query.tell("there was no process to kill; another kill is added")
                faults.insert(self._chance.randint(1, len(faults)), self._any_kill())
            # Spread the remaining batches over the remaining faults.
            share = max(1, (asked.batches - self._query.batch) // len(faults))
            del faults[0]
            self._query.await_batch(self._query.batch + self._chance.randint(1, 2 * share - 1))
            self._pause(self._chance.uniform(0, 1))
        if self._down is not None:
            self._bring_up()
        self._await_replicas()
        while self._query.batch + 1 < asked.batches and time.monotonic() < deadline:
            self._query.await_batch(self._query.batch + 1)

    def _plan(self, asked: Asked) -> list[Fault]:
        """Of every named step and random kills up to the number, a share; and broker faults in between."""
        # The same for all shares, so that together they have every step.
        chance, total = random.Random(self._seed), asked.kills * asked.shares
        steps = self._query.steps_of
        named: list[Fault] = [partial(self.kill_one_at, step) for step in steps(*TASK_STEPS, *DRIVER_STEPS)]
        named += [partial(self.kill_all_at, step) for step in steps(*LAST_STEPS)]
        # Two runs of a pipeline would need the same port.
        replace = self.kill_all_at if self._query.variant.is_pipeline else self.revive_at
        zombies: list[Fault] = [partial(replace, step) for step in steps(*ZOMBIE_STEPS)]
        # Each kind at least once.
        kinds = self._anywhere
        faults = [*named, *kinds]
        faults += chance.choices(list(kinds), list(kinds.values()), k=max(total - len(faults), 0))
        chance.shuffle(faults)
        faults = [*faults[:total], *zombies[: total // 10]][asked.share :: asked.shares]
        if self._query.variant.is_pipeline:
            faults.append(self._kill_driver)  # the share may have no kill of a whole run
        self._chance.shuffle(faults)
        brokers = [self._disturb_brokers] * (len(faults) // 2)
        return [
            each
            for pair in itertools.zip_longest(faults[::2], brokers, faults[1::2])
            for each in pair
            if each
        ]

    @property
    def _anywhere(self) -> dict[Fault, int]:
        """Kills at any moment, and their weights."""
        return {
            self._kill_worker: 4,
            self._kill_executor: 2,
            # Named steps already kill the driver of a query often enough.
            self._kill_driver: 8 if self._query.variant.is_pipeline else 0,
            self._orphan_worker: 2,
            self._kill_committer: 2,
        }

    def _any_kill(self) -> Fault:
        kills = self._anywhere
        return self._chance.choices(list(kills), list(kills.values()))[0]

    # -- at a named step -------------------------------------------------------------------------------

    def kill_one_at(self, step: str) -> bool:
        """SIGKILL the process that reaches a step of the protocol."""
        pid = self._catch(step, dies=True)
        self._count(f"{_process_of(step)} at a step", f"kill -9 of {_process_of(step)} {pid} before {step!r}")
        self.named += 1
        return True

    def kill_all_at(self, step: str) -> bool:
        """SIGKILL all processes when one of them reaches a step of the protocol."""
        pid = self._catch(step, dies=False)
        was_alive = self._query.driver.kill()
        if was_alive:
            self._count(
                "driver at a step", f"kill -9 of the driver and all its processes; {pid} was before {step!r}"
            )
            self.named += 1
        self._query.trap.release()
        self._query.start_driver()
        return was_alive

    def revive_at(self, step: str) -> bool:
        """Freeze a driver at a step until another has replaced it, and then let it resume."""
        pid = self._catch(step, dies=False)
        zombie, batch = self._query.driver, self._query.batch
        known = len(failures_of(zombie))
        zombie.freeze()
        self._query.tell(f"the driver is frozen while {pid} is before {step!r}; a new driver takes over")
        self._query.start_driver()
        self._query.await_batch(batch + self._chance.randint(1, 3))
        self._query.tell("the frozen driver resumes as a zombie")
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
        return True

    def _catch(self, step: str, dies: bool) -> int:
        trap = self._query.trap
        trap.set(step, dies, _TASK_CHANCE if step in TASK_STEPS else 1.0)
        self._query.wait(lambda: trap.caught_pid() is not None, f"a process to reach {step!r}")
        pid = trap.caught_pid()
        assert pid is not None
        return pid

    # -- at any moment ---------------------------------------------------------------------------------

    def _kill_worker(self) -> bool:
        return self._kill_one("Python worker", self._query.driver.forked(WORKER))

    def _kill_executor(self) -> bool:
        return self._kill_one("executor", self._query.driver.executors()) or self._kill_worker()

    def _orphan_worker(self) -> bool:
        """Freeze a Python worker while its executor is killed and the task repeated, then let it resume."""
        driver = self._query.driver
        workers = {pid: driver.workers_of(pid) for pid in driver.executors()}
        executors = [pid for pid, of_it in workers.items() if of_it]
        if not executors:
            return self._kill_worker()
        executor = self._chance.choice(executors)
        for pid in workers[executor]:
            send_signal(pid, signal.SIGSTOP)
        was_alive = self._kill_one("executor", [executor], f"; its worker {workers[executor]} is frozen")
        self._query.await_batch(self._query.batch + 2)
        for pid in workers[executor]:
            send_signal(pid, signal.SIGCONT)
        self._query.tell(f"worker {workers[executor]} resumes")
        return was_alive

    def _kill_committer(self) -> bool:
        return self._kill_one("committing process", self._query.driver.forked(COMMITTER))

    def _kill_driver(self) -> bool:
        was_alive = self._query.driver.kill()
        if was_alive:
            self._count("driver", "kill -9 of the driver and all its processes")
        self._query.start_driver()
        return was_alive

    def _kill_one(self, kind: str, pids: list[int], remark: str = "") -> bool:
        """SIGKILL a random one of them."""
        pid = self._chance.choice(pids) if pids else None
        if pid is None or not send_signal(pid, signal.SIGKILL):
            return False
        self._count(kind, f"kill -9 of {kind} {pid}{remark}")
        return True

    def _count(self, kind: str, text: str) -> None:
        self.kills[kind] += 1
        self._query.tell(f"kill {self.kills.total()}: {text}")

    # -- brokers ---------------------------------------------------------------------------------------

    def _disturb_brokers(self) -> bool:
        """Take a broker down, or the stopped one up: with two of them down, nothing could be committed."""
        if self._down is not None:
            self._bring_up()
            return True
        self._await_replicas()
        node = self._chance.choice(list(self._cluster.nodes.values()))
        how = self._chance.choice(("kill", "stop"))
        getattr(node, how)()
        self._down = node
        self.brokers[f"broker down ({how})"] += 1
        self._query.tell(f"broker {node.node_id} goes down ({how})")
        return True

    def _bring_up(self) -> None:
        assert self._down is not None
        self._down.start()
        self._query.tell(f"broker {self._down.node_id} is back")
        self._down = None

    def _await_replicas(self) -> None:
        await_in_sync(self._are_in_sync, SETTLE_SECONDS)

    def _are_in_sync(self) -> bool:
        topics = (*self._query.topics, "__transaction_state", "__consumer_offsets")
        try:
            return all(in_sync_count(self._cluster.bootstrap_servers, topic) in (0, 3) for topic in topics)
        except (KafkaException, KeyError):
            return False


def _process_of(step: str) -> str:
    return "Python worker" if step in TASK_STEPS else "committing process"


def reasons_to_fail(
    chaos: ExactlyOnceChaos, query: ExactlyOnceQuery, judgement: Judgement, asked: Asked
) -> list[str]:
    """Why the run failed; empty if it passed."""
    reasons = {
        "rows or replays are wrong": not judgement.is_good,
        f"too few kills of Spark's processes: {chaos.kills.total()}": chaos.kills.total() < asked.kills,
        f"too few micro-batches: {query.batch + 1}": query.batch + 1 < asked.batches,
    }
    return [reason for reason, is_true in reasons.items() if is_true]


def report(chaos: ExactlyOnceChaos, query: ExactlyOnceQuery, judgement: Judgement, asked: Asked) -> None:
    """Print the summary that precedes the verdict."""

    def listed(counts: Counter[str]) -> str:
        return ", ".join(f"{what} {count}" for what, count in sorted(counts.items())) or "none"

    print(
        f"kills of Spark's processes: {chaos.kills.total()} (requested: {asked.kills}): {listed(chaos.kills)}"
    )
    print(f"of these at named steps: {chaos.named}")
    print(f"drivers that were replaced and resumed as zombies: {chaos.zombies}")
    print(f"brokers: {listed(chaos.brokers)}; drivers started {query.runs}")
    print(f"micro-batches: {query.batch + 1} (requested: {asked.batches})")
    print(f"queries that failed and were restarted: {listed(query.failures)}")
    for topic in query.topics:
        print(f"{topic}, followed:   {judgement.live[topic]}")
        print(f"{topic}, at the end: {judgement.final[topic]}")
    print(f"refused replays: {len(judgement.refusals)}")
    verdicts = (*judgement.live.values(), *judgement.final.values())
    for example in (*judgement.refusals, *(example for each in verdicts for example in each.examples[:10])):
        print(f"  {example}")


def run_variant(variant: Variant, cluster: KafkaCluster, arguments: argparse.Namespace, asked: Asked) -> bool:
    """Inject one variant's share of the faults. Returns whether it passed."""
    say(f"{variant.name}:")
    with contextlib.ExitStack() as stack:
        if variant.is_pipeline:
            stack.enter_context(connect_port())
        query = ExactlyOnceQuery(
            cluster,
            f"exactly-once-{variant.name}",
            arguments.master,
            variant=variant,
            breakage=arguments.breakage,
            seed=arguments.seed + asked.share,
            lifetime_seconds=int(arguments.seconds) + EXTRA_LIFETIME_SECONDS,
            say=say,
        )
        stack.callback(query.close)
        chaos = ExactlyOnceChaos(cluster, query, arguments.seed)
        chaos.run(asked, arguments.seconds / asked.shares)
        query.finish()
        judgement = query.judge()
    report(chaos, query, judgement, asked)
    reasons = reasons_to_fail(chaos, query, judgement, asked)
    if reasons:
        say(f"{variant.name} FAILED: {'; '.join(reasons)}; checkpoint and logs are in {query.folder}")
    elif not arguments.keep:
        query.remove_folder()
    return not reasons


def main() -> int:
    parser = fault_arguments(__doc__, ("markers", "delivery", "isolation"), seconds=3000)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--kills", type=int, default=40)
    names = [variant.name for variant in VARIANTS]
    parser.add_argument("--variants", nargs="+", choices=names, default=names, help="default: all")
    parser.add_argument("--master", default=LOCAL_CLUSTER)
    parser.add_argument("--keep", action="store_true", help="do not delete the checkpoint and logs")
    arguments = parser.parse_args()
    variants = [variant for variant in VARIANTS if variant.name in arguments.variants]
    if arguments.kills < len(variants):
        parser.error(f"{len(variants)} variants need at least as many kills")
    random.Random(arguments.seed).shuffle(variants)
    what = (
        f"Spark on {arguments.master}; {', '.join(variant.name for variant in variants)}; at least "
        f"{arguments.batches} micro-batches and {arguments.kills} kills of its processes"
    )
    with three_nodes(arguments, CHAOS_PROPERTIES, what) as cluster:
        asked = Asked(arguments.batches, arguments.kills)
        passed = [
            run_variant(variant, cluster, arguments, asked.part(share, len(variants)))
            for share, variant in enumerate(variants)
        ]
    print("PASSED" if all(passed) else "FAILED", flush=True)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
