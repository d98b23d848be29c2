"""Handlers for ``FakeCluster.control`` that tests need again and again.

Each function makes a handler; none keeps state of its own. "Before" means that the request has no
effect at the broker; "after" that it has, and only the answer goes astray.
"""

from __future__ import annotations

import attrs

from tests.fakebroker.actions import Action, Close, Gate, Handler, Hold, Reply, Silence, Stall
from tests.fakebroker.connection import RequestContext
from tests.fakebroker.key00_produce import Refusal


def refuse_produce(
    code: int,
    message: str | None = None,
    *,
    partition: tuple[str, int] | None = None,
    record_errors: tuple[tuple[int, str | None], ...] = (),
) -> Handler:
    """Refuse all partitions of a Produce request, or one of them; the others are appended.

    A request that does not hold ``partition`` is left alone.
    """
    refusal = Refusal(code, message, record_errors)

    def handler(context: RequestContext) -> Action | None:
        if partition is not None and partition not in named_partitions(context):
            return None
        return context.answer(
            refuse=lambda name, index: refusal if partition in (None, (name, index)) else None
        )

    return handler


def named_partitions(context: RequestContext) -> list[tuple[str, int]]:
    """(topic name, partition) of a Produce request of any version."""
    names = {topic.topic_id: topic.name for topic in context.cluster.topics.values()}
    return [
        (topic.name or names.get(topic.topic_id, "?"), data.index)
        for topic in context.message.topic_data
        for data in topic.partition_data
    ]


def close_before(*, reset: bool = False) -> Handler:
    return lambda context: Close(reset)


def close_after(*, reset: bool = False) -> Handler:
    def handler(context: RequestContext) -> Action:
        context.apply()
        return Close(reset)

    return handler


def stall_before() -> Handler:
    return lambda context: Stall()


def stall_after() -> Handler:
    def handler(context: RequestContext) -> Action:
        context.apply()
        return Stall()

    return handler


def hold_before(gate: Gate) -> Handler:
    """Apply and answer only when the gate opens."""
    return lambda context: Hold(gate, lambda held: held.answer())


def hold_after(gate: Gate) -> Handler:
    """Apply at once; answer when the gate opens."""
    return lambda context: Hold(gate, context.answer())


def wrong_correlation_id(shift: int = 1000) -> Handler:
    """Apply, and answer under another request's number."""

    def handler(context: RequestContext) -> Action:
        answer = context.answer()
        if not isinstance(answer, Reply):
            return answer
        return attrs.evolve(answer, correlation_id=context.logged.correlation_id + shift)

    return handler


def fragmented(size: int = 1) -> Handler:
    """Answer truthfully, in pieces of ``size`` bytes."""

    def handler(context: RequestContext) -> Action:
        answer = context.answer()
        return attrs.evolve(answer, fragment_bytes=size) if isinstance(answer, Reply) else answer

    return handler


def silence() -> Handler:
    """Neither apply nor answer; later requests are served (their answers then seem to be this one's)."""
    return lambda context: Silence()
