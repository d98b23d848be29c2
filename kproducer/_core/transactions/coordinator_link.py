"""CoordinatorLink: connects to coordinators and sends the requests of a CoordinatorTask.

A ``CoordinatorTask`` says which requests are due and processes the responses, without sockets and without a
clock; it derives them from its state, without a queue (docs/decisions/0026-derived-requests.md).
``CoordinatorLink`` sends the requests once their brokers are connected. ``Attempts`` counts failures, and
``CoordinatorCache`` caches which broker coordinates what.
Source: Kafka's ``Sender.maybeSendAndPollTransactionalRequest``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kproducer._core.runtime.clock import NEVER_MS, Clock, ExponentialBackoff
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.transactions.coordinator_requests import (
    Coordinator,
    CoordinatorRequest,
    FindCoordinator,
    Reaction,
)
from kproducer.errors import AuthenticationError, DisconnectedError, KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.types import Node

if TYPE_CHECKING:
    from kproducer._core.client.client_request import ClientResponse
    from kproducer._core.client.network_client import NetworkClient

_log = GuardedLogger(__name__)

#: No broker is reachable: metadata, which looks for one, has its own backoff.
_NO_NODE_DELAY_MS: Final = 50
#: A producer that changes its transactional id regularly meets more and more coordinators.
_MOST_COORDINATORS: Final = 10_000
_MOST_DOUBLINGS: Final = 16
#: The pause after the first of these error codes, which stand for conditions that take milliseconds:
#: CONCURRENT_TRANSACTIONS, while the last transaction is being ended; UNSTABLE_OFFSET_COMMIT, between the
#: response to a commit and its markers.
_FIRST_PAUSES_MS: Final = {51: 20, 88: 10}


class AddressedRequest(NamedTuple):
    """A request and the broker it goes to; ``None``: any broker."""

    request: Any
    node: Node | None


class Attempts:
    """How often something failed in a row, and when it may be tried again."""

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self.failures = 0
        self.not_before_ms = 0

    def succeeded(self) -> None:
        """Count from 0 again."""
        self.failures = 0
        self.not_before_ms = 0

    def failed(self, now_ms: int, first_ms: int | None = None) -> None:
        """Pause for longer than the last time.

        Args:
            now_ms: monotonic.
            first_ms: upper limit of the first pause, which doubles with each failure: for conditions that
                end soon.
        """
        pause_ms = self._backoff.backoff_ms(self.failures)
        if first_ms is not None:
            pause_ms = min(pause_ms, first_ms << min(self.failures, _MOST_DOUBLINGS))
        self.not_before_ms = now_ms + pause_ms
        self.failures += 1


class CoordinatorCache(dict[Coordinator, Node]):
    """Which broker coordinates what, as far as is known. The oldest entries are dropped.

    Entries may be out of date: a broker that is no longer the coordinator answers NOT_COORDINATOR. Used by
    one thread at a time, like the link.
    """

    def address(self, request: CoordinatorRequest) -> AddressedRequest:
        """The request and its broker, or the look-up of its coordinator, which has to come first."""
        coordinator = request.coordinator
        if coordinator is None or coordinator in self:
            return AddressedRequest(request, None if coordinator is None else self[coordinator])
        return AddressedRequest(FindCoordinator(coordinator), None)

    def found(self, coordinator: Coordinator, node: Node) -> None:
        """Remember the coordinator that a response to FindCoordinator names."""
        self[coordinator] = node
        if len(self) > _MOST_COORDINATORS:
            del self[next(iter(self))]


class CoordinatorTask:
    """Something that needs answers from coordinators: one request at a time, and the look-up before it.

    Subclasses say each time which request their state calls for, so a request that it no longer calls for is
    not repeated. Every request ends in ``handle`` or ``unreachable``.

    Args:
        known: which brokers coordinate; may be shared by tasks whose requests one thread sends.
        backoff: pauses between attempts.
    """

    def __init__(self, known: CoordinatorCache, backoff: ExponentialBackoff) -> None:
        self._known = known
        #: The request that was wanted last, until it has succeeded.
        self._request: CoordinatorRequest | None = None
        #: The request, or the look-up before it, that has not ended yet.
        self._in_flight: CoordinatorRequest | None = None
        self._attempts = Attempts(backoff)
        self._lookup_attempts = Attempts(backoff)
        self._last_failure = ""
        self._held_back_until_ms = NEVER_MS

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left to be requested."""
        raise NotImplementedError

    @property
    def waits_for(self) -> str:
        """The request that is waited for, its broker and its last failure; empty if there is none."""
        request = self._in_flight or self._request
        if request is None:
            return ""
        addressed, node = self._known.address(request)
        broker = "" if node is None else f", broker {node}"
        failure = self._last_failure and f"; the last attempt failed with {self._last_failure}"
        return f"waiting for {addressed}{broker}{failure}"

    def next_request(self, now_ms: int) -> AddressedRequest | None:
        """The request that is due now; ``None``: none is, or the last one has not ended yet."""
        if self._in_flight is not None:
            return None
        self._held_back_until_ms = NEVER_MS
        wanted = self._choose_next_request()
        if wanted is None:
            return None
        if wanted != self._request:
            self._forget_request()
            self._request = wanted
        addressed = self._known.address(wanted)
        attempts = self._attempts if addressed.request is wanted else self._lookup_attempts
        if now_ms < attempts.not_before_ms:
            self._held_back_until_ms = attempts.not_before_ms
            return None
        self._in_flight = addressed.request
        return addressed

    def delay_ms(self, now_ms: int) -> int:
        """Milliseconds until the request that ``next_request`` held back is due."""
        return max(0, self._held_back_until_ms - now_ms)

    def handle(self, request: Any, response: ClientResponse, now_ms: int) -> None:
        """A request has ended: with a response, or with a failure that ``transport_failure`` explains."""
        raise NotImplementedError

    def unreachable(self, request: Any, now_ms: int, refusal: KafkaError | None = None) -> None:
        """The request was not sent, because its broker could not be connected to.

        ``refusal``: the broker has refused the credentials.
        """
        self._in_flight = None
        broker = self._known.address(request).node or "any broker"
        self._repeat(request, f"no connection to {broker}", now_ms)

    def internal_error(self, bug: Exception) -> None:
        """Our own code has failed with one of the task's requests. What this raises ends the loop."""
        raise bug

    def _choose_next_request(self) -> CoordinatorRequest | None:
        """The request that the state calls for, if any."""
        raise NotImplementedError

    def _forget_request(self) -> None:
        """The request has succeeded, or another one is wanted: its failures do not count any more.

        Failed look-ups count until one succeeds: the next request mostly has the same coordinator.
        """
        self._request = None
        self._last_failure = ""
        self._attempts.succeeded()

    def _found(self, coordinator: Coordinator, node: Node) -> None:
        """A look-up has succeeded."""
        self._known.found(coordinator, node)
        self._lookup_attempts.succeeded()

    def _repeat(self, request: CoordinatorRequest, failure: str, now_ms: int, code: int = 0) -> None:
        """The request or look-up has failed, and is repeated after a pause.

        Args:
            request: the request.
            failure: for the text of a timeout.
            now_ms: monotonic.
            code: in the response; 0: there is none, so another broker may be the coordinator now.
        """
        self._last_failure = failure
        if isinstance(request, FindCoordinator):
            self._lookup_attempts.failed(now_ms)
            return
        self._attempts.failed(now_ms, _FIRST_PAUSES_MS.get(code))
        has_moved = not code or request.reaction_to(code) is Reaction.RELOCATE
        if has_moved and request.coordinator is not None:
            self._known.pop(request.coordinator, None)


