"""The scripts of tests: their handlers and delays, and what they make of each request and connection."""

from __future__ import annotations

from collections.abc import Callable

from kproducer.testing.fakebroker.actions import Action, Close, Control, Delay, Handler, RequestContext
from kproducer.testing.fakebroker.cluster_state import ClusterState
from kproducer.testing.fakebroker.model import BrokerState


class ScriptedCluster(ClusterState):
    """A cluster that decides what its brokers answer, but has no network."""

    def __init__(self, auto_create_partitions: int | None, cluster_id: str) -> None:
        super().__init__(auto_create_partitions, cluster_id)
        self._controls: list[Control] = []
        self._accept_handlers: list[Callable[[BrokerState, int], Action | None]] = []

    def control(
        self, api_key: int | None, handler: Handler, *, times: int | None = 1, broker_id: int | None = None
    ) -> Control:
        """Let ``handler`` decide about requests before the broker does.

        Args:
            api_key: the API; ``None`` for all.
            handler: called under the cluster's lock; returns an action, or ``None`` to pass the request on.
            times: number of requests that it may handle; ``None``: no limit.
            broker_id: only requests to this broker.

        Handlers are called in the order of their registration.
        """
        return self.add(Control(api_key, broker_id, times, handler))

    def add(self, control: Control) -> Control:
        """Register a handler, or a delay, which applies to what handlers decide, too. Delays add up."""
        with self.log.changed:
            self._controls.append(control)
        return control

    def remove_controls(self) -> None:
        """Remove all handlers and delays."""
        with self.log.changed:
            self._controls.clear()

    def control_accept(self, handler: Callable[[BrokerState, int], Action | None]) -> None:
        """Let ``handler(broker, connection id)`` decide about each new connection before anything is read."""
        with self.log.changed:
            self._accept_handlers.append(handler)

    # -- for connections (event loop) ------------------------------------------------------------------

    def decide(self, context: RequestContext) -> Action:
        with self.log.changed:
            try:
                connection_id, api_key = context.logged.connection_id, context.api_key
                if self.sasl and (violation := self.sasl.violation(connection_id, api_key)):
                    self.note_violation(f"{context.logged}: {violation}")
                    return Close()
                return self._choose(context)
            finally:
                self.log.changed.notify_all()

    def _choose(self, context: RequestContext) -> Action:
        action, delay_s = None, 0.0
        for control in list(self._controls):
            if not control.applies_to(context.api_key, context.broker.node_id):
                continue
            if control.handler is None:
                control.note_taken()
                delay_s += control.delay_s
            elif action is None and (action := control.handler(context)) is not None:
                control.note_taken()
        action = action or context.answer()
        return Delay(delay_s, action) if delay_s else action

    def call_handler(self, handler: Handler, context: RequestContext) -> Action | None:
        with self.log.changed:
            try:
                return handler(context)
            finally:
                self.log.changed.notify_all()

    def on_accept(self, broker: BrokerState, connection_id: int) -> Action | None:
        with self.log.changed:
            for handler in self._accept_handlers:
                if (action := handler(broker, connection_id)) is not None:
                    return action
            return None
