"""Our bytes against Apache Kafka's own generated classes, for every version that both sides know.

Kafka makes the same bytes from the same values, reads our bytes to the same values, and writes them back
unchanged, unknown tagged fields included. Versions that Kafka 4 has removed are asked of Kafka 3.9. What
Kafka does is right by definition.
"""

from __future__ import annotations

import contextlib
import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.codegen.compiled import CORPUS
from tests.codegen.kafka_oracle import KafkaOracle, kafka_json
from tests.codegen.message_strategies import messages, without_unknown_tags
from tests.support.maven_artifacts import KafkaUnavailableError

pytestmark = pytest.mark.kafka

_SETTINGS = settings(
    max_examples=4,
    deadline=None,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

#: Fields that Kafka has renamed since the wheel's specs were written; their bytes have stayed the same.
_RENAMED = {"TxnOffsetCommitRequest": {"generationId": "generationIdOrMemberEpoch"}}


@pytest.fixture(scope="module")
def oracle():
    try:
        made = KafkaOracle()
    except KafkaUnavailableError as error:
        if os.environ.get("KPRODUCER_REQUIRE_KAFKA") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))
    with contextlib.closing(made):
        yield made


@pytest.mark.parametrize("case", CORPUS, ids=str)
def test_kafka_reads_and_writes_the_same(oracle, case):
    if oracle.knows(case.spec, case.version) is None:
        pytest.skip(f"Kafka has no {case}")
    renamed = _RENAMED.get(case.spec.name, {})

    @_SETTINGS
    @given(messages(case.spec, case.version, module=case.module))
    def check(message):
        data = message.encode(case.version)
        sent, expected = (
            {renamed.get(key, key): value for key, value in values.items()}
            for values in (
                kafka_json(message, case.spec, case.version, for_reading=for_reading)
                for for_reading in (True, False)
            )
        )
        answer = oracle.ask(case.spec, case.version, sent, data)
        assert answer.written_again == data
        assert answer.values == expected
        assert answer.from_values == without_unknown_tags(message).encode(case.version)

    check()
