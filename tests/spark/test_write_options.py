"""Options of the sink: Spark's own work, mistakes are named with their cure, secrets stay hidden."""

from __future__ import annotations

import pickle

import pytest

from kproducer.spark.errors import SparkOptionError
from kproducer.spark.write_options import ATTRIBUTE_OF_DOTTED, SPARK_DEFAULTS, WriteOptions

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def parse(**options: str) -> WriteOptions:
    return WriteOptions.parse({**BASE, **options})


def parse_names(options: dict[str, str]) -> WriteOptions:
    return WriteOptions.parse({**BASE, **options})


def mistake(options: dict[str, str]) -> str:
    with pytest.raises(SparkOptionError) as caught:
        WriteOptions.parse(options)
    return str(caught.value)


def test_the_sinks_defaults_make_large_compressed_batches():
    config = parse().producer_config()
    assert config.batch_size == 524288
    assert config.linger_ms == 50
    assert config.compression_type == "lz4"
    assert config.acks == -1


def test_what_the_user_sets_wins_over_the_sinks_defaults():
    config = parse_names({"kafka.compression.type": "none", "kafka.batch.size": "1000"}).producer_config()
    assert config.compression_type == "none"
    assert config.batch_size == 1000


def test_every_default_is_a_setting_of_the_producer():
    assert set(SPARK_DEFAULTS) <= set(ATTRIBUTE_OF_DOTTED)


def test_java_names_of_all_settings_are_taken():
    config = parse_names(
        {
            "kafka.acks": "1",
            "kafka.max.block.ms": "1234",
            "kafka.delivery.timeout.ms": "60000",
            "kafka.max.in.flight.requests.per.connection": "1",
            "kafka.security.protocol": "PLAINTEXT",
        }
    ).producer_config()
    assert (config.acks, config.max_block_ms, config.delivery_timeout_ms) == (1, 1234, 60000)
    assert config.max_in_flight_requests_per_connection == 1


def test_a_smaller_buffer_than_our_batches_is_no_contradiction():
    assert parse_names({"kafka.buffer.memory": "100000"}).producer_config().batch_size == 100000


def test_a_larger_batch_than_our_buffer_is_no_contradiction():
    size = 128 * 1024 * 1024
    assert parse_names({"kafka.batch.size": str(size)}).producer_config().buffer_memory == size


def test_option_names_are_compared_without_case():
    options = WriteOptions.parse(
        {"Kafka.Bootstrap.Servers": "h:1", "TOPIC": "orders", "INCLUDEHEADERS": "TRUE", "Summary": "JOB"}
    )
    assert options.topic == "orders"
    assert options.summary == "job"
    assert options.producer_config().bootstrap_servers == ("h:1",)


def test_options_that_spark_adds_and_options_of_the_source_are_no_mistake(caplog):
    parse_names({"checkpointLocation": "/tmp/x", "subscribe": "a", "startingOffsets": "earliest"})
    assert "subscribe" in caplog.text
    assert "checkpointLocation" not in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        "metric.reporters",
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.ticket.renew.jitter",
    ],
)
def test_settings_of_the_jvm_alone_are_ignored_with_a_warning(name, caplog):
    options = parse_names({f"kafka.{name}": "3"})
    assert name not in dict(options.producer_settings)
    assert f"kafka.{name}" in caplog.text


def test_pushing_metrics_to_brokers_can_be_turned_off(caplog):
    assert not parse_names({"kafka.enable.metrics.push": "false"}).producer_config().enable_metrics_push
    assert caplog.text == ""


@pytest.mark.kerberos
def test_kerberos_and_msk_options_are_those_of_sparks_own_sink(tmp_path):
    keytab = tmp_path / "job.keytab"
    keytab.write_bytes(b"\x05\x02")
    secured = {"kafka.security.protocol": "SASL_SSL"}
    parse_names(
        {
            **secured,
            "kafka.sasl.mechanism": "GSSAPI",
            "kafka.sasl.kerberos.service.name": "kafka",
            "kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            f'storeKey=true keyTab="{keytab}" principal="job@EXAMPLE.COM";',
        }
    )
    parse_names(
        {
            **secured,
            "kafka.bootstrap.servers": "b-1.x.y.c2.kafka.eu-central-1.amazonaws.com:9098",
            "kafka.sasl.mechanism": "AWS_MSK_IAM",
            "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
            "kafka.sasl.client.callback.handler.class": (
                "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
            ),
        }
    )


@pytest.mark.parametrize("name", ["internals.DefaultPartitioner", "RoundRobinPartitioner"])
def test_kafkas_own_partitioner_classes_mean_their_counterparts(name):
    parse_names({"kafka.partitioner.class": f"org.apache.kafka.clients.producer.{name}"})


