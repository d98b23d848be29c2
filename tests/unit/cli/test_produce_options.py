"""What the command refuses before it connects, and how it is started."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from kproducer.cli.command_line import command_line
from kproducer.cli.connection_options import producer_config, read_kcat_file
from kproducer.cli.input_formats import FORMATS
from kproducer.cli.produce import _separator
from kproducer.errors import ConfigError


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(command_line, ["produce", "topic", *arguments])
    assert result.exit_code == 2
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--key", "a"], "--key: lines have no columns; pass --format."),
        (["--format", "csv", "-K", ":"], "-K is for lines; pass --key COLUMN."),
        (["--format", "csv", "--headers", "h", "-H", "a=b"], "--headers and -H: pass one of them."),
        (["--format", "parquet"], "pass a file, not stdin"),
        (["-K", ""], "-K: the separator is empty."),
        (["-H", "name"], "-H: expected name=value."),
        (["-b", "host:1", "-X", "secret"], "-X: expected name=value."),
        ([], "No cluster: pass -b HOST:PORT"),
        (["-b", "host:1", "-X", "akcs=1"], "did you mean acks?"),
        (["-b", "host:1", "-X", "linger.ms=soon"], "linger.ms: expected a whole number"),
        (["-b", "host"], "-b: expected 'host:port', got 'host'; the port is missing"),
        (["-b", "host:1", "-X", "acks=0"], "acks=0: nobody would know what was delivered"),
        (["-b", "host:1", "-X", "transactional.id=a"], "transactional.id: this command has no transactions"),
        (
            ["-b", "host:1", "-X", "value.serializer=com.example.Orders"],
            "pass a function that returns bytes; -X value.serializer=bytes sends the bytes of the input",
        ),
        (
            ["-b", "host:1", "-X", "key.serializer=json"],
            "bytes, texts, numbers or UUIDs, got json",
        ),
        (["-b", "host:1", "--rejected", "/no/such/folder/file"], "--rejected: '/no/such/folder/file'"),
        (["-b", "host:1", "/no/such/file"], "does not exist"),
    ],
)
def test_a_wrong_call_is_refused_with_what_to_do(arguments, message):
    assert message in " ".join(refusal(*arguments).split())


def test_a_topic_that_is_a_file_is_named_if_the_file_is_missing(tmp_path):
    (tmp_path / "data").write_text("line\n")
    result = CliRunner().invoke(command_line, ["produce", str(tmp_path / "data"), "events", "-b", "host:1"])
    assert result.exit_code == 2
    assert (
        f"The file 'events' does not exist. The first argument is the topic, and '{tmp_path}" in result.stderr
    )


def test_perf_has_no_transactions():
    arguments = ["perf", "topic", "-b", "host:1", "-X", "transactional.id=a"]
    result = CliRunner().invoke(command_line, arguments)
    assert result.exit_code == 2
    assert "transactional.id: this command has no transactions" in result.stderr


def test_the_file_with_a_mistake_is_named(tmp_path):
    (tmp_path / "java").write_text("bootstrap.servers=a:1\nlinger=5\n")
    (tmp_path / "kcat").write_text("bootstrap.servers=a:1\nacks=7\n")
    given = {"bootstrap_server": None, "settings": ()}
    with pytest.raises(ConfigError) as raised:
        producer_config({**given, "properties_file": tmp_path / "java", "kcat_file": None})
    java = tmp_path / "java"
    assert str(raised.value) == (
        f"{java}: unknown setting 'linger': did you mean linger.ms?; for all mistakes: kproducer config check"
        f" {java}"
    )
    with pytest.raises(ConfigError, match=rf"{tmp_path}/kcat: acks: expected 0, 1, .* check --kcat "):
        producer_config({**given, "properties_file": None, "kcat_file": tmp_path / "kcat"})


@pytest.mark.parametrize("command", [["produce", "topic"], ["perf", "topic"], ["metadata"]])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["security.protocol=SSL", "ssl.truststore.location=/no/file", "ssl.truststore.type=PEM"],
            "'/no/file'",
        ),
        (["security.protocol=SASL_SSL"], "sasl_mechanism is missing"),
    ],
)
def test_settings_that_only_a_producer_finds_wrong_are_refused_in_one_sentence(command, settings, message):
    options = [part for setting in settings for part in ("-X", setting)]
    result = CliRunner().invoke(command_line, [*command, "-b", "host:1", *options], catch_exceptions=False)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "separator"),
    [(None, None), (":", b":"), (r"\t", b"\t"), (r"\x1f\\", b"\x1f\\"), ("ä", "ä".encode())],
)
def test_separators_have_escapes(text, separator):
    assert _separator(text) == separator


def test_later_options_override_files(tmp_path):
    java, kcat = tmp_path / "java", tmp_path / "kcat"
    java.write_text("bootstrap.servers=a:1\nlinger.ms=1\nacks=1\nretries=5\n")
    kcat.write_text("\n# comment\nlinger.ms = 2\nacks=0\nsasl.username=with = sign\n")
    assert read_kcat_file(kcat)["sasl.username"] == "with = sign"
    kcat.write_bytes("\ufeffsasl.password=a\x0c\u2028b\r\n".encode())
    assert read_kcat_file(kcat) == {"sasl.password": "a\x0c\u2028b"}
    kcat.write_text("linger.ms=2\nacks=0\n")
    config = producer_config(
        {
            "bootstrap_server": "b:1",
            "properties_file": java,
            "kcat_file": kcat,
            "settings": ("acks=all",),
        }
    )
    values = (config.bootstrap_servers, config.linger_ms, config.acks, config.retries)
    assert values == (("b:1",), 2, -1, 5)


def test_names_of_librdkafka_work_in_a_file_of_kcat_and_in_options(tmp_path):
    java, kcat = tmp_path / "java", tmp_path / "kcat"
    java.write_text("bootstrap.servers=a:1\nlinger.ms=1\nssl.cafile=/a\nsecurity.protocol=SSL\n")
    kcat.write_text(
        "metadata.broker.list=b:1\nqueue.buffering.max.ms=2\nqueue.buffering.max.kbytes=2048\n"
        "ssl.ca.location=/b\ncompression.codec=gzip\nmessage.send.max.retries=3\n"
    )
    given = {"bootstrap_server": None, "properties_file": java, "kcat_file": kcat}
    config = producer_config({**given, "settings": ("message.send.max.retries=4",)})
    values = (config.bootstrap_servers, config.linger_ms, config.buffer_memory, config.ssl_cafile)
    assert values == (("b:1",), 2, 2 << 20, "/b")
    assert (config.compression_type, config.retries) == ("gzip", 4)
    kcat.write_text("queue.buffering.max.ms=2\nlinger.ms=3\n")
    with pytest.raises(ConfigError, match=r"linger\.ms: the same setting as queue\.buffering\.max\.ms"):
        producer_config({**given, "settings": ()})
    kcat.write_text("queue.buffering.max.ms=soon\n")
    with pytest.raises(ConfigError, match=r"queue\.buffering\.max\.ms: expected a whole number"):
        producer_config({**given, "settings": ()})


def test_commands_without_serializers_take_files_whose_serializers_exist_only_in_java(tmp_path):
    java = tmp_path / "java"
    java.write_text("bootstrap.servers=a:1\nvalue.serializer=com.example.OrderSerializer\n")
    given = {"bootstrap_server": None, "properties_file": java, "kcat_file": None, "settings": ()}
    assert producer_config(given).value_serializer is None
    with pytest.raises(ConfigError, match=r"value\.serializer: expected one of string"):
        producer_config(given, serializes=True)


def test_a_line_of_a_kcat_file_without_a_setting_is_not_shown(tmp_path):
    (tmp_path / "kcat").write_text("acks=1\nsecret\n")
    with pytest.raises(ConfigError, match="line 2: expected 'name=value'") as raised:
        read_kcat_file(tmp_path / "kcat")
    assert "secret" not in str(raised.value)


def test_the_help_names_every_format():
    text = CliRunner().invoke(command_line, ["produce", "--help"]).stdout
    assert all(name in text for name in FORMATS)


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_the_extra_one_sentence_says_what_to_install(package):
    program = f"import sys; sys.modules[{package!r}] = None; import kproducer.cli"
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert finished.returncode == 1
    assert finished.stderr == "The command kproducer needs more packages: pip install 'kproducer[cli]'\n"
