"""Plans with which simulations have found something."""

from __future__ import annotations

import pytest

from tests.simulation.plan import AtTime, Caller, Flush, OnRequest, Plan, Purge, Send, Sleep, Transaction
from tests.simulation.simulation import simulate


def test_a_fenced_producer_does_not_get_the_epoch_of_the_newer_one() -> None:
    transactions = (
        Transaction((Send(),), commits=False),
        Transaction((Send(),)),
        Transaction((Send(),)),
    )
    plan = Plan(
        seed=15777,
        callers=(Caller(transactions),),
        faults=(AtTime("fence", 0.1), OnRequest("stall_after", 1, api_key=3)),
        settings={"transactional_id": "tx"},
        latency_ms=(1.0, 1.0),
        partial_rate=0.0,
        switch_rate=0.0,
        transaction_version=1,
    )
    result = simulate(plan)
    assert result.findings == []
    assert result.met["fence"]


def test_send_in_a_callback_does_not_wait_for_memory() -> None:
    """Only the I/O thread frees memory, and callbacks run on it."""
    plan = Plan(
        seed=1,
        callers=(Caller((Send(), Send(partition=1, on_delivery="send"), Flush())),),
        settings={"buffer_memory": 3000},
        topics={"t": 2, "u": 1},
        brokers=2,
        latency_ms=(1.0, 1.0),
        partial_rate=0.0,
        switch_rate=0.0,
    )
    assert simulate(plan).findings == []


def test_send_in_a_callback_does_not_wait_for_metadata() -> None:
    steps = (Send(on_delivery="send unknown"), Sleep(1.5))
    plan = Plan(1, (Caller(steps),), settings={"max_block_ms": 1000})
    assert simulate(plan).findings == []


def test_metadata_is_requested_ever_more_rarely_while_the_brokers_are_unreachable() -> None:
    """The bootstrap connection works, and the broker that it names cannot be connected to."""
    steps = (Send(count=2), Sleep(0.15), Send(count=3), Send("u", 1))
    plan = Plan(
        seed=1,
        callers=(Caller(steps),),
        faults=(AtTime("fewer_partitions", 0.0, topic="u"), AtTime("freeze", 0.2, seconds=1.5)),
        settings={"retry_backoff_ms": 1, "request_timeout_ms": 100, "metadata_max_age_ms": 100},
        topics={"t": 2, "u": 2},
        latency_ms=(0.01, 0.02),
        partial_rate=0.0,
        switch_rate=0.0,
    )
    assert simulate(plan).findings == []


def test_a_partition_is_gone_when_its_leader_would_move() -> None:
    # faults move_leader ended with IndexError('list index out of range')
    plan = Plan(
        seed=0,
        callers=(Caller(steps=()), Caller(steps=())),
        faults=(
            AtTime(kind="fewer_partitions", at_s=0.0, topic="u"),
            AtTime(kind="move_leader", at_s=0.0, broker_id=2, topic="u", partition=1),
        ),
        topics={"u": 2},
        brokers=2,
        latency_ms=(1.0, 1.0),
        partial_rate=0.0,
        switch_rate=0.2,
    )
    assert not simulate(plan).findings


def test_a_commit_without_an_answer_does_not_become_an_abort() -> None:
    """Another producer has come between; the coordinator has forgotten the id of the first one."""
    plan = Plan(
        seed=606544,
        callers=(Caller((Transaction((Send(),)),)),),
        faults=(OnRequest("stall_after", 0, api_key=26), AtTime("fence", 0.1, seconds=1.5)),
        settings={"transactional_id": "tx"},
        latency_ms=(1.0, 1.0),
        partial_rate=0.0,
        switch_rate=0.0,
        epochs=3,
    )
    assert not simulate(plan).findings


@pytest.mark.parametrize(
    ("code", "next_error"),
    [
        (15, OnRequest("refuse", 1, api_key=10, code=30)),
        (51, OnRequest("refuse", 1, api_key=26, code=59)),
    ],
    ids=["COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"],
)
def test_a_commit_whose_effect_is_not_known_does_not_become_an_abort(
    code: int, next_error: OnRequest
) -> None:
    """The coordinator has committed and answers with a retriable error; the next error calls for an abort."""
    plan = Plan(
        seed=2003536,
        callers=(Caller((Transaction((Send(),)),)),),
        faults=(OnRequest("process_and_refuse", 0, api_key=26, code=code), next_error),
        settings={"transactional_id": "tx"},
        latency_ms=(1.0, 1.0),
        partial_rate=0.0,
        switch_rate=0.0,
    )
    assert not simulate(plan).findings


