"""InitProducerId, versions 0 to 5.

Behaviour: without a transactional id, returns a new producer id with epoch 0. With one, returns the next
epoch after aborting an open transaction, which causes one CONCURRENT_TRANSACTIONS (51) response; 90 if the id
and epoch in the request are not the current ones (before v4: 47); 50 for a timeout above the maximum; 16 if
the broker is not the coordinator. Versions: 2 flexible; 3 current id and epoch (KIP-360); 4 error 90.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer_messages import InitProducerIdResponse

from kproducer.testing.fakebroker.transaction_coordinator import (
    INVALID_PRODUCER_EPOCH,
    PRODUCER_FENCED,
    Producer,
)
from kproducer.testing.fakebroker.transaction_support import TRANSACTION

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext

_CURRENT_SINCE = 3
_FENCED_SINCE = 4


def handle(context: RequestContext) -> InitProducerIdResponse:
    message, version = context.message, context.api_version
    coordination = context.cluster.coordination
    response = InitProducerIdResponse(
        throttle_time_ms=context.broker.throttle_time_ms, producer_id=-1, producer_epoch=-1
    )
    if message.transactional_id is not None:
        response.error_code = coordination.refusal(context, TRANSACTION, message.transactional_id)
        if response.error_code:
            return response
    current = Producer(-1, -1)
    if version >= _CURRENT_SINCE:
        current = Producer(message.producer_id, message.producer_epoch)
    code, producer = coordination.transactions.init_producer_id(
        message.transactional_id, message.transaction_timeout_ms, current
    )
    if code == PRODUCER_FENCED and version < _FENCED_SINCE:
        code = INVALID_PRODUCER_EPOCH
    response.error_code = code
    response.producer_id, response.producer_epoch = producer
    return response
