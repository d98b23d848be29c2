"""Common handlers for ``FakeCluster.control``.

Each function creates a handler without state of its own. "Before" means that the broker does not
process the request; "after" means that it does, and only the response is lost or wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
from kproducer_messages import (
    RESPONSES,
    add_partitions_to_txn_response,
    find_coordinator_response,
    txn_offset_commit_response,
)

from kproducer.testing.fakebroker.actions import Action, Close, Gate, Handler, Hold, Reply, Silence, Stall
from kproducer.testing.fakebroker.connection import RequestContext
from kproducer.testing.fakebroker.key00_produce import RECORD_ERRORS_SINCE, Refusal

_OFFSET_FETCH, _FIND_COORDINATOR, _INIT_PRODUCER_ID, _ADD_PARTITIONS, _TXN_OFFSET_COMMIT = 9, 10, 22, 24, 28


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
    refusal = Refusal(code, message, record_errors)

    def handler(context: RequestContext) -> Action | None:
        if partition is not None and partition not in named_partitions(context):
            return None
        return context.answer(
            refuse=lambda name, index: refusal if partition in (None, (name, index)) else None
        )

    return handler


@attrs.frozen
class Forgery:
    """A false response for one partition of a Produce request.

    Attributes:
        code: the error code to return.
        appended: process the batch normally and falsify only the response; otherwise the batch is dropped.
        message: the broker's error message, v8 and later.
    """

    code: int
    appended: bool = False
    message: str | None = None


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

        def refuse(name: str, index: int) -> Refusal | None:
            forgery = forged.get((name, index))
            return None if forgery is None or forgery.appended else Refusal(forgery.code, forgery.message)

        answer = context.answer(refuse=refuse)
        if isinstance(answer, Reply) and answer.message is not None:
            entries = [entry for topic in answer.message.responses for entry in topic.partition_responses]
            for place, entry in zip(named_partitions(context), entries, strict=True):
                if place in forged and forged[place].appended:
                    entry.error_code, entry.base_offset = forged[place].code, -1
                    if context.api_version >= RECORD_ERRORS_SINCE:
                        entry.error_message = forged[place].message
        return answer

    return handler


def append_and_refuse(
    code: int, message: str | None = None, *, partition: tuple[str, int] | None = None
) -> Handler:
    """Append, and return an error for all partitions or for one of them."""
    forgery = Forgery(code, True, message)
    return forge_produce(lambda *place: forgery if partition in (None, place) else None)


def in_turn(handlers: Iterable[Handler | None]) -> Handler:
    """Pass each request to the next of ``handlers``; ``None`` and the end of the list pass it on.

    A list is a script. For random faults from a seed, use a generator:
    ``in_turn(rng.choice(choices) for _ in itertools.count())``.
    """
    remaining = iter(handlers)

    def handler(context: RequestContext) -> Action | None:
        chosen = next(remaining, None)
        return None if chosen is None else chosen(context)

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
    """Apply and answer after the gate opens."""
    return lambda context: Hold(gate, lambda held: held.answer())


def hold_after(gate: Gate) -> Handler:
    """Apply at once; answer after the gate opens."""
    return lambda context: Hold(gate, context.answer())


def wrong_correlation_id(shift: int = 1000) -> Handler:
    """Apply, and answer with the correlation id of another request."""

    def handler(context: RequestContext) -> Action:
        answer = context.answer()
        if not isinstance(answer, Reply):
            return answer
        return attrs.evolve(answer, correlation_id=context.logged.correlation_id + shift)

    return handler


def fragmented(size: int = 1) -> Handler:
    """Answer correctly, in pieces of ``size`` bytes."""

    def handler(context: RequestContext) -> Action:
        answer = context.answer()
        return attrs.evolve(answer, fragment_bytes=size) if isinstance(answer, Reply) else answer

    return handler


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
        message, key = context.message, context.api_key
        answer = RESPONSES[key](throttle_time_ms=context.broker.throttle_time_ms)
        if key == _FIND_COORDINATOR and context.api_version >= 4:
            found = find_coordinator_response.Coordinator
            answer.coordinators = [
                found(key=name, node_id=-1, host="", port=-1, error_code=code)
                for name in message.coordinator_keys
            ]
        elif key == _OFFSET_FETCH:
            answer = context.apply()
            for group in answer.groups or [answer]:
                if whole:
                    group.error_code, group.topics = code, []
                for topic in group.topics:
                    for partition in topic.partitions:
                        partition.error_code, partition.committed_offset = code, -1
        elif key == _ADD_PARTITIONS:
            of_added = add_partitions_to_txn_response.AddPartitionsToTxnTopicResult
            result = add_partitions_to_txn_response.AddPartitionsToTxnPartitionResult
            answer.results_by_topic_v3_and_below = [
                of_added(
                    name=topic.name,
                    results_by_partition=[
                        result(partition_index=index, partition_error_code=code) for index in topic.partitions
                    ],
                )
                for topic in message.v3_and_below_topics
            ]
        elif key == _TXN_OFFSET_COMMIT:
            of_topic = txn_offset_commit_response.TxnOffsetCommitResponseTopic
            of_partition = txn_offset_commit_response.TxnOffsetCommitResponsePartition
            for topic in message.topics:
                refused = [
                    of_partition(partition_index=asked.partition_index, error_code=code)
                    for asked in topic.partitions
                ]
                answer.topics.append(of_topic(name=topic.name, partitions=refused))
        else:
            answer.error_code = code
            if key == _INIT_PRODUCER_ID:
                answer.producer_id, answer.producer_epoch = -1, -1
        return Reply(answer)

    return handler
