"""Waits for the outcomes of a task's records, and ends early if one has failed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kproducer.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from kproducer.kafka_producer import KafkaProducer

#: How often a wait is interrupted to look at the records that have an outcome.
LOOK_INTERVAL_S: Final = 1.0


def flush_for_a_while(producer: KafkaProducer) -> bool:
    """Flush, so that no record lingers, for a second at most. Returns whether that was enough."""
    with contextlib.suppress(KafkaTimeoutError):
        producer.flush(LOOK_INTERVAL_S)
        return True
    return False


def flush_and_look(producer: KafkaProducer, look: Callable[[], None]) -> None:
    """Flush completely. Calls ``look`` first, every second, and at the end; what it raises ends the wait."""
    is_flushed = False
    while not is_flushed:
        look()
        is_flushed = flush_for_a_while(producer)
    look()
