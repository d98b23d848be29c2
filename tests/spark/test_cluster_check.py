"""What the driver finds out before tasks start: brokers that do not answer, topics that do not exist."""

from __future__ import annotations

import pickle
import threading

import pytest
from pyspark.sql.types import StructType

from kproducer.spark import KafkaProducerDataSource, SparkWriteError, cluster_check
from kproducer.spark.cluster_check import check_cluster
from kproducer.testing.fakebroker import FakeCluster
from tests.support.loopback import Listener

METADATA = 3
SCHEMA = StructType().add("value", "string")
#: Longer than anything that is not waited for may take.
AGES_S = 600
#: No listener is there.
NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _nothing_checked_yet():
    cluster_check._passed_until.clear()


@pytest.fixture
def cluster():
    with FakeCluster(2) as made:
        made.create_topic("there", 3)
        yield made


def refusal(servers, *topics, timeout_s=1.0):
    with pytest.raises(SparkWriteError) as caught:
        check_cluster(servers, dict.fromkeys(topics, "topic"), timeout_s)
    assert "othing was written" in str(caught.value)
    return str(caught.value)


def test_topics_that_exist_pass_at_once(cluster):
    cluster.create_topic("marks", 1)
    check_cluster(cluster.bootstrap_servers, {"there": "topic", "marks": "markerTopic"}, AGES_S)
    assert {request.api_version for request in cluster.requests(METADATA)} == {4}


def test_while_the_first_server_answers_the_others_get_no_connection(cluster, monkeypatch):
    monkeypatch.setattr(cluster_check, "_NEXT_SERVER_S", AGES_S)
    check_cluster([NOBODY, *cluster.bootstrap_servers], {"there": "topic"}, AGES_S)
    assert len(cluster.requests(METADATA)) == 1


def test_without_a_topic_a_broker_has_to_answer(cluster):
    check_cluster(cluster.bootstrap_servers, {}, AGES_S)
    cluster.kill(1)
    cluster.kill(2)
    assert "no broker of the option 'kafka.bootstrap.servers'" in refusal(cluster.bootstrap_servers)


def test_a_missing_topic_is_named_with_its_option(cluster):
    text = refusal(cluster.bootstrap_servers, "there", "ordrs")
    assert "topic 'ordrs' does not exist" in text
    assert "within 1 s" in text
    assert "correct the option 'topic'" in text


def test_a_topic_that_appears_late_is_waited_for(cluster):
    cluster.metadata_errors["there"] = 3

    def appear(context):
        if len(cluster.requests(METADATA)) >= 4:
            cluster.metadata_errors.clear()

    cluster.control(METADATA, appear, times=None)
    check_cluster(cluster.bootstrap_servers, {"there": "topic"}, AGES_S)


@pytest.mark.parametrize("first_error", [0, 3, 5])
def test_brokers_that_create_topics_are_given_the_time_to_do_so(first_error):
    with FakeCluster(1, auto_create_partitions=2) as cluster:
        cluster.auto_create_first_error = first_error
        check_cluster(cluster.bootstrap_servers, {"new": "topic"}, AGES_S)
        assert "new" in cluster.topics


@pytest.mark.parametrize(("code", "said"), [(29, "Grant Write on it"), (17, "INVALID_TOPIC_EXCEPTION")])
def test_a_topic_that_is_refused_is_not_waited_for(cluster, code, said):
    cluster.metadata_errors["there"] = code
    assert said in refusal(cluster.bootstrap_servers, "there", timeout_s=AGES_S)


def test_other_errors_of_a_topic_are_waited_for_and_named(cluster):
    cluster.metadata_errors["there"] = 38
    assert "INVALID_REPLICATION_FACTOR" in refusal(cluster.bootstrap_servers, "there")


def test_each_server_that_cannot_be_reached_is_named_with_the_reason():
    with Listener() as silent:
        servers = [NOBODY, "{}:{}".format(*silent.address), "no.such.host.invalid:9092"]
        text = refusal(servers, "there")
    assert "Connection refused" in text
    assert f"{servers[1]}: " in text
    assert f"{servers[2]}: " in text
    assert "'checkTimeoutMs'" in text


