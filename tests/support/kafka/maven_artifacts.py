"""Jars of Kafka, Avro, a schema registry and modules of Spark, resolved by Maven once for each version.

They are in a cache folder: ``.cache/`` in the project (or ``KPRODUCER_CACHE``). Several test runs may share
it: a file lock serializes resolution, and a finished folder appears by rename. A cached version needs only
Java. Does not know brokers; ``tests.support.kafka.cluster`` runs them.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

#: One version of each supported line, oldest first.
KAFKA_VERSIONS = ("2.8.2", "3.4.1", "3.9.2", "4.4.0")
NEWEST_VERSION = KAFKA_VERSIONS[-1]
#: The last version with the log dump tool in the core artifact; it also reads logs of newer brokers.
DUMP_TOOL_VERSION = "3.9.2"

_SPECS = ("kafka-clients", "kafka-metadata", "kafka-raft")
_COORDINATORS = ("kafka-storage", "kafka-group-coordinator", "kafka-transaction-coordinator")
_SPECS_OF_4 = (*_SPECS, *_COORDINATORS, "kafka-share-coordinator")
#: Artifacts with message specs, newest version first. Streams 4.4.0 is not published everywhere.
SPEC_ARTIFACTS = {
    "4.4.0": _SPECS_OF_4,
    **dict.fromkeys(("4.3.0", "4.2.0", "4.1.0", "4.0.0"), (*_SPECS_OF_4, "kafka-streams")),
    "3.9.2": (*_SPECS, *_COORDINATORS, "kafka-streams"),
    "3.4.1": (*_SPECS, "kafka-storage", "kafka-streams", "kafka_2.13"),
    "2.8.2": (*_SPECS, "kafka-streams", "kafka_2.13"),
}

#: A logging back end that writes to standard error, so that failed starts are visible, and the log4j 1
#: classes that brokers before 4.0 use although their artifact does not depend on them.
_LOGGING = (("org.slf4j", "slf4j-simple", "1.7.36"), ("ch.qos.reload4j", "reload4j", "1.2.25"))
#: Dependencies of Kafka's JSON converters.
_JSON = ("com.fasterxml.jackson.core", "jackson-databind", "2.16.2")
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_RESOLVE_TIMEOUT_SECONDS = 900
_PROJECT_ROOT = Path(__file__).resolve().parents[3]


#: Apicurio Registry, which has the API of Confluent's registry, as a whole application.
_REGISTRY_ARTIFACT = "io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all"
#: Its modules also work with newer versions.
_OLDER_SPARK_VERSION = "4.1.1"
_AVRO_VERSION = "1.12.1"


class KafkaUnavailableError(RuntimeError):
    """Apache Kafka cannot run here; the message says what is missing and how to install it."""


def cache_folder() -> Path:
    """The folder of cached artifacts; created if missing."""
    folder = Path(os.environ.get("KPRODUCER_CACHE") or _PROJECT_ROOT / ".cache")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def java_command() -> str:
    """The ``java`` to run: from ``JAVA_HOME``, or the first on the path.

    Raises:
        KafkaUnavailableError: Java was not found.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise KafkaUnavailableError(
            "Apache Kafka needs Java 17 or newer, and no `java` was found "
            "(Debian: apt-get install openjdk-17-jdk-headless maven)"
        )
    return found


def check_version(version: str) -> None:
    """Refuse a version that the test brokers are not configured for, before anything is resolved or started.

    Raises:
        KafkaUnavailableError: it is none of ``KAFKA_VERSIONS``.
    """
    if version not in KAFKA_VERSIONS:
        raise KafkaUnavailableError(
            f"Apache Kafka {version!r} cannot be started: the known versions are {', '.join(KAFKA_VERSIONS)}"
        )


def is_cached(version: str) -> bool:
    """Whether a version can run without Maven."""
    return _jar_folder(version).is_dir()


def class_path(version: str) -> str:
    """Java class path of one Kafka version; resolved first if it is not in the cache.

    Blocks while another process resolves. Raises ``KafkaUnavailableError``.
    """
    return _class_path(_jar_folder(version), f"Apache Kafka {version}", "kafka_2.13-*.jar", _pom(version))


def tools_class_path(version: str) -> str:
    """Java class path of Kafka's command line tools with the clients of that version; see ``class_path``."""
    tools = _dependency("org.apache.kafka", "kafka-tools", version)
    pom = _project(tools + "".join(_dependency(*coordinates) for coordinates in _LOGGING))
    folder = cache_folder() / "kafka-tools" / version
    return _class_path(folder, f"Kafka's tools {version}", "kafka-tools-*.jar", pom)


