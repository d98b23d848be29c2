"""The pytest plugin: the fixture ``kafka_broker`` and the mark of the same name.

pytest loads it in every environment in which kproducer is installed, so it imports nothing before a test uses
the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kproducer.testing.fake_kafka import FakeKafka


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, for ``--strict-markers``."""
    config.addinivalue_line(
        "markers",
        "kafka_broker(*, nodes=1, auto_create=True, ...): the arguments of kproducer.testing.FakeKafka for"
        " the fixture kafka_broker",
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[FakeKafka]:
    """A Kafka broker of this test alone; ``@pytest.mark.kafka_broker(nodes=3)`` passes arguments to it."""
    from kproducer.testing.fake_kafka import FakeKafka

    mark = request.node.get_closest_marker("kafka_broker")
    if mark is not None and mark.args:
        raise pytest.UsageError(
            f"@pytest.mark.kafka_broker takes keywords only, such as nodes=3; found {mark.args!r}"
        )
    try:
        made = FakeKafka(**(mark.kwargs if mark is not None else {}))
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"@pytest.mark.kafka_broker: {error}") from None
    with made as kafka:
        yield kafka
