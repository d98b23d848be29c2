"""ProducerConfig: defaults, ranges, contradictions, dotted names, and what is said about mistakes."""

from __future__ import annotations

import copy
import functools
import pickle
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer import ConfigError, IntegerSerializer, KafkaProducer, ProducerConfig
from kproducer._core.config import producer_config
from kproducer._core.config.producer_config import SETTINGS
from kproducer._core.config.setting_meanings import meanings

SERVERS = "localhost:9092"
PASSWORD = "hunter2"

#: The defaults of Kafka 4's Java producer.
JAVA_DEFAULTS = {
    "acks": -1,
    "buffer_memory": 33554432,
    "compression_gzip_level": -1,
    "compression_lz4_level": 9,
    "compression_type": "none",
    "compression_zstd_level": 3,
    "connections_max_idle_ms": 540000,
    "delivery_timeout_ms": 120000,
    "enable_idempotence": True,
    "enable_metrics_push": True,
    "linger_ms": 5,
    "max_block_ms": 60000,
    "max_in_flight_requests_per_connection": 5,
    "max_request_size": 1048576,
    "metadata_max_age_ms": 300000,
    "metadata_max_idle_ms": 300000,
    "metadata_recovery_rebootstrap_trigger_ms": 300000,
    "metadata_recovery_strategy": "rebootstrap",
    "partitioner_adaptive_partitioning_enable": True,
    "partitioner_availability_timeout_ms": 0,
    "partitioner_ignore_keys": False,
    "receive_buffer_bytes": 32768,
    "reconnect_backoff_max_ms": 1000,
    "reconnect_backoff_ms": 50,
    "request_timeout_ms": 30000,
    "retries": 2147483647,
    "retry_backoff_max_ms": 1000,
    "retry_backoff_ms": 100,
    "security_protocol": "PLAINTEXT",
    "send_buffer_bytes": 131072,
    "socket_connection_setup_timeout_max_ms": 30000,
    "socket_connection_setup_timeout_ms": 10000,
}


def config(**settings: Any) -> ProducerConfig:
    return ProducerConfig.from_keywords({"bootstrap_servers": SERVERS, **settings})


def refusal(**settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**settings)
    return str(caught.value)


@pytest.mark.parametrize(("name", "default"), sorted(JAVA_DEFAULTS.items()))
def test_defaults_are_those_of_java(name: str, default: object) -> None:
    assert getattr(config(), name) == default
    assert SETTINGS[name].default == default


def test_configurations_with_equal_settings_are_equal() -> None:
    chosen = config(linger_ms=7)
    for equal in (config(linger_ms=7), config().evolve(linger_ms=7), copy.copy(chosen)):
        assert equal == chosen
        assert hash(equal) == hash(chosen)
    assert pickle.loads(pickle.dumps(chosen)) == chosen
    assert chosen not in (config(), vars(chosen), None)


def test_a_configuration_does_not_change() -> None:
    chosen = config(linger_ms=7)
    assert chosen.evolve(client_id="x").linger_ms == 7
    with pytest.raises(AttributeError):
        chosen.linger_ms = 8  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del chosen.linger_ms
    with pytest.raises(ConfigError, match="unknown setting 'linger'"):
        chosen.evolve(linger=8)
    assert chosen == config(linger_ms=7)


def test_every_setting_is_documented() -> None:
    documented = meanings(producer_config, "ProducerConfig")
    assert list(documented) == list(SETTINGS)
    for name, setting in SETTINGS.items():
        assert documented[name].endswith(".")
        assert setting.source
        if setting.kind == "integer" and name.endswith("_ms"):
            assert setting.unit == "ms"


