"""docs/security.md, docs/clusters/ and the names in other clients: settings exist, tables are complete."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from codegen.security_names import security_names
from kproducer import ConfigError, ProducerConfig
from kproducer._core.config.producer_config import DOTTED_NAMES, SETTINGS
from kproducer._core.config.properties_file import read_properties
from tests.docs.examples import ROOT, Example, check_settings, examples, settings_in

PAGE = "docs/security.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
CLUSTERS = {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("docs/clusters/*.md")}
EXAMPLES = examples(pages=PAGE) + examples(pages="docs/clusters/*")


def test_every_name_in_a_python_block_is_a_setting() -> None:
    """Also in dictionaries that no example passes to a producer."""
    trees = [ast.parse(example.code) for example in EXAMPLES]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    names = [ast.literal_eval(key) for node in nodes for key in node.keys if key is not None]
    assert len(names) > 10
    assert [name for name in names if name not in SETTINGS and name not in DOTTED_NAMES.values()] == []


def test_every_setting_that_the_text_names_exists() -> None:
    text = TEXT + "\n".join(CLUSTERS.values())
    names = re.findall(r"\b(?:ssl|sasl|https|proxy|security)_[a-z0-9_]*[a-z0-9]\b(?!_)", text)
    assert len(names) > 100
    assert [name for name in names if name not in SETTINGS] == []


@pytest.mark.parametrize(
    "example", examples("properties", PAGE) + examples("properties", "docs/clusters/*"), ids=str
)
def test_each_properties_file_is_accepted(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_USER", "alice")
    (tmp_path / "secrets.properties").write_text("password=secret\n")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "servers").write_text("localhost:9093")
    file = tmp_path / "client.properties"
    file.write_text(example.code.replace("/etc/kafka", str(tmp_path)))
    server = "b-1.mycluster.abc123.c2.kafka.eu-central-1.amazonaws.com:9098"
    needed = {"bootstrap.servers": server, "security.protocol": "SASL_SSL"}
    check_settings(ProducerConfig.from_dotted({**needed, **read_properties(file)}))


@pytest.mark.parametrize(
    ("page", "servers"),
    [
        ("aiven.md", ["aivencloud.com:12345", "aivencloud.com:12346"]),
        ("amazon-msk.md", ["amazonaws.com:9098", "amazonaws.com:9096", "amazonaws.com:9094"]),
        ("azure-event-hubs.md", ["servicebus.windows.net:9093"] * 2),
        ("confluent-cloud.md", ["confluent.cloud:9092"] * 2),
        ("kerberos.md", ["broker1.example.com:9093"] * 2),
        ("redpanda.md", ["redpanda-0.example.com:9092"]),
        ("strimzi.md", ["my-namespace.svc:9093"] * 2),
    ],
)
def test_each_page_has_a_program_for_each_way_to_authenticate(page: str, servers: list[str]) -> None:
    programs = examples(pages=f"docs/clusters/{page}")
    given = [str(each["bootstrap_servers"]) for program in programs for each in settings_in(program.code)]
    assert len(given) == len(servers)
    assert [server for server, end in zip(given, servers, strict=True) if not server.endswith(end)] == []


def test_the_table_of_clusters_links_to_each_page() -> None:
    table = TEXT[TEXT.index("### Clusters") : TEXT.index("### A Java properties file")]
    assert set(re.findall(r"\(clusters/([a-z-]+\.md)\)", table)) == set(CLUSTERS)


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
    compared = 0
    for row in security_names():
        for name in (*row.java, *row.librdkafka, *row.kafka_python):
            error = error_of(name)
            compared += 1
            if error.startswith("unknown setting"):
                assert row.ours in error or DOTTED_NAMES[row.ours] in error, error
    assert compared > 100
