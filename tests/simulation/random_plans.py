"""Random plans: the same number always gives the same plan."""

from __future__ import annotations

import random
from typing import Any

import attrs

from tests.simulation import special_plans
from tests.simulation.codes import CODES, PRODUCE_AFTER_APPEND, PRODUCE_REFUSALS
from tests.simulation.plan import (
    METADATA,
    PRODUCE,
    RECORDS,
    Ask,
    AtTime,
    Caller,
    Cancelled,
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

_METADATA_CODES = (3, 5, 9, 14, 15)
#: Keys of the requests to coordinators, and their names in ``CODES``.
_COORDINATOR = {
    10: "FindCoordinator",
    22: "InitProducerId",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    28: "TxnOffsetCommit",
}
#: They say that the batch was not appended.
_REFUSALS_TO_RETRY = (5, 19, 74)
#: What a coordinator may return although it has carried the request out.
_COORDINATOR_AFTERWARDS = (7, 15, 16, 51)
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
    "forget_producers", "lower_limit", "wall_clock", "suspend", "disk_error", "half_open", "downgrade",
)  # fmt: skip
_TRANSACTION_EVENTS = ("move_coordinator", "time_out_transaction", "forget_transactional_ids", "fence")
_NAME_EVENTS = ("names_fail", "names_are_slow")
#: The newest version of each API that older brokers offer: as those of Kafka 1.1, 2.5 and 3.9.
_API_KEYS = (0, 3, 10, 18, 22, 24, 25, 26, 28)
_OLD_RELEASES = ((5, 5, 1, 1, 0, 0, 0, 0, 0), (8, 9, 3, 3, 3, 1, 1, 1, 3), (11, 12, 6, 4, 5, 3, 3, 3, 3))
_OLDEST_PRODUCE = 3
_HAND_OVERS = (None, None, 0.0, 0.0, 0.1, 0.5)


def random_plan(seed: int) -> Plan:
    """A plan with some tens of records and at least one fault; some are ``special_plans``."""
    special = special_plans.KINDS.get(seed % 8)
    if special is not None:
        return special(seed)
    rng = random.Random(f"plan {seed}")
    if rng.random() < 0.01:
        return _forgetful_plan(seed, rng)
    brokers = rng.choice([1, 2, 3])
    topics = {"t": rng.choice([1, 1, 2, 4]), "u": 2}
    transactional = rng.random() < 0.35
    settings = _settings(rng, transactional)
    own_code = _own_code(rng)
    make = _transactional_callers if transactional else _callers
    callers = make(rng, topics, needs_objects=bool(own_code))
    host_names = rng.random() < 0.1
    faults = _faults(rng, brokers, topics, _events(transactional, host_names, callers), transactional)
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
        session_s=rng.choice([0.0, 0.0, 0.0, 0.0, 1.5]),
        logs_raise=rng.random() < 0.04,
        host_names=host_names,
        epochs=rng.choice([32_767] * 8 + [3]),
        first_epoch=rng.choice([0, 0, 0, 32_765, 32_766]),
        settling=rng.choice([0, 0, 0, 1, 3]),
        hand_overs=rng.choice(_HAND_OVERS),
        **own_code,
        **_release(rng),
    )


def _forgetful_plan(seed: int, rng: random.Random) -> Plan:
    """A leader loses the state of a producer while several of its batches are under way.

    It accepts the next one, whatever its number, so an earlier one is passed (KAFKA-14359). No response may
    be lost in such a plan.
    """
    number = rng.choice([1, 2, 3, 5, 8, 13])
    faults = [OnRequest("refuse_and_forget", number, code=rng.choice(_REFUSALS_TO_RETRY))]
    if rng.random() < 0.5:
        faults.append(OnRequest("refuse", number + rng.choice([2, 3, 4, 5]), code=59))
    callers = [Caller(tuple(Send(by="send", waits=False) for _ in range(RECORDS))) for _ in range(2)]
    settings = {"batch_size": rng.choice([0, 100]), "request_timeout_ms": 1000}
    return Plan(
        seed,
        tuple(callers),
        tuple(faults),
        settings,
        switch_rate=rng.choice([0.0, 0.02, 0.2]),
        hand_overs=rng.choice(_HAND_OVERS),
    )