@pytest.mark.parametrize(
    ("given_servers", "stored"),
    [
        ("a:1", ("a:1",)),
        ("a:1, b:2 ,a:1", ("a:1", "b:2")),
        (["a:1", "b:2"], ("a:1", "b:2")),
        (["a:1,b:2", "c:3"], ("a:1", "b:2", "c:3")),
        ("PLAINTEXT://broker.example:9092", ("broker.example:9092",)),
        ("plaintext://broker.example:9092", ("broker.example:9092",)),
        ("[::1]:9092", ("[::1]:9092",)),
    ],
)
def test_bootstrap_servers_in_all_their_shapes(given_servers: Any, stored: tuple[str, ...]) -> None:
    assert config(bootstrap_servers=given_servers).bootstrap_servers == stored


@pytest.mark.parametrize(
    ("given_servers", "hint"),
    [
        ("localhost", "write 'localhost:9092'"),
        ("::1", "'[::1]:9092'"),
        ("", "at least one"),
        ([], "at least one"),
        ("a:0", "port"),
        ("a:65536", "port"),
        ("a:b", "port"),
        (":9092", "host"),
        ("a b:9092", "host"),
        (9092, "host:port"),
        (b"a:1", "host:port"),
        ([("a", 1)], "host:port"),
        ("http://a:1", "write 'host:port' without http://"),
        ("SASL_SSL://a:1", "set security_protocol to SASL_SSL"),
        (None, "host:port"),
    ],
)
def test_wrong_bootstrap_servers_are_told_what_would_be_right(given_servers: Any, hint: str) -> None:
    text = refusal(bootstrap_servers=given_servers)
    assert text.startswith("bootstrap_servers: ")
    assert hint in text


def test_bootstrap_servers_have_to_be_given() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        ProducerConfig.from_keywords({})
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        ProducerConfig.from_dotted({"linger.ms": "1"})


@pytest.mark.parametrize(
    ("given_acks", "stored"), [("all", -1), (-1, -1), ("-1", -1), (0, 0), ("1", 1), (1, 1)]
)
def test_acks(given_acks: Any, stored: int) -> None:
    assert config(acks=given_acks).acks == stored


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"acks": 2}, ["acks", "2", "'all'"]),
        ({"acks": True}, ["acks", "True"]),
        ({"linger_ms": -1}, ["linger_ms", "-1 (int)", "from 0 to"]),
        ({"linger_ms": "5"}, ["linger_ms", "'5' (str)", "whole number of ms"]),
        ({"linger_ms": 5.0}, ["linger_ms", "5.0 (float)"]),
        ({"linger_ms": None}, ["linger_ms", "None"]),
        ({"linger_ms": True}, ["linger_ms", "True (bool)"]),
        ({"retries": 2**31}, ["retries", str(2**31), "0 to 2147483647"]),
        ({"max_in_flight_requests_per_connection": 0}, ["max_in_flight", "1 to"]),
        ({"buffer_memory": 0}, ["buffer_memory", "bytes from 1 to", "0 (int)"]),
        ({"compression_type": "brotli"}, ["compression_type", "brotli", "zstd"]),
        ({"compression_gzip_level": 10}, ["compression_gzip_level", "-1 to 9"]),
        ({"compression_gzip_level": 0}, ["compression_gzip_level", "1 to 9"]),
        ({"compression_zstd_level": 23}, ["compression_zstd_level", "22"]),
        ({"client_id": 5}, ["client_id", "5 (int)"]),
        ({"client_id": "\ud800"}, ["client_id", "UTF-8"]),
        ({"client_id": "x" * 40000}, ["client_id", "40000"]),
        ({"partitioner_ignore_keys": "yes"}, ["partitioner_ignore_keys", "'yes'"]),
        ({"partitioner": 5}, ["partitioner", "5 (int)"]),
        ({"key_serializer": 5}, ["key_serializer", "callable"]),
        ({"value_serializer": "strng"}, ["value_serializer", "strng", "string"]),
        ({"interceptors": "org.example.Interceptor"}, ["interceptors", "list"]),
        ({"interceptors": [object()]}, ["interceptors", "on_send"]),
        ({"security_protocol": "TLS"}, ["security_protocol", "TLS", "SASL_SSL"]),
        ({"enable_idempotence": True, "acks": 1}, ["acks: expected -1", "enable_idempotence=True", "got 1"]),
        (
            {"enable_idempotence": True, "retries": 0},
            ["retries: expected at least 1", "enable_idempotence=True", "got 0"],
        ),
        (
            {"enable_idempotence": True, "max_in_flight_requests_per_connection": 6},
            ["max_in_flight_requests_per_connection: expected at most 5", "got 6"],
        ),
        ({"transactional_id": "a", "acks": 0}, ["acks: expected -1", "transactional_id='a'", "got 0"]),
        (
            {"transactional_id": "a", "enable_idempotence": False},
            ["enable_idempotence: expected True", "transactional_id='a'", "got False"],
        ),
        ({"client_dns_lookup": "default"}, ["client_dns_lookup", "use_all_dns_ips"]),
    ],
)
def test_a_wrong_value_is_named_together_with_what_is_right(settings: Any, words: list[str]) -> None:
    text = refusal(**settings)
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"delivery_timeout_ms": 30004}, ["delivery_timeout_ms", "30004", "linger_ms (5)", "30005"]),
        ({"delivery_timeout_ms": 120000, "linger_ms": 100000}, ["130000"]),
        ({"batch_size": 2000, "buffer_memory": 1000}, ["batch_size", "buffer_memory (1000)"]),
        (
            {"retry_backoff_ms": 100, "retry_backoff_max_ms": 99},
            ["retry_backoff_max_ms", "at least retry_backoff_ms (100), got 99"],
        ),
        ({"reconnect_backoff_max_ms": 10}, ["reconnect_backoff_max_ms", "reconnect_backoff_ms (50)"]),
        ({"socket_connection_setup_timeout_max_ms": 9999}, ["socket_connection_setup_timeout_ms (10000)"]),
    ],
)
def test_contradictory_settings_are_named(settings: Any, words: list[str]) -> None:
    text = refusal(**settings)
    for word in words:
        assert word in text


