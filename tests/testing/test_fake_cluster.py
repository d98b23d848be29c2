"""The fake cluster answers like a broker, and scripts can inject faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kproducer_messages as messages
import pytest
from kproducer_messages.metadata_request import MetadataRequestTopic

from kproducer.testing.fakebroker import Bytes, Close, FakeCluster, Hold, Reply, RequestContext, faults
from kproducer.testing.fakebroker.broker import NEWEST_VERSIONS
from tests.support.raw_client import RawClient, make_batch, produce_request

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as made:
        made.create_topic("t", 2)
        yield made


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[RawClient]:
    with RawClient(cluster.brokers[1].port) as made:
        yield made


def _produce(client: RawClient, batch: bytes, version: int = 9, partition: int = 0) -> Any:
    answer = client.ask(PRODUCE, version, produce_request("t", batch, partition=partition))
    return answer.responses[0].partition_responses[0]


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_the_offered_ranges(client: RawClient, version: int) -> None:
    request = messages.ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    if version < 3:
        request = messages.ApiVersionsRequest()
    answer = client.ask(API_VERSIONS, version, request)
    assert answer.error_code == 0
    assert {a.api_key: (a.min_version, a.max_version) for a in answer.api_keys} == NEWEST_VERSIONS


@pytest.mark.parametrize(
    ("refusal", "named"),
    [
        ("range", [(18, 0, 2)]),
        ("empty", []),
        ("all", sorted((key, *offered) for key, offered in (NEWEST_VERSIONS | {18: (0, 2)}).items())),
    ],
)
def test_api_versions_beyond_the_range_is_refused_in_version_0(
    cluster: FakeCluster, client: RawClient, refusal: str, named: list[tuple[int, int, int]]
) -> None:
    cluster.set_versions(API_VERSIONS, (0, 2))
    cluster.brokers[1].refusal = refusal
    request = messages.ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    client.send(API_VERSIONS, 3, request)
    _, answer = client.receive(API_VERSIONS, 0)
    assert answer.error_code == 35
    assert [(a.api_key, a.min_version, a.max_version) for a in answer.api_keys] == named


def test_a_software_name_with_illegal_characters_is_refused(cluster: FakeCluster, client: RawClient) -> None:
    request = messages.ApiVersionsRequest(client_software_name="-bad", client_software_version="1.0")
    assert client.ask(API_VERSIONS, 3, request).error_code == 42
    assert "-bad" in cluster.violations.pop()


@pytest.mark.parametrize("version", [0, 1, 4, 7, 9, 12, 13])
def test_metadata_names_brokers_topics_and_leaders(
    cluster: FakeCluster, client: RawClient, version: int
) -> None:
    wanted = [MetadataRequestTopic(name="t")]
    answer = client.ask(METADATA, version, messages.MetadataRequest(topics=wanted))
    assert {(b.node_id, b.port) for b in answer.brokers} == {(i, cluster.brokers[i].port) for i in (1, 2)}
    (topic,) = answer.topics
    assert [(p.partition_index, p.leader_id) for p in topic.partitions] == [(0, 1), (1, 2)]
    if version >= 10:
        assert topic.topic_id == cluster.topics["t"].topic_id


def test_metadata_creates_topics_only_when_both_sides_agree(cluster: FakeCluster, client: RawClient) -> None:
    def ask(allow: bool) -> Any:
        wanted = [MetadataRequestTopic(name="new")]
        request = messages.MetadataRequest(topics=wanted, allow_auto_topic_creation=allow)
        return client.ask(METADATA, 9, request).topics[0].error_code

    assert ask(allow=True) == 3
    cluster.auto_create_partitions = 3
    assert ask(allow=False) == 3
    assert ask(allow=True) == 5
    assert ask(allow=True) == 0
    assert len(cluster.topics["new"].partitions) == 3


def test_metadata_drops_a_dead_leader_unless_listed_when_down(
    cluster: FakeCluster, client: RawClient
) -> None:
    def leader() -> tuple[int, int]:
        wanted = [MetadataRequestTopic(name="t")]
        partition = client.ask(METADATA, 9, messages.MetadataRequest(topics=wanted)).topics[0].partitions[1]
        return partition.error_code, partition.leader_id

    cluster.kill(2)
    assert leader() == (5, -1)
    cluster.brokers[2].listed_when_down = True
    assert leader() == (0, 2)


@pytest.mark.parametrize("version", range(3, 13))
def test_produce_appends_and_returns_the_base_offset(
    cluster: FakeCluster, client: RawClient, version: int
) -> None:
    assert _produce(client, make_batch(b"a", b"b"), version).base_offset == 0
    assert _produce(client, make_batch(b"c"), version).base_offset == 2
    assert [(r.offset, r.value) for r in cluster.records("t")] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_produce_by_topic_id(cluster: FakeCluster, client: RawClient) -> None:
    def ask() -> Any:
        request = produce_request("", make_batch(b"a"))
        request.topic_data[0].topic_id = topic_id
        (topic,) = client.ask(PRODUCE, 13, request).responses
        assert topic.topic_id == topic_id
        return topic.partition_responses[0].error_code

    topic_id = cluster.topics["t"].topic_id
    assert ask() == 0
    cluster.recreate_topic("t")
    assert ask() == 100
    assert cluster.records("t") == []


def test_produce_to_the_wrong_leader_names_the_right_one(cluster: FakeCluster, client: RawClient) -> None:
    answer = client.ask(PRODUCE, 10, produce_request("t", make_batch(b"a"), partition=1))
    partition = answer.responses[0].partition_responses[0]
    assert (partition.error_code, partition.current_leader.leader_id) == (6, 2)
    assert [(e.node_id, e.port) for e in answer.node_endpoints] == [(2, cluster.brokers[2].port)]


def test_produce_applies_the_topics_limits(cluster: FakeCluster, client: RawClient) -> None:
    options = cluster.topics["t"].options
    options.max_message_bytes = 100
    assert _produce(client, make_batch(b"a" * 100)).error_code == 10
    options.min_insync_replicas = 3
    assert _produce(client, make_batch(b"a")).error_code == 19
    options.min_insync_replicas = 1
    options.timestamp_range_ms = (0, 500)
    assert _produce(client, make_batch(b"a")).error_code == 32
    options.timestamp_range_ms = None
    options.compacted = True
    refused = _produce(client, make_batch(b"a", b"b"))
    assert (refused.error_code, [e.batch_index for e in refused.record_errors]) == (87, [0, 1])
    assert _produce(client, make_batch(b"a", key=b"k")).error_code == 0
    assert cluster.violations == []


def test_log_append_time_replaces_the_records_times(cluster: FakeCluster, client: RawClient) -> None:
    cluster.topics["t"].options.log_append_time = True
    assert _produce(client, make_batch(b"a")).log_append_time_ms == 1_700_000_000_000
    assert cluster.records("t")[0].timestamp_ms == 1_700_000_000_000


def test_acks_0_gets_no_response_and_a_refusal_closes_the_connection(
    cluster: FakeCluster, client: RawClient
) -> None:
    client.send(PRODUCE, 9, produce_request("t", make_batch(b"a"), acks=0))
    assert (
        _produce(client, make_batch(b"b")).base_offset == 1
    )  # the first response is that of the second request
    client.send(PRODUCE, 9, produce_request("t", make_batch(b"c"), acks=0, partition=1))
    assert client.is_closed_by_peer()


def test_a_corrupt_batch_is_refused_and_noted(cluster: FakeCluster, client: RawClient) -> None:
    assert _produce(client, make_batch(b"a", crc=3)).error_code == 2
    assert "CRC" in cluster.violations.pop()
    assert cluster.records("t") == []


@pytest.mark.parametrize(
    "frame", [b"\x00\x00", b"\x00\x63\x00\x00\x00\x00\x00\x01\xff\xff", b"\x00\x00\x00\x09" * 9]
)
def test_an_invalid_frame_closes_the_connection(
    cluster: FakeCluster, client: RawClient, frame: bytes
) -> None:
    client.send_frame(frame)
    assert client.is_closed_by_peer()
    assert len(cluster.violations) == 1


def test_a_version_that_is_not_offered_closes_the_connection(cluster: FakeCluster, client: RawClient) -> None:
    cluster.set_versions(PRODUCE, (3, 8))
    client.send(PRODUCE, 9, produce_request("t", make_batch(b"a")))
    assert client.is_closed_by_peer()
    assert "API 0 v9" in cluster.violations.pop()


def test_one_shot_scripts_are_used_in_order_before_correct_responses(
    cluster: FakeCluster, client: RawClient
) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(6))
    cluster.control(PRODUCE, faults.refuse_produce(7, "slow"))
    codes = [_produce(client, make_batch(b"a")).error_code for _ in range(3)]
    assert codes == [6, 7, 0]


def test_a_script_may_refuse_one_partition_only(cluster: FakeCluster, client: RawClient) -> None:
    cluster.move_leader("t", 1, 1)
    cluster.control(PRODUCE, faults.refuse_produce(19, partition=("t", 1)))
    request = produce_request("t", make_batch(b"a"))
    request.topic_data[0].partition_data += (
        produce_request("t", make_batch(b"b"), partition=1).topic_data[0].partition_data
    )
    (topic,) = client.ask(PRODUCE, 9, request).responses
    assert [p.error_code for p in topic.partition_responses] == [0, 19]


def test_a_held_response_delays_the_later_ones(cluster: FakeCluster, client: RawClient) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_after(gate))
    first = client.send(PRODUCE, 9, produce_request("t", make_batch(b"a")))
    second = client.send(PRODUCE, 9, produce_request("t", make_batch(b"b")))
    cluster.wait_for_requests(PRODUCE, 2)
    gate.wait_until_reached()
    assert [r.value for r in cluster.records("t")] == [b"a"]
    gate.open()
    assert [client.receive(PRODUCE, 9)[0] for _ in range(2)] == [first, second]
    assert [r.value for r in cluster.records("t")] == [b"a", b"b"]


def test_closing_before_and_after_the_append(cluster: FakeCluster, client: RawClient) -> None:
    cluster.control(PRODUCE, faults.close_before())
    cluster.control(PRODUCE, faults.close_after(reset=True))
    client.send(PRODUCE, 9, produce_request("t", make_batch(b"before")))
    assert client.is_closed_by_peer()
    with RawClient(cluster.brokers[1].port) as second:
        second.send(PRODUCE, 9, produce_request("t", make_batch(b"after")))
        assert second.is_closed_by_peer()
    assert [r.value for r in cluster.records("t")] == [b"after"]


def test_wrong_correlation_id_fragments_and_raw_bytes(cluster: FakeCluster, client: RawClient) -> None:
    cluster.control(PRODUCE, faults.fragmented())
    assert _produce(client, make_batch(b"a")).error_code == 0
    cluster.control(PRODUCE, faults.wrong_correlation_id(5))
    sent = client.send(PRODUCE, 9, produce_request("t", make_batch(b"b")))
    assert client.receive(PRODUCE, 9)[0] == sent + 5
    cluster.control(PRODUCE, lambda context: Bytes(b"HTTP/1.1 400"))
    client.send(PRODUCE, 9, produce_request("t", make_batch(b"c")))
    assert client.socket.recv(12) == b"HTTP/1.1 400"


def test_a_handler_may_change_the_response_or_pass_the_request_on(
    cluster: FakeCluster, client: RawClient
) -> None:
    def lie(context: RequestContext) -> Reply | None:
        if not context.message.topics:
            return None
        answer = context.apply()
        answer.topics[0].partitions[0].leader_id = 99
        return Reply(answer)

    control = cluster.control(METADATA, lie, times=None)
    nothing = client.ask(METADATA, 9, messages.MetadataRequest(topics=[]))
    assert nothing.topics == []
    wanted = [MetadataRequestTopic(name="t")]
    answer = client.ask(METADATA, 9, messages.MetadataRequest(topics=wanted))
    assert answer.topics[0].partitions[0].leader_id == 99
    assert control.taken == 1


def test_kill_and_restart_keep_port_and_log(cluster: FakeCluster, client: RawClient) -> None:
    _produce(client, make_batch(b"a"))
    port = cluster.brokers[1].port
    cluster.kill(1)
    assert client.is_closed_by_peer()
    with pytest.raises(ConnectionRefusedError):
        RawClient(port)
    cluster.restart(1)
    with RawClient(port) as second:
        assert _produce(second, make_batch(b"b")).base_offset == 1


def test_a_broker_that_does_not_read_answers_when_it_reads_again(
    cluster: FakeCluster, client: RawClient
) -> None:
    _produce(client, make_batch(b"a"))
    cluster.stall_reading(1)
    client.send(PRODUCE, 9, produce_request("t", make_batch(b"b")))
    cluster.resume_reading(1)
    assert client.receive(PRODUCE, 9)[1].responses[0].partition_responses[0].base_offset == 1


def test_connections_can_be_refused_on_accept(cluster: FakeCluster) -> None:
    cluster.control_accept(lambda broker, _: Close() if broker.node_id == 2 else None)
    with RawClient(cluster.brokers[2].port) as refused:
        assert refused.is_closed_by_peer()
    assert cluster.brokers[2].accepted_count == 1


def test_a_wait_that_times_out_names_the_condition_and_the_requests(
    cluster: FakeCluster, client: RawClient
) -> None:
    _produce(client, make_batch(b"a"))
    with pytest.raises(AssertionError, match=r"2 requests of API 3(.|\n)*#0 Produce v9"):
        cluster.wait_for_requests(METADATA, 2, timeout_s=0.01)


def test_holding_calls_its_handler_when_the_gate_opens(cluster: FakeCluster, client: RawClient) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, lambda context: Hold(gate, faults.refuse_produce(7)))
    client.send(PRODUCE, 9, produce_request("t", make_batch(b"a")))
    gate.wait_until_reached()
    gate.open()
    assert client.receive(PRODUCE, 9)[1].responses[0].partition_responses[0].error_code == 7