def transport_failure(request: Any, response: ClientResponse) -> tuple[KafkaError, bool]:
    """Why a request has no response, and whether sending it again, perhaps to another broker, may succeed."""
    if isinstance(response.error, (UnsupportedVersionError, AuthenticationError)):
        return response.error, False
    if response.disconnected:
        return response.error or DisconnectedError(f"{request}: disconnected"), True
    return response.error or KafkaError(f"{request}: no response, reason unknown"), False


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
        #: A request that waits, because its broker is being connected to or cannot take another one at
        #: present.
        self._held: AddressedRequest | None = None

    def step(self, now_ms: int) -> int:
        """Send the requests that are due, as far as their brokers can take them.

        The task says what is due; FindCoordinator goes first if its coordinator is not known.

        Returns:
            Milliseconds until the next step; responses end the poll sooner.
        """
        try:
            addressed, self._held = self._held or self.task.next_request(now_ms), None
            if addressed is None:
                return self.task.delay_ms(now_ms)
            return self._try_to_send(addressed, now_ms)
        except Exception as bug:
            self._note_bug(bug)
            return 0

    def _try_to_send(self, addressed: AddressedRequest, now_ms: int) -> int:
        """Send the request or hold it. Returns the milliseconds until the next step."""
        client, request = self._client, addressed.request
        if client.bootstrap_error is not None:
            self.task.unreachable(request, now_ms, client.bootstrap_error)
            return 0
        node = addressed.node or client.connections.least_loaded(now_ms)
        if node is None:
            refusal = client.connections.refusal_by_all()
            if refusal is not None:
                self.task.unreachable(request, now_ms, refusal)
                return 0
            self._held = addressed
            return _NO_NODE_DELAY_MS
        if client.ready(node, now_ms):
            self._send(request, node, now_ms)
            return NEVER_MS
        if client.connections.has_failed(node):
            self.task.unreachable(request, now_ms, client.connections.refusals.get(node.id))
            return 0
        # The broker is being connected to, or has too many requests in flight. The next event of the
        # connection ends the poll.
        self._held = addressed
        return max(1, client.connections.poll_delay_ms(node, now_ms))

    def _send(self, request: Any, node: Node, now_ms: int) -> None:
        def on_complete(response: ClientResponse) -> None:
            try:
                self.task.handle(request, response, self._clock.monotonic_ms())
            except Exception as bug:
                self._note_bug(bug)

        self._client.send(node.id, request, now_ms, on_complete)

    def _note_bug(self, bug: Exception) -> None:
        """Tell the task, which would wait for a request that was never sent, or repeat it endlessly."""
        self.task.internal_error(bug)
        _log.error("Internal error with a request to a coordinator", exc_info=bug)
