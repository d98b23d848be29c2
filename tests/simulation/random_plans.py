"""Random plans: the same number always gives the same plan."""

from __future__ import annotations

import random
from typing import Any

from tests.simulation import special_plans
from tests.simulation.plan import (
    AtTime,
    Caller,
    Close,
    Fault,
    Flush,
    OnRequest,
    Plan,
    Purge,
    Send,
    Sleep,
    Step,
    Transaction,
)

#: Every retriable code of Produce, and those that end a batch or a producer id.
_PRODUCE_CODES = (
    -1,
    2,
    3,
    5,
    6,
    7,
    8,
    9,
    10,
    13,
    14,
    15,
    16,
    19,
    20,
    29,
    32,
    45,
    47,
    56,
    59,
    60,
    72,
    74,
    75,
    77,
    87,
    100,
)
#: What a leader may return although it has appended.
_AFTER_APPEND_CODES = (-1, 3, 6, 7, 13, 20, 46, 56)
_METADATA_CODES = (3, 5, 9, 14, 15)
_COORDINATOR_CODES = (7, 14, 15, 16, 51)
_FIND, _INIT, _ADD, _ADD_OFFSETS, _END, _COMMIT_OFFSETS = 10, 22, 24, 25, 26, 28
_LOSSES = (
    "close_before",
    "close_after",
    "reset_after",
    "stall_before",
    "stall_after",
    "silence",
    "wrong_correlation_id",
)
_EVENTS = (
    "clean_restart", "crash", "freeze", "drop_connections", "reset_connections", "partition_network",
    "move_leader", "move_leader_after_restart", "no_leader", "recreate_topic", "fewer_partitions",
    "forget_producers", "lower_limit", "wall_clock", "suspend",
)  # fmt: skip
_RECORDS = 40


def random_plan(seed: int) -> Plan:
    """A plan with some tens of records and at least one fault; some are ``special_plans``."""
    special = special_plans.KINDS.get(seed % 8)
    if special is not None:
        return special(seed)
    rng = random.Random(f"plan {seed}")
    brokers = rng.choice([1, 2, 3])
    topics = {"t": rng.choice([1, 1, 2, 4]), "u": 2}
    transactional = rng.random() < 0.3
    settings = _settings(rng, transactional)
    callers = _transactional_callers(rng, topics) if transactional else _callers(rng, topics)
    faults = _faults(rng, brokers, topics, transactional)
    return Plan(
        seed,
        callers,
        faults,
        settings,
        topics,
        brokers,
        latency_ms=rng.choice([(0.01, 0.02), (0.05, 0.5), (0.05, 5.0), (1.0, 30.0)]),
        partial_rate=rng.choice([0.0, 0.05, 0.3]),
        switch_rate=rng.choice([0.0, 0.02, 0.2]),
        callbacks_raise=rng.random() < 0.1,
        interceptors_raise=rng.random() < 0.1,
        session_s=rng.choice([0.0, 0.0, 0.0, 0.0, 1.5]),
    )


