"""Coordinator sessions end, fence and query many transactions at once, under faults of the brokers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from kproducer import (
    AbortTransactionError,
    AuthorizationError,
    ConsumerGroupMetadata,
    FencedError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    KafkaTimeoutError,
    OffsetAndMetadata,
    PreparedTransaction,
    ProducerConfig,
    TopicPartition,
    TransactionAbortedError,
    UnsupportedVersionError,
)
from kproducer._core.transactions.coordinator_session import CoordinatorSession
from kproducer.testing.fakebroker import Close, FakeCluster, RequestContext, faults
from kproducer.testing.fakebroker.transaction_coordinator import NO_PRODUCER, Producer
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S, WatchedProducer

OFFSET_FETCH, FIND, INIT, END, COMMIT_OFFSETS = 9, 10, 22, 26, 28
PLACE = TopicPartition("marks", 0)
#: Timeout for responses that never arrive; on a busy machine, other requests must still succeed within it.
TOO_SHORT_S = 1.2


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def three(stage: Stage, version: int) -> FakeCluster:
    """Three brokers with one protocol, which share the coordination of transactional ids and groups."""
    cluster = stage.cluster(3, topics={"t": 1})
    cluster.transaction_version = version
    for number in range(60):
        for kind in (0, 1):
            cluster.coordination.moved[kind, f"task-{number}"] = 1 + number % 3
    return cluster


Sessions = list[CoordinatorSession]


@pytest.fixture
def sessions(stage: Stage) -> Iterator[Sessions]:
    """Close the sessions before the stage checks for leaks."""
    made: Sessions = []
    yield made
    for session in made:
        session.close()


def open_session(sessions: Sessions, cluster: FakeCluster, **settings: Any) -> CoordinatorSession:
    config = ProducerConfig(
        bootstrap_servers=cluster.bootstrap_servers,
        retry_backoff_ms=10,
        retry_backoff_max_ms=30,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=30,
        **settings,
    )
    sessions.append(CoordinatorSession(config))
    return sessions[-1]


@pytest.fixture
def session(sessions: Sessions, three: FakeCluster) -> CoordinatorSession:
    return open_session(sessions, three)


@pytest.fixture
def worker(stage: Stage, three: FakeCluster) -> WatchedProducer:
    return stage.producer(three, transactional_id="worker", max_block_ms=20_000)


def hand_over(worker: WatchedProducer, numbers: Iterable[int]) -> list[PreparedTransaction]:
    """Prepare transactions of the ids task-0, task-1, ...: each has one record and one committed offset."""
    prepared = []
    for number in numbers:
        name = f"task-{number}"
        worker.kafka.change_transactional_id(name)
        worker.kafka.init_transactions()
        worker.kafka.begin_transaction()
        worker.send(value=name.encode(), partition=0)
        worker.kafka.send_offsets_to_transaction(mark(number), ConsumerGroupMetadata(name))
        prepared.append(worker.kafka.prepare())
    return prepared


def mark(number: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {PLACE: OffsetAndMetadata(number, metadata=f"mark {number}")}


def names(numbers: Iterable[int]) -> list[str]:
    return [f"task-{number}" for number in numbers]


def committed(cluster: FakeCluster) -> list[str]:
    return [(record.value or b"").decode() for record in cluster.committed_records("t", 0)]


def kinds(results: Iterable[KafkaError | None]) -> list[type[Any] | None]:
    return [None if error is None else type(error) for error in results]


# -- without faults --------------------------------------------------------------------------------------


def test_many_transactions_are_committed_at_once_and_a_second_commit_has_no_effect(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession
) -> None:
    prepared = hand_over(worker, range(50))
    before = len(three.requests())
    assert session.end(prepared, True, PATIENCE_S) == [None] * 50
    asked = [request.api_key for request in three.requests()[before:]]
    assert (asked.count(END), asked.count(FIND)) == (50, 50)
    assert committed(three) == names(range(50))
    before = len(three.requests())
    assert session.end(prepared, True, PATIENCE_S) == [None] * 50
    assert {request.api_key for request in three.requests()[before:]} == {END}
    assert committed(three) == names(range(50))
    assert session.committed_offsets(names(range(50)), PLACE, PATIENCE_S) == {
        name: mark(number)[PLACE] for number, name in enumerate(names(range(50)))
    }


def test_each_transaction_gets_its_own_result(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession, version: int
) -> None:
    prepared = hand_over(worker, range(6))
    committed_before, aborted, timed_out, replaced, open_still, empty = prepared
    worker.kafka.change_transactional_id("task-5")
    worker.kafka.init_transactions()
    worker.kafka.begin_transaction()
    empty = worker.kafka.prepare()
    session.end([committed_before], True, PATIENCE_S)
    session.end([aborted], False, PATIENCE_S)
    with three.log.changed:
        three.coordination.transactions.time_out(timed_out.transactional_id, version == 2)
    session.fence([replaced.transactional_id], PATIENCE_S)
    of_time = FencedError if version == 1 else TransactionAbortedError
    everything = [committed_before, aborted, timed_out, replaced, open_still, empty]
    results = session.end(everything, True, PATIENCE_S)
    assert kinds(results) == [None, TransactionAbortedError, of_time, FencedError, None, None]
    assert all(everything[place].transactional_id in str(results[place]) for place in (1, 2, 3))
    assert committed(three) == ["task-0", "task-4"]
    again = session.end([committed_before, aborted, replaced], False, PATIENCE_S)
    assert kinds(again) == [IllegalStateError, None, FencedError]


def test_fencing_aborts_open_transactions_and_fences_their_producers(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession
) -> None:
    worker.kafka.change_transactional_id("task-0")
    worker.kafka.init_transactions()
    worker.kafka.begin_transaction()
    worker.send(partition=0)
    worker.kafka.flush()
    session.fence(names(range(3)), PATIENCE_S)
    with pytest.raises(FencedError):
        worker.kafka.commit_transaction()
    with pytest.raises(FencedError):
        worker.kafka.change_transactional_id("task-1")
    assert committed(three) == []


def test_offsets_are_written_as_the_fenced_producer_and_read_back(
    three: FakeCluster, session: CoordinatorSession, sessions: Sessions
) -> None:
    session.fence(["driver"], PATIENCE_S)
    assert session.committed_offsets(["driver"], PLACE, PATIENCE_S) == {"driver": None}
    for number in (4, 5):
        session.write_offsets("driver", "driver", mark(number), PATIENCE_S)
        assert session.committed_offsets(["driver"], PLACE, PATIENCE_S) == {"driver": mark(number)[PLACE]}
    newer = open_session(sessions, three)
    newer.fence(["driver"], PATIENCE_S)
    with pytest.raises(FencedError, match="driver"):
        session.write_offsets("driver", "driver", mark(6), PATIENCE_S)
    with pytest.raises(IllegalStateError, match="fence"):
        session.write_offsets("driver", "driver", mark(6), PATIENCE_S)
    newer.write_offsets("driver", "driver", mark(7), PATIENCE_S)
    assert newer.committed_offsets(["driver"], PLACE, PATIENCE_S)["driver"] == mark(7)[PLACE]


def test_calls_without_transactions_send_no_requests(three: FakeCluster, session: CoordinatorSession) -> None:
    session.fence([], PATIENCE_S)
    assert session.end([], True, PATIENCE_S) == []
    assert session.committed_offsets([], PLACE, PATIENCE_S) == {}
    assert {request.api_key for request in three.requests()} <= {3, 18}


def test_invalid_calls_are_refused(three: FakeCluster, sessions: Sessions) -> None:
    with contextlib.closing(open_session(sessions, three)) as session:
        with pytest.raises(IllegalStateError, match="fence 'nobody' first"):
            session.write_offsets("nobody", "g", mark(1), PATIENCE_S)
        session.fence(["driver"], PATIENCE_S)
        with pytest.raises(InvalidArgumentError):
            session.write_offsets("driver", "", mark(1), PATIENCE_S)
        for timeout in (None, "soon", float("nan")):
            with pytest.raises(InvalidArgumentError):
                session.fence(["driver"], timeout)  # type: ignore[arg-type]
        session.fence(["driver"], PATIENCE_S)
        session.write_offsets("driver", "g", mark(1), PATIENCE_S)
    with pytest.raises(IllegalStateError, match="closed"):
        session.fence(["driver"], PATIENCE_S)


def test_exhausted_epochs(three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession) -> None:
    three.coordination.transactions.newest_epoch = 4
    ids = set()
    lost = []
    for number in range(6):
        lost += hand_over(worker, [0])
        session.fence(["task-0"], PATIENCE_S)
        session.write_offsets("task-0", "task-0", mark(number), PATIENCE_S)
        ids.add(three.coordination.transactions.transactions["task-0"].producer.producer_id)
    assert len(ids) > 2
    assert kinds(session.end(lost, True, PATIENCE_S)) == [FencedError] * 6
    assert session.committed_offsets(["task-0"], PLACE, PATIENCE_S)["task-0"] == mark(5)[PLACE]
    kept = hand_over(worker, [0])
    assert session.end(kept, True, PATIENCE_S) == [None]
    assert committed(three) == ["task-0"]


# -- faults ----------------------------------------------------------------------------------------------


def whole_round(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession, faulty: Any
) -> None:
    """Make every call of a session after the fault was injected; all calls must succeed."""
    prepared = hand_over(worker, range(3))
    controls = faulty()
    session.fence(["driver", *names(range(10, 13))], PATIENCE_S)
    session.write_offsets("driver", "driver", mark(1), PATIENCE_S)
    assert session.end(prepared, True, PATIENCE_S) == [None] * 3
    found = session.committed_offsets(["driver", *names(range(3))], PLACE, PATIENCE_S)
    assert found == {
        "driver": mark(1)[PLACE],
        **{name: mark(number)[PLACE] for number, name in enumerate(names(range(3)))},
    }
    assert committed(three) == names(range(3))
    assert all(control.taken for control in controls)


_LOSSES = {"before": faults.close_before(), "after": faults.close_after(reset=True)}


@pytest.mark.parametrize("how", _LOSSES)
@pytest.mark.parametrize("api_key", [OFFSET_FETCH, FIND, INIT, END, COMMIT_OFFSETS])
def test_lost_requests_and_responses(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession, api_key: int, how: str
) -> None:
    whole_round(three, worker, session, lambda: [three.control(api_key, _LOSSES[how])])


_PUT_OFF = {
    FIND: (14, 15, 16),
    INIT: (14, 15, 16, 51),
    END: (14, 15, 16, 51),
    COMMIT_OFFSETS: (3, 14, 15, 16, 51),
    OFFSET_FETCH: (14, 15, 16, 88),
}


@pytest.mark.parametrize("api_key", _PUT_OFF)
def test_coordinators_that_answer_with_retriable_errors(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession, api_key: int
) -> None:
    """One retriable error response of each kind, one after the other."""

    def faulty() -> list[Any]:
        return [three.control(api_key, faults.refuse_coordination(code)) for code in _PUT_OFF[api_key]]

    whole_round(three, worker, session, faulty)


def test_a_broker_that_is_down_delays_only_the_ids_that_it_coordinates(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession
) -> None:
    prepared = hand_over(worker, range(6))
    port = three.brokers[2].port
    three.kill(2)
    results: list[KafkaError | None] = []
    # Repeated, since a busy machine may need more time for the other ids.
    while kinds(results) != [None, KafkaTimeoutError, None] * 2 or "FindCoordinator" not in str(results[1]):
        results = session.end(prepared, True, 0.5)
        assert isinstance(results[1], KafkaTimeoutError)
    for place in (1, 4):
        text = str(results[place])
        for part in (f"task-{place}", "FindCoordinator", "timeout_s=0.5", "COORDINATOR_NOT_AVAILABLE"):
            assert part in text, text
    three.restart(2)
    assert three.brokers[2].port == port
    assert session.end(prepared, True, PATIENCE_S) == [None] * 6
    assert sorted(committed(three)) == names(range(6))


@pytest.mark.parametrize("call", ["fence", "write_offsets", "committed_offsets", "end"])
def test_the_timeout_error_names_a_coordinator_that_does_not_answer(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession, call: str
) -> None:
    prepared = hand_over(worker, [1])
    # The connections exist already.
    session.fence(names([0, 2, 4]), PATIENCE_S)
    keys = {"fence": INIT, "write_offsets": COMMIT_OFFSETS, "committed_offsets": OFFSET_FETCH, "end": END}
    silent = three.control(keys[call], faults.stall_before())
    error: KafkaError | None = None
    try:
        if call == "fence":
            session.fence(["task-1"], TOO_SHORT_S)
        elif call == "write_offsets":
            session.write_offsets("task-2", "task-2", mark(1), TOO_SHORT_S)
        elif call == "committed_offsets":
            session.committed_offsets(["task-1"], PLACE, TOO_SHORT_S)
        else:
            (error,) = session.end(prepared, True, TOO_SHORT_S)
    except KafkaTimeoutError as raised:
        error = raised
    assert isinstance(error, KafkaTimeoutError)
    port = three.brokers[silent_broker(three, keys[call])].port
    for part in (f"timeout_s={TOO_SHORT_S}", str(port), "task-2" if call == "write_offsets" else "task-1"):
        assert part in str(error)
    assert silent.taken == 1
    if call == "write_offsets":
        assert "may have been committed" not in str(error)
        with pytest.raises(IllegalStateError, match="fence"):
            session.write_offsets("task-2", "task-2", mark(1), PATIENCE_S)
    # Another session is not affected; this one continues once the connection is given up.
    for broker_id in (1, 2, 3):
        three.drop_connections(broker_id)
    session.fence(names([2]), PATIENCE_S)
    session.write_offsets("task-2", "task-2", mark(2), PATIENCE_S)
    assert session.committed_offsets(["task-2"], PLACE, PATIENCE_S)["task-2"] == mark(2)[PLACE]
    assert session.end(prepared, True, PATIENCE_S) in ([None], [error]) or call == "fence"


def silent_broker(cluster: FakeCluster, api_key: int) -> int:
    return cluster.requests(api_key)[-1].broker_id


def test_fencing_settles_a_decision_whose_commit_was_not_answered(
    three: FakeCluster, session: CoordinatorSession
) -> None:
    session.fence(["driver"], PATIENCE_S)
    three.control(END, faults.stall_after())
    with pytest.raises(KafkaTimeoutError, match="may have been committed"):
        session.write_offsets("driver", "driver", mark(8), 2 * TOO_SHORT_S)
    for broker_id in (1, 2, 3):
        three.drop_connections(broker_id)
    session.fence(["driver"], PATIENCE_S)
    assert session.committed_offsets(["driver"], PLACE, PATIENCE_S)["driver"] == mark(8)[PLACE]
    session.write_offsets("driver", "driver", mark(9), PATIENCE_S)


def test_a_decision_with_a_lost_response_whose_driver_was_replaced(
    three: FakeCluster, session: CoordinatorSession
) -> None:
    session.fence(["driver"], PATIENCE_S)

    def commit_lose_and_replace(context: RequestContext) -> Any:
        context.apply()
        transactions = three.coordination.transactions
        assert transactions.init_producer_id("driver", 60_000, NO_PRODUCER)[0] == 0
        return Close()

    three.control(END, commit_lose_and_replace)
    with pytest.raises(FencedError, match="may have been committed"):
        session.write_offsets("driver", "driver", mark(8), PATIENCE_S)
    assert session.committed_offsets(["driver"], PLACE, PATIENCE_S)["driver"] == mark(8)[PLACE]
    with pytest.raises(IllegalStateError, match="fence"):
        session.write_offsets("driver", "driver", mark(9), PATIENCE_S)


def test_offsets_of_a_group_with_an_open_transaction_cannot_be_read(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession
) -> None:
    prepared = hand_over(worker, [1])
    with pytest.raises(KafkaTimeoutError, match=r"task-1.*UNSTABLE_OFFSET_COMMIT"):
        session.committed_offsets(names([0, 1]), PLACE, TOO_SHORT_S)

    (handed,) = prepared

    def commit_meanwhile(context: RequestContext) -> None:
        writer = Producer(handed.producer_id, handed.epoch)
        version_2 = handed.transaction_version >= 2
        transactions = three.coordination.transactions
        assert transactions.end("task-1", writer, commit=True, version_2=version_2)[0] == 0

    three.control(OFFSET_FETCH, commit_meanwhile, times=None)
    found = session.committed_offsets(names([0, 1]), PLACE, PATIENCE_S)
    assert found == {"task-0": None, "task-1": mark(1)[PLACE]}


def test_a_session_can_write_after_a_refused_offset(three: FakeCluster, session: CoordinatorSession) -> None:
    session.fence(["driver"], PATIENCE_S)
    three.control(COMMIT_OFFSETS, faults.refuse_coordination(12))
    with pytest.raises(KafkaError, match="OFFSET_METADATA_TOO_LARGE"):
        session.write_offsets("driver", "driver", mark(1), PATIENCE_S)
    session.write_offsets("driver", "driver", mark(2), PATIENCE_S)
    assert session.committed_offsets(["driver"], PLACE, PATIENCE_S)["driver"] == mark(2)[PLACE]


# -- permissions and old brokers -------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2], indirect=True)
@pytest.mark.parametrize(
    ("api_key", "code", "call", "told"),
    [
        (FIND, 53, "fence", ["transactional id 'driver'", "Write and Describe on the transactional id"]),
        (INIT, 53, "fence", ["transactional id 'driver'", "Write and Describe on the transactional id"]),
        (FIND, 53, "end", ["transactional id 'task-1'", "Write and Describe on the transactional id"]),
        (END, 53, "end", ["transactional id 'task-1'", "Write and Describe on the transactional id"]),
        (FIND, 30, "write", ["group 'marks'", "Read on the group"]),
        (COMMIT_OFFSETS, 30, "write", ["group 'marks'", "Read on the group"]),
        (COMMIT_OFFSETS, 29, "write", ["marks-0", "Read on the topic"]),
        (COMMIT_OFFSETS, 53, "write", ["transactional id 'driver'", "Write and Describe"]),
        (FIND, 30, "read", ["group 'marks'", "Describe on the group"]),
        (OFFSET_FETCH, 30, "read", ["group 'marks'", "Describe on the group"]),
        (OFFSET_FETCH, 29, "read", ["marks-0", "Describe on the topic"]),
    ],
)
def test_a_missing_permission_is_named(
    three: FakeCluster,
    worker: WatchedProducer,
    session: CoordinatorSession,
    api_key: int,
    code: int,
    call: str,
    told: list[str],
) -> None:
    prepared = hand_over(worker, [1])
    if call == "write":
        session.fence(["driver"], PATIENCE_S)
    refusal = three.control(api_key, faults.refuse_coordination(code, whole=code != 29), times=None)
    error: KafkaError | None = None
    try:
        if call == "fence":
            session.fence(["driver"], PATIENCE_S)
        elif call == "write":
            session.write_offsets("driver", "marks", mark(1), PATIENCE_S)
        elif call == "read":
            session.committed_offsets(["marks"], PLACE, PATIENCE_S)
        else:
            (error,) = session.end(prepared, True, PATIENCE_S)
    except AuthorizationError as raised:
        error = raised
    assert isinstance(error, AuthorizationError)
    for part in told:
        assert part in str(error), str(error)
    refusal.remove()
    # After the permission is granted, all calls succeed.
    session.fence(["driver"], PATIENCE_S)
    session.write_offsets("driver", "marks", mark(1), PATIENCE_S)
    assert session.end(prepared, True, PATIENCE_S) == [None]
    assert session.committed_offsets(["marks"], PLACE, PATIENCE_S)["marks"] == mark(1)[PLACE]


def test_of_several_ids_only_authorized_ones_are_fenced(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession
) -> None:
    prepared = hand_over(worker, range(3))

    def refuse_one(context: RequestContext) -> Any:
        is_it = context.message.transactional_id == "task-1"
        return faults.refuse_coordination(53)(context) if is_it else None

    control = three.control(INIT, refuse_one, times=None)
    with pytest.raises(AuthorizationError, match="task-1"):
        session.fence(names(range(3)), PATIENCE_S)
    control.remove()
    assert kinds(session.end(prepared, True, PATIENCE_S)) == [FencedError, None, FencedError]


def test_the_oldest_brokers_that_know_stable_offsets(
    stage: Stage, three: FakeCluster, session: CoordinatorSession
) -> None:
    three.set_versions(FIND, (0, 3))
    three.set_versions(OFFSET_FETCH, (1, 7))
    worker = stage.producer(three, transactional_id="worker")
    whole_round(three, worker, session, lambda: [])
    assert session.committed_offsets(names(range(20)), PLACE, PATIENCE_S)["task-2"] == mark(2)[PLACE]
    assert {request.api_version for request in three.requests(OFFSET_FETCH)} == {7}


def test_brokers_that_cannot_report_unstable_offsets(three: FakeCluster, session: CoordinatorSession) -> None:
    three.set_versions(OFFSET_FETCH, (1, 6))
    with pytest.raises(UnsupportedVersionError, match=r"brokers before 2\.5"):
        session.committed_offsets(["a", "b"], PLACE, PATIENCE_S)


def test_a_producer_can_be_fenced_during_a_commit_of_the_session(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession, sessions: Sessions
) -> None:
    """Two drivers at once: the newer one wins, at any point of the older driver's commit."""
    prepared = hand_over(worker, range(3))
    newer = open_session(sessions, three)
    newer.fence(names(range(3)), PATIENCE_S)
    assert kinds(session.end(prepared, True, PATIENCE_S)) == [FencedError] * 3
    with pytest.raises((FencedError, AbortTransactionError)):
        worker.kafka.commit_transaction()
    assert committed(three) == []


