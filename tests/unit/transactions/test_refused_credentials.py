"""Coordinators that cannot be asked because a broker refuses the credentials."""

from __future__ import annotations

import pytest

from kproducer._core.runtime.clock import NEVER_MS
from kproducer._core.transactions.coordinator_link import CoordinatorLink
from kproducer._core.transactions.transaction_manager import TransactionManager
from kproducer._core.transactions.transaction_state import TransactionState
from kproducer._core.transactions.transaction_state_machine import ProducerHooks
from kproducer.errors import AuthenticationError, BootstrapResolutionError
from kproducer.types import Node
from tests.support.manual_clock import ManualClock
from tests.support.units.transaction_kit import CONFIG

NODE = Node(1, "b1", 9092)
ERROR = AuthenticationError("wrong password")


class RefusedClient:
    """A client whose brokers refuse; ``node`` is what it would ask."""

    bootstrap_error: BootstrapResolutionError | None = None

    def __init__(self, node: Node | None) -> None:
        self.node = node
        self.error: AuthenticationError | None = ERROR
        #: It is its own connections.
        self.connections = self

    def least_loaded(self, now_ms: int) -> Node | None:
        return self.node

    def ready(self, node: Node, now_ms: int) -> bool:
        return False

    def has_failed(self, node: Node) -> bool:
        return True

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        return NEVER_MS

    @property
    def refusals(self) -> dict[int, AuthenticationError]:
        return {} if self.error is None else {NODE.id: self.error}

    def refusal_by_all(self) -> AuthenticationError | None:
        return self.error


@pytest.mark.parametrize("node", [NODE, None])
def test_an_initialization_fails_at_once_and_may_be_repeated(node: Node | None) -> None:
    manager = TransactionManager("tx", CONFIG)
    client = RefusedClient(node)
    link = CoordinatorLink(manager.protocol, client, ManualClock())  # type: ignore[arg-type]
    for _ in range(2):
        operation = manager.state_machine.begin_initialize()
        link.step(0)
        assert operation.has_ended
        assert operation.error is ERROR
        assert manager.state_machine.state is TransactionState.UNINITIALIZED
        manager.state_machine.acknowledge(operation)


def test_a_broker_that_is_down_is_asked_again() -> None:
    manager = TransactionManager("tx", CONFIG)
    client = RefusedClient(NODE)
    client.error = None
    link = CoordinatorLink(manager.protocol, client, ManualClock())  # type: ignore[arg-type]
    operation = manager.state_machine.begin_initialize()
    link.step(0)
    assert not operation.has_ended


def test_an_idempotent_producer_goes_on_asking() -> None:
    manager = TransactionManager(None, CONFIG)
    manager.state_machine.hooks = ProducerHooks(has_incomplete=lambda: True)
    link = CoordinatorLink(manager.protocol, RefusedClient(NODE), ManualClock())  # type: ignore[arg-type]
    link.step(0)
    assert manager.state_machine.state is TransactionState.INITIALIZING


def test_names_that_were_not_resolved_in_time_end_the_producer() -> None:
    """There will never be a broker (KIP-909), so an initialization must not wait for one."""
    manager = TransactionManager("tx", CONFIG)
    client = RefusedClient(NODE)
    client.bootstrap_error = BootstrapResolutionError("no name could be resolved")
    operation = manager.state_machine.begin_initialize()
    CoordinatorLink(manager.protocol, client, ManualClock()).step(0)  # type: ignore[arg-type]
    assert operation.has_ended
    assert type(operation.error) is BootstrapResolutionError
    assert "no name could be resolved" in str(operation.error)
