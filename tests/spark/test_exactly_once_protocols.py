"""The steps of exactly-once writes: what a replay recognises, completes and refuses; crashes at every step.

Every order of steps of several drivers is the model's part (``exactly_once_model``); here is what each rule
is for, and what its refusal says.
"""

from __future__ import annotations

import pickle
from unittest.mock import Mock

import pytest

from kproducer.errors import FencedError, KafkaTimeoutError
from kproducer.spark.errors import (
    CommitFailedError,
    ExactlyOnceError,
    ReplayMismatchError,
    StaleReplayError,
    UncertainReplayError,
)
from kproducer.spark.exactly_once.driver_protocol import DriverProtocol
from kproducer.spark.exactly_once.task_protocol import TaskProtocol
from kproducer.spark.exactly_once.write_state import (
    Decision,
    EmptyTask,
    Marker,
    PreparedTask,
    RepeatedTask,
    WriteIdentity,
    WriteKind,
    WriteRun,
    WriteTask,
)
from tests.spark.memory_kafka import MemoryDriver, MemoryKafka, MemoryTask, Rows, SumOfRows
from tests.support.spark.divided_commit import COMMIT_REST, DividedCommit
from tests.support.spark.stepping_ports import SteppingDriverPort, SteppingTaskPort

STREAM = WriteIdentity(WriteKind.STREAM, "query", "k")
NAMED = WriteIdentity(WriteKind.NAMED, "nightly", "k")
UNNAMED = WriteIdentity(WriteKind.UNNAMED, "random", "k")

TASK_STEPS = [
    "decision",
    "initialize",
    "marker",
    "begin",
    "send",
    "flush",
    "add_marker",
    "prepare",
    "prepared",
]
DRIVER_STEPS = [
    "look",
    "fence_driver",
    "decision",
    "fence_tasks",
    "decide",
    "commit",
    COMMIT_REST,
    "confirm",
    "committed",
]


class Crash(BaseException):
    """The process is gone."""


class World:
    def __init__(self, identity: WriteIdentity = STREAM) -> None:
        self.kafka = MemoryKafka()
        self.identity = identity

    def task(self, task, rows, number=0, run="run-1", on_step=lambda step: None):
        port = SteppingTaskPort(MemoryTask(self.kafka), on_step)
        protocol = TaskProtocol(port, SumOfRows())
        return protocol.write(
            WriteTask(WriteRun(self.identity, number, run), task), iter([Rows(), Rows(rows)])
        )

    def tasks(self, partitions, number=0, run="run-1"):
        return [self.task(task, rows, number, run) for task, rows in enumerate(partitions)]

    def commit(self, messages, number=None, on_step=None, **options):
        port = MemoryDriver(self.kafka)
        if on_step is not None:
            port = SteppingDriverPort(DividedCommit(port, on_step), on_step)
        DriverProtocol(port, **options).commit(messages, number)
        if on_step is not None:
            on_step("committed")

    def write(self, partitions, number=0, run="run-1", **options):
        self.commit(self.tasks(partitions, number, run), number, **options)

    @property
    def visible(self):
        return sorted(self.kafka.visible)


def crash_at(wanted: str):
    def on_step(step: str) -> None:
        if step == wanted:
            raise Crash

    return on_step


@pytest.fixture
def world() -> World:
    return World()


def test_rows_are_seen_once_the_driver_has_committed_and_not_before(world):
    messages = world.tasks([["a", "b"], [], ["c"]])
    assert [type(each) for each in messages] == [PreparedTask, EmptyTask, PreparedTask]
    assert world.visible == []
    world.commit([pickle.loads(pickle.dumps(each)) for each in messages], 0)
    assert world.visible == ["a", "b", "c"]


def test_all_tasks_are_committed_at_once(world):
    port = MemoryDriver(world.kafka)
    port.commit = Mock(wraps=port.commit)
    DriverProtocol(port).commit(world.tasks([["a"], ["b"], ["c"]]), 0)
    assert [len(call.args[0]) for call in port.commit.call_args_list] == [3]


def test_a_task_without_rows_asks_nobody(world):
    steps = []
    assert isinstance(world.task(0, [], on_step=steps.append), EmptyTask)
    assert steps == []


def test_the_steps_have_the_names_and_the_order_that_tests_rely_on(world):
    steps = []
    message = world.task(0, ["a"], on_step=steps.append)
    assert steps == TASK_STEPS
    steps.clear()
    world.commit(
        [message, world.task(1, ["b"]), EmptyTask(WriteTask(WriteRun(STREAM, 0, "run-1"), 2))],
        0,
        steps.append,
    )
    assert steps == DRIVER_STEPS


