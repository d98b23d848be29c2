"""Metrics push (KIP-714) of a whole producer: requests, errors, close, fork; records never notice it."""

from __future__ import annotations

import logging
import os
import threading
import time

import pytest
from kproducer_messages import GetTelemetrySubscriptionsResponse, PushTelemetryResponse
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kproducer import IllegalStateError, KafkaError, KafkaTimeoutError, ProducerClosedError
from kproducer._core.telemetry import client_telemetry, telemetry_link
from kproducer.testing.fakebroker.actions import Close, Hold, Reply, Silence

GET, PUSH, PRODUCE = 71, 72, 0
INTERVAL_MS = 100  # the shortest that brokers accept
PATIENCE_S = 60
SENT = "org.apache.kafka.producer.record.send.total"


def metrics_of(push):
    """Name to the sum of its values."""
    return {
        metric.name: sum(point.as_double for point in getattr(metric, metric.WhichOneof("data")).data_points)
        for of_client in MetricsData.FromString(push.data).resource_metrics
        for metric in of_client.scope_metrics[0].metrics
    }


def refuse(message, code):
    return lambda context: Reply(message(error_code=code))


def await_pushes(cluster, count):
    cluster.wait_for(lambda: len(cluster.telemetry.pushes) >= count, what=f"{count} pushes")
    return list(cluster.telemetry.pushes)


def test_a_broker_without_the_apis_is_not_asked(stage, cluster):
    producer = stage.producer(cluster)
    producer.send().metadata()
    with pytest.raises(KafkaTimeoutError, match="no broker has assigned an id yet"):
        producer.kafka.client_instance_id(0.05)
    producer.close()
    assert not cluster.requests(GET)


def test_it_can_be_turned_off(stage, cluster):
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    producer = stage.producer(cluster, enable_metrics_push=False)
    producer.send().metadata()
    with pytest.raises(IllegalStateError, match="enable_metrics_push is False"):
        producer.kafka.client_instance_id(1)
    producer.close()
    assert not cluster.requests(GET)


def test_without_a_subscription_there_is_one_request_per_interval(stage, cluster):
    cluster.offer_telemetry()  # 5 minutes, as in Kafka
    producer = stage.producer(cluster)
    instance_id = producer.kafka.client_instance_id(PATIENCE_S)
    for _ in range(20):
        producer.send().metadata()
    producer.close()
    assert len(cluster.requests(GET)) == 1
    assert not cluster.requests(PUSH)
    assert list(cluster.telemetry.clients) == [instance_id]


@pytest.mark.parametrize("codec", range(5))
def test_metrics_are_pushed_at_the_interval_and_at_close(stage, cluster, codec):
    compression = (codec,) if codec else ()
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS, compression=compression)
    producer = stage.producer(cluster)
    for _ in range(7):
        producer.send().metadata()
    await_pushes(cluster, 2)
    producer.send().metadata()
    producer.close()
    pushes = cluster.telemetry.pushes
    assert {push.client_instance_id for push in pushes} == {producer_id(cluster)}
    assert [push.terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
    assert {push.compression_type for push in pushes} == {codec}
    assert sum(metrics_of(push)[SENT] for push in pushes) == 8


def producer_id(cluster):
    (only,) = cluster.telemetry.clients
    return only


def test_sums_instead_of_changes(stage, cluster):
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS, is_delta=False)
    producer = stage.producer(cluster)
    for _ in range(7):
        producer.send().metadata()
    await_pushes(cluster, 2)
    producer.close()
    assert metrics_of(cluster.telemetry.pushes[-1])[SENT] == 7


def test_only_the_wanted_metrics_are_pushed(stage, cluster):
    cluster.offer_telemetry("org.apache.kafka.producer.record.send", push_interval_ms=INTERVAL_MS)
    producer = stage.producer(cluster)
    (push, *_) = await_pushes(cluster, 1)
    producer.close()
    names = metrics_of(push).keys()
    assert SENT in names
    assert all(name.startswith("org.apache.kafka.producer.record.send") for name in names)


def test_a_changed_subscription(stage, cluster):
    telemetry = cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    producer = stage.producer(cluster)
    await_pushes(cluster, 1)
    with cluster.log.changed:
        telemetry.subscribe(SENT, push_interval_ms=INTERVAL_MS)
        before = len(telemetry.pushes)
    await_pushes(cluster, before + 1)
    assert metrics_of(telemetry.pushes[before]).keys() == {SENT}
    with cluster.log.changed:
        telemetry.subscribe(push_interval_ms=INTERVAL_MS)
        asked = len(cluster.requests(GET))
    cluster.wait_for_requests(GET, asked + 2)
    producer.close()
    assert not telemetry.pushes[-1].terminating
    assert len(telemetry.clients) == 1