def _settings(rng: random.Random, transactional: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "linger_ms": rng.choice([0, 0, 1, 5, 30]),
        "batch_size": rng.choice([0, 100, 300, 1000, 16_384]),
        "max_in_flight_requests_per_connection": rng.choice([1, 2, 5, 5, 5]),
        "compression_type": rng.choice(["none", "none", "none", "lz4", "gzip"]),
        "retry_backoff_ms": rng.choice([1, 20, 50]),
        "request_timeout_ms": rng.choice([100, 300, 1000]),
        "delivery_timeout_ms": rng.choice([1200, 2000, 6000]),
        "max_block_ms": rng.choice([300, 3000]),
        "metadata_max_age_ms": rng.choice([100, 5000]),
        "retries": rng.choice([0, 3, 2_147_483_647, 2_147_483_647, 2_147_483_647]),
        "buffer_memory": rng.choice([3000, 20_000, 33_554_432]),
    }
    if transactional:
        settings["transactional_id"] = "tx"
        settings["retries"] = 2_147_483_647
        settings["max_block_ms"] = rng.choice([300, 2000])
    elif rng.random() < 0.25:
        settings["enable_idempotence"] = False
        settings["acks"] = rng.choice(["all", 1, 0])
    elif settings["retries"] == 0:
        settings["retries"] = 1
    # Not more than the memory there is.
    settings["batch_size"] = min(settings["batch_size"], settings["buffer_memory"] // 2)
    return settings


def _send(rng: random.Random, topics: dict[str, int], *, more: int = 12) -> Send:
    topic = rng.choice(["t", "t", "t", "u"])
    return Send(
        topic,
        rng.choice([None, *range(topics[topic]), *range(topics[topic])]),
        count=rng.choice([1, 1, 2, 5, more]),
        size=rng.choice([0, 0, 0, 50, 200, 700]),
        by=rng.choice(["send", "send", "send", "send_many", "send_arrow"]),
        waits=rng.random() < 0.15,
    )


def _steps(rng: random.Random, topics: dict[str, int], records: int, *, purges: bool) -> list[Step]:
    steps: list[Step] = []
    while records > 0:
        send = _send(rng, topics)
        steps.append(send)
        records -= send.count
        chance = rng.random()
        if chance < 0.15:
            steps.append(Sleep(rng.choice([0.001, 0.01, 0.1])))
        elif chance < 0.22:
            steps.append(Flush(rng.choice([None, None, 0.05])))
        elif chance < 0.24 and purges:
            steps.append(Purge(rng.random() < 0.7, rng.random() < 0.7))
    return steps


def _callers(rng: random.Random, topics: dict[str, int]) -> tuple[Caller, ...]:
    count = rng.choice([1, 2, 3])
    purges = rng.random() < 0.2
    callers = []
    for _ in range(count):
        steps = _steps(rng, topics, _RECORDS // count + 1, purges=purges)
        callers.append(Caller(tuple(steps), uses_asyncio=rng.random() < 0.3))
    if rng.random() < 0.15:
        closing = (Sleep(rng.choice([0.0, 0.005, 0.05, 0.3])), Close(rng.choice([0, 0.05, 1.0, None])))
        callers.append(Caller(closing))
    return tuple(callers)


def _transactional_callers(rng: random.Random, topics: dict[str, int]) -> tuple[Caller, ...]:
    steps: list[Step] = []
    left = _RECORDS
    while left > 0:
        inner = _steps(rng, topics, rng.choice([1, 5, 15]), purges=rng.random() < 0.1)
        left -= sum(step.count for step in inner if isinstance(step, Send))
        steps.append(
            Transaction(
                tuple(inner),  # type: ignore[arg-type]
                commits=rng.random() < 0.7,
                with_offsets=rng.random() < 0.2,
                timeout=rng.choice([None, None, 0.05, 0.5]),
            )
        )
    return (Caller(tuple(steps)),)


def _faults(
    rng: random.Random, brokers: int, topics: dict[str, int], transactional: bool
) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    for _ in range(rng.choice([1, 1, 2, 3, 5, 8])):
        chance = rng.random()
        if chance < 0.55:
            faults.append(_of_produce(rng))
        elif chance < 0.65:
            faults.append(_of_metadata(rng))
        elif chance < 0.75 and transactional:
            faults.append(_of_coordinator(rng))
        else:
            faults.append(_event(rng, brokers, topics))
    return tuple(faults)


def _of_produce(rng: random.Random) -> OnRequest:
    kind = rng.choice(["refuse", "refuse", "process_and_refuse", "late", "throttled", "fragmented", *_LOSSES])
    codes = _AFTER_APPEND_CODES if kind == "process_and_refuse" else _PRODUCE_CODES
    return OnRequest(
        kind,
        rng.choice([0, 0, 1, 2, 3, 5, 8, 13]),
        code=rng.choice(codes) if kind in ("refuse", "process_and_refuse") else 0,
        seconds=rng.choice([0.01, 0.1, 0.5]) if kind in ("late", "throttled") else 0.0,
    )


def _of_metadata(rng: random.Random) -> OnRequest:
    kind = rng.choice(["refuse", "refuse", "late", *_LOSSES[:5]])
    code = rng.choice(_METADATA_CODES) if kind == "refuse" else 0
    seconds = rng.choice([0.1, 0.5]) if kind == "late" else 0.0
    return OnRequest(kind, rng.choice([0, 1, 2]), 3, code, seconds)


def _of_coordinator(rng: random.Random) -> OnRequest:
    kind = rng.choice(["refuse", "refuse", "late", "close_before", "close_after", "stall_after"])
    return OnRequest(
        kind,
        rng.choice([0, 0, 1, 2, 3]),
        rng.choice([_FIND, _INIT, _ADD, _ADD_OFFSETS, _END, _END, _COMMIT_OFFSETS]),
        code=rng.choice(_COORDINATOR_CODES) if kind == "refuse" else 0,
        seconds=rng.choice([0.1, 0.6]) if kind == "late" else 0.0,
    )


def _event(rng: random.Random, brokers: int, topics: dict[str, int]) -> AtTime:
    topic = rng.choice(list(topics))
    return AtTime(
        rng.choice(_EVENTS),
        at_s=rng.choice([0.0, 0.002, 0.01, 0.05, 0.2, 1.0]),
        broker_id=rng.randint(1, brokers),
        topic=topic,
        partition=rng.randrange(topics[topic]),
        seconds=rng.choice([0.01, 0.1, 0.6, 1.5]),
    )
