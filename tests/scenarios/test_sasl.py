"""SASL against a strict broker: short sessions, refusals, lost connections."""

from __future__ import annotations

import time

import pytest
from kproducer_messages import SaslAuthenticateResponse

from kproducer import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from kproducer.errors import AuthenticationError, KafkaError, KafkaTimeoutError, Outcome
from kproducer.testing.fakebroker import FakeCluster, Reply, faults
from kproducer.testing.fakebroker.actions import Close
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from tests.scenarios.conftest import Stage
from tests.scenarios.transactions import committed
from tests.support.waiting import wait_until

PRODUCE, METADATA, AUTHENTICATE = 0, 3, 36
CREDENTIALS = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "wonderland",
}
#: Half of ``max_block_ms``, which a call takes that does not notice the refusal.
_PROMPT_S = 30.0


def users() -> dict[str, str]:
    return {"alice": "wonderland"}


@pytest.mark.parametrize("settings", [{}, {"acks": 0}, {"max_in_flight_requests_per_connection": 1}])
def test_many_sessions_end_under_load(stage: Stage, settings: dict[str, object]) -> None:
    cluster = stage.cluster(2, {"t": 4})
    cluster.sasl = SaslListener(users(), session_lifetime_ms=1000)
    producer = stage.producer(cluster, **CREDENTIALS, **settings)
    # On a busy machine a connection may end with its session because nothing was sent meanwhile.
    producer.send_until(lambda: renewals(cluster) > 8, partitions=4)


def renewals(cluster: FakeCluster) -> int:
    """How many authentications there were on connections that had been authenticated before; at least."""
    return cluster.sasl.authentications - cluster.accepted_count()


def test_sessions_too_short_to_be_renewed_on_the_same_connection(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener(users(), session_lifetime_ms=300, least_session_ms=1000)
    producer = stage.producer(cluster, **CREDENTIALS)
    producer.send_until(lambda: cluster.sasl.refusals > 4)
    for each in producer.sent:
        each.metadata()


def test_responses_that_take_longer_than_the_session(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener(users(), session_lifetime_ms=300)
    producer = stage.producer(cluster, **CREDENTIALS)
    producer.send().metadata()
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate), times=2)
    producer.send()
    producer.send()
    time.sleep(0.5)
    late = [producer.send() for _ in range(5)]
    gate.open()
    for each in late:
        each.metadata()


