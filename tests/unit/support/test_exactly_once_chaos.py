"""The run that kills a query: it counts who was there to be killed, and goes on until that are enough."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.spark import exactly_once_chaos
from tests.support.spark.driver import WORKER, SparkDriver, send_signal
from tests.support.spark.exactly_once_chaos import Asked, ExactlyOnceChaos, reasons_to_fail
from tests.support.spark.exactly_once_query import Judgement
from tests.support.spark.exactly_once_rows import Verdict
from tests.support.spark.exactly_once_variants import VARIANTS, Variant

GOOD = Judgement({"rows": Verdict(1, 1)}, {"rows": Verdict(1, 1), "rows.dlq": Verdict(1, 1)}, [])
MINUTE = 60.0


class FakeDriver:
    """Its processes are there every ``rarity``-th time that somebody looks."""

    log_path = Path("/dev/null")

    def __init__(self, rarity: int) -> None:
        self._looks = itertools.count(1)
        self._rarity = rarity

    def _found(self, *pids: int) -> list[int]:
        return list(pids) if next(self._looks) % self._rarity == 0 else []

    def forked(self, module: str) -> list[int]:
        return self._found(11, 12) if module == WORKER else self._found(21)

    def executors(self) -> list[int]:
        return self._found(31, 32)

    def workers_of(self, executor: int) -> list[int]:
        return self._found(11)

    def kill(self) -> bool:
        return bool(self._found(1))

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def exit_code(self) -> int | None:
        return 1


class FakeQuery:
    """Micro-batches run as soon as a thread waits for them; each thread that is waited for takes a step."""

    topics = ("rows",)

    def __init__(self, rarity: int = 1, variant: Variant = VARIANTS[0]) -> None:
        self.variant = variant
        self.driver = FakeDriver(rarity)
        self.batch = -1
        self.lines: list[str] = []
        self.trap = SimpleNamespace(
            set=lambda step, dies, chance: None, caught_pid=lambda: 7, release=lambda: None
        )

    def steps_of(self, *steps: str) -> list[str]:
        return list(steps)

    def start_driver(self) -> None: ...

    def await_batch(self, number: int) -> None:
        self.batch = max(self.batch, number)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        assert condition()

    def tell(self, text: str) -> None:
        self.lines.append(text)


class FakeNode:
    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.is_alive = True

    def kill(self) -> None:
        self.is_alive = False

    stop = kill

    def start(self) -> None:
        self.is_alive = True


@pytest.fixture
def new_chaos(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ExactlyOnceChaos]:
    """``new_chaos(query, nodes=(), seed=1)``; every signal that is sent arrives."""
    monkeypatch.setattr(exactly_once_chaos, "send_signal", lambda pid, number: True)
    monkeypatch.setattr(exactly_once_chaos, "in_sync_count", lambda servers, topic: 3)

    def make(query: Any, nodes: tuple[FakeNode, ...] = (), seed: int = 1) -> ExactlyOnceChaos:
        nodes = nodes or (FakeNode(1),)
        cluster: Any = SimpleNamespace(
            nodes={node.node_id: node for node in nodes}, bootstrap_servers="localhost:1"
        )
        return ExactlyOnceChaos(cluster, query, seed, pause=lambda seconds: None)

    return make


@pytest.mark.parametrize("kills", [1, 7, 32])
@pytest.mark.parametrize("rarity", [1, 2, 3])
def test_kills_that_found_nobody_are_made_up_for(new_chaos, kills: int, rarity: int) -> None:
    query, nodes = FakeQuery(rarity), tuple(FakeNode(number) for number in range(3))
    chaos = new_chaos(query, nodes, seed=kills)
    chaos.run(Asked(batches=20, kills=kills), MINUTE)
    assert chaos.kills.total() == kills
    assert query.batch + 1 >= 20
    assert all(node.is_alive for node in nodes)
    assert reasons_to_fail(chaos, query, GOOD, Asked(batches=20, kills=kills)) == []
    # Each line of the history that tells a kill has its number.
    assert [line.split(":")[0] for line in query.lines if line.startswith("kill ")] == [
        f"kill {number + 1}" for number in range(kills)
    ]


def test_frozen_drivers_and_brokers_are_no_kills(new_chaos) -> None:
    query, nodes = FakeQuery(), tuple(FakeNode(number) for number in range(3))
    chaos = new_chaos(query, nodes)
    chaos.run(Asked(batches=20, kills=32), MINUTE)
    assert chaos.zombies == 3
    assert chaos.brokers.total() > 0
    assert chaos.kills.total() == 32


def test_every_named_step_is_among_the_kills_of_all_variants(new_chaos) -> None:
    named = 0
    for share, variant in enumerate(VARIANTS):
        chaos, asked = new_chaos(FakeQuery(variant=variant)), Asked(20, 32).part(share, len(VARIANTS))
        chaos.run(asked, MINUTE)
        assert chaos.kills.total() >= asked.kills > 0
        if variant.is_pipeline:
            assert chaos.kills["driver"] > 0
            assert chaos.zombies == 0
        named += chaos.named
    steps = (exactly_once_chaos.TASK_STEPS, exactly_once_chaos.DRIVER_STEPS, exactly_once_chaos.LAST_STEPS)
    assert named >= sum(map(len, steps))


def test_a_process_that_is_gone_when_the_signal_comes_is_no_kill(
    new_chaos, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrives = itertools.cycle((False, True))
    monkeypatch.setattr(exactly_once_chaos, "send_signal", lambda pid, number: next(arrives))
    chaos = new_chaos(FakeQuery())
    assert not chaos._kill_worker()
    assert chaos.kills == Counter()
    assert chaos._kill_worker()
    assert chaos.kills == {"Python worker": 1}


def test_a_run_that_is_out_of_time_says_what_it_lacks(new_chaos) -> None:
    query, asked = FakeQuery(), Asked(batches=200, kills=32)
    chaos = new_chaos(query)
    chaos.run(asked, deadline_seconds=-1)
    assert "faults were not tried" in query.lines[-1]
    assert reasons_to_fail(chaos, query, GOOD, asked) == [
        "too few kills of Spark's processes: 0",
        "too few micro-batches: 3",
    ]


def test_wrong_rows_and_refused_replays_fail(new_chaos) -> None:
    query, asked = FakeQuery(), Asked(batches=0, kills=0)
    chaos = new_chaos(query)
    for judgement in (
        GOOD._replace(refusals=["refused"]),
        GOOD._replace(final={"rows": Verdict(1, 2, duplicates=1)}),
        GOOD._replace(final={"rows": Verdict(1, 1), "rows.dlq": Verdict()}),
    ):
        assert reasons_to_fail(chaos, query, judgement, asked) == ["rows or replays are wrong"]


@pytest.mark.parametrize(("statement", "is_killed"), [("import time; time.sleep(60)", True), ("pass", False)])
def test_a_driver_that_ended_by_itself_was_not_killed(
    tmp_path: Path, statement: str, is_killed: bool
) -> None:
    log_path = tmp_path / "log"
    driver = SparkDriver(
        tmp_path.name, "timeit", ["-n1", "-r1", statement], tmp_path, log_path, lifetime_seconds=60
    )
    deadline = time.monotonic() + 30
    while not is_killed and driver.exit_code() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert driver.kill() is is_killed


def test_nobody_gets_a_signal_that_nobody_is_there_for() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert not send_signal(process.pid, signal.SIGCONT)
