"""Spark's own Kafka connector from Maven, for the benchmark: ``spark-sql-kafka-0-10`` and its dependencies.

The preferred version is that of the running Spark. Not every release is published everywhere, so there is a
second choice; the benchmark prints which one it measured. Spark's own jars are not downloaded again.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.kafka.maven_artifacts import cache_folder

_TIMEOUT_SECONDS = 300


class Connector(NamedTuple):
    """A resolved connector: its version, as labelled in results, and its jars."""

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


def resolve_connector(spark_version: str) -> Connector:
    """The jars of the connector, resolved by Maven on first use.

    Raises:
        RuntimeError: no Maven, or no version can be resolved; the message has Maven's errors.
    """
    if shutil.which("mvn") is None:
        raise RuntimeError("spark-sql-kafka-0-10 needs Maven, but no `mvn` was found")
    reasons = []
    for choice in (_Choice(spark_version, spark_version), _Choice("4.2.0", "4.0.0")):
        folder = cache_folder() / "spark-connector" / f"{choice.connector}-{choice.token_provider}"
        reason = None if list(folder.glob("*.jar")) else _resolve(choice, folder)
        if reason is None:
            return Connector(choice.label, tuple(str(jar) for jar in sorted(folder.glob("*.jar"))))
        reasons.append(f"{choice.label}: {reason}")
    raise RuntimeError("spark-sql-kafka-0-10 could not be resolved: " + "; ".join(reasons))


def _resolve(choice: _Choice, folder: Path) -> str | None:
    """``None``, or the reason for the failure."""
    work = folder.with_name(folder.name + ".part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "pom.xml").write_text(_pom(choice))
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


def _pom(choice: _Choice) -> str:
    # Without the dependencies of these four: Spark has them, and their parents name repositories that are
    # not reachable from every network.
    nothing_else = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    )
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{nothing_else}</dependency>"
        for group, artifact, version in (
            ("org.apache.spark", "spark-sql-kafka-0-10_2.13", choice.connector),
            ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", choice.token_provider),
            ("org.apache.kafka", "kafka-clients", choice.kafka_clients),
            ("org.apache.commons", "commons-pool2", choice.commons_pool),
        )
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>kproducer.bench</groupId>"
        "<artifactId>connector</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
