from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproducer._core.config.producer_config import DOTTED_NAMES, SETTINGS
from kproducer._core.records.compression import load_codec
from kproducer.cli.command_line import command_line
from kproducer.cli.setting_names import resolve


def config(*arguments: str) -> Result:
    return CliRunner().invoke(command_line, ["config", *arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def test_list_has_every_setting():
    listed = json.loads(config("list", "--json").stdout)
    assert [each["name"] for each in listed] == list(SETTINGS)
    assert config("list").exit_code == 0


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_list_has_name_default_and_the_first_sentence_in_whole_words(width):
    text = CliRunner().invoke(command_line, ["config", "list"], env={"COLUMNS": str(width)}).stdout
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[lines.index("linger_ms  5 ms") + 1] == "    How long a batch waits for more records."
    words = set(text.split())
    for each in json.loads(config("list", "--json").stdout):
        assert set(re.split(r"(?<=\.) ", each["about"])[0].split()) <= words
    assert set(SETTINGS) <= words


def test_a_wide_list_is_a_table_of_whole_names():
    text = CliRunner().invoke(command_line, ["config", "list"], env={"COLUMNS": "160"}).stdout
    assert max(map(len, text.splitlines())) <= 160
    assert [line.split()[1] for line in text.splitlines()[3:-1] if line[2] != " "] == list(SETTINGS)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        *((name, name) for name in ("linger_ms", "bootstrap_servers")),
        ("linger.ms", "linger_ms"),
        ("sasl.username", "sasl_plain_username"),
        ("sasl.mechanisms", "sasl_mechanism"),
        ("queue.buffering.max.ms", "linger_ms"),
        ("ssl.ca.location", "ssl_cafile"),
        ("compression.codec", "compression_type"),
        ("socks5_proxy", "proxy_url"),
        ("api_version_auto_timeout_ms", None),
        ("stats_cb", None),
        ("linger", None),
    ],
)
def test_names_of_every_client_are_resolved(given, name):
    assert resolve(given).name == name


def test_every_dotted_name_is_resolved():
    assert all(resolve(dotted).name == name for name, dotted in DOTTED_NAMES.items())


def test_explain_names_default_and_range():
    text = config("explain", "queue.buffering.max.ms").stdout
    assert text.startswith("linger_ms: ")
    assert "  Kafka's name: linger.ms\n" in text
    assert "  Default: 5 ms\n" in text


def test_explain_says_what_to_use_instead():
    result = config("explain", "batch.num.messages")
    assert result.exit_code == 1
    assert "use batch_size" in result.stderr


def test_check_finds_all_mistakes_and_shows_no_secret(file):
    file.write_text("bootstrap.servers=a:1\nacks=7\nlingr.ms=1\nsasl.password=hidden\nretries=x\n")
    result = config("check", str(file))
    assert result.exit_code == 1
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == [
        "acks",
        "unknown setting 'lingr.ms'",
        "retries",
    ]
    assert "hidden" not in result.output


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("acks=1\n", "bootstrap.servers is missing"),
        ("bootstrap.servers=a:1\nsasl.mechanism=PLAIN\n", "security_protocol: expected SASL_SSL"),
        ("bootstrap.servers=a:1\nsecurity.protocol=SSL\nssl.cafile=/no/such/file\n", "/no/such/file"),
    ],
)
def test_check_finds_contradictions_and_missing_files(file, text, mistake):
    file.write_text(text)
    result = config("check", str(file))
    assert result.exit_code == 1
    assert mistake in result.stderr


def test_check_accepts_a_file_that_a_producer_accepts(file):
    file.write_text("bootstrap.servers=a:1,b:2\nlinger.ms=10\n")
    result = config("check", str(file))
    assert (result.exit_code, result.stdout) == (0, f"{file}: 2 settings, no mistakes\n")


def test_translate_makes_a_call_of_other_clients_settings(file):
    file.write_text(
        "metadata.broker.list=a:1\nqueue.buffering.max.kbytes=1024\nenable.idempotence=true\n"
        "sasl_plain_password=hidden\ncompression.codec=gzip\n"
    )
    result = config("translate", str(file))
    assert result.exit_code == 0
    assert result.stdout == (
        "KafkaProducer(\n    bootstrap_servers='a:1',\n    buffer_memory=1048576,\n"
        "    enable_idempotence=True,\n    sasl_plain_password='***',\n    compression_type='gzip',\n)\n"
    )
    assert "sasl_plain_password='hidden'," in config("translate", "--show-secrets", str(file)).stdout


