"""CoordinatorSession: ends transactions of other producers, fences them, and reads committed offsets.

For a process that coordinates producers in other processes, such as the driver of a distributed write. Calls
block, and there is no thread: between calls nothing happens. One network client carries the requests for many
transactional ids and groups at once; each transactional id has a ``TransactionManager``, as in a producer.
Source: KIP-98, KIP-447, KIP-890; Kafka's ``Admin`` (fenceProducers, listConsumerGroupOffsets) with its
``ListConsumerGroupOffsetsHandler`` and ``CoordinatorStrategy``, and ``KafkaAdminClient``, whose loop has a
thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kproducer._core.client.client_request import ClientResponse
from kproducer._core.client.metadata import Metadata
from kproducer._core.client.network_client import new_network_client
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.arguments import checked_timeout_s
from kproducer._core.runtime.clock import NEVER_MS, ExponentialBackoff, SystemClock
from kproducer._core.transactions.coordinator_link import (
    CoordinatorCache,
    CoordinatorLink,
    CoordinatorTask,
    transport_failure,
)
from kproducer._core.transactions.coordinator_requests import (
    FindCoordinator,
    OffsetFetch,
    Reaction,
    transaction_version,
)
from kproducer._core.transactions.transaction_arguments import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
    checked_group,
    checked_offsets,
)
from kproducer._core.transactions.transaction_manager import TransactionManager
from kproducer._core.transactions.transaction_state import PendingOperation, TransactionState
from kproducer._core.transactions.transaction_state_machine import ProducerHooks, TransactionStateMachine
from kproducer.errors import (
    AbortTransactionError,
    BrokerError,
    FatalProducerError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    KafkaTimeoutError,
)
from kproducer.errors.broker_errors import UnsupportedVersionError, error_for_code
from kproducer.types import TopicPartition

#: Requests to coordinators are small, and their order does not matter for different ids.
_MOST_IN_FLIGHT: Final = 100

_TOPIC_CODE, _GROUP_CODE, _CLUSTER_CODE, _TRANSACTIONAL_ID_CODE = 29, 30, 31, 53
#: By error code: the permissions that writes need, as in Kafka's documentation of ACLs.
_NEEDED_TO_WRITE: Final = {
    _TOPIC_CODE: "Read on the topic",
    _GROUP_CODE: "Read on the group",
    _CLUSTER_CODE: "IdempotentWrite on the cluster",
    _TRANSACTIONAL_ID_CODE: "Write and Describe on the transactional id",
}
_NEEDED_TO_READ: Final = {_TOPIC_CODE: "Describe on the topic", _GROUP_CODE: "Describe on the group"}

_Request = FindCoordinator | OffsetFetch


class CommittedOffset(CoordinatorTask):
    """Asks what a group has committed for one partition.

    It asks again if the coordinator moved, is loading, or waits for the end of a transaction.

    Args:
        question: names the group and the partition.
        known, backoff: see ``CoordinatorTask``.

    Attributes:
        position: what was committed, once the task has ended; ``None``: nothing.
        error: why there will be no answer.
    """

    def __init__(self, question: OffsetFetch, known: CoordinatorCache, backoff: ExponentialBackoff) -> None:
        super().__init__(known, backoff)
        self._request = self._question = question
        self.position: OffsetAndMetadata | None = None
        self.error: KafkaError | None = None
        self._is_answered = False

    @property
    def subject(self) -> str:
        """What is asked, for errors."""
        return f"offset of {self._question.topic_partition} in group {self._question.group!r}"

    @property
    def has_ended(self) -> bool:
        """Whether there is an answer or an error."""
        return self._is_answered or self.error is not None

    def _choose_next_request(self) -> OffsetFetch | None:
        return None if self.has_ended else self._question

    def handle(self, request: _Request, response: ClientResponse, now_ms: int) -> None:
        """Note the answer, or ask again where that may help."""
        self._in_flight = None
        if response.body is None:
            error, may_retry = transport_failure(request, response)
            if response.unsupported_version is not None and isinstance(request, OffsetFetch):
                error = UnsupportedVersionError(
                    "brokers before 2.5 cannot tell whether a committed offset is stable, or may still be "
                    f"changed by an open transaction: {error}"
                )
            if may_retry:
                self._repeat(request, str(error), now_ms)
            else:
                self.error = error
            return
        ((code, value, message),) = request.parse(response.body).values()
        reaction = request.reaction_to(code)
        if reaction is not Reaction.DONE:
            error = error_for_code(code, message, self.subject)
            if reaction <= Reaction.RELOCATE:
                self._repeat(request, str(error), now_ms, code)
            else:
                self.error = error
        elif isinstance(request, FindCoordinator):
            self._found(request.wanted, value)
        else:
            self.position = value
            self._is_answered = True

    def unreachable(self, request: _Request, now_ms: int, refusal: KafkaError | None = None) -> None:
        """Look the coordinator up again: another broker may be it now."""
        super().unreachable(request, now_ms)
        self.error = refusal


class CoordinatorSession:
    """Sends requests to coordinators on behalf of other producers. Not thread-safe: one thread at a time.

    Args:
        config: servers, timeouts, backoffs; ``transaction_timeout_ms`` goes into InitProducerId. Its
            ``transactional_id`` is not used.

    Every call takes ``timeout_s``, in seconds, and returns soon after that at the latest. Until then, brokers
    that are down and coordinators that moved, are loading or are busy are tried again. The KafkaTimeoutError
    names the request, the broker and its last error. After a timeout the same call may be repeated.

    All calls may raise AuthorizationError, which names the missing permission, AuthenticationError,
    UnsupportedVersionError if brokers are too old, and IllegalStateError if the session is closed.
    """

    def __init__(self, config: ProducerConfig) -> None:
        # The limit of requests in flight is for sequence numbers, which a session does not have.
        self._config = config = config.evolve(
            client_id=config.client_id or "kproducer-coordinators",
            transactional_id="",
            enable_idempotence=False,
            transaction_two_phase_commit_enable=False,
            max_in_flight_requests_per_connection=_MOST_IN_FLIGHT,
            metadata_max_idle_ms=NEVER_MS,
        )
        self._clock = SystemClock()
        self._metadata = Metadata(config)
        self._client = new_network_client(config, self._metadata, self._clock)
        self._known = CoordinatorCache()
        #: The transactional ids that this session has fenced and is the producer of. Ids whose last step
        #: failed or timed out are removed.
        self._fenced: dict[str, TransactionManager] = {}
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    def name_topics(self, topics: Iterable[str]) -> None:
        """Name the topics of later offsets: brokers refuse offsets of topics that do not exist.

        The next call requests their metadata, and brokers with ``auto.create.topics.enable`` create them.
        """
        for topic in topics:
            self._metadata.add(topic, self._clock.monotonic_ms())

    def fence(self, transactional_ids: Iterable[str], timeout_s: float) -> None:
        """Fence the producers with these ids. Their open transactions are aborted.

        When it returns, these transactions have ended completely: offsets that were committed are readable.
        From then on this session is the producer of these ids, see ``write_offsets``.

        Raises:
            KafkaTimeoutError: not all were fenced in time; some may be.
            AuthorizationError: an id lacks Write and Describe. The other ids were fenced.
        """
        ids = list(dict.fromkeys(transactional_ids))
        deadline_ms = self._deadline_ms("fence", timeout_s)
        for each in ids:
            self._fenced.pop(each, None)
        steps = [(each, each.state_machine.begin_initialize()) for each in self._managers_of(ids)]
        errors = self._run("fence", steps, deadline_ms, timeout_s)
        for transactional_id, (manager, _), error in zip(ids, steps, errors, strict=True):
            if error is None:
                self._fenced[transactional_id] = manager
        _raise_first([error for error in errors if error is not None])

    def release_fenced_ids(self) -> None:
        """Stop being the producer of the fenced ids, so that they need not be kept. Sends no request."""
        self._fenced.clear()

    def write_offsets(
        self,
        transactional_id: str,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout_s: float,
    ) -> None:
        """Commit offsets of a group in a transaction of their own, with an id that ``fence`` was called for.

        When it returns, they are committed. If the response to the commit was lost, the error says that they
        may be committed; after another ``fence`` they can be read. Any other error means that they are not
        and will not be.

        Raises:
            FencedError: another producer uses the id.
            IllegalStateError: ``fence`` has to be called first, or again since the last call failed.
            KafkaTimeoutError: not done in time.
            AuthorizationError: id (Write), group (Read) or topic (Read) lacks a permission.
        """
        group_metadata = checked_group(ConsumerGroupMetadata(group))
        offsets = checked_offsets(offsets)
        deadline_ms = self._deadline_ms("write_offsets", timeout_s)
        manager = self._fenced.pop(transactional_id, None)
        if manager is None:
            raise IllegalStateError(f"write_offsets: fence {transactional_id!r} first, with this session")
        state_machine = manager.state_machine

        def run(operation: PendingOperation) -> KafkaError | None:
            steps = [(manager, operation)]
            return self._run("write_offsets", steps, deadline_ms, timeout_s, f", group {group!r}")[0]

        state_machine.begin_transaction()
        error = run(state_machine.send_offsets(offsets, group_metadata))
        if error is None:
            error = run(state_machine.begin_commit())
            if error is not None and state_machine.state is not TransactionState.ABORTABLE_ERROR:
                # For instance, the response to EndTxn was lost before a newer producer fenced this one.
                error.args = (f"{error} (the offsets may have been committed nevertheless)",)
        if state_machine.state is TransactionState.ABORTABLE_ERROR:
            # The offsets are not committed in any case; the abort is for the next transaction.
            run(state_machine.begin_abort())
        if state_machine.state is TransactionState.READY:
            self._fenced[transactional_id] = manager
        if error is not None:
            raise error

    def committed_offsets(
        self,
        groups: Iterable[str],
        topic_partition: TopicPartition,
        timeout_s: float,
        *,
        stable: bool = True,
    ) -> dict[str, OffsetAndMetadata | None]:
        """The offset that each group has committed for one partition; ``None``: none.

        Args:
            groups: names of the groups.
            topic_partition: the partition.
            timeout_s: seconds.
            stable: wait while an open transaction may still change the offset; else return the present one.

        Raises:
            KafkaTimeoutError: not all in time, for instance because a transaction stays open.
            AuthorizationError: a group (Describe) or the topic (Describe) lacks a permission.
            UnsupportedVersionError: brokers before 2.5 cannot tell whether offsets are stable.
        """
        names = list(dict.fromkeys(groups))
        deadline_ms = self._deadline_ms("committed_offsets", timeout_s)
        tasks = {
            name: CommittedOffset(OffsetFetch(name, topic_partition, stable), self._known, self._backoff)
            for name in names
        }
        self._drive(tasks.values(), deadline_ms)
        errors: list[KafkaError] = []
        for task in tasks.values():
            if task.error is not None:
                errors.append(_with_context(task.error, task.subject, _NEEDED_TO_READ))
            elif not task.has_ended:
                errors.append(
                    self._timeout("committed_offsets", f"{task.subject}: {task.waits_for}", timeout_s)
                )
        _raise_first(errors)
        return {name: task.position for name, task in tasks.items()}

    def end(
        self, prepared: Sequence[PreparedTransaction], commit: bool, timeout_s: float
    ) -> list[KafkaError | None]:
        """Commit or abort transactions that were handed over, all at once. May safely be repeated.

        Returns:
            For each, in order: ``None``: it is committed (aborted). Else the error that ``commit_prepared``
            of a ``KafkaProducer`` would raise: TransactionAbortedError, it was aborted; FencedError, its
            epoch is no longer valid; KafkaTimeoutError, not known yet, repeat the call; AuthorizationError,
            the id lacks Write or Describe; IllegalStateError, it should be aborted and was committed.
        """
        deadline_ms = self._deadline_ms("end", timeout_s)
        begin = TransactionStateMachine.begin_commit if commit else TransactionStateMachine.begin_abort
        managers = self._managers_of([each.transactional_id for each in prepared])
        steps = [
            (manager, begin(manager.state_machine.take_over(each, "end")))
            for manager, each in zip(managers, prepared, strict=True)
        ]
        return self._run("end", steps, deadline_ms, timeout_s)

    def close(self) -> None:
        """Close the connections. Idempotent; does not wait."""
        self._client.close()

    # -- parts of calls --------------------------------------------------------------------------------

    def _deadline_ms(self, call: str, timeout_s: float) -> int:
        checked_s = checked_timeout_s(call, timeout_s)
        if checked_s is None:
            raise InvalidArgumentError(f"{call}: timeout_s must be a number of seconds, not None")
        if not self._client.active:
            raise IllegalStateError(f"{call}: the session is closed")
        return self._clock.monotonic_ms() + int(checked_s * 1000)

    def _managers_of(self, transactional_ids: Sequence[str]) -> list[TransactionManager]:
        """A new manager for each id."""
        hooks = ProducerHooks(lambda: transaction_version(self._client.connections.versions()))
        return [TransactionManager(each, self._config, hooks, self._known) for each in transactional_ids]

    def _run(
        self,
        call: str,
        steps: Sequence[tuple[TransactionManager, PendingOperation]],
        deadline_ms: int,
        timeout_s: float,
        of_what: str = "",
    ) -> list[KafkaError | None]:
        """Wait for operations. Returns their errors, a timeout for those that are not done in time."""
        self._drive([manager.protocol for manager, _ in steps], deadline_ms)
        errors: list[KafkaError | None] = []
        for manager, operation in steps:
            subject = f"transactional id {manager.state_machine.transactional_id!r}{of_what}"
            error = operation.error
            if not operation.has_ended:
                error = self._timeout(call, f"{subject}: {manager.protocol.waits_for}", timeout_s)
            elif error is not None:
                error = _with_context(unwrap_cause(error), subject)
            manager.state_machine.acknowledge(operation)
            errors.append(error)
        return errors

    def _drive(self, tasks: Iterable[CoordinatorTask], deadline_ms: int) -> None:
        """Step until each task has ended, or until the (monotonic) deadline."""
        links = [CoordinatorLink(task, self._client, self._clock) for task in tasks]
        now_ms = self._clock.monotonic_ms()
        # This notices connections that were closed since the last call, before anything is sent on them.
        self._client.poll(0, now_ms)
        while now_ms < deadline_ms:
            delay_ms = min((link.step(now_ms) for link in links), default=NEVER_MS)
            # Some tasks need no request and end in their step.
            links = [link for link in links if not link.task.has_ended]
            if not links:
                return
            self._client.poll(min(delay_ms, deadline_ms - now_ms), now_ms)
            now_ms = self._clock.monotonic_ms()
            links = [link for link in links if not link.task.has_ended]

    def _timeout(self, call: str, waits_for: str, timeout_s: float) -> KafkaTimeoutError:
        failures = self._metadata.describe_failures(self._client.connections.last_errors())
        details = "; ".join(filter(None, (waits_for, failures)))
        return KafkaTimeoutError(f"{call}: not done within timeout_s={timeout_s} s: {details}")


def unwrap_cause(error: KafkaError) -> KafkaError:
    """The cause of an error that says what to do with a producer, for callers without a producer."""
    cause = error.__cause__
    if isinstance(error, (AbortTransactionError, FatalProducerError)) and isinstance(cause, KafkaError):
        return cause
    return error


def _with_context(
    error: KafkaError, subject: str, permissions: Mapping[int, str] = _NEEDED_TO_WRITE
) -> KafkaError:
    """A copy of the error that names its subject and, for AuthorizationError, the missing permission.

    Args:
        error: what failed.
        subject: "transactional id 'x'" or similar.
        permissions: by error code.
    """
    result = error.copy()
    needed = permissions.get(error.code) if isinstance(error, BrokerError) else None
    permission = f": needs the permission {needed}" if needed is not None else ""
    result.args = (f"{subject}{permission}: {error}",)
    return result


def _raise_first(errors: Sequence[KafkaError]) -> None:
    """Raise the most specific error: not a timeout if there is another."""
    if errors:
        first = next((error for error in errors if not isinstance(error, KafkaTimeoutError)), errors[0])
        if len(errors) > 1:
            first.args = (f"{first} (and {len(errors) - 1} more failed)",)
        raise first
