"""CoordinatorLink: the one way to talk to a coordinator.

A ``CoordinatorTask`` says which requests are due and processes the responses, without sockets and without a
clock. ``CoordinatorLink`` sends the requests once their brokers are connected. ``KnownCoordinators`` caches
which broker coordinates what, and ``CoordinatorRequestQueue`` keeps the one request that a transactional
producer has under way, with its retries and the look-up before it.
Source: Kafka's ``Sender.maybeSendAndPollTransactionalRequest`` and ``TransactionManager`` (pendingRequests,
lookupCoordinator).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kproducer.errors import AuthenticationError, DisconnectedError, KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.runtime.clock import NEVER_MS, Clock, ExponentialBackoff
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.transactions.coordinator_requests import Coordinator, CoordinatorRequest, FindCoordinator
from kproducer.types import Node

if TYPE_CHECKING:
    from kproducer.client.client_request import ClientResponse
    from kproducer.client.network_client import NetworkClient

_log = GuardedLogger(__name__)

#: No broker is reachable: metadata, which looks for one, has its own backoff.
_NO_NODE_DELAY_MS: Final = 50
#: A producer that changes its transactional id regularly meets more and more coordinators.
_MOST_COORDINATORS: Final = 10_000
_MOST_DOUBLINGS: Final = 16


class Addressed(NamedTuple):
    """A request and the broker it goes to; ``None``: any broker."""

    request: Any
    node: Node | None


class CoordinatorTask(Protocol):
    """Something that needs answers from coordinators. Every request ends in ``handle`` or ``unreachable``."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left to be asked."""

    @property
    def waits_for(self) -> str:
        """The request that it waits for and the last failure, for error messages; empty after the end."""

    def next_requests(self, now_ms: int) -> Sequence[Addressed]:
        """The requests that are due now and were not returned before."""

    def delay_ms(self, now_ms: int) -> int:
        """When requests that ``next_requests`` held back become due; about ``NEVER_MS`` if there are none."""

    def handle(self, request: Any, response: ClientResponse, now_ms: int) -> None:
        """A request has ended: with a response, or with a failure that ``transport_failure`` explains."""

    def unreachable(self, request: Any, now_ms: int) -> None:
        """The request was not sent, because its broker could not be connected to."""

    def internal_error(self, bug: Exception) -> None:
        """Our own code has failed with one of the task's requests. May raise ``bug``."""


class TransportFailure(NamedTuple):
    """Why a request has no response.

    Attributes:
        error: says why.
        may_retry: whether sending it again, perhaps to another broker, may succeed.
    """

    error: KafkaError
    may_retry: bool


def transport_failure(request: Any, response: ClientResponse) -> TransportFailure:
    """For a ``ClientResponse`` without a body."""
    if isinstance(response.error, (UnsupportedVersionError, AuthenticationError)):
        return TransportFailure(response.error, False)
    if response.disconnected:
        return TransportFailure(response.error or DisconnectedError(f"{request}: disconnected"), True)
    return TransportFailure(response.error or KafkaError(f"{request}: no response, reason unknown"), False)