def test_a_default_gives_way_where_an_explicit_value_would_be_refused() -> None:
    assert config(linger_ms=100000).delivery_timeout_ms == 130000
    assert config(request_timeout_ms=2**31 - 1).delivery_timeout_ms == 2**31 - 1
    assert config().batch_size == 524288
    assert config(buffer_memory=1000).batch_size == 1000
    assert config(max_request_size=1000).batch_size == 1000
    assert config(retry_backoff_ms=5000).retry_backoff_max_ms == 5000
    assert config(reconnect_backoff_ms=5000).reconnect_backoff_max_ms == 5000


def test_java_forever_is_accepted() -> None:
    waiting = config(linger_ms=2**63 - 1, max_block_ms=2**63 - 1, metadata_max_age_ms=2**63 - 1)
    assert waiting.max_block_ms >= 100 * 365 * 86_400_000


def test_none_means_no_compression_and_no_client_id() -> None:
    assert config(compression_type=None).compression_type == "none"
    assert config(client_id=None).client_id == ""
    assert config(compression_type="LZ4").compression_type == "lz4"


def test_dotted_names_and_texts() -> None:
    made = ProducerConfig.from_dotted(
        {
            "bootstrap.servers": "a:1,b:2",
            "acks": "all",
            "linger.ms": " 20 ",
            "partitioner.ignore.keys": "True",
            "compression.type": "zstd",
            "compression.zstd.level": 7,
            "key.serializer": "org.apache.kafka.common.serialization.IntegerSerializer",
            "value.serializer": "json",
            "partitioner.class": "consistent_random",
            "interceptor.classes": [],
        }
    )
    assert made.bootstrap_servers == ("a:1", "b:2")
    assert (made.linger_ms, made.partitioner_ignore_keys) == (20, True)
    assert (made.compression_type, made.compression_zstd_level) == ("zstd", 7)
    assert made.partitioner == "consistent_random"
    assert isinstance(made.key_serializer, IntegerSerializer)
    assert made.key_serializer.width == 4


