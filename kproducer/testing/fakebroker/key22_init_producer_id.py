"""InitProducerId, versions 0 to 6 (6 is not stable in Kafka, and not offered by default).

Behaviour: without a transactional id, returns a new producer id with epoch 0. With one, returns the next
epoch after aborting an open transaction, which causes one CONCURRENT_TRANSACTIONS (51) response; 90 if the id
and epoch in the request are not the current ones (before v4: 47); 50 for a timeout above the maximum; 16 if
the broker is not the coordinator. Versions: 2 flexible; 3 current id and epoch (KIP-360); 4 error 90; 6
two-phase commit (KIP-939): 53 if the cluster does not allow it, and 35 for a transaction to be kept, as in
Kafka 4.4.
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
_TWO_PHASE_COMMIT_SINCE = 6
_NOT_AUTHORIZED = 53
_UNSUPPORTED_VERSION = 35


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
    timeout_ms = message.transaction_timeout_ms
    if version >= _TWO_PHASE_COMMIT_SINCE:
        if message.enable2_pc and not context.cluster.two_phase_commit:
            response.error_code = _NOT_AUTHORIZED
        elif message.keep_prepared_txn:
            response.error_code = _UNSUPPORTED_VERSION
        if response.error_code:
            return response
        if message.enable2_pc:
            timeout_ms = coordination.transactions.max_timeout_ms
    current = Producer(-1, -1)
    if version >= _CURRENT_SINCE:
        current = Producer(message.producer_id, message.producer_epoch)
    code, producer = coordination.transactions.init_producer_id(message.transactional_id, timeout_ms, current)
    if code == PRODUCER_FENCED and version < _FENCED_SINCE:
        code = INVALID_PRODUCER_EPOCH
    response.error_code = code
    response.producer_id, response.producer_epoch = producer
    return response