class CoordinatorLink:
    """Sends the requests of one task. Not thread-safe: the I/O thread, or the thread that uses a session.

    Args:
        task: makes the requests.
        client: the connections.
        clock: for the time of responses.

    Attributes:
        task: as given.
    """

    def __init__(self, task: CoordinatorTask, client: NetworkClient, clock: Clock) -> None:
        self.task = task
        self._client = client
        self._clock = clock
        #: Requests whose brokers are being connected to, or cannot take another request at present.
        self._held: list[Addressed] = []

    def step(self, now_ms: int) -> int:
        """Send the requests that are due, as far as their brokers can take them.

        Returns:
            Milliseconds until the next step; responses end the poll sooner.
        """
        try:
            due = self.task.next_requests(now_ms)
            delay_ms = self.task.delay_ms(now_ms)
            if self._held:
                due, self._held = [*self._held, *due], []
            for addressed in due:
                delay_ms = min(delay_ms, self._try_to_send(addressed, now_ms))
        except Exception as bug:
            self._note_bug(bug)
            return 0
        return delay_ms

    def _try_to_send(self, addressed: Addressed, now_ms: int) -> int:
        """Send the request or hold it. Returns the milliseconds until the next step."""
        client, request = self._client, addressed.request
        node = addressed.node or client.least_loaded_node(now_ms)
        if node is None:
            self._held.append(addressed)
            return _NO_NODE_DELAY_MS
        if client.ready(node, now_ms):
            self._send(request, node, now_ms)
            return NEVER_MS
        if client.connection_failed(node):
            self.task.unreachable(request, now_ms)
            return 0
        # Connecting, or full: the next event of the connection ends the poll.
        self._held.append(addressed)
        return max(1, client.poll_delay_ms(node, now_ms))

    def _send(self, request: Any, node: Node, now_ms: int) -> None:
        def on_complete(response: ClientResponse) -> None:
            try:
                self.task.handle(request, response, self._clock.monotonic_ms())
            except Exception as bug:
                self._note_bug(bug)

        self._client.send(node.id, request, now_ms, on_complete)

    def _note_bug(self, bug: Exception) -> None:
        """Without this, the task would wait for a request that was never sent, or repeat it for ever."""
        self.task.internal_error(bug)
        _log.error("Internal error with a request to a coordinator", exc_info=bug)


class Attempts:
    """How often something failed in a row, and when it may be tried again."""

    __slots__ = ("_backoff", "failures", "not_before_ms")

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self.succeeded()

    def succeeded(self) -> None:
        """Count from 0 again."""
        self.failures = 0
        self.not_before_ms = 0

    def failed(self, now_ms: int, longest_ms: int | None = None, first_ms: int | None = None) -> None:
        """Pause for longer than the last time.

        Args:
            now_ms: monotonic.
            longest_ms: upper limit of every pause.
            first_ms: upper limit of the first pause, which doubles with each failure: for conditions that
                are over soon.
        """
        pause_ms = self._backoff.backoff_ms(self.failures)
        if longest_ms is not None:
            pause_ms = min(pause_ms, longest_ms)
        if first_ms is not None:
            pause_ms = min(pause_ms, first_ms << min(self.failures, _MOST_DOUBLINGS))
        self.not_before_ms = now_ms + pause_ms
        self.failures += 1


class KnownCoordinators:
    """Which broker coordinates what, as far as is known. The oldest entries are dropped.

    Entries may be out of date: a broker that is no longer the coordinator answers NOT_COORDINATOR. Used by
    one thread at a time, like the link.
    """

    def __init__(self) -> None:
        self._nodes: dict[Coordinator, Node] = {}

    def __contains__(self, coordinator: Coordinator) -> bool:
        return coordinator in self._nodes

    def get(self, coordinator: Coordinator) -> Node | None:
        """The broker; ``None``: it has to be looked up."""
        return self._nodes.get(coordinator)

    def found(self, coordinator: Coordinator, node: Node) -> None:
        """FindCoordinator was answered."""
        self._nodes[coordinator] = node
        if len(self._nodes) > _MOST_COORDINATORS:
            del self._nodes[next(iter(self._nodes))]

    def forget(self, coordinator: Coordinator) -> None:
        """The broker is not the coordinator, or does not answer."""
        self._nodes.pop(coordinator, None)


class Wanted(NamedTuple):
    """The request that a task's state calls for.

    Attributes:
        key: equal as long as the same thing is wanted.
        make: builds the request; called once for a key.
    """

    key: Hashable
    make: Callable[[], CoordinatorRequest]


