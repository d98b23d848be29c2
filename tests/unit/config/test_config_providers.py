"""Config providers: values of a properties file that are kept elsewhere, and every way to get them wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given as each_of
from hypothesis import strategies as st

from kproducer import KafkaProducer
from kproducer._core.config.config_providers import _replaced, provided
from kproducer.errors import ConfigError

_PACKAGE = "org.apache.kafka.common.config.provider"
ENVIRONMENT = {
    "config.providers": "env",
    "config.providers.env.class": f"{_PACKAGE}.EnvVarConfigProvider",
}
FILES = {
    "config.providers": " file , dir ",
    "config.providers.file.class": f"{_PACKAGE}.FileConfigProvider",
    "config.providers.dir.class": "DirectoryConfigProvider",
}


def test_values_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPRODUCER_TEST", "hunter2")
    given = {**ENVIRONMENT, "a": "x${env:KPRODUCER_TEST}y${env:KPRODUCER_TEST}", "b": "plain"}
    assert provided(given) == {"a": "xhunter2yhunter2", "b": "plain"}


def test_values_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "values").write_text("a\\ b = 1\n")
    (tmp_path / "whole").write_text("two\nlines\n")
    given = {**FILES, "a": f"${{file:{tmp_path}/values:a b}}", "b": f"${{dir:{tmp_path}:whole}}"}
    assert provided(given) == {"a": "1", "b": "two\nlines\n"}


@pytest.mark.parametrize("text", ["${env}", "$env:A", "${other:A}", "${env:A", "{env:A}"])
def test_other_texts_are_no_placeholders(text: str) -> None:
    assert provided({**ENVIRONMENT, "a": text}) == {"a": text}
    assert provided({"a": text}) == {"a": text}


@pytest.mark.parametrize("text", ["${", "${env:", "${env:A:", "${}"])
@pytest.mark.timeout(60)  # with work that grows with the square of the length, it takes minutes
def test_many_beginnings_of_placeholders_take_time_in_proportion(text: str) -> None:
    long = text * 500_000
    assert provided({**ENVIRONMENT, "a": long}) == {"a": long}


@each_of(st.text("${}:a"))
def test_placeholders_are_those_of_kafka(text: str) -> None:
    # The expression of Kafka's class ConfigTransformer.
    kafka = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")

    def shown(*parts: str | None) -> str:
        return str([part or "" for part in parts])

    expected = kafka.sub(lambda match: shown(match[0], match[1], match[3], match[4]), text)
    assert _replaced(text, shown) == expected


def test_what_a_value_contains_is_not_replaced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPRODUCER_TEST", "${env:PATH}")
    assert provided({**ENVIRONMENT, "a": "${env:KPRODUCER_TEST}"}) == {"a": "${env:PATH}"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"a": "${env:KPRODUCER_UNSET}"},
            r"a: \$\{env:KPRODUCER_UNSET\}: the environment variable is not set",
        ),
        ({"a": "${env:/file:HOME}"}, "environment variables have no path"),
        (
            {"config.providers.env.param.allowlist.pattern": "HOM", "a": "${env:HOME}"},
            "allowlist.pattern does not allow this environment variable",
        ),
        (
            {"config.providers.env.param.allowlist.pattern": "(", "a": "${env:HOME}"},
            "allowlist.pattern is not a regular expression",
        ),
        (
            {"config.providers.env.param.allowed.paths": "/"},
            "unknown setting 'config.providers.env.param.allowed.paths': expected one of config.providers, "
            "config.providers.env.class, config.providers.env.param.allowlist.pattern",
        ),
        ({"config.providers": "env,vault"}, "config.providers.vault.class: it is missing; set it to one of"),
        ({"config.providers.env.class": "com.example.Vault"}, "'com.example.Vault' cannot be used here"),
        ({"config.providers": ""}, "unknown setting 'config.providers.env.class': expected one of"),
    ],
)
def test_mistakes_with_the_environment(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        provided({**ENVIRONMENT, **settings})


@pytest.mark.parametrize(
    ("placeholder", "message"),
    [
        ("${file:FOLDER/none:a}", "the file cannot be read: No such file"),
        ("${file:FOLDER:a}", "the file cannot be read: Is a directory"),
        ("${file:FOLDER/values:b}", "the file has no such property"),
        ("${file:FOLDER/malformed:a}", "FOLDER/malformed, line 1: '.u' without four hexadecimal digits"),
        ("${file:FOLDER/binary:a}", "the file is not a text in UTF-8"),
        ("${dir:FOLDER:none}", "the file cannot be read: No such file"),
        ("${dir:FOLDER/deeper:../values}", "expected the name of a file in the directory"),
        ("${dir:FOLDER:}", "expected the name of a file in the directory"),
        ("${file:/etc/hostname:a}", "allowed.paths does not contain this file"),
        ("${file:FOLDER/../x:a}", "allowed.paths does not contain this file"),
    ],
)
def test_mistakes_with_files(tmp_path: Path, placeholder: str, message: str) -> None:
    (tmp_path / "values").write_text("a=hunter2\n")
    (tmp_path / "malformed").write_text("a=hunter2\\uxyz\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    limits = {f"config.providers.{name}.param.allowed.paths": str(tmp_path) for name in ("file", "dir")}
    with pytest.raises(ConfigError, match=message.replace("FOLDER", str(tmp_path))) as caught:
        provided({**FILES, **limits, "a": placeholder.replace("FOLDER", str(tmp_path))})
    assert "hunter2" not in str(caught.value)


def test_a_producer_uses_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPRODUCER_TEST", "from the environment")
    file = tmp_path / "client.properties"
    lines = {**ENVIRONMENT, "bootstrap.servers": "localhost:9092", "client.id": "${env:KPRODUCER_TEST}"}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    with KafkaProducer.from_config(str(file)) as producer:
        assert producer.config.client_id == "from the environment"
    monkeypatch.delenv("KPRODUCER_TEST")
    with pytest.raises(ConfigError, match=f"{file}: client.id: .*the environment variable is not set"):
        KafkaProducer.from_config(file)


def test_in_a_program_the_error_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"(config providers work only in properties files.*){2}"):
        KafkaProducer.from_config({**ENVIRONMENT, "bootstrap.servers": "localhost:9092"})
