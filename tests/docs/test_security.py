"""docs/security.md is correct: its examples are accepted, and its table of names is complete."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from kproducer import ConfigError, ProducerConfig
from kproducer.config.producer_config import DOTTED_NAMES, SETTINGS
from kproducer.config.properties_file import parse_properties
from kproducer.security.sasl_settings import sasl_mechanism_of

TEXT = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
OTHERS = ("Java", "librdkafka", "kafka-python")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def value_of(keyword: str, node: ast.expr) -> Any:
    """The value of a literal, or one that fits the setting."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        if keyword == "ssl_context":
            return None
        return (lambda: ("token", 0)) if keyword.endswith("provider") else "from somewhere else"


def configurations() -> list[dict[str, Any]]:
    """The settings of every producer in the Python blocks."""
    found = []
    for block in blocks("python"):
        for call in ast.walk(ast.parse(block)):
            if not isinstance(call, ast.Call):
                continue
            if ast.unparse(call.func) == "KafkaProducer":
                settings = {str(each.arg): value_of(str(each.arg), each.value) for each in call.keywords}
                found.append({"bootstrap_servers": ast.literal_eval(call.args[0]), **settings})
            elif ast.unparse(call.func) == "KafkaProducer.from_config" and call.args:
                dotted = ast.literal_eval(call.args[0])
                attributes = {name: attribute for attribute, name in DOTTED_NAMES.items()}
                found.append({attributes[name]: value for name, value in dotted.items()})
    return found


def test_every_name_in_a_python_block_is_a_setting() -> None:
    """Also in dictionaries that no example passes to a producer."""
    trees = [ast.parse(block) for block in blocks("python")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    names = [ast.literal_eval(key) for node in nodes for key in node.keys if key is not None]
    assert len(names) > 10
    assert [name for name in names if name not in SETTINGS and name not in DOTTED_NAMES.values()] == []


def test_every_setting_that_the_text_names_exists() -> None:
    text = TEXT[: TEXT.index("### Names in other clients")]
    names = re.findall(r"\b(?:ssl|sasl|https|proxy|security)_[a-z0-9_]*[a-z0-9]\b(?!_)", text)
    assert len(names) > 100
    assert [name for name in names if name not in SETTINGS] == []


def check(config: ProducerConfig) -> None:
    """Raise ConfigError if credentials contradict each other. GSSAPI also needs Kerberos and a keytab."""
    if config.uses_sasl and config.sasl_mechanism != "GSSAPI":
        sasl_mechanism_of(config).close()


@pytest.mark.parametrize("settings", configurations(), ids=lambda each: str(each["bootstrap_servers"])[:40])
def test_the_settings_of_each_example_are_accepted(settings: dict[str, Any]) -> None:
    check(ProducerConfig.from_keywords(settings))


@pytest.mark.parametrize("text", blocks("properties"), ids=lambda text: text.splitlines()[0])
def test_each_properties_file_is_accepted(text: str) -> None:
    server = "b-1.mycluster.abc123.c2.kafka.eu-central-1.amazonaws.com:9098"
    needed = {"bootstrap.servers": server, "security.protocol": "SASL_SSL"}
    check(ProducerConfig.from_dotted({**needed, **parse_properties(text, "docs/security.md")}))


def test_there_is_an_example_for_each_kind_of_cluster() -> None:
    servers = " ".join(str(each["bootstrap_servers"]) for each in configurations())
    for cluster in (
        "confluent.cloud",
        ":9098",
        ":9096",
        ":9094",
        "servicebus",
        "aiven",
        "redpanda",
        "svc",
        "broker1",
    ):
        assert cluster in servers


def rows() -> list[tuple[list[list[str]], list[str]]]:
    """The rows of the table of names: the names of the other clients, and ours."""
    table = TEXT[TEXT.index("### Names in other clients") :].split("\n\n")[1]
    cells = [line.split("|")[1:-1] for line in table.splitlines()[2:]]
    named = [[re.findall(r"`([a-z0-9_.*]+)`", cell) for cell in row] for row in cells]
    return [(row[: len(OTHERS)], row[len(OTHERS)]) for row in named]


def test_the_table_has_every_security_setting() -> None:
    ours = {name.replace(".", "_") for _, names in rows() for name in names}
    wildcards = tuple(name.removesuffix("*") for name in ours if name.endswith("*"))
    security = [
        name for name in SETTINGS if name.startswith(("security_", "ssl_", "sasl_", "https_", "proxy_"))
    ]
    assert [name for name in security if name not in ours and not name.startswith(wildcards)] == []


def error_of(name: str) -> str:
    """The error for a setting that is given under this name; empty if it is accepted."""
    try:
        if "." in name:
            ProducerConfig.from_dotted({"bootstrap.servers": "broker:9092", name: "x"})
        else:
            ProducerConfig.from_keywords({"bootstrap_servers": "broker:9092", name: "x"})
    except ConfigError as error:
        return str(error)
    return ""


def test_names_of_other_clients_are_accepted_or_lead_to_ours() -> None:
    for others, ours in rows():
        for name in (name for names in others for name in names):
            if not re.fullmatch(r"[a-z0-9]+([._][a-z0-9]+)+", name):
                continue  # an option of a login module, or a pattern
            error = error_of(name)
            if error.startswith("unknown setting"):
                assert any(each in error or each.replace("_", ".") in error for each in ours), error