class CoordinatorRequestQueue:
    """Sends one request at a time: the wanted one, repeated after a pause, and the look-up before it.

    The task says each time what it wants, so a request that the state no longer calls for is not repeated.
    Guarded by the lock of ``TransactionManager``.

    Args:
        backoff: pauses between attempts.
        known: which brokers coordinate; may be shared on one thread.

    Attributes:
        in_flight: the request that has not ended yet.
        held_back_until_ms: when the request is due that the last ``next_request`` held back; ``NEVER_MS``:
            there is none.
        last_failure: why the last attempt has to be repeated; empty after a success.
    """

    def __init__(self, backoff: ExponentialBackoff, known: KnownCoordinators | None = None) -> None:
        self._known = known if known is not None else KnownCoordinators()
        self._key: Hashable = None
        self._request: CoordinatorRequest | None = None
        self._request_attempts = Attempts(backoff)
        self._lookup_attempts = Attempts(backoff)
        self.held_back_until_ms = NEVER_MS
        self.in_flight: CoordinatorRequest | None = None
        self.last_failure = ""

    def next_request(self, wanted: Wanted | None, now_ms: int) -> Addressed | None:
        """The request to send now: the wanted one, or the look-up that it needs first. None is in flight."""
        self.held_back_until_ms = NEVER_MS
        if wanted is None:
            return None
        if self._request is None or wanted.key != self._key:
            self.done()
            self._key, self._request = wanted.key, wanted.make()
            self._request_attempts.succeeded()
        request = self._first_step(self._request)
        attempts = self._request_attempts if request is self._request else self._lookup_attempts
        if now_ms < attempts.not_before_ms:
            self.held_back_until_ms = attempts.not_before_ms
            return None
        self.in_flight = request
        return Addressed(request, self.node_for(request))

    def node_for(self, request: CoordinatorRequest) -> Node | None:
        """Where to send it; ``None``: to any broker."""
        return None if request.coordinator is None else self._known.get(request.coordinator)

    def _first_step(self, request: CoordinatorRequest) -> CoordinatorRequest:
        """The request itself, or the look-up that it needs first."""
        coordinator = request.coordinator
        return request if coordinator is None or coordinator in self._known else FindCoordinator(coordinator)

    def request_completed(self) -> None:
        """The request in flight has ended, successfully or not."""
        self.in_flight = None

    def found(self, coordinator: Coordinator, node: Node) -> None:
        """FindCoordinator was answered."""
        self._known.found(coordinator, node)
        self._lookup_attempts.succeeded()

    def lookup_failed(self, now_ms: int) -> None:
        """FindCoordinator has to be repeated after a pause."""
        self._lookup_attempts.failed(now_ms)

    def retry(
        self, now_ms: int, *, relocate: bool, longest_ms: int | None = None, first_ms: int | None = None
    ) -> None:
        """The request has to be repeated after a pause; see ``Attempts.failed``.

        Args:
            now_ms: monotonic.
            relocate: look the coordinator up again before that.
            longest_ms, first_ms: limits of the pause.
        """
        if relocate and self._request is not None and self._request.coordinator is not None:
            self._known.forget(self._request.coordinator)
        self._request_attempts.failed(now_ms, longest_ms, first_ms)

    def start_over(self) -> None:
        """Forget the wanted request and all failures: what follows has nothing to do with them."""
        self.done()
        self._request_attempts.succeeded()
        self._lookup_attempts.succeeded()

    def done(self) -> None:
        """The wanted request has succeeded: if the same is wanted again, it is a new request."""
        self._key = self._request = None
        self.last_failure = ""

    def __str__(self) -> str:
        """The request that is waited for, and the last failure; empty if there is none."""
        request = self.in_flight or self._request
        if request is None:
            return ""
        request = self._first_step(request)
        node = self.node_for(request)
        return (
            f"waiting for {request}"
            + (f", broker {node}" if node is not None else "")
            + (f"; the last attempt failed with {self.last_failure}" if self.last_failure else "")
        )