@pytest.mark.parametrize("step", TASK_STEPS)
def test_a_task_that_crashes_at_any_step_is_written_by_the_next_attempt(world, step):
    with pytest.raises(Crash):
        world.task(0, ["a"], on_step=crash_at(step))
    world.write([["a"]])
    assert world.visible == ["a"]


@pytest.mark.parametrize("step", DRIVER_STEPS)
def test_a_driver_that_crashes_at_any_step_is_completed_by_a_replay(world, step):
    world.write([["x"], ["y"], []], 0)
    first = world.tasks([["a"], ["b"], []], 1, "run-2")
    with pytest.raises(Crash):
        world.commit(first, 1, crash_at(step))
    assert world.visible in (["x", "y"], ["a", "x", "y"], ["a", "b", "x", "y"])
    world.write([["a"], ["b"], []], 1, "run-3")
    assert world.visible == ["a", "b", "x", "y"]


def test_what_is_committed_is_not_written_again_and_what_is_not_is(world):
    with pytest.raises(Crash):
        world.commit(world.tasks([["a"], ["b"]]), 0, crash_at(COMMIT_REST))
    again = world.tasks([["a"], ["b"]], run="run-2")
    assert [type(each) for each in again] == [RepeatedTask, PreparedTask]
    world.commit(again, 0)
    assert world.visible == ["a", "b"]


def test_the_order_of_rows_within_a_task_may_change(world):
    world.write([["a", "b"]])
    world.write([["b", "a"]], run="run-2")
    assert world.visible == ["a", "b"]


def test_a_replay_with_other_rows_in_a_committed_task_is_refused_with_both_sides(world):
    world.write([["a", "b"]])
    with pytest.raises(ReplayMismatchError, match=r"2 rows with checksum .* now it has 1 rows") as caught:
        world.write([["a"]], run="run-2")
    assert "streaming query query, micro-batch 0 is a replay with other rows" in str(caught.value)
    assert "task 0" in str(caught.value)
    assert "Of all tasks 2 rows are committed, and the replay has 1" in str(caught.value)
    assert world.visible == ["a", "b"]


@pytest.mark.parametrize("identity", [STREAM, NAMED])
@pytest.mark.parametrize(
    "replay",
    [
        [["a", "b", "c", "d"]],
        [["c"], ["d", "a", "b"]],
        [["d"], ["c"], ["b"], ["a"]],
        [["a", "b"], [], ["d"], ["c"]],
        [[], ["c"], [], ["a", "d", "b"]],
    ],
)
def test_a_replay_of_a_committed_batch_may_be_divided_otherwise(identity, replay):
    world = World(identity)
    world.write([["a", "b"], ["c"], ["d"]])
    again = [pickle.loads(pickle.dumps(each)) for each in world.tasks(replay, run="run-2")]
    world.commit(again, 0)
    assert world.visible == ["a", "b", "c", "d"]
    assert "open" not in {each.state for each in world.kafka.transactions.values()}
    # It can be repeated in each division, and followed by the next batch.
    world.write([["a", "b"], ["c"], ["d"]], run="run-3")
    world.write(replay, run="run-4")
    world.write([["e"], ["f"]], 1, "run-4")
    assert world.visible == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize("step", [*DRIVER_STEPS, "drop", "markers"])
def test_a_crash_while_a_committed_batch_is_repeated_in_another_division_changes_nothing(world, step):
    world.write([["a"], ["b"], ["c"]])
    again = world.tasks([["c", "b"], [], [], ["a"]], run="run-2")
    steps = []

    def crash(name):
        steps.append(name)
        crash_at(step)(name)

    try:
        world.commit(again, 0, crash)
    except Crash:
        assert steps[-1] == step
    else:
        assert step not in steps
        assert step in ("commit", COMMIT_REST)
    assert world.visible == ["a", "b", "c"]
    world.write([["a", "b", "c"]], run="run-3")
    assert world.visible == ["a", "b", "c"]


@pytest.mark.parametrize(
    "replay", [[["a", "b", "x"]], [["c"], ["a"], ["a"]], [["a", "b"]], [["a", "b", "c", "d"]]]
)
def test_a_replay_of_a_committed_batch_with_other_rows_is_refused_however_divided(world, replay):
    world.write([["a"], ["b"], ["c"]])
    with pytest.raises(ReplayMismatchError, match="Of all tasks 3 rows are committed"):
        world.write(replay, run="run-2")
    assert world.visible == ["a", "b", "c"]


