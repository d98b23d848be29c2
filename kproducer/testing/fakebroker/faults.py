"""Common handlers for ``FakeCluster.control``.

Each function creates a handler without state of its own. "Before" means that the broker does not
process the request; "after" means that it does, and only the response is lost or wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from kproducer_messages import RESPONSES

from kproducer.testing.fakebroker.actions import (
    Action,
    Close,
    Gate,
    Handler,
    Hold,
    Reply,
    RequestContext,
    Silence,
    Stall,
)
from kproducer.testing.fakebroker.batch_check import BatchRefusedError

_OFFSET_FETCH = 9
#: Of the APIs whose handlers can refuse a request. Those of the others have one error code.
_WITH_REFUSAL = {10, 22, 24, 25, 26, 28}


def refuse_produce(
    code: int,
    message: str | None = None,
    *,
    partition: tuple[str, int] | None = None,
    record_errors: tuple[tuple[int, str | None], ...] = (),
) -> Handler:
    """Refuse all partitions of a Produce request, or one of them; the others are appended.

    Requests without ``partition`` are passed on.
    """
    forgery = Forgery(code, message=message, record_errors=record_errors)
    return forge_produce(lambda *place: forgery if partition in (None, place) else None)


@attrs.frozen
class Forgery:
    """A false response for one partition of a Produce request.

    Attributes:
        code: the error code to return.
        appended: process the batch normally and falsify only the response; otherwise the batch is dropped.
        message: the broker's error message, v8 and later.
        record_errors: (index in the batch, message) of the invalid records, v8 and later.
    """

    code: int
    appended: bool = False
    message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()


def forge_produce(decide: Callable[[str, int], Forgery | None]) -> Handler:
    """Return false results for the partitions that ``decide(topic, partition)`` selects.

    ``decide`` is called once for each partition of a request, in the request's order. If it selects none, the
    request is passed on.
    """

    def handler(context: RequestContext) -> Action | None:
        forged = {}
        for place in named_partitions(context):
            forgery = decide(*place)
            if forgery is not None:
                forged[place] = forgery
        if not forged:
            return None

        def refuse(name: str, index: int) -> BatchRefusedError | None:
            forgery = forged.get((name, index))
            if forgery is None or forgery.appended:
                return None
            return BatchRefusedError(forgery.code, forgery.message, forgery.record_errors)

        answer = context.answer(refuse=refuse)
        if isinstance(answer, Reply) and answer.message is not None:
            entries = [entry for topic in answer.message.responses for entry in topic.partition_responses]
            for place, entry in zip(named_partitions(context), entries, strict=True):
                if place in forged and forged[place].appended:
                    entry.error_code, entry.base_offset = forged[place].code, -1
                    entry.error_message = forged[place].message
        return answer

    return handler


def named_partitions(context: RequestContext) -> list[tuple[str, int]]:
    """(topic name, partition) of a Produce request of any version."""
    return [
        (context.cluster.topics.name_of(topic.name, topic.topic_id), data.index)
        for topic in context.message.topic_data
        for data in topic.partition_data
    ]


def after_processing(handler: Handler) -> Handler:
    """Let the broker process the request before ``handler`` decides about the response."""

    def processed(context: RequestContext) -> Action | None:
        context.apply()
        return handler(context)

    return processed


def close_before(*, reset: bool = False) -> Handler:
    return lambda context: Close(reset)


def close_after(*, reset: bool = False) -> Handler:
    return after_processing(close_before(reset=reset))


def stall_before() -> Handler:
    return lambda context: Stall()


def stall_after() -> Handler:
    return after_processing(stall_before())


def hold_before(gate: Gate) -> Handler:
    """Apply and answer after the gate opens."""
    return lambda context: Hold(gate, lambda held: held.answer())


def hold_after(gate: Gate) -> Handler:
    """Apply at once; answer after the gate opens."""
    return lambda context: Hold(gate, context.answer())


def wrong_correlation_id(shift: int = 1000) -> Handler:
    """Apply, and answer with the correlation id of another request."""
    return lambda context: _altered(context, correlation_id=context.logged.correlation_id + shift)


def fragmented(size: int = 1) -> Handler:
    """Answer correctly, in pieces of ``size`` bytes."""
    return lambda context: _altered(context, fragment_bytes=size)


def _altered(context: RequestContext, **changes: int) -> Action:
    answer = context.answer()
    return attrs.evolve(answer, **changes) if isinstance(answer, Reply) else answer


def silence() -> Handler:
    """Neither apply nor answer; responses to later requests then arrive in place of this one's."""
    return lambda context: Silence()


def refuse_metadata(code: int, topic: str | None = None) -> Handler:
    """Answer a Metadata request with this error code for a topic, or for each one that it names.

    Requests that do not name the topic are passed on.
    """

    def handler(context: RequestContext) -> Action | None:
        named = {asked.name for asked in context.message.topics or () if asked.name is not None}
        refused = named if topic is None else named & {topic}
        if not refused:
            return None
        cluster = context.cluster
        before = cluster.metadata_errors
        cluster.metadata_errors = {**before, **dict.fromkeys(refused, code)}
        try:
            return context.answer()
        finally:
            cluster.metadata_errors = before

    return handler


def refuse_coordination(code: int, *, whole: bool = True) -> Handler:
    """Refuse a coordinator request or lookup without processing it, with this error code.

    Args:
        code: of the response, or of each of its entries if the response has no error code of its own.
        whole: false: refuse offsets per partition instead of the whole group.
    """

    def handler(context: RequestContext) -> Action:
        if context.api_key in _WITH_REFUSAL:
            return Reply(context.apply(refusal=code))
        if context.api_key != _OFFSET_FETCH:
            return Reply(RESPONSES[context.api_key](error_code=code))
        answer = context.apply()
        for group in answer.groups or [answer]:
            if whole:
                group.error_code, group.topics = code, []
            for topic in group.topics:
                for partition in topic.partitions:
                    partition.error_code, partition.committed_offset = code, -1
        return Reply(answer)

    return handler
