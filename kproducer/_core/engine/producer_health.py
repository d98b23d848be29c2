"""ProducerHealth: what a probe or an operator asks of a producer, in one call that never waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from kproducer._core.client.node_connection import ConnectionState
from kproducer._core.runtime.public_names import public
from kproducer.errors import ProducerClosedError

if TYPE_CHECKING:
    from kproducer._core.engine.producer_engine import ProducerEngine


@public
@attrs.frozen(slots=True, kw_only=True)
class ProducerHealth:
    """The state of a producer at one moment. Immutable.

    Attributes:
        is_closed: ``close`` was called, or the I/O thread has ended.
        is_connected: a request could be sent to at least one broker.
        connected_brokers: the brokers with a connection that is ready: "host:port (id 1)".
        connection_error: why brokers cannot be reached, or what connections that are not ready yet wait for;
            ``None``: all is well, or nothing was tried yet. It may name one broker while another one works.
            Requests that a connected broker has not answered yet are no error.
        unacknowledged_batches: batches that are neither delivered nor failed.
        unacknowledged_records: the records in them.
        oldest_unacknowledged_ms: age of the oldest of them in ms; ``None``: there are none.
        last_error: the last error with which records failed; ``None``: none has failed.
        last_error_time_ms: when that was, in ms since the epoch; ``None``: never.
        metadata_age_ms: ms since the last full metadata update; ``None``: before the first.
        fatal_error: why this producer will never send again and has to be replaced; ``None``: it is usable,
            or was closed before it failed (``is_closed``).
        negotiated_versions: the version last used, by node id and name of the API.
    """

    is_closed: bool
    is_connected: bool = False
    connected_brokers: tuple[str, ...] = ()
    connection_error: str | None = None
    unacknowledged_batches: int = 0
    unacknowledged_records: int = 0
    oldest_unacknowledged_ms: int | None = None
    last_error: str | None = None
    last_error_time_ms: int | None = None
    metadata_age_ms: int | None = None
    fatal_error: str | None = None
    negotiated_versions: Mapping[int, Mapping[str, int]] = attrs.field(factory=dict)


def health_of(engine: ProducerEngine, is_closed: bool) -> ProducerHealth:
    """The health of a producer with this engine. Any thread; takes no lock."""
    now_ms = engine.clock.monotonic_ms()
    batches = engine.accumulator.incomplete_batches()
    failure = engine.sender.metrics.last_failure
    updated_ms = engine.metadata.last_successful_update_ms
    brokers = [] if engine.has_ended else engine.client.connections.brokers_in(ConnectionState.READY)
    return ProducerHealth(
        is_closed=is_closed or engine.has_ended,
        is_connected=bool(brokers),
        connected_brokers=tuple(brokers),
        connection_error=engine.last_errors(with_unanswered=False) or None,
        unacknowledged_batches=len(batches),
        unacknowledged_records=sum(batch.record_count for batch in batches),
        oldest_unacknowledged_ms=max((now_ms - batch.created_ms for batch in batches), default=None),
        last_error=None if failure is None else f"{type(failure[0]).__name__}: {failure[0]}",
        last_error_time_ms=None if failure is None else failure[1],
        metadata_age_ms=None if updated_ms is None else now_ms - updated_ms,
        fatal_error=_fatal_error(engine),
        negotiated_versions={
            node_id: {api.name: version for api, version in of_node.items()}
            for node_id, of_node in engine.client.negotiated_versions().items()
        },
    )


def _fatal_error(engine: ProducerEngine) -> str | None:
    if engine.client.bootstrap_error is not None:
        return str(engine.client.bootstrap_error)
    if engine.transaction_manager is None:
        return None
    from kproducer._core.transactions.transaction_state import TransactionState

    state_machine = engine.transaction_manager.state_machine
    if (
        state_machine.state is not TransactionState.FATAL_ERROR
        or type(state_machine.cause) is ProducerClosedError
    ):
        return None  # is_closed says so
    return str(state_machine.cause)