# -- random faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_reported_results_are_true_under_random_faults(
    three: FakeCluster, worker: WatchedProducer, session: CoordinatorSession, sessions: Sessions, seed: int
) -> None:
    """Rounds of tasks, a decision and commits, with random faults: no reported result is false."""
    chance = random.Random(seed)
    rival = open_session(sessions, three)
    faulty = [
        lambda: faults.close_before(),
        lambda: faults.close_after(),
        lambda: faults.refuse_coordination(chance.choice([14, 15, 16])),
    ]
    expected: list[str] = []
    session.fence(["driver"], PATIENCE_S)
    for number in range(8):
        prepared = hand_over(worker, range(4))
        lost = set()
        for task in range(4):
            if chance.random() < 0.2:
                lost.add(task)
                rival.fence([f"task-{task}"], PATIENCE_S)
        for _ in range(chance.randrange(4)):
            three.control(
                chance.choice([OFFSET_FETCH, FIND, INIT, END, COMMIT_OFFSETS]), chance.choice(faulty)()
            )
        if chance.random() < 0.3:
            with three.log.changed:
                three.coordination.moved[1, f"task-{chance.randrange(4)}"] = chance.choice([1, 2, 3])
        if chance.random() < 0.3:
            three.drop_connections(chance.choice([1, 2, 3]))
        session.write_offsets("driver", "driver", mark(number), PATIENCE_S)
        results = session.end(prepared, True, PATIENCE_S)
        assert kinds(results) == [FencedError if task in lost else None for task in range(4)]
        expected += [f"task-{task}" for task in range(4) if task not in lost]
        assert session.committed_offsets(["driver"], PLACE, PATIENCE_S)["driver"] == mark(number)[PLACE]
        session.fence(names(range(4)), PATIENCE_S)
    assert committed(three) == expected