@pytest.mark.parametrize("code", [35, 42, 87, -1])
@pytest.mark.parametrize("api_key", [GET, PUSH])
def test_errors_that_end_telemetry_leave_the_records_alone(stage, cluster, caplog, api_key, code):
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    message = GetTelemetrySubscriptionsResponse if api_key == GET else PushTelemetryResponse
    cluster.control(api_key, refuse(message, code), times=None)
    with caplog.at_level(logging.INFO, "kproducer.telemetry"):
        producer = stage.producer(cluster)
        cluster.wait_for_requests(api_key, 1)
        # The response to the refused request comes before those of later ones.
        for _ in range(5):
            producer.send().metadata()
        if api_key == GET:
            with pytest.raises(KafkaError, match="a broker has refused telemetry"):
                producer.kafka.client_instance_id(PATIENCE_S)
        producer.close()
    assert len(cluster.requests(api_key)) == 1
    assert [r.levelname for r in caplog.records if "refused the telemetry" in r.getMessage()] == ["INFO"]


@pytest.mark.parametrize("code", [117, 76])
def test_a_push_with_an_outdated_subscription_is_repeated_with_the_new_one(stage, cluster, code):
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)

    def refuse_once(context):
        cluster.telemetry.clients[context.message.client_instance_id].may_ask_at_once = True
        return Reply(PushTelemetryResponse(error_code=code))

    cluster.control(PUSH, refuse_once)
    producer = stage.producer(cluster)
    producer.send().metadata()
    await_pushes(cluster, 1)
    producer.close()
    assert len(cluster.requests(GET)) == 2
    assert sum(metrics_of(push)[SENT] for push in cluster.telemetry.pushes) == 1


@pytest.mark.parametrize("code", [118, 89])
def test_a_push_that_comes_too_early_or_is_too_large_is_followed_by_a_pause(stage, cluster, code):
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    cluster.control(PUSH, refuse(PushTelemetryResponse, code))
    producer = stage.producer(cluster)
    producer.send().metadata()
    await_pushes(cluster, 1)  # the fake broker refuses requests before the interval
    producer.close()
    assert sum(metrics_of(push)[SENT] for push in cluster.telemetry.pushes) == 1


def test_a_payload_above_the_limit_is_not_sent(stage, cluster):
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS, max_bytes=10)
    producer = stage.producer(cluster)
    cluster.wait_for_requests(GET, 3)
    producer.close()
    assert not cluster.requests(PUSH)


@pytest.mark.parametrize("api_key", [GET, PUSH])
def test_a_connection_that_ends_in_the_middle(stage, cluster, api_key, monkeypatch):
    monkeypatch.setattr(client_telemetry, "_RETRY_MS", 20)
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    cluster.control(api_key, lambda context: Close())
    producer = stage.producer(cluster)
    producer.send().metadata()
    cluster.wait_for_requests(api_key, 1)
    producer.send_until_it_works()
    await_pushes(cluster, 1)
    producer.close()
    assert cluster.telemetry.pushes[-1].terminating


def test_a_broker_that_throttles(stage, cluster):
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    cluster.brokers[1].throttle_time_ms = 30
    producer = stage.producer(cluster)
    producer.send().metadata()
    await_pushes(cluster, 2)
    producer.close()


def test_with_a_broker_that_is_down_the_others_are_asked(stage, monkeypatch):
    monkeypatch.setattr(client_telemetry, "_RETRY_MS", 20)
    cluster = stage.cluster(3, topics={"t": 3})
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    cluster.set_versions(GET, None, 1)
    cluster.set_versions(PUSH, None, 1)
    cluster.kill(2)
    producer = stage.producer(cluster)
    producer.send(partition=0).metadata()
    producer.send(partition=2).metadata()
    await_pushes(cluster, 2)
    producer.close()
    assert {request.broker_id for key in (GET, PUSH) for request in cluster.requests(key)} == {3}


def test_no_connection_is_opened_for_telemetry(stage):
    cluster = stage.cluster(3, topics={"t": 1})
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    producer = stage.producer(cluster, enable_idempotence=False)
    producer.send(partition=0).metadata()  # metadata, which may come from any broker, is known now
    before = cluster.accepted_count()
    await_pushes(cluster, 3)
    assert cluster.accepted_count() == before
    producer.close()


def test_records_do_not_take_every_place_in_flight(stage, cluster, monkeypatch):
    monkeypatch.setattr(telemetry_link, "_BUSY_MS", 20)
    cluster.offer_telemetry("*", push_interval_ms=4 * INTERVAL_MS)
    # The connection to the bootstrap address, which has no records, ends before the first push.
    settings = {"max_in_flight_requests_per_connection": 1, "connections_max_idle_ms": INTERVAL_MS}
    producer = stage.producer(cluster, **settings)
    is_over = threading.Event()

    def send_another(*_):
        if not is_over.is_set():
            producer.send(on_delivery=send_another)

    producer.send(on_delivery=send_another)
    try:
        await_pushes(cluster, 2)
    finally:
        is_over.set()
    producer.close()


def test_the_transactional_id_and_the_rack_describe_the_producer(stage, cluster):
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    producer = stage.producer(cluster, transactional_id="orders", client_rack="a")
    producer.kafka.init_transactions()
    (push, *_) = await_pushes(cluster, 1)
    producer.close()
    (of_client,) = MetricsData.FromString(push.data).resource_metrics
    attributes = {each.key: each.value.string_value for each in of_client.resource.attributes}
    assert attributes == {"transactional_id": "orders", "client_rack": "a"}


