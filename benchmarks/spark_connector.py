"""Spark's own Kafka connector from Maven, for the benchmark: ``spark-sql-kafka-0-10`` and its dependencies.

Also ``spark-avro``, which has ``to_avro``. The preferred versions are those of the running Spark. Not every
release is published everywhere, so there are other choices; the benchmark prints which ones it measured.
Spark's own jars are not downloaded again.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.kafka.maven_artifacts import cache_folder

_TIMEOUT_SECONDS = 300


#: A Maven artifact: group, name and version.
_Artifact = tuple[str, str, str]
_SPARK = "org.apache.spark"


class Connector(NamedTuple):
    """A resolved connector or library: its version, as labelled in results, and its jars."""

    version: str
    jars: tuple[str, ...]


class _Choice(NamedTuple):
    connector: str
    token_provider: str
    kafka_clients: str = "3.9.2"
    commons_pool: str = "2.12.1"

    @property
    def label(self) -> str:
        if self.connector == self.token_provider:
            return self.connector
        return f"{self.connector} (with spark-token-provider-kafka {self.token_provider})"

    @property
    def artifacts(self) -> list[_Artifact]:
        return [
            (_SPARK, "spark-sql-kafka-0-10_2.13", self.connector),
            (_SPARK, "spark-token-provider-kafka-0-10_2.13", self.token_provider),
            ("org.apache.kafka", "kafka-clients", self.kafka_clients),
            ("org.apache.commons", "commons-pool2", self.commons_pool),
        ]


def resolve_connector(spark_version: str) -> Connector:
    """The jars of the connector, resolved by Maven on first use.

    Raises:
        RuntimeError: no Maven, or no version can be resolved; the message has Maven's errors.
    """
    choices = (_Choice(spark_version, spark_version), _Choice("4.2.0", "4.0.0"))
    return _first_resolved(
        "spark-sql-kafka-0-10",
        [(each.label, f"{each.connector}-{each.token_provider}", each.artifacts) for each in choices],
    )


def resolve_avro(spark_version: str) -> Connector:
    """The jar of ``spark-avro``. Raises as ``resolve_connector``."""
    versions = (spark_version, "4.1.1")
    return _first_resolved(
        "spark-avro",
        [(each, f"avro-{each}", [(_SPARK, "spark-avro_2.13", each)]) for each in versions],
    )


def _first_resolved(name: str, choices: list[tuple[str, str, list[_Artifact]]]) -> Connector:
    """The first of the choices (label, folder and artifacts) that Maven finds."""
    if shutil.which("mvn") is None:
        raise RuntimeError(f"{name} needs Maven, but no `mvn` was found")
    reasons = []
    for label, folder_name, artifacts in choices:
        folder = cache_folder() / "spark-connector" / folder_name
        reason = None if list(folder.glob("*.jar")) else _resolve(artifacts, folder)
        if reason is None:
            return Connector(label, tuple(str(jar) for jar in sorted(folder.glob("*.jar"))))
        reasons.append(f"{label}: {reason}")
    raise RuntimeError(f"{name} could not be resolved: " + "; ".join(reasons))


def _resolve(artifacts: list[_Artifact], folder: Path) -> str | None:
    """``None``, or the reason for the failure."""
    work = folder.with_name(folder.name + ".part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "pom.xml").write_text(_pom(artifacts))
    command = ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    finished = subprocess.run(
        [*command, f"-DoutputDirectory={work / 'jars'}"],
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if finished.returncode == 0:
        (work / "jars").rename(folder)
    shutil.rmtree(work, ignore_errors=True)
    if finished.returncode == 0:
        return None
    errors = [line for line in finished.stdout.splitlines() if "[ERROR]" in line]
    return errors[0] if errors else f"Maven's exit code is {finished.returncode}"


def _pom(artifacts: list[_Artifact]) -> str:
    # Without the dependencies of these: Spark has them, and their parents name repositories that are
    # not reachable from every network.
    nothing_else = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    )
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{nothing_else}</dependency>"
        for group, artifact, version in artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>kproducer.bench</groupId>"
        "<artifactId>connector</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
