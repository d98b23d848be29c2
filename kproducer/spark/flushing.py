"""Waiting for the end of a task's records."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kproducer.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from kproducer.kafka_producer import KafkaProducer

#: How often a wait is interrupted to look at the records that have an outcome.
LOOK_INTERVAL_S: Final = 1.0


def flush_and_look(producer: KafkaProducer, look: Callable[[], None]) -> None:
    """Flush, so that no record lingers; before, every second, and afterwards look at the outcomes.

    Ends with the delivery timeout of the records at the latest. Raises what ``look`` raises, at once.
    """
    is_flushed = False
    while not is_flushed:
        look()
        with contextlib.suppress(KafkaTimeoutError):
            producer.flush(LOOK_INTERVAL_S)
            is_flushed = True
    look()
