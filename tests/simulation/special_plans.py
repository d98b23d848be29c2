"""Special plans: random ones of a kind that reaches more of one thing than ``random_plan`` does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs

from tests.simulation.plan import (
    METADATA,
    RECORDS,
    AtTime,
    Caller,
    Cancelled,
    Fault,
    Flush,
    OnRequest,
    Plan,
    Purge,
    Send,
    Sleep,
    Step,
    Transaction,
    record_count,
)

#: What a leader may return although it has appended.
_AFTER_APPEND = (-1, 3, 6, 7, 13, 20, 56)
#: Retriable, or about sequence numbers; one ends the batch.
_REFUSALS = (5, 9, 16, 19, 45, 45, 59, 87)
_LOSSES = (
    "close_before",
    "close_after",
    "reset_after",
    "stall_before",
    "stall_after",
    "silence",
    "overtaken",
)
_INIT, _ADD, _END, _COMMIT_OFFSETS = 22, 24, 26, 28


def dense_plan(seed: int) -> Plan:
    """Many small batches for one partition, and faults of the first requests: batches in flight interact.

    Mostly there is time for all retries, so that all records have to be delivered.
    """
    rng = random.Random(f"dense plan {seed}")
    transactional = rng.random() < 0.2
    brokers = rng.choice([1, 2])
    settings: dict[str, Any] = {
        "linger_ms": rng.choice([0, 0, 5]),
        "batch_size": rng.choice([0, 100, 300]),
        "max_in_flight_requests_per_connection": rng.choice([1, 5, 5, 5]),
        "retry_backoff_ms": rng.choice([1, 20]),
        "request_timeout_ms": rng.choice([100, 300]),
        "delivery_timeout_ms": rng.choice([1200, 20_000, 20_000, 20_000]),
        "metadata_max_age_ms": rng.choice([100, 5000]),
    }
    if transactional:
        settings["transactional_id"] = "tx"
    elif rng.random() < 0.2:
        settings["enable_idempotence"] = False
    partitions = rng.choice([1, 2])
    steps: list[Step] = []
    purge_rate = 0.0 if transactional else rng.choice([0.0, 0.0, 0.0, 0.5])
    for _ in range(rng.choice([2, 4, 6])):
        is_keyed = rng.random() < 0.2
        partition = None if is_keyed else rng.choice([0, 0, 0, partitions - 1])
        by = rng.choice(["send", "send_many"]) if is_keyed else "send"
        steps.append(
            Send("t", partition, rng.choice([1, 5, 12]), rng.choice([0, 0, 700]), by, is_keyed=is_keyed)
        )
        if rng.random() < 0.3:
            steps.append(Sleep(rng.choice([0.001, 0.02, 0.2])))
        elif rng.random() < purge_rate:
            steps.append(Purge(rng.random() < 0.5))
    if rng.random() < 0.5:
        steps.append(Flush())
    caller = Caller(tuple(steps), uses_asyncio=not transactional and rng.random() < 0.2)
    if transactional:
        halves = tuple(steps[::2]), tuple(steps[1::2])
        caller = Caller(tuple(Transaction(half, rng.random() < 0.7) for half in halves))  # type: ignore[arg-type]
    faults: list[Fault] = []
    kinds = rng.choice([("refuse",), ("refuse", *_LOSSES), ("process_and_refuse", *_LOSSES)])
    for _ in range(rng.choice([1, 2, 3])):
        kind = rng.choice(kinds)
        codes = _AFTER_APPEND if kind == "process_and_refuse" else _REFUSALS
        code = rng.choice(codes) if kind in ("refuse", "process_and_refuse") else 0
        faults.append(OnRequest(kind, rng.choice([0, 0, 1, 2, 3, 4]), code=code))
    if rng.random() < 0.5:
        kind = rng.choice(["move_leader", "move_leader_after_restart", "recreate_topic", "crash"])
        at_s = rng.choice([0.001, 0.005, 0.02, 0.1])
        faults.append(AtTime(kind, at_s, rng.randint(1, brokers), seconds=rng.choice([0.01, 0.2])))
    return Plan(
        seed,
        (caller,),
        tuple(faults),
        settings,
        {"t": partitions},
        brokers,
        latency_ms=rng.choice([(0.05, 0.5), (0.05, 5.0), (1.0, 30.0)]),
        partial_rate=rng.choice([0.0, 0.3, 0.9]),
        switch_rate=rng.choice([0.0, 0.02, 0.2]),
        hand_overs=rng.choice((None, 0.0, 0.1)),
        socket_bytes=rng.choice([65_536, 65_536, 2000]),
        transaction_version=rng.choice([1, 2, 2]),
        epochs=rng.choice([32_767, 32_767, 2]),
    )


def leaders_plan(seed: int) -> Plan:
    """Records that come one after the other, while leaders change and requests are lost."""
    rng = random.Random(f"leaders plan {seed}")
    brokers = rng.choice([2, 2, 3])
    settings: dict[str, Any] = {
        "batch_size": rng.choice([0, 100]),
        "max_in_flight_requests_per_connection": rng.choice([1, 5]),
        "retry_backoff_ms": rng.choice([1, 20]),
        "request_timeout_ms": 300,
        "delivery_timeout_ms": rng.choice([1200, 20_000, 20_000]),
        "metadata_max_age_ms": rng.choice([20, 100]),
        "retries": rng.choice([1, 2_147_483_647, 2_147_483_647]),
    }
    if rng.random() < 0.3:
        settings["enable_idempotence"] = False
    steps: list[Step] = []
    for _ in range(rng.choice([6, 12])):
        steps.append(Send(count=rng.choice([1, 2, 5])))
        steps.append(Sleep(rng.choice([0.001, 0.01, 0.03, 0.1])))
    faults: list[Fault] = []
    for _ in range(rng.choice([1, 2, 3])):
        kind = rng.choice(
            ["refuse", "process_and_refuse", "stall_before", "stall_after", "close_before", "close_after"]
        )
        code = rng.choice([3, 6, 6, 7]) if kind in ("refuse", "process_and_refuse") else 0
        faults.append(OnRequest(kind, rng.choice([0, 1, 2, 3, 4, 6]), code=code))
    if rng.random() < 0.4:
        faults.append(OnRequest("behind", rng.choice([1, 2, 3, 4]), METADATA))
    for _ in range(rng.choice([1, 2, 3])):
        kind = rng.choice(
            [
                "move_leader",
                "move_leader",
                "move_leader_after_restart",
                "recreate_topic",
                "no_leader",
                "freeze",
            ]
        )
        at_s = rng.choice([0.002, 0.01, 0.03, 0.1, 0.2])
        faults.append(AtTime(kind, at_s, rng.randint(1, brokers), seconds=rng.choice([0.01, 0.1])))
    return Plan(
        seed,
        (Caller(tuple(steps)),),
        tuple(faults),
        settings,
        brokers=brokers,
        latency_ms=rng.choice([(0.05, 0.5), (0.05, 5.0), (1.0, 10.0)]),
    )


def recreated_plan(seed: int) -> Plan:
    """A topic is created again while batches wait to be sent again: its leader does not know the producer."""
    rng = random.Random(f"recreated plan {seed}")
    settings = {
        "batch_size": 0,
        "retry_backoff_ms": rng.choice([1, 20]),
        "request_timeout_ms": rng.choice([100, 300]),
        "delivery_timeout_ms": 20_000,
        "metadata_max_age_ms": rng.choice([20, 100, 5000]),
    }
    steps: list[Step] = [Send(waits=True)]
    for _ in range(rng.choice([1, 3])):
        steps.append(Send(count=rng.choice([3, 5])))
        steps.append(Sleep(rng.choice([0.01, 0.05])))
    lost = rng.choice([1, 1, 2])
    faults: list[Fault] = [OnRequest(rng.choice(_LOSSES[:4]), lost)]
    first = lost + rng.choice([1, 2, 3, 4])
    faults += [
        OnRequest("refuse", first + each, code=rng.choice([16, 19])) for each in range(rng.choice([1, 2, 3]))
    ]
    faults.append(AtTime("recreate_topic", rng.choice([0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1])))
    latency_ms = rng.choice([(0.05, 0.5), (0.05, 5.0)])
    return Plan(seed, (Caller(tuple(steps)),), tuple(faults), settings, latency_ms=latency_ms)


def ending_plan(seed: int) -> Plan:
    """Short transactions, and faults of what ends them, also with brokers before KIP-890."""
    rng = random.Random(f"ending plan {seed}")
    settings: dict[str, Any] = {
        "transactional_id": "tx",
        "batch_size": rng.choice([0, 300]),
        "retry_backoff_ms": rng.choice([1, 20]),
        "request_timeout_ms": rng.choice([100, 300]),
        "delivery_timeout_ms": rng.choice([1200, 20_000]),
    }
    partitions = rng.choice([1, 2])
    transactions = []
    for _ in range(rng.choice([2, 4, 6])):
        inner: list[Any] = [Send(partition=rng.randrange(partitions), count=rng.choice([1, 1, 4]))]
        if rng.random() < 0.5:
            inner.append(Sleep(rng.choice([0.01, 0.1, 0.3])))
            inner.append(Send(partition=rng.randrange(partitions)))
        transactions.append(Transaction(tuple(inner), rng.random() < 0.6, with_offsets=rng.random() < 0.2))
    faults: list[Fault] = []
    for _ in range(rng.choice([1, 1, 2])):
        api = rng.choice([_END, _END, _END, _ADD, _INIT, _COMMIT_OFFSETS, 0])
        kind = rng.choice(
            ["overtaken", "overtaken", "close_after", "close_before", "stall_after", "stall_before"]
        )
        faults.append(OnRequest(kind, rng.choice([0, 0, 1, 2]), api, seconds=rng.choice([0.02, 0.1, 0.3])))
    return Plan(
        seed,
        (Caller(tuple(transactions)),),
        tuple(faults),
        settings,
        {"t": partitions},
        brokers=rng.choice([1, 2]),
        latency_ms=rng.choice([(0.05, 0.5), (0.05, 5.0)]),
        transaction_version=rng.choice([1, 2]),
        epochs=rng.choice([32_767, 2, 3]),
    )


def crowded_plan(seed: int) -> Plan:
    """Large records, little memory, small socket buffers: memory is used again while requests are written."""
    rng = random.Random(f"crowded plan {seed}")
    settings: dict[str, Any] = {
        "batch_size": rng.choice([0, 1000, 3000]),
        "buffer_memory": rng.choice([6000, 20_000, 100_000]),
        "request_timeout_ms": rng.choice([300, 1000]),
        "delivery_timeout_ms": rng.choice([1200, 20_000]),
        "max_block_ms": 3000,
    }
    callers = []
    for _ in range(rng.choice([1, 2])):
        steps: list[Step] = []
        for _ in range(10):
            steps.append(
                Send(partition=rng.choice([0, 1]), count=rng.choice([1, 3]), size=rng.choice([700, 2500]))
            )
            if rng.random() < 0.2:
                steps.append(Purge(rng.random() < 0.5))
            elif rng.random() < 0.3:
                steps.append(Sleep(rng.choice([0.001, 0.02])))
        callers.append(Caller(tuple(steps)))
    at_s = rng.choice([0.01, 0.05])
    kind = rng.choice(["freeze", "lower_limit", "drop_connections"])
    return Plan(
        seed,
        tuple(callers),
        (AtTime(kind, at_s, seconds=rng.choice([0.1, 1.5])),),
        settings,
        {"t": 2},
        latency_ms=rng.choice([(0.05, 0.5), (0.05, 5.0)]),
        partial_rate=rng.choice([0.3, 0.9]),
        switch_rate=rng.choice([0.02, 0.2]),
        hand_overs=rng.choice((None, 0.0, 0.1)),
        socket_bytes=rng.choice([1000, 4000]),
    )


def gated_plan(seed: int) -> Plan:
    """With asyncio, records wait for metadata, and some of them are cancelled meanwhile."""
    rng = random.Random(f"gated plan {seed}")
    partitions = rng.choice([1, 2])
    settings: dict[str, Any] = {
        "batch_size": rng.choice([0, 300]),
        "request_timeout_ms": rng.choice([100, 300]),
        "delivery_timeout_ms": 20_000,
        "max_block_ms": 10_000,
    }
    steps: list[Step] = []
    for _ in range(rng.choice([3, 6])):
        topic = rng.choice(["t", "t", "u"])
        send = Send(topic, rng.choice([None, 0, partitions - 1]), rng.choice([1, 1, 5]))
        if rng.random() < 0.6:
            seconds = rng.choice([0.0, 0.0001, 0.001, 0.1])
            steps.append(Cancelled((attrs.evolve(send, waits=True),), seconds, is_beside=True))
        else:
            steps.append(send)
        if rng.random() < 0.3:
            steps.append(Sleep(rng.choice([0.001, 0.1])))
    faults: list[Fault] = []
    for _ in range(rng.choice([1, 2])):
        kind = rng.choice(["late", "late", "stall_before", "close_before"])
        faults.append(OnRequest(kind, rng.choice([0, 0, 1]), METADATA, seconds=rng.choice([0.01, 0.05])))
    return Plan(
        seed,
        (Caller(tuple(steps), uses_asyncio=True),),
        tuple(faults),
        settings,
        {"t": partitions, "u": partitions},
        latency_ms=rng.choice([(0.05, 0.5), (0.05, 5.0)]),
    )


def _lengthened(make: Callable[[int], Plan]) -> Callable[[int], Plan]:
    """Plans with the least number of records: what is missing is sent at the end, when all faults are over.

    That a producer goes on working after a fault is a promise, too.
    """

    def plan_of(seed: int) -> Plan:
        plan = make(seed)
        missing = RECORDS - record_count(plan)
        if missing <= 0:
            return plan
        send = Send(count=missing)
        last = Transaction((send,)) if "transactional_id" in plan.settings else send
        first, *others = plan.callers
        return attrs.evolve(plan, callers=(attrs.evolve(first, steps=(*first.steps, last)), *others))

    return plan_of


def lanes_plan(seed: int) -> Plan:
    """Records at a pace at which a connection has a lane, with requests of Python and hand-overs."""
    rng = random.Random(f"lanes plan {seed}")
    settings: dict[str, Any] = {
        "linger_ms": rng.choice([0, 0, 5, 30]),
        "batch_size": rng.choice([0, 100, 3000]),
        "metadata_max_age_ms": rng.choice([20, 50, 5000]),
        "max_in_flight_requests_per_connection": rng.choice([2, 5, 5]),
        "enable_idempotence": rng.random() < 0.7,
    }
    steps: list[Step] = []
    for _ in range(rng.choice([6, 12])):
        size = rng.choice([0, 0, 700, 2500])
        topic, partition = rng.choice([("t", 0), ("t", 0), ("t", 1), ("u", 0)])
        steps.append(Send(topic, partition, rng.choice([1, 2, 5]), size, waits=rng.random() < 0.3))
        steps.append(rng.choice([Sleep(0.001), Sleep(0.01), Sleep(0.03), Purge(), Flush()]))
    faults: list[Fault] = []
    for _ in range(rng.choice([1, 1, 2])):
        kind = rng.choice(["refuse", "throttled", "stall_after", "fragmented", "close_after"])
        code = rng.choice([6, 19, 59, 87]) if kind == "refuse" else 0
        faults.append(OnRequest(kind, rng.randint(0, 8), code=code, seconds=0.02))
    return Plan(
        seed,
        (Caller(tuple(steps), uses_asyncio=rng.random() < 0.2),),
        tuple(faults),
        settings,
        {"t": 2, "u": 1},
        latency_ms=rng.choice([(0.05, 0.5), (1.0, 30.0), (1.0, 30.0)]),
        partial_rate=rng.choice([0.0, 0.3, 0.9]),
        switch_rate=rng.choice([0.0, 0.02, 0.2]),
        hand_overs=rng.choice([0.0, 0.1, 0.5]),
        socket_bytes=rng.choice([65_536, 65_536, 4000]),
    )


#: By ``seed % 8``; the other seeds have no special plan.
KINDS: dict[int, Callable[[int], Plan]] = {
    1: _lengthened(leaders_plan),
    2: _lengthened(ending_plan),
    3: _lengthened(dense_plan),
    4: _lengthened(lanes_plan),
    5: _lengthened(crowded_plan),
    6: _lengthened(recreated_plan),
    7: _lengthened(gated_plan),
}
