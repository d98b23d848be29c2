"""AddOffsetsToTxn, versions 0 to 4.

Behaviour: adds the group to the transaction, or returns a coordinator error (16, 49, 51, 90 or before v2:
47). Versions: 2 error 90; 3 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer_messages import AddOffsetsToTxnResponse

from kproducer.testing.fakebroker.transaction_coordinator import (
    INVALID_PRODUCER_EPOCH,
    PRODUCER_FENCED,
    Producer,
)
from kproducer.testing.fakebroker.transaction_support import TRANSACTION

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext

_FENCED_SINCE = 2


def handle(context: RequestContext) -> AddOffsetsToTxnResponse:
    message = context.message
    coordination = context.cluster.coordination
    code = coordination.refusal(context, TRANSACTION, message.transactional_id)
    if not code:
        producer = Producer(message.producer_id, message.producer_epoch)
        code = coordination.transactions.add(message.transactional_id, producer, groups=[message.group_id])
    if code == PRODUCER_FENCED and context.api_version < _FENCED_SINCE:
        code = INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(throttle_time_ms=context.broker.throttle_time_ms, error_code=code)