def test_a_replay_in_another_division_is_refused_while_a_part_is_missing(world):
    with pytest.raises(Crash):
        world.commit(world.tasks([["a"], ["b"]]), 0, crash_at(COMMIT_REST))
    with pytest.raises(ReplayMismatchError, match="Of all tasks 1 rows are committed, and the replay has 2"):
        world.write([["a", "b"]], run="run-2")
    world.write([["a"], ["b"]], run="run-3")
    world.write([["a", "b"]], run="run-4")
    assert world.visible == ["a", "b"]


def test_a_replay_in_another_division_needs_no_decision_to_be_recognised(world):
    world.write([["a"], ["b"]])
    del world.kafka.offsets[STREAM.driver]
    world.write([["a", "b"], []], run="run-2")
    assert world.visible == ["a", "b"]


@pytest.mark.parametrize("replay", [[[], ["a", "b"]], [["c"]]])
def test_a_replay_that_leaves_a_committed_task_out_is_refused(world, replay):
    with pytest.raises(Crash):
        world.commit(world.tasks([["c"], ["a"], ["b"]]), 0, crash_at(COMMIT_REST))
    committed = ["c"]
    assert world.visible == committed
    if replay == [["c"]]:
        world.write([["c"], ["a"], ["b"]], run="run-2")
        committed = ["a", "b", "c"]
    with pytest.raises(ReplayMismatchError, match="now it has no rows, or does not exist"):
        world.write(replay, run="run-3")
    assert world.visible == committed


def test_another_division_into_tasks_is_no_matter_while_nothing_is_committed(world):
    with pytest.raises(Crash):
        world.commit(world.tasks([["a"], ["b"], ["c"]]), 0, crash_at("commit"))
    world.write([["a", "b", "c"]], run="run-2")
    assert world.visible == ["a", "b", "c"]
    # The rest of the crashed run is fenced, so no reader waits for it and nobody can commit it.
    assert {name for name, found in world.kafka.transactions.items() if found.state == "open"} == set()


def test_an_old_checkpoint_is_refused_by_task_and_driver(world):
    world.write([["a"]], 0)
    world.write([["b"]], 1)
    with pytest.raises(StaleReplayError, match="number 1 is already committed"):
        world.task(0, ["a"], 0, "run-2")
    with pytest.raises(StaleReplayError, match="micro-batch 0"):
        world.commit([EmptyTask(WriteTask(WriteRun(STREAM, 0, "run-2"), 0))], 0)


@pytest.mark.parametrize("rows", [["a"], []])
def test_an_old_copy_of_a_query_does_not_stop_the_one_that_is_ahead(world, rows):
    world.write([["a"], []], 0)
    world.write([["b"], []], 1)
    ahead = world.tasks([["c"], []], 2)
    with pytest.raises(StaleReplayError):
        world.write([rows, []], 0, "copy")
    world.commit(ahead, 2)
    assert world.visible == ["a", "b", "c"]


def test_an_old_copy_does_not_stop_the_driver_that_is_about_to_decide(world):
    world.write([["a"]], 0)
    world.write([["b"]], 1)
    old = EmptyTask(WriteTask(WriteRun(STREAM, 0, "copy"), 0))

    def copy_commits(step):
        if step == "decide":
            with pytest.raises(StaleReplayError):
                world.commit([old], 0)

    world.write([["c"]], 2, on_step=copy_commits)
    assert world.visible == ["a", "b", "c"]


def test_a_driver_that_was_overtaken_while_it_stood_still_does_not_stop_its_successor(world):
    old = world.tasks([["a"]], 0, "run-1")
    world.write([["a"]], 0, "run-2")

    def wake_up(step):
        if step == "decide":
            with pytest.raises(CommitFailedError, match="another driver has decided"):
                world.commit(old, 0)

    world.write([["b"]], 1, "run-2", on_step=wake_up)
    assert world.visible == ["a", "b"]


def test_a_driver_that_cannot_look_before_it_fences_commits_all_the_same(world):
    port = MemoryDriver(world.kafka)
    port.current_offset = Mock(side_effect=KafkaTimeoutError("no answer"))
    DriverProtocol(port).commit(world.tasks([["a"]]), 0)
    assert world.visible == ["a"]