def spec_jars(version: str) -> Path:
    """Folder of the jars with one version's message specs and the dependencies of their classes.

    Not sufficient to run brokers. Raises like ``class_path``.
    """
    artifacts = [_dependency("org.apache.kafka", name, version, _ALONE) for name in SPEC_ARTIFACTS[version]]
    pom = _project("".join([*artifacts, _dependency(*_JSON), _dependency(*_LOGGING[0])]))
    folder = cache_folder() / "kafka-specs" / version
    _class_path(folder, f"the specs of Apache Kafka {version}", "kafka-clients-*.jar", pom)
    return folder


def avro_class_path() -> str:
    """Java class path of Apache Avro. Raises like ``class_path``."""
    pom = _project(_dependency("org.apache.avro", "avro", _AVRO_VERSION) + _dependency(*_LOGGING[0]))
    folder = cache_folder() / "avro" / _AVRO_VERSION
    return _class_path(folder, f"Apache Avro {_AVRO_VERSION}", "avro-*.jar", pom)


def registry_jar() -> Path:
    """The jar to run of Apicurio Registry, beside the libraries that it needs. Raises like ``class_path``."""
    java_command()
    folder = cache_folder() / "apicurio-registry" / _REGISTRY_ARTIFACT.split(":")[2]
    with _locked(cache_folder() / "registry.lock"):
        if not folder.is_dir():
            goal = ("dependency:unpack", f"-Dartifact={_REGISTRY_ARTIFACT}")
            _resolve(folder, "Apicurio Registry", "*-runner.jar", _project(""), goal)
    return next(folder.glob("*-runner.jar"))


def spark_jar(artifact: str, version: str) -> Path:
    """The jar of a module that PySpark does not bring along, such as ``spark-avro_2.13``.

    Args:
        artifact: its name.
        version: of Spark; if it is not published, the newest one that is known to work with it is taken.

    Raises:
        KafkaUnavailableError: as ``class_path``.
    """
    java_command()
    versions = list(dict.fromkeys((version, _OLDER_SPARK_VERSION)))
    folders = {each: cache_folder() / "spark" / f"{artifact}-{each}" for each in versions}
    with _locked(cache_folder() / "spark.lock"):
        if not any(folder.is_dir() for folder in folders.values()):
            for each, folder in folders.items():
                pom = _project(_dependency("org.apache.spark", artifact, each, _ALONE))
                try:
                    _resolve(folder, f"{artifact} {each}", "*.jar", pom)
                    break
                except KafkaUnavailableError:
                    if each == versions[-1]:
                        raise
    return next(jar for folder in folders.values() for jar in folder.glob("*.jar"))


def _class_path(folder: Path, name: str, wanted: str, pom: str) -> str:
    java_command()
    if not folder.is_dir():
        with _locked(cache_folder() / "kafka.lock"):
            if not folder.is_dir():
                _resolve(folder, name, wanted, pom)
    return str(folder / "*")


def _jar_folder(version: str) -> Path:
    return cache_folder() / "kafka" / version


def _maven_command() -> str:
    found = shutil.which("mvn")
    if found is None:
        raise KafkaUnavailableError(
            "Apache Kafka is resolved by Maven, and no `mvn` was found (Debian: apt-get install maven)"
        )
    return found


def _resolve(
    folder: Path,
    name: str,
    wanted: str,
    pom: str,
    goal: Sequence[str] = ("dependency:copy-dependencies", "-DincludeScope=runtime"),
) -> None:
    """Let Maven copy the artifacts of a POM, or what the goal says, to a folder; ``wanted`` must be there."""
    maven = _maven_command()
    work = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "pom.xml").write_text(pom)
    log_path = folder.with_name(f"{folder.name}.maven.log")
    with log_path.open("w") as log:
        finished = subprocess.run(
            [maven, "-B", "-q", *goal, f"-DoutputDirectory={work / 'jars'}"],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=_RESOLVE_TIMEOUT_SECONDS,
            check=False,
        )
    if finished.returncode != 0 or not list((work / "jars").glob(wanted)):
        # The first one may follow escape sequences in its line.
        errors = re.findall(r"\[ERROR\] +(\S.*)", log_path.read_text())
        reason = errors[0] if errors else f"exit code {finished.returncode}"
        raise KafkaUnavailableError(f"Maven could not resolve {name}: {reason} ({log_path})")
    (work / "jars").rename(folder)
    shutil.rmtree(work, ignore_errors=True)


def _pom(version: str) -> str:
    # Without kafka-tools-api: brokers do not load it, and some releases name it without having published it.
    core = _dependency(
        "org.apache.kafka",
        "kafka_2.13",
        version,
        exclusions="<exclusions><exclusion><groupId>org.apache.kafka</groupId>"
        "<artifactId>kafka-tools-api</artifactId></exclusion></exclusions>"
        if version != DUMP_TOOL_VERSION
        else "",
    )
    logging = "".join(_dependency(*coordinates) for coordinates in _LOGGING)
    return _project(core + logging)


def _project(dependencies: str) -> str:
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>kproducer.test</groupId><artifactId>broker</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _dependency(group: str, artifact: str, version: str, exclusions: str = "") -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{exclusions}</dependency>"
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
