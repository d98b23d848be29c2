"""The SASL exchange in every state with every event, and the client that runs it on connections."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kproducer_messages import ProduceResponse, SaslAuthenticateResponse, SaslHandshakeResponse

from kproducer._core.client.authentication import AuthenticationExchange, SaslState
from kproducer._core.client.client_request import ClientRequest
from kproducer._core.client.node_connection import ConnectionState
from kproducer.errors import (
    AuthenticationError,
    BrokerError,
    DisconnectedError,
    IllegalStateError,
    RequestTimeoutError,
)
from kproducer.errors.broker_errors import SaslAuthenticationFailedError, UnsupportedVersionError
from kproducer.errors.internal_errors import IdleDisconnectError
from tests.support.units.client_harness import NODES, Harness, api_versions_response
from tests.support.units.mock_selector import SentRequest

NODE = NODES[0]
ID = str(NODE.id)
APIS = {0: (0, 9), 3: (0, 13), 17: (0, 1), 18: (0, 4), 36: (0, 2)}
SECRET = b"hunter2"


class Mechanism:
    """A mechanism of two messages; the second one repeats what the broker said."""

    name = "TEST"
    identity = "user 'alice'"

    def __init__(self) -> None:
        self.is_available = True
        self.error: AuthenticationError | None = None
        self.closed = 0

    def begin(self, host: str) -> Conversation | None:
        if self.error is not None:
            raise self.error
        return Conversation() if self.is_available else None

    def waits_for(self, host: str) -> str:
        return "" if self.is_available else f"the credentials for {host} are late"

    def close(self) -> None:
        self.closed += 1


class Conversation:
    def first_message(self) -> bytes:
        return SECRET

    def answer(self, challenge: bytes) -> bytes | None:
        if challenge == b"lie":
            raise AuthenticationError("TEST: the broker lies")
        return None if challenge == b"end" else SECRET + challenge


# -- the state machine -------------------------------------------------------------------------------------

EVENTS: dict[str, Callable[[AuthenticationExchange], object]] = {
    "begin": lambda e: e.begin(),
    "begin without credentials": lambda e: _without_credentials(e),
    "begin refused": lambda e: _refused(e),
    "handshake ok": lambda e: e.on_handshake(SaslHandshakeResponse(mechanisms=["TEST"])),
    "handshake: mechanism": lambda e: e.on_handshake(
        SaslHandshakeResponse(error_code=33, mechanisms=["A", "\x1b"])
    ),
    "handshake: no SASL": lambda e: e.on_handshake(SaslHandshakeResponse(error_code=34)),
    "handshake: other error": lambda e: e.on_handshake(SaslHandshakeResponse(error_code=-1)),
    "challenge": lambda e: e.on_authenticate(SaslAuthenticateResponse(auth_bytes=b"more")),
    "end": lambda e: e.on_authenticate(SaslAuthenticateResponse(auth_bytes=b"end", session_lifetime_ms=7)),
    "lie": lambda e: e.on_authenticate(SaslAuthenticateResponse(auth_bytes=b"lie")),
    "refusal": lambda e: e.on_authenticate(SaslAuthenticateResponse(error_code=58, error_message="no\n")),
    "other error": lambda e: e.on_authenticate(SaslAuthenticateResponse(error_code=-1)),
}
REACHED: dict[SaslState, tuple[str, ...]] = {
    SaslState.NEW: (),
    SaslState.HANDSHAKE: ("begin",),
    SaslState.TOKENS: ("begin", "handshake ok"),
    SaslState.DONE: ("begin", "handshake ok", "challenge", "end"),
}
#: (state, event) to the next state, what is sent, and the error, which ends the exchange. All other pairs are
#: illegal.
LEGAL: dict[tuple[SaslState, str], tuple[SaslState | None, object, type[Exception] | None]] = {
    (SaslState.NEW, "begin"): (SaslState.HANDSHAKE, "TEST", None),
    (SaslState.NEW, "begin without credentials"): (SaslState.NEW, None, None),
    (SaslState.NEW, "begin refused"): (None, None, AuthenticationError),
    (SaslState.HANDSHAKE, "handshake ok"): (SaslState.TOKENS, SECRET, None),
    (SaslState.HANDSHAKE, "handshake: mechanism"): (None, None, AuthenticationError),
    (SaslState.HANDSHAKE, "handshake: no SASL"): (None, None, AuthenticationError),
    (SaslState.HANDSHAKE, "handshake: other error"): (None, None, BrokerError),
    (SaslState.TOKENS, "challenge"): (SaslState.TOKENS, SECRET + b"more", None),
    (SaslState.TOKENS, "end"): (SaslState.DONE, None, None),
    (SaslState.TOKENS, "lie"): (None, None, AuthenticationError),
    (SaslState.TOKENS, "refusal"): (None, None, SaslAuthenticationFailedError),
    (SaslState.TOKENS, "other error"): (None, None, BrokerError),
}


def _without_credentials(exchange: AuthenticationExchange) -> object:
    exchange._mechanism.is_available = False  # type: ignore[attr-defined]
    return exchange.begin()


def _refused(exchange: AuthenticationExchange) -> object:
    exchange._mechanism.error = AuthenticationError("no token")  # type: ignore[attr-defined]
    return exchange.begin()


def exchange_in(state: SaslState) -> AuthenticationExchange:
    connection: Any = SimpleNamespace(broker="b1:9092", node=NODE)
    exchange = AuthenticationExchange(Mechanism(), connection, deadline_ms=0)
    for event in REACHED[state]:
        EVENTS[event](exchange)
    assert exchange.state is state
    return exchange


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", SaslState)
def test_every_event_in_every_state(state: SaslState, event: str) -> None:
    exchange = exchange_in(state)
    if (state, event) not in LEGAL:
        with pytest.raises(IllegalStateError):
            EVENTS[event](exchange)
        assert exchange.state is state
        return
    expected_state, expected_message, expected_error = LEGAL[state, event]
    if expected_error is not None:
        with pytest.raises(expected_error) as caught:
            EVENTS[event](exchange)
        assert "b1:9092" in str(caught.value)
        assert str(caught.value).isprintable()
    else:
        request = EVENTS[event](exchange)
        if expected_message is None:
            assert request is None
        else:
            message = request.message  # type: ignore[attr-defined]
            content = message.mechanism if hasattr(message, "mechanism") else message.auth_bytes
            assert content == expected_message
            assert "hunter2" not in repr(request)
        assert exchange.state is expected_state


def test_errors_have_the_brokers_words() -> None:
    with pytest.raises(AuthenticationError, match=r"no\\n \[broker b1:9092, TEST, user 'alice'\]"):
        EVENTS["refusal"](exchange_in(SaslState.TOKENS))
    with pytest.raises(AuthenticationError, match=r"mechanism TEST \(user 'alice'\); it supports A, \\x1b;"):
        EVENTS["handshake: mechanism"](exchange_in(SaslState.HANDSHAKE))
    with pytest.raises(AuthenticationError, match="check the port and security_protocol"):
        EVENTS["handshake: no SASL"](exchange_in(SaslState.HANDSHAKE))


def test_the_session_lifetime_is_never_negative() -> None:
    exchange = exchange_in(SaslState.TOKENS)
    exchange.on_authenticate(SaslAuthenticateResponse(auth_bytes=b"end", session_lifetime_ms=-5))
    assert exchange.session_lifetime_ms == 0


# -- on connections ----------------------------------------------------------------------------------------


class SaslHarness(Harness):
    """A client with a mechanism."""

    def __init__(self, **settings: object) -> None:
        self.mechanism = Mechanism()
        super().__init__(sasl=self.mechanism, **settings)  # type: ignore[arg-type]

    @property
    def state(self) -> ConnectionState:
        connection = self.client.connections.get(ID)
        assert connection is not None
        return connection.state

    def ask(self, ranges: dict[int, tuple[int, int]] | None = None) -> None:
        """Connect, and answer ApiVersions."""
        self.connect()
        self.selector.respond(self.selector.last_request(ID), api_versions_response(ranges or APIS))
        self.poll()

    def answer(self, api_key: int, body: object) -> None:
        """Answer the last request, which is to this API."""
        request = self.selector.last_request(ID)
        assert request.api_key == api_key
        self.selector.respond(request, body)
        self.poll()

    def authenticate(self, lifetime_ms: int = 0) -> None:
        """Answer the exchange that has begun."""
        self.answer(17, SaslHandshakeResponse(mechanisms=["TEST"]))
        self.answer(36, SaslAuthenticateResponse(auth_bytes=b"more"))
        self.answer(36, SaslAuthenticateResponse(auth_bytes=b"end", session_lifetime_ms=lifetime_ms))

    def make_authenticated(self, lifetime_ms: int = 0) -> None:
        self.ask()
        self.authenticate(lifetime_ms)
        assert self.state is ConnectionState.READY

    @property
    def is_ready(self) -> bool:
        return self.client.ready(NODE, self.clock.now_ms)


def test_no_request_is_sent_before_the_authentication_has_succeeded() -> None:
    harness = SaslHarness()
    harness.ask()
    for body, api_key in (
        (SaslHandshakeResponse(mechanisms=["TEST"]), 17),
        (SaslAuthenticateResponse(auth_bytes=b"more"), 36),
    ):
        assert harness.state is ConnectionState.AUTHENTICATING
        assert not harness.is_ready
        harness.answer(api_key, body)
    harness.answer(36, SaslAuthenticateResponse(auth_bytes=b"end"))
    assert harness.is_ready
    harness.request()


def test_a_refusal_ends_the_connection_and_counts_as_one() -> None:
    harness = SaslHarness()
    harness.ask()
    harness.answer(17, SaslHandshakeResponse(mechanisms=["TEST"]))
    harness.answer(36, SaslAuthenticateResponse(error_code=58, error_message="wrong"))
    assert harness.state is ConnectionState.DISCONNECTED
    ((node_id, error),) = harness.updater.disconnects
    assert node_id == ID
    assert isinstance(error, AuthenticationError)
    assert harness.client.connections.refusals == {NODE.id: error}
    assert harness.client.connections.refusal_by_all() is None  # other nodes have not refused
    assert harness.client.connections.poll_delay_ms(NODE, harness.clock.now_ms) > 0  # no tight loop
    harness.clock.advance(2000)
    harness.make_authenticated()
    assert harness.client.connections.refusals == {}


def test_a_broker_has_accepted_the_client_when_it_answers_a_request() -> None:
    harness = SaslHarness()
    harness.make_authenticated()
    assert harness.updater.acceptances == 0  # a broker without authorization may close the connection now
    for _ in range(2):
        harness.selector.respond(_last(harness, harness.request()), ProduceResponse())
        harness.poll()
    assert harness.updater.acceptances == 1


def test_a_refusal_is_final_once_no_other_broker_can_be_reached() -> None:
    other = NODES[1]
    harness = SaslHarness(nodes=[NODE, other])
    harness.ask()
    harness.answer(17, SaslHandshakeResponse(error_code=33, mechanisms=[]))
    for _ in range(2):
        assert harness.client.connections.refusal_by_all() is None
        harness.clock.advance(2000)
        harness.connect(other)
        harness.selector.break_connection(str(other.id))
        harness.poll()
    assert harness.client.connections.refusal_by_all() is harness.client.connections.refusals[NODE.id]


@pytest.mark.parametrize("answers", [0, 1, 2])
def test_a_lost_connection_is_no_authentication_failure(answers: int) -> None:
    harness = SaslHarness()
    harness.ask()
    bodies = [(17, SaslHandshakeResponse()), (36, SaslAuthenticateResponse(auth_bytes=b"more"))]
    for api_key, body in bodies[:answers]:
        harness.answer(api_key, body)
    harness.selector.break_connection(ID)
    harness.poll()
    error = harness.updater.disconnects[0][1]
    assert isinstance(error, DisconnectedError)
    assert "during the authentication" in str(error)
    assert harness.client.connections.refusals == {}


def test_a_broker_that_does_not_answer_is_no_authentication_failure() -> None:
    harness = SaslHarness(request_timeout_ms=1000)
    harness.ask()
    harness.clock.advance(1002)
    harness.poll()
    assert isinstance(harness.updater.disconnects[0][1], RequestTimeoutError)


def test_a_broker_without_sasl_authenticate_is_named() -> None:
    harness = SaslHarness()
    harness.ask({0: (0, 9), 17: (0, 0), 18: (0, 2)})
    error = harness.updater.disconnects[0][1]
    assert isinstance(error, UnsupportedVersionError)
    assert "SaslHandshake" in str(error)
    assert harness.state is ConnectionState.DISCONNECTED


def test_credentials_that_come_later() -> None:
    harness = SaslHarness()
    harness.mechanism.is_available = False
    harness.ask()
    assert harness.selector.last_request(ID).api_key == 18
    harness.mechanism.is_available = True
    harness.poll()
    harness.authenticate()
    assert harness.is_ready


def test_credentials_that_never_come() -> None:
    harness = SaslHarness(request_timeout_ms=1000)
    harness.mechanism.is_available = False
    harness.ask()
    harness.clock.advance(999)
    harness.poll(5000)
    assert harness.selector.poll_timeouts_ms[-1] == 1
    harness.clock.advance(1)
    harness.poll()
    error = harness.updater.disconnects[0][1]
    assert isinstance(error, AuthenticationError)
    assert "within 1000 ms (request_timeout_ms): the credentials for" in str(error)


def test_what_an_authentication_waits_for_is_known_before_it_fails() -> None:
    harness = SaslHarness()
    harness.mechanism.is_available = False
    harness.ask()
    (late,) = harness.client.connections.last_errors()
    assert f"the credentials for {NODE.host} are late" in late
    harness.mechanism.is_available = True
    harness.poll()
    (unanswered,) = harness.client.connections.last_errors()
    assert "request_timeout_ms" in unanswered
    assert "are late" not in unanswered


def test_close_releases_the_mechanism() -> None:
    harness = SaslHarness()
    harness.client.close()
    assert harness.mechanism.closed == 1


def _last(harness: Harness, request: ClientRequest) -> SentRequest:
    """What was sent for a request."""
    return next(r for r in harness.selector.requests if r.correlation_id == request.correlation_id)


# -- re-authentication -------------------------------------------------------------------------------------


def test_the_session_is_renewed_before_it_ends() -> None:
    harness = SaslHarness()
    harness.make_authenticated(10_000)
    harness.selector.respond(_last(harness, harness.request()), ProduceResponse())
    harness.poll()
    harness.clock.advance(8_499)
    harness.poll(60_000)
    assert harness.is_ready
    assert harness.selector.poll_timeouts_ms[-1] <= 1_001
    harness.clock.advance(1_001)
    assert not harness.is_ready
    harness.poll()
    assert harness.state is ConnectionState.AUTHENTICATING
    harness.authenticate(10_000)
    assert harness.is_ready
    assert len(harness.selector.attempts) == 1


def test_requests_in_flight_are_answered_first_and_no_other_is_sent() -> None:
    harness = SaslHarness()
    harness.make_authenticated(10_000)
    first, second = harness.request(), harness.request()
    sent = [_last(harness, first), _last(harness, second)]
    harness.clock.advance(9_600)
    harness.poll()
    assert not harness.is_ready
    for request in sent:
        assert harness.selector.last_request(ID).api_key == 0
        harness.selector.respond(request, ProduceResponse())
        harness.poll()
    harness.poll()
    assert [each.request for each in harness.done] == [first, second]
    assert not harness.is_ready
    harness.authenticate(10_000)
    assert harness.is_ready


def test_a_wait_ends_in_time_to_stop_a_lane_that_has_requests_in_flight() -> None:
    harness = SaslHarness()
    harness.make_authenticated(10_000)
    harness.client.in_flight.lanes[ID] = SimpleNamespace(in_flight=1, is_stalled=False)
    harness.poll(60_000)
    assert 8_500 <= harness.selector.poll_timeouts_ms[-1] <= 9_500


def test_requests_without_response_are_written_first() -> None:
    harness = SaslHarness()
    harness.make_authenticated(10_000)
    harness.selector.full.add(ID)
    harness.request(expect_response=False)
    harness.clock.advance(9_600)
    harness.poll()
    assert harness.selector.last_request(ID).api_key == 36
    harness.selector.full.clear()
    harness.selector.finish_sends()
    harness.poll()
    harness.authenticate(10_000)
    assert harness.is_ready
    assert len(harness.done) == 1


def test_a_connection_that_was_not_used_is_closed_instead() -> None:
    harness = SaslHarness()
    harness.make_authenticated(10_000)
    harness.clock.advance(9_600)
    harness.poll()
    assert isinstance(harness.updater.disconnects[0][1], IdleDisconnectError)
    assert harness.state is ConnectionState.DISCONNECTED


def test_a_refused_renewal_ends_the_connection() -> None:
    harness = SaslHarness()
    harness.make_authenticated(10_000)
    harness.selector.respond(_last(harness, harness.request()), ProduceResponse())
    harness.poll()
    harness.clock.advance(9_600)
    harness.poll()
    harness.answer(17, SaslHandshakeResponse())
    harness.answer(36, SaslAuthenticateResponse(error_code=58, error_message="deleted"))
    assert list(harness.client.connections.refusals) == [NODE.id]
    assert harness.state is ConnectionState.DISCONNECTED


def test_without_a_session_lifetime_there_is_no_renewal() -> None:
    harness = SaslHarness()
    harness.make_authenticated(0)
    harness.clock.advance(100_000_000)
    harness.poll()
    assert harness.is_ready