def test_check_finds_a_partitioner_and_a_package_that_a_producer_does_not_find(file, monkeypatch):
    file.write_text("bootstrap.servers=a:1\npartitioner.class=com.example.Partitioner\n")
    assert "partitioner='com.example.Partitioner' is none of" in config("check", str(file)).stderr
    load_codec.cache_clear()
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    file.write_text("bootstrap.servers=a:1\ncompression.type=lz4\n")
    assert "compression_type=lz4 needs the package lz4" in config("check", str(file)).stderr


def test_check_and_translate_agree_about_a_file_of_kcat(file):
    file.write_text("brokers=a:1\nqueue.buffering.max.kbytes=1024\nmessage.timeout.ms=60000\n")
    assert config("check", "--kcat", str(file)).exit_code == 0
    assert config("translate", "--kcat", str(file)).exit_code == 0
    assert "did you mean" in config("check", str(file)).stderr


@pytest.mark.parametrize(
    ("java", "ours"),
    [
        ("StringSerializer", "string"),
        ("ByteArraySerializer", "bytes"),
        ("ByteBufferSerializer", "bytes"),
        ("BytesSerializer", "bytes"),
        ("ShortSerializer", "short"),
        ("IntegerSerializer", "int"),
        ("LongSerializer", "long"),
        ("FloatSerializer", "float"),
        ("DoubleSerializer", "double"),
        ("UUIDSerializer", "uuid"),
        ("VoidSerializer", "null"),
    ],
)
def test_translate_has_our_name_of_javas_serializer(file, java, ours):
    file.write_text(f"value.serializer = org.apache.kafka.common.serialization.{java} \n")
    assert config("translate", str(file)).stdout == f"KafkaProducer(\n    value_serializer={ours!r},\n)\n"


@pytest.mark.parametrize(
    ("java", "instead"),
    [
        (
            "org.apache.kafka.common.serialization.BooleanSerializer",
            "a function, such as lambda flag: bytes([flag])",
        ),
        ("org.apache.kafka.common.serialization.ListSerializer", "a function that returns bytes"),
        (
            "io.confluent.kafka.serializers.KafkaAvroSerializer",
            "kproducer.schema_registry.AvroSerializer(...)",
        ),
        ("com.example.OrderSerializer", "a function that returns bytes"),
    ],
)
def test_a_serializer_that_exists_only_in_java_is_a_mistake(file, java, instead):
    file.write_text(f"bootstrap.servers=a:1\nvalue.serializer={java}\n")
    for command in ("check", "translate"):
        result = config(command, str(file))
        assert result.exit_code == 1
        assert f"got '{java}'; Java classes cannot run here: pass {instead}\n" in result.stderr


def test_translate_hides_passwords_in_urls_and_shortens_javas_classes(file):
    package = "org.apache.kafka.common.security.oauthbearer"
    file.write_text(
        "proxy.url=http://user:hidden@proxy:3128\nbootstrap.servers=a:1\n"
        f"sasl.login.callback.handler.class={package}.OAuthBearerLoginCallbackHandler\n"
    )
    assert config("translate", str(file)).stdout == (
        "KafkaProducer(\n    proxy_url='***',\n    bootstrap_servers='a:1',\n"
        "    sasl_login_callback_handler_class='OAuthBearerLoginCallbackHandler',\n)\n"
    )
    assert (
        "proxy_url='http://user:hidden@proxy:3128'" in config("translate", "--show-secrets", str(file)).stdout
    )


def test_translate_reports_what_has_no_equivalent(file):
    file.write_text("statistics.interval.ms=5\nlinger.ms=1\nqueue.buffering.max.ms=2\nretries=x\n")
    result = config("translate", "--kcat", str(file))
    assert result.exit_code == 1
    assert result.stdout == "KafkaProducer(\n    linger_ms=1,\n)\n"
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == [
        "statistics.interval.ms",
        "queue.buffering.max.ms",
        "retries",
    ]
