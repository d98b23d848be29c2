"""Tables of Kafka's own clients, as Java prints them: the error codes and the settings of the producer.

``KafkaFacts.java`` in this folder prints them; Java runs it from source with the jars of the newest broker.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.kafka.maven_artifacts import NEWEST_VERSION, class_path, java_command

_SOURCE = Path(__file__).with_suffix("").with_name("KafkaFacts.java")
_TIMEOUT_SECONDS = 120


class JavaError(NamedTuple):
    """One error code.

    Attributes:
        code, name: as in Kafka's ``Errors``.
        classes: the exception's class and its base classes, without packages.
    """

    code: int
    name: str
    classes: frozenset[str]


class KafkaFacts(NamedTuple):
    """What the newest Kafka says.

    Attributes:
        errors: by code.
        settings: the default of each setting of the producer, as text; ``(required)`` without a default.
    """

    errors: dict[int, JavaError]
    settings: dict[str, str]


@functools.cache
def kafka_facts() -> KafkaFacts:
    """Run Java once. Raises KafkaUnavailableError without Java or Maven."""
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-cp", class_path(NEWEST_VERSION), str(_SOURCE)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True)
    rows = [line.split("\t") for line in printed.stdout.splitlines()]
    errors = [
        JavaError(int(row[1]), row[2], frozenset(row[3].split(","))) for row in rows if row[0] == "error"
    ]
    settings = {row[1]: row[2] for row in rows if row[0] == "setting"}
    return KafkaFacts({error.code: error for error in errors}, settings)
