"""EndTxn, versions 0 to 5.

Behaviour: ends the transaction at once, including its markers, or returns a coordinator error (16, 48, 49,
51, 90 or before v2: 47). From v5 with transaction.version 2 or more, the epoch is bumped, and the response
has the next producer id and epoch; a repeated request gets the same response. Versions: 2 error 90; 3
flexible; 5 next id and epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer_messages import EndTxnResponse

from kproducer.testing.fakebroker.transaction_coordinator import (
    INVALID_PRODUCER_EPOCH,
    PRODUCER_FENCED,
    Producer,
)
from kproducer.testing.fakebroker.transaction_support import TRANSACTION

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext

_FENCED_SINCE = 2
_EPOCH_SINCE = 5


def handle(context: RequestContext) -> EndTxnResponse:
    message, version = context.message, context.api_version
    coordination = context.cluster.coordination
    code = coordination.refusal(context, TRANSACTION, message.transactional_id)
    response = EndTxnResponse(throttle_time_ms=context.broker.throttle_time_ms, error_code=code)
    if code:
        return response
    version_2 = version >= _EPOCH_SINCE and context.cluster.transaction_version >= 2
    code, producer = coordination.transactions.end(
        message.transactional_id,
        Producer(message.producer_id, message.producer_epoch),
        commit=message.committed,
        version_2=version_2,
    )
    if code == PRODUCER_FENCED and version < _FENCED_SINCE:
        code = INVALID_PRODUCER_EPOCH
    response.error_code = code
    if version_2:
        response.producer_id, response.producer_epoch = producer
    return response