@pytest.mark.parametrize("known", [[], [EmptyTask(WriteTask(WriteRun(NAMED, 1, ""), 1))]])
def test_the_abort_of_an_old_version_does_not_stop_a_later_one(known):
    world = World(NAMED)
    world.write([["a"]], 1, "")
    world.write([["b"]], 2, "")
    ahead = world.tasks([["c"]], 3, "")
    DriverProtocol(MemoryDriver(world.kafka)).abort([None, *known], NAMED)
    world.commit(ahead, 3)
    assert world.visible == ["a", "b", "c"]


def test_the_abort_of_a_version_that_is_known_ends_its_tasks_without_a_message():
    world = World(NAMED)
    world.write([["a"]], 1, "")
    world.task(0, ["b"], 2, "")
    DriverProtocol(MemoryDriver(world.kafka)).abort([None], NAMED, 2)
    assert {each.state for each in world.kafka.transactions.values()} <= {"committed", "none"}
    assert world.visible == ["a"]


def test_a_query_without_markers_is_refused_unless_told_otherwise(world):
    with pytest.raises(
        UncertainReplayError, match=r"has no decision for this write, so.*onUncertainReplay=write"
    ):
        world.write([["a"]], 7)
    assert world.visible == []
    world.write([["a"]], 7, write_when_uncertain=True)
    world.write([["b"]], 8)
    assert world.visible == ["a", "b"]


def test_batches_without_tasks_leave_a_gap_that_only_a_new_run_cannot_explain(world):
    world.write([["a"]], 0)
    world.commit([None], 1)
    world.write([["b"]], 2)
    with pytest.raises(UncertainReplayError, match="decision 2 as the last one for this write, so"):
        world.write([["c"]], 4, "run-2")
    assert world.visible == ["a", "b"]


def test_markers_that_expired_before_the_decision_are_noticed(world):
    world.write([["a"], ["x"]], 0)
    with pytest.raises(Crash):
        world.commit(world.tasks([["b"], ["c"]], 1), 1, crash_at(COMMIT_REST))
    del world.kafka.offsets[STREAM.task(0)]
    with pytest.raises(UncertainReplayError, match="fewer markers"):
        world.write([["b"], ["c"]], 1, "run-2")
    assert world.visible == ["a", "b", "x"]


def test_versions_of_a_named_batch_may_leave_numbers_out_and_not_go_back():
    world = World(NAMED)
    world.write([["a"]], 3, "")
    world.write([["a"]], 3, "")
    world.write([["b"]], 10, "")
    with pytest.raises(StaleReplayError, match=r"writeId nightly, version 4.*a new writeId"):
        world.task(0, ["c"], 4, "")
    assert world.visible == ["a", "b"]


def test_a_query_whose_checkpoint_was_deleted_is_another_one_and_writes_again(world):
    world.write([["a"]], 0)
    world.identity = WriteIdentity(WriteKind.STREAM, "another query", "k")
    world.write([["a"]], 0)
    assert world.visible == ["a", "a"]


def test_the_second_sink_of_one_write_id_is_refused_and_writes_nothing():
    world = World(NAMED)
    world.write([["a, to one topic"]], 0)
    with pytest.raises(ReplayMismatchError):
        world.write([["a, to another topic"]], 0)
    assert world.visible == ["a, to one topic"]


def test_an_unnamed_batch_has_neither_markers_nor_a_decision():
    world = World(UNNAMED)
    world.write([["a"], [], ["b"]])
    assert world.visible == ["a", "b"]
    assert world.kafka.offsets == {}
    assert world.kafka.calls == []


def test_an_unnamed_batch_that_failed_halfway_says_that_it_cannot_be_completed():
    world = World(UNNAMED)
    messages = world.tasks([["a"], ["b"]])
    world.kafka.time_out(UNNAMED.task(1))
    with pytest.raises(CommitFailedError, match="cannot be completed"):
        world.commit(messages)


def test_a_driver_that_was_overtaken_commits_nothing(world):
    messages = world.tasks([["a"]])

    def overtake(step):
        if step == "decide":
            MemoryDriver(world.kafka).fence([STREAM.driver])

    with pytest.raises(CommitFailedError, match="another driver has taken over"):
        world.commit(messages, 0, overtake)
    assert world.visible == []


def test_a_driver_whose_tasks_did_not_see_the_last_decision_commits_nothing(world):
    # Rows moved between the tasks of two runs at a time: the parts that are left do not fit together.
    old_0 = world.task(0, ["a"], run="run-1")
    new_0 = world.task(0, ["b"], run="run-2")
    new_1 = world.task(1, ["a"], run="run-2")
    old_1 = world.task(1, ["b"], run="run-1")
    with pytest.raises(CommitFailedError, match=r"1 of 2 tasks could not be committed"):
        world.commit([old_0, old_1], 0)
    with pytest.raises(CommitFailedError, match="another driver has decided"):
        world.commit([new_0, new_1], 0)
    assert world.visible == ["b"]


