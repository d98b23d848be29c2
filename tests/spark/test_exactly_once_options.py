"""Options of exactly-once writes: what follows, what contradicts what; which write a task belongs to."""

from __future__ import annotations

import pytest

from kproducer.spark.errors import ExactlyOnceError, SparkOptionError
from kproducer.spark.exactly_once.spark_write import write_task
from kproducer.spark.exactly_once.write_state import WriteKind
from kproducer.spark.partition_writer import SparkTask
from kproducer.spark.write_options import WriteOptions

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders", "delivery": "exactly-once"}


def parse(is_stream=False, **options) -> WriteOptions:
    return WriteOptions.parse({**BASE, **options}, is_stream=is_stream)


def mistake(options, is_stream=False) -> str:
    given = {name: value for name, value in {**BASE, **options}.items() if value is not None}
    with pytest.raises(SparkOptionError) as caught:
        WriteOptions.parse(given, is_stream=is_stream)
    return str(caught.value)


def test_the_default_is_at_least_once_without_a_transactional_id():
    options = WriteOptions.parse({"kafka.bootstrap.servers": "h:1"})
    assert not options.is_exactly_once
    assert not options.producer_config().transactional_id


def test_exactly_once_makes_transactional_producers_that_may_take_as_long_as_brokers_let_them():
    options = parse(is_stream=True)
    config = options.producer_config()
    assert options.is_exactly_once
    assert config.transactional_id == "kproducer-spark"
    assert config.transaction_timeout_ms == 900_000
    assert options.marker_topic == "orders"
    assert options.on_uncertain_replay == "fail"


def test_two_phase_commit_has_no_timeout():
    config = parse(**{"kafka.transaction.two.phase.commit.enable": "true"}).producer_config()
    assert config.transaction_two_phase_commit_enable
    assert not config.is_set("transaction_timeout_ms")
    # One of the two has to go, as for every producer.
    both = {"kafka.transaction.two.phase.commit.enable": "true", "kafka.transaction.timeout.ms": "900000"}
    assert "kafka.transaction.timeout.ms" in mistake(both)


def test_what_the_user_sets_wins():
    options = parse(
        is_stream=True,
        markerTopic="marks",
        transactionalIdPrefix="team.a",
        onUncertainReplay="WRITE",
        **{"kafka.transaction.timeout.ms": "60000", "kafka.acks": "all"},
    )
    assert options.marker_topic == "marks"
    assert options.on_uncertain_replay == "write"
    assert options.producer_config().transaction_timeout_ms == 60_000
    assert options.producer_config().transactional_id == "team.a"


@pytest.mark.parametrize(
    ("options", "is_stream", "said"),
    [
        ({"delivery": "once"}, False, "'delivery': expected one of at-least-once, exactly-once, got 'once'"),
        ({"delivery": None, "writeId": "a"}, False, "'writeId' requires the option delivery=exactly-once"),
        (
            {"delivery": "at-least-once", "markerTopic": "a"},
            True,
            "'markerTopic' requires the option delivery",
        ),
        ({"kafka.transactional.id": "mine"}, True, "delivery=exactly-once generates"),
        (
            {"kafka.enable.idempotence": "false"},
            True,
            "'kafka.enable.idempotence': expected True",
        ),
        ({"kafka.acks": "1"}, True, "'kafka.acks': expected -1 ('all') with delivery=exactly-once"),
        ({"kafka.retries": "0"}, True, "retries"),
        ({"writeId": "a"}, True, "a streaming query is identified by its checkpoint"),
        ({"writeVersion": "1"}, False, "requires the option 'writeId'"),
        ({"writeId": "a", "writeVersion": "-1"}, False, "expected a whole number"),
        ({"writeId": "a b"}, False, "'writeId': expected 1 to 180 letters"),
        ({"transactionalIdPrefix": ""}, True, "'transactionalIdPrefix': expected"),
        ({"markerTopic": "a b"}, True, "'markerTopic'"),
        ({"topic": None}, True, "option 'markerTopic' is missing"),
        ({"topic": None, "writeId": "a"}, False, "option 'markerTopic' is missing"),
        ({"kafka.transaction.timeout.ms": "x"}, True, "transaction.timeout.ms"),
    ],
)
def test_a_contradiction_is_named(options, is_stream, said):
    assert said in mistake(options, is_stream)


