"""Every setting of librdkafka's producer is translated, has no effect for a stated reason, or is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import confluent_kafka as peer
import pytest

from kproducer import KafkaProducer
from kproducer._core.config.producer_config import SETTINGS, ProducerConfig
from kproducer.compat import confluent_kafka as adapter
from kproducer.compat.confluent_kafka import settings

ROOT = Path(__file__).resolve().parents[2]
SERVERS = {"bootstrap.servers": "localhost:9092"}
NAMES = {*settings.ALIASES, *settings.RENAMED, *settings.CONVERTED, *settings.IGNORED, *settings.REFUSED}
#: Of the Python client, not of librdkafka.
OF_THE_CLIENT = {"default.topic.config", "logger", "oauth_cb", "on_delivery"}
#: Set by the Python client; librdkafka knows these names only to refuse them.
NOT_SETTINGS = {
    "client.software.name",
    "client.software.version",
    "sasl.jaas.config",
    "ssl.truststore.location",
}
TEXTS = {"linger.ms": 5}


def own(**given: Any) -> dict[str, Any]:
    return settings.translated({**SERVERS, **{name.replace("_", "."): it for name, it in given.items()}}).own


def known_to_librdkafka(name: str) -> bool:
    """Whether librdkafka has this setting. The second one is wrong, so that no client is created."""
    with pytest.raises((peer.KafkaException, TypeError, ValueError)) as raised:
        peer.Producer({name: TEXTS.get(name, "a"), "linger.ms": "wrong"})
    return f'No such configuration property: "{name}"' not in str(raised.value)


@pytest.mark.parametrize("name", sorted((NAMES | settings.OF_THE_ADAPTER) - OF_THE_CLIENT))
def test_librdkafka_has_each_setting_of_the_tables(name: str) -> None:
    assert known_to_librdkafka(name)


def test_each_setting_of_librdkafka_is_in_the_tables() -> None:
    """librdkafka is asked for every text in its library that could be the name of a setting."""
    (library,) = (Path(peer.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*.so*")
    candidates = {
        each.decode()
        for each in re.findall(rb"\0([a-z][a-z0-9]*(?:[._][a-z0-9]+)+)(?=\0)", library.read_bytes())
    }
    found = {name for name in candidates if known_to_librdkafka(name)}
    assert len(found) > 150
    assert sorted(found - NAMES - settings.OF_THE_ADAPTER - NOT_SETTINGS) == []


def test_no_setting_is_in_two_tables() -> None:
    tables = (settings.ALIASES, settings.RENAMED, settings.CONVERTED, settings.IGNORED, settings.REFUSED)
    names = [name for table in (*tables, settings.OF_THE_ADAPTER) for name in table]
    assert len(names) == len(set(names))
    assert set(settings.RENAMED.values()) <= set(SETTINGS)
    assert set(settings.ALIASES.values()) <= NAMES


def test_the_defaults_are_those_of_librdkafka() -> None:
    config = ProducerConfig.from_keywords(own())
    assert (config.acks, config.retries, config.linger_ms, config.batch_size) == (
        -1,
        2147483647,
        5,
        1_000_000,
    )
    assert (config.max_request_size, config.buffer_memory) == (1_000_000, 1024**3)
    assert (config.delivery_timeout_ms, config.request_timeout_ms) == (300_000, 60_000)
    assert (config.retry_backoff_ms, config.retry_backoff_max_ms) == (100, 1000)
    assert (config.reconnect_backoff_ms, config.reconnect_backoff_max_ms) == (100, 10_000)
    assert (config.connections_max_idle_ms, config.client_id) == (-1, "rdkafka")
    assert not config.enable_idempotence


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"linger.ms": "0.5"}, {"linger_ms": 1}),
        ({"queue.buffering.max.ms": 100}, {"linger_ms": 100}),
        ({"queue.buffering.max.kbytes": 2048}, {"buffer_memory": 2 * 1024**2}),
        ({"message.timeout.ms": 1000}, {"delivery_timeout_ms": 1000, "request_timeout_ms": 995}),
        ({"message.timeout.ms": 0}, {"delivery_timeout_ms": 2147483647}),
        ({"transactional.id": "x"}, {"delivery_timeout_ms": 60_000, "enable_idempotence": True}),
        ({"enable.idempotence": "true"}, {"max_in_flight_requests_per_connection": 5}),
        ({"acks": "1", "compression.codec": "lz4"}, {"acks": 1, "compression_type": "lz4"}),
        ({"compression.type": "zstd", "compression.level": 7}, {"compression_zstd_level": 7}),
        ({"compression.type": "gzip", "compression.level": -1}, {"compression_gzip_level": -1}),
        ({"connections.max.idle.ms": 0}, {"connections_max_idle_ms": -1}),
        ({"enable.metrics.push": "false"}, {"enable_metrics_push": False}),
        ({"socket.send.buffer.bytes": 0}, {"send_buffer_bytes": -1}),
        ({"topic.metadata.refresh.interval.ms": -1}, {"metadata_max_age_ms": 2**42}),
        ({"default.topic.config": {"acks": 0}}, {"acks": 0}),
        ({"acks": "all", "default.topic.config": {"acks": 0}}, {"acks": 0}),
        ({"acks": "all", "default.topic.config": {"request.required.acks": 0}}, {"acks": 0}),
        (
            {"delivery.timeout.ms": 9000, "default.topic.config": {"message.timeout.ms": 1000}},
            {"delivery_timeout_ms": 1000},
        ),
        ({"message.max.bytes": 2_000_000, "batch.size": 16384}, {"batch_size": 16384}),
    ],
)
def test_what_settings_become(given: dict[str, Any], expected: dict[str, Any]) -> None:
    config = ProducerConfig.from_keywords(settings.translated({**SERVERS, **given}).own)
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost", ["localhost:9092"]),
        ("a, b:9093,,PLAINTEXT://c", ["a:9092", "b:9093", "c:9092"]),
        ("[::1],::1,fe80::1%lo", ["[::1]:9092", "[fe80::1%lo]:9092"]),
    ],
)
@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
def test_a_server_without_a_port_has_the_port_of_librdkafka(
    given: str, expected: list[str], name: str
) -> None:
    theirs: set[str] = set()

    def read(statistics: str) -> None:
        theirs.update(each.removesuffix("/bootstrap") for each in json.loads(statistics)["brokers"])

    producer = peer.Producer({name: given, "log_level": 0, "statistics.interval.ms": 1, "stats_cb": read})
    while len(theirs) < len(expected):  # the first statistics may come before the servers are known
        producer.poll(1)
    producer.close()
    mine = ProducerConfig.from_keywords(settings.translated({name: given}).own).bootstrap_servers
    assert theirs == set(mine) == set(expected)


@pytest.mark.parametrize("wrong", ["a:b:c", "a:", "a:0", "foo://a"])
def test_a_server_that_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(adapter.KafkaException, match=r"bootstrap\.servers: expected 'host:port', got"):
        adapter.Producer({"bootstrap.servers": wrong})


@pytest.mark.parametrize("given", [{}, {"linger.ms": 5}, {"bootstrap.servers": None}])
def test_a_producer_without_servers_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(adapter.KafkaException, match=r"bootstrap\.servers is missing"):
        adapter.Producer(given)


@pytest.mark.parametrize("wrong", ["a", None])
def test_a_level_of_compression_that_is_no_number_is_refused(wrong: Any) -> None:
    with pytest.raises(adapter.KafkaException, match=r"compression\.level: expected a whole number"):
        adapter.Producer({**SERVERS, "compression.level": wrong})


def test_topic_settings_that_are_no_dictionary_are_refused() -> None:
    with pytest.raises(TypeError, match=r"default\.topic\.config"):
        adapter.Producer({**SERVERS, "default.topic.config": 5})


def test_security_settings() -> None:
    found = own(
        **{
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": "secret",
            "ssl.ca.location": "probe",
            "ssl.endpoint.identification.algorithm": "none",
            "ssl.cipher.suites": "A:B",
        }
    )
    assert found["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (found["sasl_plain_username"], found["sasl_plain_password"]) == ("u", "secret")
    assert "ssl_cafile" not in found
    assert found["ssl_endpoint_identification_algorithm"] == ""
    assert found["ssl_cipher_suites"] == ("A", "B")
    assert own(**{"security.protocol": "SASL_SSL"})["sasl_mechanism"] == "GSSAPI"


def test_a_token_function_gets_the_setting_and_may_return_four_values() -> None:
    asked = []

    def token(config: str) -> tuple[Any, ...]:
        asked.append(config)
        return "t", 5.0, "principal", {"a": "b"}

    given = {**SERVERS, "oauth_cb": token, "sasl.oauthbearer.config": "scope=x"}
    provider = settings.translated(given).own["sasl_oauth_token_provider"]
    assert provider() == ("t", 5.0, {"a": "b"})
    assert asked == ["scope=x"]


def test_settings_without_effect_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings.translated({**SERVERS, "batch.num.messages": 5, "group.id": "g", "socket.nagle.disable": "true"})
    (record,) = caplog.records
    assert "batch.num.messages (batches are limited in bytes" in record.getMessage()
    assert "group.id (a setting of consumers)" in record.getMessage()
    assert "nagle" not in record.getMessage()


def test_settings_that_are_refused_say_what_to_do() -> None:
    for name, (remedy, usual) in settings.REFUSED.items():
        with pytest.raises(adapter.KafkaException) as raised:
            adapter.Producer({**SERVERS, name: "something else"})
        assert remedy in raised.value.args[0].str()
        if usual is not None:
            settings.translated({**SERVERS, name: usual})


def test_every_name_is_in_the_docs() -> None:
    text = (ROOT / "docs/migration/confluent-kafka.md").read_text()
    missing = [name for name in (*settings.REFUSED, *settings.CONVERTED) if f"`{name}`" not in text]
    assert missing == []


def test_the_own_api_is_not_affected() -> None:
    with KafkaProducer("localhost:1") as producer:
        assert producer.config.max_block_ms == 60_000
