"""Arguments that are checked before anything happens."""

from __future__ import annotations

from typing import Any

import pytest

from kproducer import InvalidArgumentError, KafkaProducer, ProducerConfig
from kproducer.runtime.arguments import LONGEST_WAIT_S, checked_timeout_s, topic_mistake, whole_number

NO_TIMEOUTS: list[Any] = ["5", b"5", True, float("nan"), (1,), {}]


@pytest.mark.parametrize("given", NO_TIMEOUTS)
def test_what_is_no_timeout_is_refused_by_name(given: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="flush: timeout must be a number of seconds"):
        checked_timeout_s("flush", given)


def test_timeouts_are_bounded_by_what_the_platform_can_wait() -> None:
    assert checked_timeout_s("close", None) is None
    assert checked_timeout_s("close", -3) == 0
    assert checked_timeout_s("close", 0.25) == 0.25
    assert checked_timeout_s("close", float("inf")) == LONGEST_WAIT_S
    assert checked_timeout_s("close", 10**30) == LONGEST_WAIT_S


def test_a_refused_timeout_changes_nothing() -> None:
    """The producer stays open, and no flush is left begun, which would end lingering for good."""
    with KafkaProducer.from_config(ProducerConfig(bootstrap_servers=("127.0.0.1:1",))) as producer:
        for call in (producer.flush, producer.close):
            with pytest.raises(InvalidArgumentError):
                call("5")  # type: ignore[arg-type]
        engine = producer._lifecycle.engine
        assert engine is not None
        assert not engine.accumulator._flushes
        producer.flush(float("inf"))


def test_topic_names_follow_kafkas_rule() -> None:
    assert topic_mistake("a.b_c-D9") is None
    assert topic_mistake("x" * 249) is None
    assert all(topic_mistake(wrong) for wrong in ("", ".", "..", "a/b", "a\n", "é", "x" * 250))


def test_whole_numbers() -> None:
    assert [whole_number(value, 0, 5) for value in (0, 5, 6, -1, True, "1", 1.0, None)] == [0, 5] + [None] * 6