def test_fewer_tasks_in_another_run_do_not_let_the_first_one_commit(world):
    old = world.tasks([["a"], ["b"]], run="run-1")
    world.write([["a", "b"]], run="run-2")
    with pytest.raises(CommitFailedError, match="another driver has decided"):
        world.commit(old, 0)
    assert world.visible == ["a", "b"]


def test_transactions_that_ran_out_of_time_fail_the_commit_and_a_replay_mends_it(world):
    messages = world.tasks([["a"], ["b"]])
    world.kafka.time_out(STREAM.task(1))
    with pytest.raises(CommitFailedError, match=r"1 of 2 tasks.*kafka\.transaction\.timeout\.ms"):
        world.commit(messages, 0)
    world.write([["a"], ["b"]], run="run-2")
    assert world.visible == ["a", "b"]


def test_abort_ends_what_is_prepared_and_never_what_is_committed(world):
    messages = world.tasks([["a"], ["b"], []])
    with pytest.raises(Crash):
        world.commit(messages, 0, crash_at(COMMIT_REST))
    DriverProtocol(MemoryDriver(world.kafka)).abort([*messages, None])
    assert world.visible == ["a"]
    assert {each.state for each in world.kafka.transactions.values()} <= {"committed", "aborted", "none"}


@pytest.mark.parametrize("identity", [NAMED, UNNAMED])
def test_a_task_of_a_failed_batch_whose_message_came_too_late_is_ended(identity):
    world = World(identity)
    world.task(0, ["a"])
    DriverProtocol(MemoryDriver(world.kafka)).abort(
        [None, EmptyTask(WriteTask(WriteRun(identity, 0, ""), 1))], identity
    )
    assert [each.state for each in world.kafka.transactions.values()] == ["none"]
    assert world.visible == []


def test_a_failed_task_aborts(world):
    port = MemoryTask(world.kafka)

    def rows():
        yield Rows(["a"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TaskProtocol(port, SumOfRows()).write(WriteTask(WriteRun(STREAM, 0, ""), 0), rows())
    assert port.aborted


def test_an_attempt_that_was_fenced_cannot_go_on(world):
    def fence(step):
        if step == "add_marker":
            world.task(0, ["a"])

    with pytest.raises(FencedError):
        world.task(0, ["a"], on_step=fence)


@pytest.mark.parametrize(
    "messages",
    [
        [EmptyTask(WriteTask(WriteRun(STREAM, 0, ""), 0)), EmptyTask(WriteTask(WriteRun(STREAM, 1, ""), 1))],
        [EmptyTask(WriteTask(WriteRun(STREAM, 0, ""), 0)), EmptyTask(WriteTask(WriteRun(STREAM, 0, ""), 0))],
        [EmptyTask(WriteTask(WriteRun(STREAM, 0, ""), 1))],
        [EmptyTask(WriteTask(WriteRun(STREAM, 1, ""), 0))],
        [object()],
    ],
)
def test_messages_that_do_not_belong_together_are_refused(world, messages):
    with pytest.raises(ExactlyOnceError):
        world.commit(messages, 0)
    assert world.kafka.calls == []


def test_what_is_kept_in_kafka_is_read_back_and_short():
    marker = Marker(7, 12, 2**64 - 1)
    assert Marker.from_offset("g", marker.to_offset()) == marker
    decision = Decision(7, 100_000, 50, "f" * 16, "a run = of blanks")
    assert Decision.from_offset("g", decision.to_offset()) == decision
    long = Decision(7, 1, 1, "0", "r" * 5000)
    assert len(long.to_offset().metadata) < 400
    read = Decision.from_offset("g", long.to_offset())
    assert read is not None
    assert read.is_of_run("r" * 5000)
    assert not Decision(7, 1, 1, "0", "").is_of_run("")


@pytest.mark.parametrize(
    "text", ["", "kproducer/2 marker rows=1 checksum=0", "kproducer/1 decision x", "a b c"]
)
def test_what_others_committed_is_not_taken_for_a_marker(text):
    foreign = Marker(1, 2, 3).to_offset()._replace(metadata=text)
    with pytest.raises(ExactlyOnceError, match="group 'g' has a committed offset"):
        Marker.from_offset("g", foreign)
    with pytest.raises(ExactlyOnceError):
        Decision.from_offset("g", foreign)