def _settings(rng: random.Random, transactional: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "linger_ms": rng.choice([0, 0, 1, 5, 30]),
        "batch_size": rng.choice([0, 100, 300, 1000, 16_384]),
        "max_in_flight_requests_per_connection": rng.choice([1, 2, 5, 5, 5]),
        "compression_type": rng.choice(["none", "none", "none", "lz4", "gzip", "zstd"]),
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
        if rng.random() < 0.1:
            settings["transaction_two_phase_commit_enable"] = True
    elif rng.random() < 0.25:
        settings["enable_idempotence"] = False
        settings["acks"] = rng.choice(["all", 1, 0])
    elif settings["retries"] == 0:
        settings["retries"] = 1
    # Not more than the memory there is.
    settings["batch_size"] = min(settings["batch_size"], settings["buffer_memory"] // 2)
    return settings


def _own_code(rng: random.Random) -> dict[str, Any]:
    """At most one kind of application code that is called for each record."""
    chance = rng.random()
    if chance < 0.06:
        return {"interceptors_raise": True}
    if chance < 0.1:
        return {"serializer": "raises"}
    if chance < 0.13:
        return {"serializer": "slow"}
    if chance < 0.19:
        return {"partitioner": rng.choice(["raises", "odd"])}
    return {}


def _release(rng: random.Random) -> dict[str, Any]:
    """What the brokers are, as far as producers can tell."""
    chance = rng.random()
    if chance < 0.15:
        newest = dict(zip(_API_KEYS, rng.choice(_OLD_RELEASES), strict=True))
        versions = {key: (0 if key else _OLDEST_PRODUCE, version) for key, version in newest.items()}
        return {"versions": versions, "transaction_version": 0}
    if chance < 0.16:
        return {"versions": {22: None}}
    return {"transaction_version": rng.choice([2, 2, 2, 1, 1, 0])}


# -- callers -------------------------------------------------------------------------------------------


def _send(rng: random.Random, topics: dict[str, int], uses_asyncio: bool, needs_objects: bool) -> Send:
    topic = rng.choice(["t", "t", "t", "u"])
    kinds = ["send", "send", "send", "send_many", "send_many" if needs_objects else "send_arrow"]
    if uses_asyncio:
        kinds[:3] = ["send", "send", "submit"]
    return Send(
        topic,
        rng.choice([None, *range(topics[topic]), *range(topics[topic])]),
        count=rng.choice([1, 1, 2, 5, 12]),
        size=rng.choice([0, 0, 0, 50, 200, 700]),
        by=rng.choice(kinds),
        waits=rng.random() < 0.15,
        is_keyed=rng.random() < 0.15,
        on_delivery=rng.choice(["raise", "flush", "purge", "send", "send", "send unknown"])
        if rng.random() < 0.03
        else "",
    )


def _steps(
    rng: random.Random,
    topics: dict[str, int],
    records: int,
    *,
    uses_asyncio: bool,
    needs_objects: bool,
    purges: bool,
    cancels: bool = False,
) -> list[Step]:
    steps: list[Step] = []
    while records > 0:
        send = _send(rng, topics, uses_asyncio, needs_objects)
        records -= send.count
        step: Step = send
        if cancels and rng.random() < 0.3:
            seconds = rng.choice([0.0, 0.0001, 0.001, 0.01, 0.1])
            after: Any = rng.choice([(), (Flush(),), (Sleep(0.01), Send(send.topic))])
            step = Cancelled((attrs.evolve(send, waits=rng.random() < 0.5), *after), seconds)
        steps.append(step)
        chance = rng.random()
        if chance < 0.15:
            steps.append(Sleep(rng.choice([0.001, 0.01, 0.1])))
        elif chance < 0.22:
            steps.append(Flush(rng.choice([None, None, 0.05])))
        elif chance < 0.24 and purges:
            steps.append(Purge(rng.random() < 0.7, rng.random() < 0.7))
        elif chance > 0.98:
            steps.append(Ask(send.topic))
    return steps


def _callers(rng: random.Random, topics: dict[str, int], *, needs_objects: bool) -> tuple[Caller, ...]:
    count = rng.choice([1, 2, 3])
    purges = rng.random() < 0.2
    callers = []
    for _ in range(count):
        uses_asyncio = rng.random() < 0.35
        steps = _steps(
            rng,
            topics,
            RECORDS // count + 1,
            uses_asyncio=uses_asyncio,
            needs_objects=needs_objects,
            purges=purges,
            cancels=uses_asyncio and rng.random() < 0.4,
        )
        callers.append(Caller(tuple(steps), uses_asyncio))
    return (*callers, *_closing_caller(rng, 0.15))


def _closing_caller(rng: random.Random, rate: float) -> tuple[Caller, ...]:
    """A caller that closes the producer while the others use it, perhaps from a callback."""
    if rng.random() >= rate:
        return ()
    wait = Sleep(rng.choice([0.0, 0.005, 0.05, 0.3]))
    if rng.random() < 0.3:
        return (Caller((wait, Send("t", None, on_delivery="close"))),)
    close = Close(rng.choice([0, 0.05, 1.0, None]))
    uses_asyncio = rng.random() < 0.4
    if uses_asyncio and rng.random() < 0.3:
        return (Caller((wait, Cancelled((close,), 0.001)), True),)
    return (Caller((wait, close), uses_asyncio),)


def _transactional_callers(
    rng: random.Random, topics: dict[str, int], *, needs_objects: bool
) -> tuple[Caller, ...]:
    uses_asyncio = rng.random() < 0.3
    cancels = uses_asyncio and rng.random() < 0.5
    hands_over = not uses_asyncio and rng.random() < 0.25
    uses_blocks = not hands_over and rng.random() < 0.25
    steps: list[Step] = []
    left = RECORDS
    while left > 0:
        inner = _steps(
            rng,
            topics,
            rng.choice([1, 5, 15]),
            uses_asyncio=uses_asyncio,
            needs_objects=needs_objects,
            purges=rng.random() < 0.1,
        )
        left -= sum(step.count for step in inner if isinstance(step, Send))
        transaction = Transaction(
            tuple(inner),  # type: ignore[arg-type]
            commits=rng.random() < 0.7,
            with_offsets=rng.random() < 0.4,
            timeout=rng.choice([None, None, 0.05, 0.5]),
            uses_block=uses_blocks,
            prepared_for=rng.choice(["", "here", "another"]) if hands_over else "",
            renames=hands_over and rng.random() < 0.3,
        )
        if cancels and rng.random() < 0.5:
            steps.append(Cancelled((transaction,), rng.choice([0.0, 0.0001, 0.001, 0.01, 0.1])))
        else:
            steps.append(transaction)
    callers = [Caller(tuple(steps), uses_asyncio)]
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        also_asyncio = rng.random() < 0.3
        others = _steps(
            rng,
            topics,
            rng.choice([5, 15]),
            uses_asyncio=also_asyncio,
            needs_objects=needs_objects,
            purges=False,
            cancels=also_asyncio and rng.random() < 0.4,
        )
        callers.append(Caller(tuple(others), also_asyncio))
    return (*callers, *_closing_caller(rng, 0.25 if hands_over else 0.05))


# -- faults --------------------------------------------------------------------------------------------


def _events(transactional: bool, host_names: bool, callers: tuple[Caller, ...]) -> list[str]:
    events = list(_EVENTS)
    if host_names:
        events += 4 * _NAME_EVENTS
    if transactional:
        events += 3 * _TRANSACTION_EVENTS
        # A producer that initializes again would fence the other one in return; and
        # ``forget_transactional_ids`` does not know what another one waits for.
        if any(
            isinstance(step, Transaction) and (step.renames or step.prepared_for == "another")
            for step in callers[0].steps
        ):
            events = [event for event in events if event not in ("fence", "forget_transactional_ids")]
    return events


def _faults(
    rng: random.Random, brokers: int, topics: dict[str, int], events: list[str], transactional: bool
) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    for _ in range(rng.choice([1, 1, 2, 3, 5, 8])):
        chance = rng.random()
        if chance < 0.45:
            faults += _of_produce(rng)
        elif chance < 0.53:
            faults.append(_of_metadata(rng))
        elif chance < (0.75 if transactional else 0.56):
            faults.append(_of_coordinator(rng, transactional))
        else:
            faults.append(_event(rng, brokers, topics, events))
    return tuple(faults)


def _of_produce(rng: random.Random) -> list[OnRequest]:
    """One fault, or several in a row: what is known of a batch depends on all its attempts."""
    first = rng.choice([0, 0, 1, 2, 3, 5, 8, 13])
    if rng.random() < 0.05:
        # The answer to an attempt is lost that comes after one that was refused.
        codes = (rng.choice(_REFUSALS_TO_RETRY), 46)
        return [
            OnRequest(kind, number, PRODUCE, code)
            for number, kind, code in zip(
                range(first, first + 2), ("refuse", "process_and_refuse"), codes, strict=True
            )
        ]
    return [
        _of_one_produce(rng, number) for number in range(first, first + rng.choice([1, 1, 1, 1, 2, 2, 3]))
    ]


def _of_one_produce(rng: random.Random, number: int) -> OnRequest:
    kind = rng.choice(
        ["refuse", "refuse", "refuse", "process_and_refuse", "late", "throttled", "fragmented", *_LOSSES]
    )
    codes = {"refuse": PRODUCE_REFUSALS, "process_and_refuse": PRODUCE_AFTER_APPEND}.get(kind, (0,))
    seconds = rng.choice([0.01, 0.1, 0.5]) if kind in ("late", "throttled") else 0.0
    return OnRequest(kind, number, PRODUCE, rng.choice(codes), seconds)


def _of_metadata(rng: random.Random) -> OnRequest:
    kind = rng.choice(["refuse", "refuse", "late", *_LOSSES[:5]])
    code = rng.choice(_METADATA_CODES) if kind == "refuse" else 0
    seconds = rng.choice([0.1, 0.5]) if kind == "late" else 0.0
    return OnRequest(kind, rng.choice([0, 1, 2]), METADATA, code, seconds)


def _of_coordinator(rng: random.Random, transactional: bool) -> OnRequest:
    key = rng.choice([10, 22, 24, 24, 25, 25, 26, 26, 28, 28]) if transactional else 22
    kind = rng.choice(
        [
            "refuse",
            "refuse",
            "refuse",
            "process_and_refuse",
            "late",
            "close_before",
            "close_after",
            "stall_after",
        ]
    )
    codes = {"refuse": CODES[_COORDINATOR[key]], "process_and_refuse": _COORDINATOR_AFTERWARDS}.get(
        kind, (0,)
    )
    seconds = rng.choice([0.1, 0.6]) if kind == "late" else 0.0
    return OnRequest(kind, rng.choice([0, 0, 0, 1, 2, 3]), key, rng.choice(codes), seconds)


def _event(rng: random.Random, brokers: int, topics: dict[str, int], events: list[str]) -> AtTime:
    topic = rng.choice(list(topics))
    kind = rng.choice(events)
    seconds = rng.choice([0.01, 0.1, 0.6, 1.5])
    if kind == "wall_clock" and rng.random() < 0.5:
        seconds = -seconds
    return AtTime(
        kind,
        at_s=rng.choice([0.0, 0.002, 0.01, 0.05, 0.2, 1.0]),
        broker_id=rng.randint(1, brokers),
        topic=topic,
        partition=rng.randrange(topics[topic]),
        seconds=seconds,
    )
