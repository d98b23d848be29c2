"""The driver of ``PendingSend`` for a thread: it waits for what a record needs, up to ``max_block_ms``."""

from __future__ import annotations

from typing import Any

from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer._core.sending.admission import Admission, PendingSend
from kproducer._core.sending.needs import Need


def send(admission: Admission, *arguments: Any, is_told: bool = True) -> FutureRecordMetadata:
    """Accept a record: the arguments of ``KafkaProducer.send``, all of them. Raises as that.

    ``is_told``: see ``finish``.
    """
    admitted = admission.admit(*arguments)
    return finish(admitted, is_told) if isinstance(admitted, PendingSend) else admitted


def finish(pending: PendingSend, is_told: bool = True) -> FutureRecordMetadata:
    """Accept the record. All waits together last ``max_block_ms`` at most.

    Args:
        is_told: if the record is refused, the interceptors and the transaction get to know.

    Raises:
        KafkaError: not accepted.
    """
    left_ms: float | None = None
    try:
        while isinstance(advanced := pending.advance(), Need):
            topics = pending.admission.topics
            left_ms = topics.config.max_block_ms if left_ms is None else left_ms
            started_ms = topics.clock.monotonic_ms()
            advanced.wait(left_ms)
            left_ms = max(left_ms - (topics.clock.monotonic_ms() - started_ms), 0)
        return advanced
    except BaseException as error:
        pending.release()
        if is_told:
            pending.refuse(error)
        raise
