"""docs/migration/ is correct: names of both clients exist, refusals are as described, output is real."""

from __future__ import annotations

import builtins
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kproducer
from kproducer import AsyncKafkaProducer, InvalidArgumentError, KafkaProducer, RecordMetadata
from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer._core.config.producer_config import DOTTED_NAMES, SETTINGS
from kproducer._core.runtime.arguments import check_callback
from kproducer.cli.configuration import config as config_command
from kproducer.compat.confluent_kafka.settings import CONSUMER_NAMES
from kproducer.errors.suggestions import instead_of

FOLDER = Path(__file__).parents[2] / "docs" / "migration"
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md"))}
CLIENTS = ("aiokafka", "confluent-kafka", "java", "kafka-python")


def section(page: str, heading: str) -> str:
    return PAGES[page].partition(f"## {heading}\n")[2].partition("\n## ")[0]


def rows(page: str, heading: str) -> Iterator[list[str]]:
    for line in section(page, heading).splitlines():
        if line.startswith("| ") and "---" not in line:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def settings_of_ours(row: list[str]) -> list[str]:
    """The settings that a row names: in its third cell, or in the first if that says "the same"."""
    attributes = {dotted: name for name, dotted in DOTTED_NAMES.items()}
    named = code(row[0]) if row[2].startswith("the same") else code(row[2])
    return [attributes.get(name, name) for name in named]


@pytest.mark.parametrize("page", CLIENTS)
def test_our_settings_exist_and_have_these_defaults(page: str) -> None:
    compared = 0
    for row in rows(page, "Settings"):
        if len(row) != 5 or row[1] == "default":
            continue
        names = settings_of_ours(row)
        assert [name for name in names if name not in SETTINGS] == []
        shown = re.fullmatch(r"`?\"?([\w()-]+)\"?`?(?:[ ,:].*)?", row[3])
        if len(names) != 1 or shown is None:
            continue
        # A partitioner and a serializer that are not set are described.
        default = {"murmur2": "None"}.get(shown[1], shown[1])
        actual = "required" if names[0] == "bootstrap_servers" else SETTINGS[names[0]].default_text.split()[0]
        assert actual.strip("'") == default, row
        compared += 1
    assert compared >= 5


def methods_of_ours(page: str) -> Iterator[str]:
    for row in rows(page, "Methods"):
        for text in code(row[1]):
            yield from re.findall(r"(?<![.\w])([a-z_]+)\(", text)


@pytest.mark.parametrize("page", CLIENTS)
def test_every_method_of_ours_exists(page: str) -> None:
    names = set(methods_of_ours(page))
    assert len(names) > 3
    owners = (AsyncKafkaProducer, KafkaProducer, FutureRecordMetadata)
    assert [name for name in names if not any(hasattr(owner, name) for owner in owners)] == []
    fields = re.findall(r"`metadata\.(\w+)`", " ".join(row[1] for row in rows(page, "Methods")))
    assert [field for field in fields if field not in RecordMetadata._fields] == []


@pytest.mark.parametrize("page", CLIENTS)
def test_every_error_of_ours_exists(page: str) -> None:
    names = [name for row in rows(page, "Errors") for name in re.findall(r"`([A-Z]\w+Error)`", row[1])]
    assert len(names) > 5
    assert [name for name in names if not hasattr(kproducer, name) and not hasattr(builtins, name)] == []


def check_names(page: str, theirs: Iterable[str]) -> None:
    """The page names only settings that the other client has, and all of them that we do not have."""
    named = {name for row in rows(page, "Settings") if row[1] != "default" for name in code(row[0])}
    prefixes = tuple(name.removesuffix("*") for name in named if name.endswith("*"))
    assert {name for name in named if not name.endswith("*")} - {*theirs} == set()
    assert [
        name for name in theirs if name not in {*SETTINGS, *named} and not name.startswith(prefixes or "*")
    ] == []


def test_kafka_pythons_settings_and_defaults_are_its_own() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kafka = pytest.importorskip("kafka")
    settings = kafka.KafkaProducer.DEFAULT_CONFIG
    check_names("kafka-python", settings)
    assert (settings["linger_ms"], settings["batch_size"], settings["reconnect_backoff_max_ms"]) == (
        0,
        16384,
        30000,
    )
    assert "buffer_memory" not in settings


def test_aiokafkas_settings_and_defaults_are_its_own() -> None:
    aiokafka = pytest.importorskip("aiokafka")
    parameters = inspect.signature(aiokafka.AIOKafkaProducer).parameters
    check_names("aiokafka", parameters)
    names = ("request_timeout_ms", "max_batch_size", "linger_ms", "enable_idempotence", "sasl_mechanism")
    assert [parameters[name].default for name in names] == [40000, 16384, 0, False, "PLAIN"]


def test_settings_of_other_clients_consumers_are_called_that() -> None:
    aiokafka, kafka_python = pytest.importorskip("aiokafka"), pytest.importorskip("kafka")
    names = {name.replace(".", "_") for name in CONSUMER_NAMES}
    names.update(inspect.signature(aiokafka.AIOKafkaConsumer).parameters)
    names.update(kafka_python.KafkaConsumer.DEFAULT_CONFIG)
    names.difference_update(inspect.signature(aiokafka.AIOKafkaProducer).parameters)
    names.difference_update(kafka_python.KafkaProducer.DEFAULT_CONFIG)
    names.difference_update(SETTINGS)
    answers = {name: instead_of(name, {each: each for each in SETTINGS}) for name in names}
    others = {name for name, answer in answers.items() if answer != "it is a setting of consumers; remove it"}
    assert others == {"key_deserializer", "value_deserializer", "metric_group_prefix", "topics"}
    assert answers["value_deserializer"] == "did you mean value_serializer?"


def test_callbacks_are_refused_as_the_page_says() -> None:
    refused: list[Callable[..., None]] = [
        lambda err, msg: None,
        lambda error, msg: None,
        lambda exc, msg: None,
        lambda exception, msg: None,
        lambda kafka_error, msg: None,
    ]
    listed = PAGES["confluent-kafka"].partition("name of an error (")[2].partition(")")[0]
    assert code(listed) == [next(iter(inspect.signature(each).parameters)) for each in refused]
    for callback in refused:
        with pytest.raises(InvalidArgumentError, match="swap them"):
            check_callback(callback)
    check_callback(lambda e, m: None)  # the example of one that is not recognized


def test_the_translation_is_what_the_command_prints(tmp_path: Path) -> None:
    file = tmp_path / "librdkafka.conf"
    file.write_text(
        "bootstrap.servers=broker1.example.com:9093\nsecurity.protocol=sasl_ssl\n"
        "sasl.mechanisms=SCRAM-SHA-512\nsasl.username=orders\nsasl.password=secret\nssl.ca.location=ca.pem\n"
        "queue.buffering.max.kbytes=65536\nqueue.buffering.max.messages=500000\n"
    )
    printed = CliRunner().invoke(config_command, ["translate", str(file)]).output
    shown = section("confluent-kafka", "Settings").partition("librdkafka.conf\n")[2].partition("```")[0]
    assert printed == shown
