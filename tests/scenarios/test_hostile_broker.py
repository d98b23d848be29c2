"""A peer that violates the protocol: the producer survives, stays within its limits and loses no record."""

from __future__ import annotations

import functools
import itertools
import random
import struct

import pytest
from kproducer_messages.api_versions_response import ApiVersion

from kproducer import AuthenticationError, KafkaError, Outcome
from kproducer.testing.fakebroker import (
    Bytes,
    Close,
    FakeCluster,
    Reply,
    RequestContext,
    Stall,
    faults,
    steps,
)
from kproducer.testing.fakebroker.actions import Action
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE, METADATA, SASL_HANDSHAKE, API_VERSIONS = 0, 3, 17, 18
EVERY_API = [PRODUCE, METADATA, API_VERSIONS]
GARBAGE = {
    "http": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "tls alert": b"\x15\x03\x01\x00\x02\x02\x46",
    "negative size": struct.pack(">i", -1) + b"x" * 20,
    "zero size": struct.pack(">i", 0),
    "size below the header's": struct.pack(">i", 3) + b"abc",
    "huge size": struct.pack(">i", 2**31 - 1) + b"x" * 100,
    "random": random.Random(1).randbytes(300),
}


@pytest.mark.parametrize(
    ("kind", "api_key"), sorted({*itertools.product(GARBAGE, EVERY_API)} - {("tls alert", API_VERSIONS)})
)
def test_garbage_instead_of_a_response_is_a_lost_connection(
    stage: Stage, cluster: FakeCluster, kind: str, api_key: int
) -> None:
    # The producer waits for the rest of a plausible frame until the request timeout.
    cluster.control(api_key, lambda context: steps(Bytes(GARBAGE[kind]), Close()))
    producer = stage.producer(cluster, request_timeout_ms=1000)
    assert producer.send().metadata().offset == 0
    assert cluster.accepted_count() >= 2