def test_a_batch_that_nobody_has_to_recognise_needs_no_marker_topic():
    options = WriteOptions.parse({name: value for name, value in BASE.items() if name != "topic"})
    assert options.marker_topic is None


def task(query_id="", batch_id="", partition=3) -> SparkTask:
    return SparkTask(partition, 0, query_id, batch_id)


def job(group="", *, is_connect=False, is_of_micro_batch=False):
    """The properties of a job, as Spark sets them."""
    properties = {"spark.jobGroup.id": group}
    if is_connect:
        properties["spark.job.tags"] = "SparkConnect_OperationTag_User_x"
    if is_of_micro_batch:
        properties |= dict.fromkeys(
            ("spark.sql.cbo.enabled", "spark.sql.requireAllClusterKeysForDistribution"), "false"
        )
    return lambda name: properties.get(name, "")


def test_a_streaming_query_is_known_by_its_id_and_numbered_by_micro_batch():
    found = write_task(parse(is_stream=True), None, task("q-1", "17"), job("run-1"))
    assert found.write.identity.kind is WriteKind.STREAM
    assert (found.name, found.write.number, found.write.run) == ("kproducer-spark-q-1-3", 17, "run-1")
    assert found.write.identity.driver == "kproducer-spark-q-1-driver"


def test_a_named_batch_is_version_0_or_what_is_given_or_the_micro_batch_around_it():
    named = parse(writeId="nightly")
    assert write_task(named, "x", task(), job()).write.number == 0
    assert write_task(named, "x", task("q-1", "17"), job()).write.number == 17
    assert (
        write_task(parse(writeId="nightly", writeVersion="5"), "x", task("q-1", "17"), job()).write.number
        == 5
    )
    assert write_task(named, "x", task(), job()).name == "kproducer-spark-nightly-3"


def test_a_batch_without_a_name_is_one_of_its_own():
    found = write_task(parse(), "random", task(), job())
    assert not found.write.identity.is_remembered
    assert found.name == "kproducer-spark-random-3"


def test_a_batch_without_a_name_in_foreach_batch_is_refused():
    with pytest.raises(SparkOptionError, match=r"within foreachBatch, .* needs the option 'writeId'"):
        write_task(parse(), "random", task("q-1", "17"), job())


def test_a_named_batch_through_spark_connect_needs_a_version():
    with pytest.raises(SparkOptionError, match="in Spark Connect, option 'writeId' needs"):
        write_task(parse(writeId="nightly"), "x", task(), job(is_connect=True))
    versioned = parse(writeId="nightly", writeVersion="5")
    assert write_task(versioned, "x", task(), job(is_connect=True)).write.number == 5
    assert write_task(parse(is_stream=True), None, task("q-1", "17"), job(is_connect=True)).write.number == 17


def test_a_micro_batch_written_in_a_thread_that_does_not_know_which_needs_a_version():
    def numbered(given=None, **options):
        return write_task(parse(**options), "x", given or task(), job(is_of_micro_batch=True))

    with pytest.raises(SparkOptionError, match="in this thread, option 'writeId' needs"):
        numbered(writeId="nightly")
    with pytest.raises(SparkOptionError, match=r"within foreachBatch, .* needs the option 'writeId'"):
        numbered()
    assert numbered(writeId="nightly", writeVersion="5").write.number == 5
    assert numbered(task("q-1", "17"), writeId="nightly").write.number == 17
    assert numbered(task("q-1", "0"), writeId="nightly").write.number == 0


@pytest.mark.parametrize("given", [task(), task("q-1"), task("", "1"), task("q-1", "1", -1)])
def test_without_what_spark_has_to_tell_nothing_is_written(given):
    with pytest.raises(ExactlyOnceError):
        write_task(parse(is_stream=True), None, given, job())
