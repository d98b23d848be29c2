"""FindCoordinator, versions 0 to 6.

Behaviour: returns the coordinator of the group (0) or transactional id (1): the first running broker, or the
one that a test set; 15 if that one is down. Share groups (2) are not simulated: 42. Versions: 1 key type;
3 flexible; 4 several keys.
"""

from __future__ import annotations

from kproducer_messages import FindCoordinatorResponse
from kproducer_messages.find_coordinator_response import Coordinator

from kproducer.testing.fakebroker.actions import RequestContext
from kproducer.testing.fakebroker.transaction_support import COORDINATOR_NOT_AVAILABLE, GROUP, TRANSACTION

INVALID_REQUEST = 42


def handle(context: RequestContext, refusal: int = 0) -> FindCoordinatorResponse:
    """``refusal`` is an error code that a test injects."""
    message = context.message
    if context.api_version >= 4:
        found = [_find(context, message.key_type, key, refusal) for key in message.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(context, message.key_type, message.key, refusal)
    return FindCoordinatorResponse(
        error_code=one.error_code, node_id=one.node_id, host=one.host, port=one.port
    )


def _find(context: RequestContext, key_type: int, key: str, code: int) -> Coordinator:
    node_id = None
    if key_type not in (GROUP, TRANSACTION):
        code = code or INVALID_REQUEST
    elif not code:
        node_id = context.cluster.coordination.broker_id_for(key_type, key)
    if node_id is None:
        code = code or COORDINATOR_NOT_AVAILABLE
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
    host, port = context.cluster.brokers[node_id].advertised
    return Coordinator(key=key, node_id=node_id, host=host, port=port)
