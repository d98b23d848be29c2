"""RemoteProducer: a transactional id as a session sees it, its ``TransactionManager`` and one step of it."""

from __future__ import annotations

from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import KafkaError
from kproducer.transactions.coordinator_calls import KnownCoordinators
from kproducer.transactions.coordinator_link import CoordinatorLink
from kproducer.transactions.session_loop import SessionLoop
from kproducer.transactions.transaction_manager import TransactionManager
from kproducer.transactions.transaction_state import PendingOperation
from kproducer.transactions.transaction_version import transaction_version


class RemoteProducer:
    """An ``Errand`` for one step of the manager after the other. Not thread-safe.

    Args:
        transactional_id: whose.
        config: timeouts and backoffs.
        loop: its connections.
        known: which brokers coordinate.

    Attributes:
        transactional_id: as given.
        manager: begin steps here, and hand them to ``wait_for``.
    """

    def __init__(
        self, transactional_id: str, config: ProducerConfig, loop: SessionLoop, known: KnownCoordinators
    ) -> None:
        self.transactional_id = transactional_id
        self.manager = TransactionManager(
            transactional_id,
            config.transaction_timeout_ms,
            config.retry_backoff_ms,
            config.retry_backoff_max_ms,
            lambda: transaction_version(loop.client.api_versions),
            known=known,
        )
        self._link = CoordinatorLink(self.manager, loop.client, loop.clock, loop.request_timeout_ms)
        self._operation: PendingOperation | None = None

    def wait_for(self, operation: PendingOperation) -> RemoteProducer:
        """From now on the errand is this step. Returns itself."""
        self._operation = operation
        return self

    @property
    def has_ended(self) -> bool:
        """Whether the step has."""
        return self._operation is None or self._operation.has_ended

    @property
    def error(self) -> KafkaError | None:
        """Why it failed; ``None`` before it has ended, too."""
        return None if self._operation is None else self._operation.error

    def acknowledge(self) -> None:
        """The end of the step was seen: another one may begin."""
        if self._operation is not None:
            self.manager.acknowledge(self._operation)

    @property
    def waits_for(self) -> str:
        """What is asked of whom, in words."""
        return self.manager.waits_for

    def step(self, now_ms: int) -> int:
        """Send what is due."""
        return self._link.step(now_ms, has_incomplete=False)