@pytest.mark.parametrize(
    ("name", "value"), [("linger.ms", "soon"), ("linger.ms", "1.5"), ("partitioner.ignore.keys", "1")]
)
def test_texts_that_are_no_numbers_or_booleans(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        ProducerConfig.from_dotted({"bootstrap.servers": SERVERS, name: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("linger", "linger_ms"),
        ("lingerms", "linger_ms"),
        ("batch_sze", "batch_size"),
        ("max_batch_size", "batch_size"),
        ("message_timeout_ms", "delivery_timeout_ms"),
        ("compression_codec", "compression_type"),
        ("bootstrap_server", "bootstrap_servers"),
        ("queue_buffering_max_ms", "linger_ms"),
        ("linger.ms", "linger_ms"),
        ("request_required_acks", "acks"),
        ("ssl_truststore", "ssl_truststore_location"),
        ("ssl_keystore", "ssl_keystore_location"),
        ("username", "sasl_plain_username"),
        ("hosts", "bootstrap_servers"),
        ("url", "bootstrap_servers"),
        ("ca_cert", "ssl_cafile"),
        ("codec", "compression_type"),
        ("name", "client_id"),
        ("queue_size", "buffer_memory"),
        ("serializer", "value_serializer"),
        # Of other clients, found because they are similar.
        ("batch_bytes", "batch_size"),
        ("compression", "compression_type"),
        ("delivery_timeout", "delivery_timeout_ms"),
        ("interceptor_classes", "interceptors"),
        ("partitioner_class", "partitioner"),
        ("request_timeout", "request_timeout_ms"),
        ("sasl_mechanisms", "sasl_mechanism"),
        ("sasl_oauthbearer_assertion_jwt_template_file", "sasl_oauthbearer_assertion_template_file"),
        ("sasl_username", "sasl_plain_username"),
        ("socket_receive_buffer_bytes", "receive_buffer_bytes"),
        ("socket_send_buffer_bytes", "send_buffer_bytes"),
        ("socket_timeout_ms", "request_timeout_ms"),
        ("ssl_ciphers", "ssl_cipher_suites"),
        ("password", "sasl_plain_password"),
        ("http_proxy", "proxy_url"),
        ("sasl_kerberos_keytab_file", "sasl_kerberos_keytab"),
    ],
)
def test_an_unknown_keyword_is_answered_with_the_nearest_right_one(name: str, nearest: str) -> None:
    text = refusal(**{name: 5})
    assert repr(name) in text
    assert f"did you mean {nearest}?" in text


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("queue.buffering.max.ms", "did you mean linger.ms?"),
        ("message.max.bytes", "did you mean max.request.size?"),
        ("retry.backoff.max", "did you mean retry.backoff.max.ms?"),
        ("partitioner", "did you mean partitioner.class?"),
        ("bootstrap_servers", "did you mean bootstrap.servers?"),
        ("queue.buffering.max.messages", "buffer_memory"),
        ("stats_cb", "metrics()"),
        ("session.timeout.ms", "a setting of consumers"),
        ("allow.auto.create.topics", "of the brokers"),
        ("transaction.id", "did you mean transactional.id?"),
        ("ssl.ca.location", "did you mean ssl.cafile?"),
        ("sasl.kerberos.kinit.cmd", "from the ticket cache"),
        ("sasl.login.class", "sasl_oauth_token_provider"),
        ("zzz", "no setting has a similar name"),
    ],
)
def test_an_unknown_dotted_name_is_answered_in_dots(name: str, answer: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.from_dotted({"bootstrap.servers": SERVERS, name: "x"})
    assert answer in str(caught.value)


def test_all_unknown_settings_are_named_at_once() -> None:
    text = refusal(foo=1, linger=2)
    assert "'foo'" in text
    assert "'linger'" in text


@pytest.mark.parametrize(
    "name",
    [
        "sasl_plain_pasword",
        "sasl.pasword",
        "sasl.login.class",
        "ssl.key.pem",
        "ssl_ca_file",
        "oauth",
        "myoption",
    ],
)
def test_no_value_of_an_unknown_setting_is_shown(name: str) -> None:
    assert PASSWORD not in refusal(**{name: PASSWORD})
    with pytest.raises(ConfigError) as caught:
        KafkaProducer.from_config({"bootstrap.servers": SERVERS, name: PASSWORD})
    assert repr(name) in str(caught.value)
    assert PASSWORD not in everything_told(caught.value)


def everything_told(error: BaseException) -> str:
    """Its traceback as Python prints it, with the errors that it was raised from."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "servers",
    [
        "user:hunter2@localhost:9092",
        "hunter2@localhost:9092",
        "localhost:9092,user:hunter2@localhost",
        "user:hunter2,more@localhost:9092",
        "SASL_SSL://user:hunter2@localhost:9092",
        "http://user:hunter2@localhost:9092/",
        ["localhost:9092", "user:hunter2@[::1]:9092"],
        b"user:hunter2@localhost:9092",
        [b"user:hunter2@localhost:9092"],
        [("user", "hunter2")],
        [{"bootstrap.servers": "localhost:9092", "sasl.password": "hunter2"}],
    ],
)
def test_a_password_among_the_servers_is_refused_and_not_shown(servers: Any) -> None:
    for make in (
        lambda: KafkaProducer(servers),
        lambda: KafkaProducer.from_config({"bootstrap.servers": servers}),
    ):
        with pytest.raises(ConfigError, match=r"expected .*'host:port'") as caught:
            make()
        assert PASSWORD not in everything_told(caught.value)


@given(
    st.sampled_from(sorted(SETTINGS)),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
        st.binary(max_size=5),
        st.lists(st.one_of(st.integers(), st.text(max_size=5)), max_size=3),
        st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    ),
)
def test_any_value_is_taken_or_refused_with_the_settings_name(name: str, value: object) -> None:
    message = name
    try:
        config(**{name: value})
    except ConfigError as error:
        message = str(error)
    assert name in message


@pytest.mark.parametrize(
    ("server", "guess"),
    [
        ("::1:9092", r"write '\[::1\]:9092' or '\[::1:9092\]:9092'"),
        ("fe80::a", r"write '\[fe80::a\]:9092'$"),
    ],
)
def test_an_ipv6_address_without_brackets_is_shown_with_them(server: str, guess: str) -> None:
    with pytest.raises(ConfigError, match=guess):
        ProducerConfig.from_keywords({"bootstrap_servers": server})


@pytest.mark.parametrize(
    ("servers", "advice"),
    [
        ("a:1;b:2", "separate servers with commas"),
        ("a:1 b:2", "separate servers with commas"),
        ("a:2181/kafka", "remove '/kafka', which does not belong to a broker's address"),
        (("a", 9092), "write host and port as one text: 'host:9092'"),
        ([("a", 9092)], "write host and port as one text: 'host:9092'"),
    ],
)
def test_servers_in_another_form_are_explained(servers: Any, advice: str) -> None:
    with pytest.raises(ConfigError, match=f"{advice}$"):
        ProducerConfig.from_keywords({"bootstrap_servers": servers})


@pytest.mark.parametrize("partitioner", [lambda key: 0, lambda: 0, KafkaProducer])
def test_a_partitioner_that_takes_other_arguments_is_refused(partitioner: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"partitioner: expected a callable of \(topic, key, key_bytes, value"
    ):
        config(partitioner=partitioner)


def test_a_partitioner_may_take_any_arguments() -> None:
    assert config(partitioner=lambda *everything: 0).partitioner is not None
    assert config(partitioner=max).partitioner is max


def test_a_wrapper_of_a_partitioner_may_pass_other_arguments() -> None:
    def by_key(key_bytes: bytes | None, partitions: list[int]) -> int:
        return partitions[0]

    @functools.wraps(by_key)
    def partitioner(topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, snapshot: Any) -> int:
        return by_key(key_bytes, [0])

    assert config(partitioner=partitioner).partitioner is partitioner


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("topic", "it is an argument of send()"),
        ("ssl", "set security_protocol to SSL"),
        ("sasl", "and sasl_mechanism"),
        ("ssl_verify", "pass an ssl.SSLContext that does not verify"),
        ("callback", "pass on_delivery to send()"),
        ("timeout", "delivery_timeout_ms limits the delivery of a record"),
    ],
)
def test_what_is_no_setting_is_explained(name: str, advice: str) -> None:
    assert f"unknown setting {name!r}: " in (text := refusal(**{name: 5}))
    assert advice in text


def test_a_mapping_in_the_place_of_the_servers_is_sent_to_from_config_and_not_shown() -> None:
    settings = {"bootstrap.servers": "b:1", "sasl.password": "hunter2"}
    with pytest.raises(ConfigError, match=r"from_config\(mapping\)") as caught:
        KafkaProducer(settings)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("settings", [1, None, [("bootstrap.servers", "b:1")]])
def test_from_config_says_what_it_takes(settings: Any) -> None:
    with pytest.raises(ConfigError, match=r"expected a mapping of Kafka's dotted names.*got "):
        KafkaProducer.from_config(settings)


@pytest.mark.parametrize(
    "settings", [{"acks": 1}, {"acks": 0}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}]
)
def test_idempotence_by_default_gives_way_and_says_so(
    settings: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "kproducer"):
        assert config().enable_idempotence
        assert config(**settings, enable_idempotence=False).enable_idempotence is False
        assert caplog.records == []
        given = config(**settings)
    assert given.enable_idempotence is False
    ((name, value),) = settings.items()
    assert getattr(given, name) == value
    assert f"{name}={value}" in caplog.text


@pytest.mark.parametrize(
    "settings",
    [
        {"bootstrap_servers": 7},
        {"acks": 7},
        {"batch_size": 2**30},
        {"partitioner": "no such"},
        {"security_protocol": "SASL_SSL"},
        {"proxy_url": "proxy"},
    ],
)
def test_every_local_variable_of_a_failed_constructor_has_a_repr(settings):
    """Tools that report errors show them; ``traceback`` of Python 3.11 fails if a repr does."""
    with pytest.raises(ConfigError) as caught:
        KafkaProducer(**{"bootstrap_servers": SERVERS, **settings})
    for frame, _ in traceback.walk_tb(caught.tb):
        assert all(map(repr, frame.f_locals.values()))


# -- settings of Kafka 4.4 -------------------------------------------------------------------------------


@pytest.mark.parametrize("rack", ["", "  "])
def test_rack_awareness_needs_a_rack(rack: str) -> None:
    with pytest.raises(ConfigError, match=r"client_rack: expected the rack .*remove partitioner_rack_aware"):
        ProducerConfig(bootstrap_servers=SERVERS, client_rack=rack, partitioner_rack_aware=True)
    ProducerConfig(bootstrap_servers=SERVERS, client_rack="a", partitioner_rack_aware=True)
    ProducerConfig(bootstrap_servers=SERVERS, client_rack=rack)


def test_two_phase_commit_and_a_timeout_exclude_each_other() -> None:
    settings = {"bootstrap_servers": SERVERS, "transaction_two_phase_commit_enable": True}
    with pytest.raises(ConfigError, match="transaction_timeout_ms: expected no value"):
        ProducerConfig(**settings, transaction_timeout_ms=1000)
    ProducerConfig(**settings)


@pytest.mark.parametrize("given", ["full", "FULL", "incremental", "Incremental"])
def test_both_strategies_of_allocation_are_accepted_with_every_codec(given: str) -> None:
    """Java refuses incremental with compression, which is no obstacle here."""
    settings = {"buffer.memory.allocation.strategy": given, "compression.type": "zstd", "batch.size": "16"}
    config = ProducerConfig.from_dotted({"bootstrap.servers": SERVERS, **settings})
    assert config.buffer_memory_allocation_strategy == given.lower()


def test_another_strategy_of_allocation_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"buffer\.memory\.allocation\.strategy|buffer_memory_allocation"):
        ProducerConfig.from_dotted(
            {"bootstrap.servers": SERVERS, "buffer.memory.allocation.strategy": "chunked"}
        )
