"""Plan: what happens in one simulation, as data that can be printed, shrunk and pasted into a test."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

PRODUCE, METADATA = 0, 3
#: Of plans that a seed decides, at least.
RECORDS = 40


# -- what callers do -----------------------------------------------------------------------------------


@attrs.frozen
class Send:
    """Send records.

    Attributes:
        topic: their topic.
        partition: their partition; ``None`` leaves it to the partitioner.
        count: how many, one after the other or in one call.
        size: of each value, in bytes, at least.
        by: "send", "send_many" or "send_arrow"; with asyncio also "submit".
        waits: wait for the outcome of all of them.
        is_keyed: they have keys, of which partitions depend that are not given. Not with "send_arrow".
        on_delivery: what the last record's callback does besides: "raise", or call a method of the producer:
            "close", "flush", "purge", "send", or "send unknown", to a topic that does not exist; empty:
            nothing. Of "send" and "submit" only.
    """

    topic: str = "t"
    partition: int | None = 0
    count: int = 1
    size: int = 0
    by: str = "send"
    waits: bool = False
    is_keyed: bool = False
    on_delivery: str = ""


@attrs.frozen
class Flush:
    """Flush; the timeout is in seconds."""

    timeout: float | None = None


@attrs.frozen
class Purge:
    """Give up what is not acknowledged."""

    in_queue: bool = True
    in_flight: bool = True


@attrs.frozen
class Sleep:
    """Do nothing for some seconds."""

    seconds: float


@attrs.frozen
class Close:
    """Close the producer; the timeout is in seconds."""

    timeout: float | None = None


@attrs.frozen
class Ask:
    """Ask for what the producer knows: ``partitions_for``, ``metrics`` and ``health``."""

    topic: str = "t"


@attrs.frozen
class Transaction:
    """Begin a transaction, do something, and commit or abort it, as an application does that retries.

    Attributes:
        steps: within it.
        commits: else it is aborted.
        with_offsets: also commit an offset of a consumer group.
        timeout: of each transactional call, in seconds; ``None``: ``max_block_ms``.
        prepared_for: prepare it first, and end it "here", or with "another" producer; empty: do not.
        uses_block: begin and end it with a ``with`` block, which has no timeouts of its own.
        renames: afterwards continue under the same transactional id as after ``change_transactional_id``.
    """

    steps: tuple[Send | Flush | Purge | Sleep, ...]
    commits: bool = True
    with_offsets: bool = False
    timeout: float | None = None
    prepared_for: str = ""
    uses_block: bool = False
    renames: bool = False


@attrs.frozen
class Cancelled:
    """Do something in a task, which is cancelled after some seconds. With asyncio only.

    Attributes:
        steps: of the task.
        seconds: until it is cancelled.
        is_beside: the caller goes on meanwhile. Not if records are sent with "submit" or bulk calls: their
            order among those of the caller would not be known.
    """

    steps: tuple[Send | Flush | Purge | Sleep | Close | Transaction, ...]
    seconds: float
    is_beside: bool = False


Step: TypeAlias = Send | Flush | Purge | Sleep | Close | Ask | Transaction | Cancelled


@attrs.frozen
class Caller:
    """A thread, or an event loop, of the application."""

    steps: tuple[Step, ...]
    uses_asyncio: bool = False


# -- what goes wrong -----------------------------------------------------------------------------------


@attrs.frozen
class OnRequest:
    """A fault of one request.

    Attributes:
        kind: the name of a method of ``faults.RequestFaults``.
        api_key: which requests count.
        number: which of them, from 0, in all brokers.
        code: an error code, where the kind has one.
        seconds: a time, where the kind has one.
    """

    kind: str
    number: int
    api_key: int = PRODUCE
    code: int = 0
    seconds: float = 0.0


@attrs.frozen
class AtTime:
    """A fault of the cluster, the network or the machine.

    Attributes:
        kind: the name of a method of ``faults.ClusterFaults``.
        at_s: virtual seconds after the producer was created.
        broker_id: where the kind has one.
        topic, partition: where the kind has them.
        seconds: how long it lasts, or by how much.
    """

    kind: str
    at_s: float
    broker_id: int = 1
    topic: str = "t"
    partition: int = 0
    seconds: float = 0.0


Fault: TypeAlias = OnRequest | AtTime


@attrs.frozen
class Plan:
    """One simulation.

    Attributes:
        seed: decides the schedule, the network and every random choice of the producer.
        callers: what the application does.
        faults: what goes wrong.
        settings: of the producer.
        topics: number of partitions by name.
        brokers: how many.
        latency_ms: of the network, one way: (shortest, longest).
        partial_rate: how often a send or a read moves a part only.
        switch_rate: how often threads are interrupted where they could be.
        hand_overs: how often the lanes of the data plane hand everything back for no reason; ``None``: there
            are no lanes.
        callbacks_raise: delivery callbacks raise, after they have noted the outcome.
        interceptors_raise: an interceptor raises in each of its methods.
        session_s: SASL sessions end after this time; 0: no authentication.
        socket_bytes: how much a connection holds that was sent and not read, in each direction.
        logs_raise: a log handler raises.
        serializer: "raises" for some values, is "slow" for the first record of a topic, or empty: none.
        partitioner: "raises" for some values, returns "odd" numbers for some, or empty: the default one.
        host_names: brokers have names instead of addresses.
        transaction_version: the finalized feature of the brokers.
        versions: API key to the only versions that brokers offer; ``None``: not at all.
        epochs: how many epochs each producer id has.
        first_epoch: of idempotent producers.
        settling: how often brokers answer CONCURRENT_TRANSACTIONS after a transaction has ended.
    """

    seed: int
    callers: tuple[Caller, ...]
    faults: tuple[Fault, ...] = ()
    settings: dict[str, Any] = attrs.field(factory=dict)
    topics: dict[str, int] = attrs.field(factory=lambda: {"t": 1})
    brokers: int = 1
    latency_ms: tuple[float, float] = (0.05, 0.5)
    partial_rate: float = 0.05
    switch_rate: float = 0.05
    hand_overs: float | None = 0.0
    callbacks_raise: bool = False
    interceptors_raise: bool = False
    session_s: float = 0.0
    socket_bytes: int = 65_536
    logs_raise: bool = False
    serializer: str = ""
    partitioner: str = ""
    host_names: bool = False
    transaction_version: int = 2
    versions: dict[int, tuple[int, int] | None] = attrs.field(factory=dict)
    epochs: int = 32_767
    first_epoch: int = 0
    settling: int = 0

    def __str__(self) -> str:
        """Python source, without the fields that have their defaults."""
        return _source(self)


def record_count(plan: Plan) -> int:
    """How many records its callers send."""

    def count(step: Step) -> int:
        return step.count if isinstance(step, Send) else sum(map(count, getattr(step, "steps", ())))

    return sum(count(step) for caller in plan.callers for step in caller.steps)


def sources(value: Any) -> list[tuple[str, str]]:
    """(name, Python source) of each field that does not have its default."""
    shown = []
    for field in attrs.fields(type(value)):
        each = getattr(value, field.name)
        if each != default_of(field):
            shown.append((field.name, _source(each)))
    return shown


def default_of(field: attrs.Attribute[Any]) -> Any:
    """``attrs.NOTHING``: there is none."""
    return field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]


def _source(value: Any) -> str:
    if attrs.has(type(value)):
        return f"{type(value).__name__}({', '.join(f'{name}={text}' for name, text in sources(value))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_source, value))}{',' if len(value) == 1 else ''})"
    return repr(value)
