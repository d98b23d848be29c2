"""Config providers find in a properties file the values that Java's producer finds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kproducer._core.config.properties_file import read_properties
from tests.support.kafka import kafka_facts
from tests.support.kafka.maven_artifacts import NEWEST_VERSION, class_path, java_command

pytestmark = pytest.mark.kafka

_SETTINGS = """\
bootstrap.servers=${file:%(folder)s/values.properties:servers},localhost:${env:KPRODUCER_TEST_PORT}
key.serializer=org.apache.kafka.common.serialization.StringSerializer
value.serializer=org.apache.kafka.common.serialization.StringSerializer
client.id=${text}, ${other:key}, ${env:KPRODUCER_TEST_PORT}:${dir:%(folder)s:name}
sasl.jaas.config=${file:%(folder)s/values.properties:jaas}
transactional.id=${file:%(folder)s/values.properties:one:two}
config.providers=env,file,dir
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.env.param.allowlist.pattern=KPRODUCER_TEST_.*
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.file.param.allowed.paths=/usr,%(folder)s
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
"""


def test_values_are_those_of_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPRODUCER_TEST_PORT", "9093")
    (tmp_path / "values.properties").write_text(
        'servers = localhost:9092\njaas=Login required \\\n  password="a";\none\\:two=id ${env:X}\n'
    )
    (tmp_path / "name").write_text("a name")
    file = tmp_path / "client.properties"
    file.write_text(_SETTINGS % {"folder": tmp_path})
    program = Path(kafka_facts.__file__).with_name("ReadSettings.java")
    finished = subprocess.run(
        [
            java_command(),
            "-XX:TieredStopAtLevel=1",
            "-cp",
            class_path(NEWEST_VERSION),
            str(program),
            str(file),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [line.split("\t", 2) for line in finished.stdout.splitlines() if line.startswith("setting\t")]
    java = {name: value for _, name, value in lines if not name.startswith("config.providers")}
    ours = read_properties(file)
    assert ours["client.id"] == "${text}, ${other:key}, 9093:a name"
    assert ours["transactional.id"] == "id ${env:X}"
    assert ours == java