def test_a_lane_waits_for_a_frozen_broker_that_has_not_read_what_python_sends() -> None:
    """What the lane has is due, but bytes of Python's are to be written first."""
    steps = (
        Send(),
        Send(partition=1),
        Sleep(0.02),
        Send(partition=1, count=2, size=461),
        Send(partition=1, count=3, size=2473),
        Send(count=3, size=2500),
    )
    plan = Plan(
        seed=1,
        callers=(Caller(steps),),
        faults=(AtTime("freeze", 0.01, seconds=0.1),),
        settings={"batch_size": 1000, "buffer_memory": 20000},
        topics={"t": 2},
        partial_rate=0.0,
        switch_rate=0.0,
        socket_bytes=4000,
    )
    assert not simulate(plan).findings


def test_metadata_without_epochs_is_requested_ever_more_rarely_while_only_bootstrap_servers_answer() -> None:
    plan = Plan(
        seed=0,
        callers=(Caller((Send(partition=1),)),),
        faults=(
            AtTime("fewer_partitions", 0.0, partition=1),
            AtTime("crash", 0.01, seconds=0.6),
        ),
        settings={"retry_backoff_ms": 1},
        topics={"t": 2},
        latency_ms=(1.0, 1.0),
        partial_rate=0.0,
        switch_rate=0.0,
        versions={0: (3, 5), 3: (0, 5), 18: (0, 1), 22: (0, 0)},
    )
    assert not simulate(plan).findings


def test_a_caller_that_takes_a_partition_from_a_full_connection_leaves_no_half_frame() -> None:
    sends = (
        Send(size=1513),
        Send(partition=1, count=3, size=2498),
        Send(count=3, size=700),
        Send(partition=1, size=21),
        Send(partition=1, count=3, size=2496),
    )
    again = (Purge(), Send(count=3, size=2500), Purge(in_queue=False), Send(count=3, size=2500))
    plan = Plan(
        2,
        (Caller((*sends, *again, Purge(in_queue=False))),),
        settings={"batch_size": 3000, "buffer_memory": 20_000},
        topics={"t": 2},
        latency_ms=(1.0, 1.0),
        partial_rate=0.3,
        switch_rate=0.2,
        socket_bytes=4000,
    )
    assert not simulate(plan).findings


def test_a_request_of_a_lane_that_times_out_keeps_no_loop_busy() -> None:
    plan = Plan(
        1867,
        (Caller((Send(count=10), Flush())),),
        (OnRequest("silence", 3),),
        {"linger_ms": 5, "batch_size": 100},
        latency_ms=(1.0, 1.0),
        partial_rate=0.0,
        switch_rate=0.0,
    )
    assert not simulate(plan).findings


def test_frames_that_one_lane_has_read_come_before_those_of_the_next() -> None:
    steps = (Send(count=12), Purge(), Send(count=2), Purge(), Flush())
    plan = Plan(
        5971,
        (Caller(steps, uses_asyncio=True),),
        (OnRequest("refuse", 2, code=59),),
        {"batch_size": 0},
        partial_rate=0.3,
        switch_rate=0.0,
    )
    assert not simulate(plan).findings


def test_an_answer_that_was_read_behind_one_for_python_is_not_kept_for_the_next_event() -> None:
    plan = Plan(
        1,
        (Caller((Send(), Send(size=220), Send(topic="u"), Send(waits=True))),),
        (
            AtTime("suspend", 0.0, topic="u", seconds=0.1),
            AtTime("partition_network", 0.0, topic="u", seconds=0.01),
        ),
        {"linger_ms": 30, "batch_size": 300, "acks": 1},
        topics={"t": 1, "u": 1},
        latency_ms=(1.0, 30.0),
        partial_rate=0.0,
    )
    assert not simulate(plan).findings
