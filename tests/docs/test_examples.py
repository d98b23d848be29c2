"""Python examples in README.md and docs/ run as they are, with a mock cluster in place of localhost:9092,
and a fake schema registry in place of localhost:8081.

Those that cannot run are listed in ``examples.NOT_RUN``: they compile, and a producer accepts their settings.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproducer import ProducerConfig
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.docs.examples import NOT_RUN, ROOT, Example, check_settings, examples, settings_in
from tests.support.kafka.maven_artifacts import KafkaUnavailableError, java_command
from tests.support.kafka.mock_cluster import MockCluster
from tests.support.requirements import REQUIRE_KAFKA, skip_or_fail

RUN = [example for example in examples() if example.exemption is None]
NOT_RUN_EXAMPLES = [example for example in examples() if example.exemption is not None]
#: Clients and Spark, which may warn and log.
OTHER_CLIENTS = re.compile(r"^(?:from|import) (?:aiokafka|confluent_kafka|kafka|pyspark)\b", re.MULTILINE)
#: A small Spark session without a web interface, for examples that create one.
SPARK_ENVIRONMENT = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
    "SPARK_LOCAL_IP": "127.0.0.1",
}


@pytest.fixture
def schema_registry() -> Iterator[FakeSchemaRegistry]:
    with FakeSchemaRegistry() as registry:
        yield registry


@pytest.mark.parametrize("example", RUN, ids=str)
def test_an_example_runs(
    example: Example, mock_cluster: MockCluster, schema_registry: FakeSchemaRegistry, tmp_path: Path
) -> None:
    if "pyspark" in example.code:
        require_java()
    # The mock cluster creates topics for producers only, not for committed offsets.
    for topic in set(re.findall(r'TopicPartition\("([^"]+)"', example.code)):
        mock_cluster.create_topic(topic, 1)
    address = mock_cluster.bootstrap_servers.split(",")[0]
    program = example.code.replace("localhost:9092", address).replace("/tmp/", f"{tmp_path}/")
    program = program.replace("http://localhost:8081", schema_registry.url)
    # Tracebacks show the lines of the page.
    (tmp_path / "example.py").write_text("\n" * (example.line - 1) + program, encoding="utf-8")
    uses_others = OTHER_CLIENTS.search(example.code) is not None
    command = [sys.executable, *([] if uses_others else ["-W", "error"])]
    if re.search(r"^ *def test_", example.code, re.MULTILINE):
        command += ["-m", "pytest", "-p", "no:cacheprovider"]
    finished = subprocess.run(
        [*command, "example.py"],
        cwd=tmp_path,
        env={**os.environ, **SPARK_ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert finished.returncode == 0, f"{example}:\n{finished.stdout}{finished.stderr}"
    # A producer without a broker logs a warning.
    assert finished.stderr == "" or uses_others or '"localhost:1"' in example.code
    if example.page == "README.md":
        assert "events" in finished.stdout


def require_java() -> None:
    try:
        java_command()
    except KafkaUnavailableError as error:
        skip_or_fail(REQUIRE_KAFKA, f"Spark needs Java 17: {error}")


@pytest.mark.parametrize("example", NOT_RUN_EXAMPLES, ids=str)
def test_an_example_that_is_not_run_is_correct(example: Example) -> None:
    compile(example.code, str(example), "exec")
    for settings in settings_in(example.code):
        check_settings(ProducerConfig.from_keywords(settings))


def test_each_exemption_is_needed() -> None:
    used = {example.exemption for example in NOT_RUN_EXAMPLES}
    # A pattern may name a folder without pages.
    assert [each for each in NOT_RUN if each not in used and any(ROOT.glob(each.pages))] == []