def test_one_server_that_answers_is_enough(cluster):
    with Listener() as silent:
        servers = ["{}:{}".format(*silent.address), NOBODY, cluster.bootstrap_servers[0]]
        check_cluster(servers, {"there": "topic"}, AGES_S)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP server"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "TLS listener"),
        (b"", "TLS listener"),
        (b"\x00\x00\x00\x08" + bytes(8), "MetadataResponse v4"),
    ],
)
def test_a_server_of_another_kind_is_recognised(answer, said):
    with Listener() as other:

        def answer_once():
            peer = other.accept()
            # Closing with bytes that nobody has read would reset the connection.
            peer.recv(1000)
            peer.sendall(answer)
            peer.close()

        thread = threading.Thread(target=answer_once, daemon=True)
        thread.start()
        assert said in refusal(["{}:{}".format(*other.address)], "there", timeout_s=2)
        thread.join()


def source(servers, topic, **options):
    given = {"kafka.bootstrap.servers": servers, "topic": topic, "checkTimeoutMs": "1000", **options}
    return KafkaProducerDataSource(given)


def test_batch_and_stream_are_checked_where_they_are_planned(cluster):
    servers = ",".join(cluster.bootstrap_servers)
    source(servers, "there").writer(SCHEMA, False)
    source(servers, "there").streamWriter(SCHEMA, False)
    for make in (source(servers, "gone").writer, source(servers, "gone").streamWriter):
        with pytest.raises(SparkWriteError, match="'gone' does not exist"):
            make(SCHEMA, False)


def test_micro_batches_in_quick_succession_are_checked_once(cluster, monkeypatch):
    monkeypatch.setattr(cluster_check, "_VALID_S", AGES_S)
    servers = cluster.bootstrap_servers[0]
    for _ in range(3):
        source(servers, "there").streamWriter(SCHEMA, False)
    assert len(cluster.requests(METADATA)) == 1
    # Other options may be wrong.
    source(servers, "there", **{"kafka.client.id": "another"}).streamWriter(SCHEMA, False)
    assert len(cluster.requests(METADATA)) == 2
    monkeypatch.setattr(cluster_check, "_passed_until", dict.fromkeys(cluster_check._passed_until, 0.0))
    cluster.metadata_errors["there"] = 29
    with pytest.raises(SparkWriteError, match="Grant Write on it"):
        source(servers, "there").streamWriter(SCHEMA, False)


def test_a_failed_check_is_repeated(cluster):
    cluster.metadata_errors["there"] = 29
    with pytest.raises(SparkWriteError):
        source(cluster.bootstrap_servers[0], "there").writer(SCHEMA, False)
    cluster.metadata_errors.clear()
    source(cluster.bootstrap_servers[0], "there").writer(SCHEMA, False)


def test_the_marker_topic_is_checked_too(cluster):
    wrong = source(",".join(cluster.bootstrap_servers), "there", delivery="exactly-once", markerTopic="marks")
    with pytest.raises(SparkWriteError, match="correct the option 'markerTopic'"):
        wrong.streamWriter(SCHEMA, False)


def test_the_process_that_commits_a_micro_batch_does_not_check(cluster):
    copy = pickle.loads(pickle.dumps(source(NOBODY, "there")))
    copy.streamWriter(SCHEMA, False)


def test_the_check_can_be_turned_off():
    source(NOBODY, "there", checkTimeoutMs="0").writer(SCHEMA, False)


def test_topics_in_a_column_are_not_known_and_the_brokers_have_to_answer(cluster):
    schema = StructType().add("value", "string").add("topic", "string")
    options = {"kafka.bootstrap.servers": ",".join(cluster.bootstrap_servers), "checkTimeoutMs": "1000"}
    KafkaProducerDataSource(options).writer(schema, False)
    with pytest.raises(SparkWriteError, match="no broker"):
        KafkaProducerDataSource({**options, "kafka.bootstrap.servers": NOBODY}).writer(schema, False)