def test_wrong_credentials_and_then_right_ones(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener({"alice": "another"})
    producer = stage.producer(cluster, **CREDENTIALS, reconnect_backoff_ms=50, reconnect_backoff_max_ms=1000)
    before_s = time.monotonic()
    with pytest.raises(AuthenticationError, match="Invalid username or password"):
        producer.kafka.partitions_for("t")
    error = producer.failing_send()
    assert isinstance(error, AuthenticationError)
    assert time.monotonic() - before_s < _PROMPT_S
    refusals = cluster.sasl.refusals
    time.sleep(1)
    assert cluster.sasl.refusals - refusals < 15  # the reconnect backoff grows to a second
    cluster.sasl.users.update(users())
    producer.send_until_it_works()


def test_a_password_that_is_changed_during_the_session(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener(users(), session_lifetime_ms=300)
    producer = stage.producer(cluster, **CREDENTIALS)
    producer.send().metadata()
    cluster.sasl.users["alice"] = "another"
    error = None
    deadline_s = time.monotonic() + _PROMPT_S
    # The connection to the leader and the one to the bootstrap server end at different times.
    while error is None and time.monotonic() < deadline_s:
        time.sleep(0.05)
        try:
            error = producer.send().future.exception(30)
        except AuthenticationError as refusal:  # the metadata was refused first
            error = refusal.with_outcome(Outcome.NOT_SENT)
    assert isinstance(error, AuthenticationError)
    assert error.outcome is Outcome.NOT_SENT
    cluster.sasl.users.update(users())
    producer.send_until_it_works()


def test_connections_that_are_lost_during_the_authentication(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener(users())
    cluster.control(AUTHENTICATE, lambda _: Close(reset=True), times=3)
    producer = stage.producer(cluster, **CREDENTIALS)
    producer.send().metadata()


def test_a_client_without_sasl_is_told_so(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener(users())
    cluster.tolerate("request before the authentication")
    producer = stage.producer(cluster, max_block_ms=2000)
    with pytest.raises(KafkaTimeoutError, match="set security_protocol to SASL_PLAINTEXT"):
        producer.kafka.partitions_for("t")
    cluster.sasl = None
    producer.send_until_it_works()


def test_connections_that_end_at_the_first_request_are_no_refusal(stage: Stage) -> None:
    """A load balancer whose brokers start does that as well, and for a while."""
    cluster = stage.cluster(1)
    cluster.control(METADATA, faults.close_before(), times=6)
    producer = stage.producer(cluster, reconnect_backoff_ms=10, reconnect_backoff_max_ms=10)
    producer.send().metadata()


@pytest.mark.parametrize("call", ["init_transactions", "send", "send_offsets_to_transaction"])
def test_only_the_coordinator_refuses_the_credentials(stage: Stage, call: str) -> None:
    """The error is that of the coordinator, and comes at once; other brokers accept the same credentials."""
    cluster = stage.cluster(2, {"t": 1})
    cluster.sasl = SaslListener(users())
    coordinated = (0, "group") if call == "send_offsets_to_transaction" else (1, "tx")
    cluster.coordination.moved[coordinated] = 2
    cluster.move_leader("t", 0, 2 if call == "send" else 1)
    bootstrap = {"bootstrap_servers": cluster.bootstrap_servers[0]}
    kafka = stage.producer(cluster, transactional_id="tx", **CREDENTIALS, **bootstrap).kafka
    if call == "send":
        cluster.coordination.moved[coordinated] = 1
    refusal = SaslAuthenticateResponse(error_code=58, error_message="no entry")
    cluster.control(AUTHENTICATE, lambda _: Reply(refusal), times=None, broker_id=2)

    def transaction() -> None:
        kafka.init_transactions()
        kafka.begin_transaction()
        future = kafka.send("t", b"value")
        if call == "send":
            error = future.exception(30)
            assert isinstance(error, AuthenticationError)
            assert error.outcome is Outcome.NOT_SENT
        else:
            offsets = {TopicPartition("t", 0): OffsetAndMetadata(5)}
            kafka.send_offsets_to_transaction(offsets, ConsumerGroupMetadata("group"))
        kafka.commit_transaction()

    before_s = time.monotonic()
    with pytest.raises(KafkaError, match="no entry"):
        transaction()
    assert time.monotonic() - before_s < _PROMPT_S
    kafka.close(0)


def test_transactions_with_wrong_credentials_and_then_right_ones(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener({"alice": "another"})
    kafka = stage.producer(cluster, transactional_id="tx", **CREDENTIALS).kafka
    before_s = time.monotonic()
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="Invalid username or password"):
            kafka.init_transactions()
    assert time.monotonic() - before_s < _PROMPT_S
    cluster.sasl.users.update(users())
    deadline_s = time.monotonic() + _PROMPT_S
    while True:
        try:
            kafka.init_transactions()
            break
        except AuthenticationError:  # it may report the last refusal
            assert time.monotonic() < deadline_s
    assert kafka.partitions_for("t")
    kafka.begin_transaction()
    kafka.send("t", b"value", partition=0)
    kafka.commit_transaction()
    assert committed(cluster) == [b"value"]


def test_a_refusal_that_the_broker_delays_is_known_when_it_arrives(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener({"alice": "another"})
    gate = cluster.gate()
    cluster.control(AUTHENTICATE, faults.hold_before(gate))
    producer = stage.producer(cluster, **CREDENTIALS, max_block_ms=500)
    with pytest.raises(KafkaTimeoutError):
        producer.kafka.partitions_for("t")
    gate.open()

    def refusal() -> str:
        try:
            producer.kafka.partitions_for("t")
        except KafkaTimeoutError:
            return ""
        except AuthenticationError as error:
            return str(error)
        raise AssertionError("the broker accepted another password")

    wait_until(lambda: "Invalid username or password" in refusal())


def test_a_broker_that_never_answers_an_authentication_is_given_up_and_tried_again(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener(users())
    cluster.control(AUTHENTICATE, faults.hold_before(cluster.gate()))
    producer = stage.producer(cluster, **CREDENTIALS, request_timeout_ms=300, delivery_timeout_ms=20_000)
    producer.send().metadata()
    assert cluster.accepted_count() >= 2