# -- the end ---------------------------------------------------------------------------------------------


def test_a_broker_that_never_answers_the_last_push_does_not_hold_up_close(stage, cluster, monkeypatch):
    monkeypatch.setattr(client_telemetry, "LAST_PUSH_MS", 50)
    cluster.offer_telemetry("*")
    cluster.control(PUSH, lambda context: Silence(), times=None)
    producer = stage.producer(cluster, request_timeout_ms=PATIENCE_S * 1000)
    producer.kafka.client_instance_id(PATIENCE_S)
    sent = producer.send()
    producer.close()
    assert sent.metadata().offset == 0
    (push,) = cluster.requests(PUSH)
    assert push.message.terminating


def test_the_last_push_ends_with_the_timeout_of_close(stage, cluster, monkeypatch):
    monkeypatch.setattr(client_telemetry, "LAST_PUSH_MS", 1000 * PATIENCE_S)
    cluster.offer_telemetry("*")
    cluster.control(PUSH, lambda context: Silence(), times=None)
    producer = stage.producer(cluster)
    producer.kafka.client_instance_id(PATIENCE_S)
    producer.send().metadata()
    started_s = time.monotonic()
    producer.close(0.2)  # raises nothing: no record is lost
    assert time.monotonic() - started_s < PATIENCE_S
    assert len(cluster.requests(PUSH)) == 1


def test_close_0_pushes_nothing(stage, cluster):
    cluster.offer_telemetry("*")
    producer = stage.producer(cluster)
    producer.kafka.client_instance_id(PATIENCE_S)
    producer.close(0)
    assert not cluster.requests(PUSH)


def test_the_last_push_has_the_last_records(stage, cluster):
    cluster.offer_telemetry("*")
    gate = cluster.gate()
    cluster.control(PRODUCE, lambda context: Hold(gate, lambda held: None))
    producer = stage.producer(cluster)
    producer.kafka.client_instance_id(PATIENCE_S)
    sent = producer.send()
    gate.wait_until_reached()
    gate.open()
    producer.close()
    (push,) = cluster.telemetry.pushes
    assert push.terminating
    assert metrics_of(push)[SENT] == 1
    assert sent.metadata().offset == 0


def test_close_while_a_push_is_on_its_way(stage, cluster):
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    gate = cluster.gate()
    cluster.control(PUSH, lambda context: Hold(gate, lambda held: None))
    producer = stage.producer(cluster, enable_idempotence=False)
    producer.send().metadata()
    gate.wait_until_reached()
    gate.open()
    producer.close()
    pushes = cluster.telemetry.pushes
    assert pushes[-1].terminating
    assert sum(metrics_of(push)[SENT] for push in pushes) == 1


def test_a_closed_producer_has_no_id(stage, cluster):
    cluster.offer_telemetry("*")
    producer = stage.producer(cluster)
    producer.close()
    with pytest.raises(ProducerClosedError):
        producer.kafka.client_instance_id(1)


def test_a_delivery_callback_may_not_wait_for_the_id(stage, cluster):
    cluster.offer_telemetry("*")
    errors = []

    def ask(metadata, error):
        try:
            producer.kafka.client_instance_id(PATIENCE_S)
        except IllegalStateError as refusal:
            errors.append(refusal)

    producer = stage.producer(cluster)
    producer.send(on_delivery=ask).metadata()
    assert len(errors) == 1


def test_a_forked_child_has_an_id_of_its_own(stage, cluster):
    cluster.offer_telemetry("*")
    producer = stage.producer(cluster)
    parents_id = producer.kafka.client_instance_id(PATIENCE_S)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, producer.kafka.client_instance_id(PATIENCE_S).bytes)
        producer.kafka.close()
        os._exit(0)
    os.waitpid(child, 0)
    childs_id = os.read(reading, 16)
    os.close(reading)
    os.close(writing)
    assert producer.kafka.client_instance_id(0) == parents_id
    assert {each.bytes for each in cluster.telemetry.clients} == {parents_id.bytes, childs_id}
    producer.close()
    ends = [push for push in cluster.telemetry.pushes if push.terminating]
    assert {push.client_instance_id.bytes for push in ends} == {parents_id.bytes, childs_id}


def test_an_error_of_ours_ends_telemetry_only(stage, cluster, monkeypatch, caplog):
    cluster.offer_telemetry("*", push_interval_ms=INTERVAL_MS)
    cannot_compress = lambda *_: 1 / 0  # noqa: E731
    monkeypatch.setattr(client_telemetry, "_preferred", cannot_compress)
    with caplog.at_level(logging.INFO, "kproducer.telemetry"):
        producer = stage.producer(cluster)
        with pytest.raises(KafkaError):
            producer.kafka.client_instance_id(PATIENCE_S)
        producer.send().metadata()
        producer.close()
    assert [r.levelname for r in caplog.records if r.exc_info] == ["INFO"]
    assert not cluster.requests(PUSH)