def test_a_tls_alert_as_the_first_response_says_at_once_what_to_set(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.control(API_VERSIONS, lambda context: steps(Bytes(GARBAGE["tls alert"]), Close()))
    producer = stage.producer(cluster)
    with pytest.raises(AuthenticationError, match="set security_protocol to SSL or SASL_SSL"):
        producer.kafka.partitions_for("t")
    producer.send_until_it_works()


@pytest.mark.parametrize("kind", ["http", "negative size", "huge size"])
def test_an_impossible_frame_size_ends_the_connection_without_waiting_for_more(
    stage: Stage, cluster: FakeCluster, kind: str
) -> None:
    cluster.control(PRODUCE, lambda context: steps(Bytes(GARBAGE[kind]), Stall()))
    producer = stage.producer(cluster, request_timeout_ms=60_000, delivery_timeout_ms=60_000)
    assert producer.send().metadata().offset == 0


@pytest.mark.parametrize("api_key", EVERY_API)
def test_a_response_truncated_anywhere_is_a_lost_connection(stage: Stage, api_key: int) -> None:
    for cut in (1, 3, 4, 6, 9, 14):
        cluster = stage.cluster()
        cluster.control(api_key, functools.partial(_truncated, cut))
        producer = stage.producer(cluster)
        assert producer.send().metadata().offset == 0
        producer.close(PATIENCE_S)


def _truncated(cut: int, context: RequestContext) -> Action:
    frame = struct.pack(">ii", 200, context.logged.correlation_id) + b"\x00" * 20
    return steps(Bytes(frame[:cut]), Close())


@pytest.mark.parametrize("api_key", EVERY_API)
def test_the_body_of_another_api_is_refused_or_harmless(
    stage: Stage, cluster: FakeCluster, api_key: int
) -> None:
    """A frame with the right correlation id and the wrong body is dropped, and the request is retried."""

    def confused(context: RequestContext) -> Action:
        body = bytes(range(1, 120))
        flexible = context.api_version >= 9 and api_key != API_VERSIONS
        header = struct.pack(">i", context.logged.correlation_id) + (b"\x00" if flexible else b"")
        return Bytes(struct.pack(">i", len(header) + len(body)) + header + body)

    cluster.control(api_key, confused)
    producer = stage.producer(cluster)
    assert producer.send().metadata().offset == 0


@pytest.mark.parametrize("api_key", EVERY_API)
def test_lengths_of_gigabytes_are_refused_without_allocating(
    stage: Stage, cluster: FakeCluster, api_key: int
) -> None:
    def promise(context: RequestContext) -> Action:
        header = struct.pack(">i", context.logged.correlation_id)
        body = b"\x00" + b"\xff\xff\xff\xff\x07" * 4 + b"\x7f\xff\xff\xff" * 4
        return Bytes(struct.pack(">i", len(header) + len(body)) + header + body)

    cluster.control(api_key, promise)
    producer = stage.producer(cluster)
    assert producer.send().metadata().offset == 0


@pytest.mark.parametrize("seed", range(6))
def test_random_damage_to_responses_never_breaks_a_promise(stage: Stage, seed: int) -> None:
    """Changes one byte in the body of every third response. Wrong responses may only fail sends."""
    rng = random.Random(seed)
    cluster = stage.cluster(topics={"t": 2})

    def damage(context: RequestContext) -> Action | None:
        if rng.random() > 0.33:
            return None
        answer = context.answer()
        if not isinstance(answer, Reply) or answer.message is None:
            return None
        version = context.response_version
        body = bytearray(answer.message.encode(version))
        body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
        flexible = version >= 9 and context.api_key != API_VERSIONS
        header = struct.pack(">i", context.logged.correlation_id) + (b"\x00" if flexible else b"")
        return Bytes(struct.pack(">i", len(header) + len(body)) + header + bytes(body))

    damaging = cluster.control(None, damage, times=None)
    producer = stage.producer(
        cluster,
        ordered=False,
        request_timeout_ms=300,
        delivery_timeout_ms=1000,
        max_block_ms=1000,
        metadata_max_age_ms=300,
    )
    accepted = []
    for index in range(30):
        try:
            accepted.append(producer.send(partition=index % 2))
        except KafkaError:
            continue
    for sent in accepted:
        sent.future.exception(PATIENCE_S)
    # A damaged response may contain wrong offsets and errors, so only "exactly one result" is checked.
    producer.forget(sent for sent in accepted)
    assert all(len(sent.callbacks) == 1 for sent in accepted)
    damaging.remove()
    cluster.tolerate(r"API \d+ v-?\d+; offered")  # version ranges were damaged, too
    # Connections keep their negotiated versions; new connections negotiate again.
    cluster.drop_connections(1)
    assert producer.send_until_it_works().metadata().topic == "t"


def test_rejection_by_an_impossible_code_still_has_an_outcome(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(-32768))
    error = stage.producer(cluster).send().error()
    assert error.outcome in (Outcome.REJECTED, Outcome.UNKNOWN)
    assert "-32768" in str(error)


def test_a_long_api_versions_response_is_not_read(stage: Stage, cluster: FakeCluster) -> None:
    """Any peer can send it: the connection is not authenticated yet."""

    def flood(context: RequestContext) -> Action:
        message = context.apply()
        message.api_keys += [ApiVersion(api_key=key, max_version=1) for key in range(1000, 11_000)]
        return Reply(message)

    cluster.control(API_VERSIONS, flood)
    producer = stage.producer(cluster)
    assert producer.send().metadata().offset == 0
    assert cluster.accepted_count() >= 3  # refused, bootstrap, the leader


def test_a_long_sasl_response_is_not_read(stage: Stage, cluster: FakeCluster) -> None:
    cluster.sasl = SaslListener({"alice": "wonderland"})

    def flood(context: RequestContext) -> Action:
        message = context.apply()
        message.mechanisms = ["PLAIN"] * 20_000
        return Reply(message)

    cluster.control(SASL_HANDSHAKE, flood)
    producer = stage.producer(
        cluster,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password="wonderland",
    )
    assert producer.send().metadata().offset == 0
    assert cluster.accepted_count() >= 3


def test_a_flood_after_the_response_is_bounded(stage: Stage, cluster: FakeCluster) -> None:
    """Eight megabytes of garbage after a valid response."""

    def flood(context: RequestContext) -> Action:
        return steps(context.answer(), Bytes(b"\x00" * 8_000_000), Close())

    cluster.control(PRODUCE, flood)
    producer = stage.producer(cluster)
    assert producer.send().metadata().offset == 0
    assert producer.send().metadata().offset == 1


def test_metadata_of_several_megabytes_is_read_and_one_beyond_the_limit_is_refused(
    stage: Stage, cluster: FakeCluster
) -> None:
    with cluster.log.changed:
        cluster.topics["wide"] = cluster.create_topic("wide", 20_000)
    producer = stage.producer(cluster)
    assert producer.send("wide", partition=19_999).metadata().offset == 0
    size_bomb = struct.pack(">i", 200 * 1024 * 1024)
    cluster.control(METADATA, lambda context: steps(Bytes(size_bomb + b"\x00" * 1000), Stall()))
    cluster.create_topic("next")
    assert producer.send("next").metadata().offset == 0
