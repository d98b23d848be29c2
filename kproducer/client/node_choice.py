"""Which node to ask when any will do (metadata, coordinators).

Source: ``NetworkClient.leastLoadedNode`` of Kafka; KAFKA-9181 and others for the order of preference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kproducer.client.cluster_connection_states import ClusterConnectionStates
from kproducer.types import Node


def choose_least_loaded(
    nodes: Sequence[Node],
    start: int,
    can_send: Callable[[str, int], bool],
    load_of: Callable[[str], int],
    states: ClusterConnectionStates,
    now_ms: int,
) -> Node | None:
    """The node best suited for a request now; None when every node is throttled, full or backing off.

    Ready nodes first, the fewer requests in flight the better; then one that is connecting; then, of those
    that may be connected to, the one whose last attempt is the longest ago, so that each gets its turn.

    Args:
        start: where to begin in ``nodes``; drawn at random, so that equal nodes share the work.
        can_send: (connection id, now) to whether a request may be sent at once.
        load_of: connection id to requests in flight.
    """
    ready: Node | None = None
    ready_load = 0
    preparing: Node | None = None
    connectable: Node | None = None
    oldest_attempt_ms = 0
    for node in (*nodes[start:], *nodes[:start]):
        node_id = str(node.id)
        if can_send(node_id, now_ms):
            load = load_of(node_id)
            if load == 0:
                return node
            if ready is None or load < ready_load:
                ready, ready_load = node, load
        elif states.is_preparing(node_id, now_ms):
            preparing = node
        elif states.can_connect(node_id, now_ms):
            attempt_ms = states.last_attempt_ms(node_id)
            if connectable is None or attempt_ms < oldest_attempt_ms:
                connectable, oldest_attempt_ms = node, attempt_ms
    return ready or preparing or connectable
