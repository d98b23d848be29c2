"""Curable: whether retries cure everything that goes wrong in a plan, so that all records are delivered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.simulation.plan import (
    METADATA,
    PRODUCE,
    AtTime,
    Caller,
    Cancelled,
    Close,
    OnRequest,
    Plan,
    Purge,
    Send,
    Step,
    Transaction,
)

#: Nothing is refused, and nothing is lost.
_HARMLESS = ("late", "throttled", "fragmented", "behind")
#: The request or its response is lost: brokers recognise the repetition.
_LOSSES = ("close_before", "close_after", "reset_after", "stall_before", "stall_after", "overtaken")
#: Retriable errors of Produce that rule out an append.
_REFUSALS = (5, 9, 14, 15, 16, 19, 75)
#: Those that do not.
_DOUBTFUL = (3, 6, 7, 13, 20, 56)
#: Retriable errors of coordinators.
_COORDINATOR_CODES = (7, 14, 15, 16, 51)
#: The producer has to number the batch again, which it may only if it was not written.
_RENUMBERED = (45, 59)
_WITHIN_CONNECTIONS = (
    "refuse", "process_and_refuse", "fragmented", "behind", "move_leader", "move_leader_after_restart",
    "recreate_topic", "fewer_partitions", "forget_producers", "lower_limit", "move_coordinator",
)  # fmt: skip
_INIT_PRODUCER_ID = 22
#: What else an attempt takes, in seconds: another connection, and pauses.
_ATTEMPT_S = 0.6
_MOST_RETRIES = 2_147_483_647
#: A request and its response take less than this many times the longest latency, also in parts and in queues.
_ROUND_TRIPS = 10


def cured_after_s(plan: Plan, settings: Mapping[str, Any]) -> float | None:
    """How long the faults can keep a record from being delivered, in seconds.

    If it is not ``None``, every accepted record has to be delivered, and every transaction to end as its
    caller wants. Cautious: if it is not sure, the answer is ``None``.
    """
    needed_s = _needed_s(plan, settings)
    return (
        needed_s
        if _is_curable(plan, settings) and needed_s < settings["delivery_timeout_ms"] / 2000
        else None
    )


def has_stable_connections(plan: Plan, settings: Mapping[str, Any]) -> bool:
    """Whether nothing that goes wrong is a reason to end a connection. With ``acks=0``, each error is one."""
    return (
        _is_plain(plan)
        and _answers_in_time(plan, settings)
        and settings.get("acks") != 0
        and all(fault.kind in _WITHIN_CONNECTIONS for fault in plan.faults)
    )


def _is_plain(plan: Plan) -> bool:
    """Whether it has nothing that would have to be looked at, too."""
    is_unusual = (
        plan.session_s
        or plan.serializer
        or plan.partitioner
        or plan.host_names
        or plan.versions
        or plan.first_epoch
        or plan.settling
    )
    return not is_unusual and not any(_is_unusual(step) for caller in plan.callers for step in caller.steps)


def _is_unusual(step: Step) -> bool:
    if isinstance(step, Send):
        return bool(step.on_delivery)
    if isinstance(step, Transaction):
        return bool(step.prepared_for or step.renames) or any(map(_is_unusual, step.steps))
    if isinstance(step, Cancelled):
        # What is cancelled may or may not have happened; nothing else is concerned.
        return any(isinstance(each, (Transaction, Close)) or _is_unusual(each) for each in step.steps)
    return False


def _answers_in_time(plan: Plan, settings: Mapping[str, Any]) -> bool:
    """Whether no request times out because the network is slow."""
    return plan.latency_ms[1] * _ROUND_TRIPS < settings["request_timeout_ms"]


def _needed_s(plan: Plan, settings: Mapping[str, Any]) -> float:
    attempt_s = settings["request_timeout_ms"] / 1000 + _ATTEMPT_S
    return sum(attempt_s + fault.seconds for fault in plan.faults)


def _is_curable(plan: Plan, settings: Mapping[str, Any]) -> bool:
    if not _is_plain(plan) or settings.get("retries", _MOST_RETRIES) != _MOST_RETRIES:
        return False
    if plan.transaction_version < 2 and any(fault.kind == "overtaken" for fault in plan.faults):
        # Late requests count for the next transaction: what KIP-890 is about.
        return False
    if any(_gives_up(caller) for caller in plan.callers):
        return False
    is_renumbered = any(getattr(fault, "code", 0) in _RENUMBERED for fault in plan.faults)
    if is_renumbered and (
        "transactional_id" in settings
        or not settings.get("enable_idempotence", True)
        or not _answers_in_time(plan, settings)
        or not all(isinstance(fault, OnRequest) and _rules_out_append(fault) for fault in plan.faults)
    ):
        return False
    if any(fault.kind == "recreate_topic" for fault in plan.faults):
        # The new leader does not know the numbers, and in a transaction nothing is renumbered. If one of two
        # batches that may have been written is sent again, it knows the number of that one, and refuses the
        # other.
        doubtful = [f for f in plan.faults if isinstance(f, OnRequest) and not _rules_out_append(f)]
        if "transactional_id" in settings or len(doubtful) > 1:
            return False
    return all(_is_cured(fault) for fault in plan.faults)


def _gives_up(caller: Caller) -> bool:
    inner = [each for step in caller.steps for each in getattr(step, "steps", ())]
    return any(isinstance(step, (Purge, Close)) for step in (*caller.steps, *inner))


def _rules_out_append(fault: OnRequest) -> bool:
    is_refused = fault.api_key == PRODUCE and fault.code in (*_REFUSALS, *_RENUMBERED)
    return fault.kind in _HARMLESS or (fault.kind == "refuse" and is_refused)


def _is_cured(fault: OnRequest | AtTime) -> bool:
    if isinstance(fault, AtTime):
        return fault.kind in (
            "drop_connections",
            "reset_connections",
            "move_leader",
            "move_coordinator",
            "recreate_topic",
        )
    if fault.kind == "overtaken" and fault.api_key == _INIT_PRODUCER_ID:
        # Coordinators take it for another producer.
        return False
    if fault.kind in (*_HARMLESS, *_LOSSES):
        return True
    if fault.api_key == METADATA:
        return fault.code in (5, 9, 14, 15)
    if fault.api_key != PRODUCE:
        return fault.kind == "refuse" and fault.code in _COORDINATOR_CODES
    return fault.code in _DOUBTFUL or _rules_out_append(fault)
