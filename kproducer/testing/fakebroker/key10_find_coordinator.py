"""FindCoordinator, versions 0 to 6.

Behaviour: returns the coordinator of the group (0) or transactional id (1): the first running broker, or the
one that a test set; 15 if that one is down. Share groups (2) are not simulated: 42. Versions: 1 key type;
3 flexible; 4 several keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer_messages import FindCoordinatorResponse
from kproducer_messages.find_coordinator_response import Coordinator

from kproducer.testing.fakebroker.transaction_support import COORDINATOR_NOT_AVAILABLE, GROUP, TRANSACTION

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext

INVALID_REQUEST = 42
_SEVERAL_SINCE = 4


def handle(context: RequestContext) -> FindCoordinatorResponse:
    message = context.message
    response = FindCoordinatorResponse(throttle_time_ms=context.broker.throttle_time_ms)
    if context.api_version >= _SEVERAL_SINCE:
        response.coordinators = [_find(context, message.key_type, key) for key in message.coordinator_keys]
        return response
    found = _find(context, message.key_type, message.key)
    response.error_code, response.error_message = found.error_code, found.error_message
    response.node_id, response.host, response.port = found.node_id, found.host, found.port
    return response


def _find(context: RequestContext, key_type: int, key: str) -> Coordinator:
    node_id = None
    if key_type in (GROUP, TRANSACTION):
        node_id = context.cluster.coordination.broker_id_for(key_type, key)
    if node_id is None:
        code = COORDINATOR_NOT_AVAILABLE if key_type in (GROUP, TRANSACTION) else INVALID_REQUEST
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
    host, port = context.cluster.brokers[node_id].advertised
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=0)