@pytest.mark.parametrize(
    ("options", "named", "cure"),
    [
        ({"topc": "x"}, "'topc'", "'topic'"),
        ({"bootstrap.servers": "h:1"}, "'bootstrap.servers'", "'kafka.bootstrap.servers'"),
        ({"kafka_bootstrap_servers": "h:1"}, "'kafka_bootstrap_servers'", "kafka.bootstrap.servers"),
        ({"linger.ms": "5"}, "'linger.ms'", "'kafka.linger.ms'"),
        ({"kafka.lingr.ms": "5"}, "'kafka.lingr.ms'", "kafka.linger.ms"),
        ({"kafka.linger.ms": "soon"}, "'kafka.linger.ms'", "whole number"),
        ({"kafka.linger.ms": "-1"}, "'kafka.linger.ms'", "from 0 to"),
        ({"kafka.acks": "2"}, "'kafka.acks'", "0, 1, -1 or 'all'"),
        ({"kafka.compression.type": "zip"}, "'kafka.compression.type'", "zstd"),
        ({"kafka.key.serializer": "x"}, "'kafka.key.serializer'", "cast the column 'key'"),
        ({"kafka.value.serializer": "x"}, "'kafka.value.serializer'", "cast the column 'value'"),
        ({"kafka.interceptor.classes": "x.Y"}, "'kafka.interceptor.classes'", "transform the columns"),
        ({"kafka.ssl.engine.factory.class": "x.Y"}, "'kafka.ssl.engine.factory.class'", "ssl.truststore"),
        ({"kafka.partitioner.class": "com.acme.P"}, "'kafka.partitioner.class'", "column 'partition'"),
        ({"kafka.transactional.id": "t"}, "'kafka.transactional.id'", "delivery=exactly-once"),
        (
            {"kafka.batch.size": "9", "kafka.buffer.memory": "8"},
            "'kafka.batch.size'",
            "at most kafka.buffer.memory (8), got 9",
        ),
        ({"topic": ""}, "'topic'", "empty"),
        ({"topic": "a b"}, "'topic'", "characters"),
        ({"topic": "x" * 250}, "'topic'", "249"),
        ({"includeHeaders": "yes"}, "'includeHeaders'", "'true' or 'false'"),
        ({"extraColumns": "drop"}, "'extraColumns'", "ignore, fail"),
        ({"producerIdleTimeoutMs": "soon"}, "'producerIdleTimeoutMs'", "whole number of ms"),
        ({"summary": "all"}, "'summary'", "log, job, task, off"),
    ],
)
def test_a_wrong_option_is_named_with_what_would_be_right(options, named, cure):
    message = mistake({**BASE, **options})
    assert named in message
    assert any(each in message for each in cure.split("|"))


def test_missing_brokers_are_a_mistake():
    assert "'kafka.bootstrap.servers' is missing" in mistake({"topic": "t"})


def test_all_mistakes_are_told_at_once():
    message = mistake({"topic": "a b", "kafka.acks": "7", "sumary": "task"})
    assert "'topic'" in message
    assert "'kafka.acks'" in message
    assert "'sumary'" in message
    assert "'kafka.bootstrap.servers'" in message


SECRETS = {
    "kafka.sasl.jaas.config": 'Login required username="u" password="hunter2";',
    "kafka.ssl.keystore.pasword": "hunter2",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": "hunter2",
    "password": "hunter2",
    "sasl.password": "hunter2",
    "kafka.sasl.pasword": "hunter2",
    "kafka.sasl.oauth.token.provider": "hunter2",
    "kafka.myoption": "hunter2",
    "myoption": "hunter2",
    "topc": "hunter2",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_shows_in_no_message(name, caplog):
    message = mistake({**BASE, name: SECRETS[name]})
    assert name in message or name == "kafka.sasl.jaas.config"
    assert "hunter2" not in message + caplog.text


SASL = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": (
        "kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="alice" password="hunter2";'
    ),
}


def test_security_options_reach_the_producer_and_show_nowhere():
    options = WriteOptions.parse({**BASE, **SASL})
    config = options.producer_config()
    assert config.security_protocol == "SASL_PLAINTEXT"
    assert config.sasl_jaas_config == SASL["kafka.sasl.jaas.config"]
    assert "hunter2" not in repr(options) + repr(config)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"kafka.sasl.mechanism": "PLAIN"}, "ScramLoginModule is for kafka.sasl.mechanism=SCRAM-SHA-256 or"),
        ({"kafka.security.protocol": "PLAINTEXT"}, "'kafka.security.protocol'"),
        ({"kafka.sasl.mechanism": "none"}, "kafka.sasl.mechanism is missing"),
        ({"kafka.sasl.jaas.config": 'x.ScramLoginModule required password="hunter2'}, "not closed"),
    ],
)
def test_contradictions_of_security_options_end_the_planning(changes, complaint):
    message = mistake({**BASE, **SASL, **changes})
    assert complaint in message
    assert "hunter2" not in message


@pytest.mark.parametrize("servers", ["u:hunter2@h:9092", "h:9092,hunter2@h:9092", "SASL_SSL://u:hunter2@h:1"])
def test_a_password_among_the_servers_shows_in_no_message(servers, caplog):
    message = mistake({"kafka.bootstrap.servers": servers})
    assert "option 'kafka.bootstrap.servers': expected 'host:port'" in message
    assert "hunter2" not in message + caplog.text


def test_no_producer_setting_shows_in_the_repr():
    options = parse_names({"kafka.client.id": "hunter2", "topic": "orders"})
    assert "hunter2" not in repr(options)
    assert "orders" in repr(options)


def test_options_survive_pickling_and_equal_settings_are_equal_keys():
    options = parse_names({"kafka.acks": "1", "topic": "t"})
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert hash(copy.producer_settings) == hash(options.producer_settings)
    assert parse(topic="t").producer_settings == parse(topic="u").producer_settings
