"""docs/reference/java-settings.md: every row has a status and its reason, and the command line agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from codegen.java_settings import (
    JAVA_DEFAULTS,
    NOT_SET,
    OTHER_DEFAULTS,
    REQUIRED,
    has_same_default,
    java_settings,
)
from kproducer._core.config.producer_config import DOTTED_NAMES, ProducerConfig
from kproducer.cli.configuration import config as config_command
from kproducer.cli.configuration import resolve
from kproducer.errors import ConfigError

ROWS = java_settings()
SUPPORTED = [row for row in ROWS if row.status == "supported"]
ABSENT = [row for row in ROWS if row.status != "supported"]
#: Values for settings that Java has no default for.
GIVEN = {
    "bootstrap.servers": "localhost:9092",
    "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
}


def test_every_setting_is_in_one_row() -> None:
    assert [row.name for row in ROWS] == sorted(JAVA_DEFAULTS)
    assert {row.status for row in ROWS} <= {"supported", "only in properties files", "not needed"}


def test_every_other_default_has_a_reason_and_every_reason_is_about_another_default() -> None:
    differing = {row.name for row in SUPPORTED if not has_same_default(row.name)}
    assert differing == set(OTHER_DEFAULTS)


@pytest.mark.parametrize("row", ABSENT, ids=lambda row: row.name)
def test_what_is_absent_is_refused_with_the_reason_of_the_table(row) -> None:
    assert row.note
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.from_dotted({"bootstrap.servers": "localhost:9092", row.name: "x"})
    if row.status == "not needed":
        # In the error, settings have the names of the file.
        assert str(caught.value).endswith(row.note)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_command_line_finds_the_same_setting(row) -> None:
    found = resolve(row.name)
    assert found.name == (row.our_name or None)
    if row.status == "not needed":
        assert found.advice == row.note
    if found.name is not None:
        assert DOTTED_NAMES[found.name] == row.name


def test_a_file_with_all_of_javas_defaults_is_translated_except_for_what_is_absent(tmp_path: Path) -> None:
    file = tmp_path / "java.properties"
    lines = []
    for name, default in JAVA_DEFAULTS.items():
        value = GIVEN.get(name, default)
        assert value != REQUIRED
        if value != NOT_SET:
            lines.append(f"{name}={value}\n")
    file.write_text("".join(lines))
    result = CliRunner().invoke(config_command, ["translate", str(file)])
    refused = {
        line.removeprefix("Not translated: ").partition(":")[0]
        for line in result.stderr.splitlines()
        if line.startswith("Not translated: ")
    }
    assert refused == {
        row.name for row in ABSENT if row.default != NOT_SET and row.status != "only in properties files"
    }
    for row in SUPPORTED:
        if row.default != NOT_SET:
            assert f"    {row.our_name}=" in result.stdout
