"""The table of Java's settings has the names and defaults of the newest Kafka's ``ProducerConfig``."""

from __future__ import annotations

import pytest

from codegen.java_settings import JAVA_DEFAULTS, JAVA_VERSION
from tests.support.kafka.kafka_facts import kafka_facts
from tests.support.kafka.maven_artifacts import NEWEST_VERSION

pytestmark = pytest.mark.kafka


def test_names_and_defaults_are_those_of_java() -> None:
    assert JAVA_VERSION == NEWEST_VERSION
    assert kafka_facts().settings == JAVA_DEFAULTS
