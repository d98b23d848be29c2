"""Arguments that are checked before anything happens."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial, wraps
from types import MethodType
from typing import Any
from unittest.mock import Mock

import pytest

from kproducer import InvalidArgumentError, KafkaProducer, ProducerConfig
from kproducer._core.runtime import arguments
from kproducer._core.runtime.arguments import (
    LONGEST_WAIT_S,
    check_callback,
    checked_timeout_s,
    topic_mistake,
    whole_number,
)

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


class Callbacks:
    def ours(self, metadata: object, error: object) -> None: ...

    def confluents(self, err: object, msg: object) -> None: ...

    def __call__(self, _err: object, _msg: object) -> None: ...


def with_context(context: object, error: object, message: object) -> None: ...


SWAPPED: list[Callable[..., object]] = [
    lambda err, msg: None,
    lambda exception, record, *more: None,
    Callbacks().confluents,
    Callbacks(),
    partial(with_context, 1),
    partial(partial(with_context), 1),
]


def with_row(row: object, metadata: object, error: object) -> None: ...


class OfClass:
    def __init__(self, metadata: object, error: object) -> None: ...

    def __call__(self) -> None: ...


def with_options(metadata: object, error: object, *, row: object = None) -> None: ...


def with_required_option(metadata: object, error: object, *, row: object) -> None: ...


def wrapper_of(function: Callable[..., object]) -> Callable[..., object]:
    @wraps(function)
    def wrapper(*arguments: object) -> object:
        return function(arguments)

    return wrapper


NOT_SWAPPED: list[Callable[..., object]] = [
    lambda metadata, error: None,
    lambda err, error: None,
    lambda msg, err: None,
    lambda *arguments: None,
    lambda metadata, *more: None,
    lambda metadata, error, row=5: None,
    lambda metadata=None, error=None: None,
    lambda metadata, error, /: None,
    with_options,
    wrapper_of(lambda both: None),
    Callbacks().ours,
    MethodType(print, 1),
    MethodType(with_row, 1),
    partial(with_row, 1),
    partial(with_required_option, row=5),
    OfClass,
    Callbacks,
    Mock(),
    print,
    [].append,
]
TAKE_NOT_TWO: list[Callable[..., object]] = [
    lambda: None,
    lambda metadata: None,
    lambda metadata, error, row: None,
    lambda metadata, error, row, more=5: None,
    lambda metadata, *, error=None: None,
    with_required_option,
    with_context,
    MethodType(with_options, 1),
    partial(with_context, 1, 2),
    partial(partial(with_options, 1), 2),
    OfClass(1, 2),
]


@pytest.mark.parametrize("callback", SWAPPED)
def test_callbacks_with_the_error_first_are_refused(callback: Callable[..., object]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"called with \(metadata, error\).*swap them"):
        check_callback(callback)


@pytest.mark.parametrize("callback", TAKE_NOT_TWO)
def test_callbacks_that_do_not_take_two_arguments_are_refused(callback: Callable[..., object]) -> None:
    with pytest.raises(TypeError):
        callback(1, None)
    with pytest.raises(InvalidArgumentError, match=r"takes other parameters: .*\(metadata, error\)"):
        check_callback(callback)


def test_what_is_bound_to_a_callback_is_not_shown() -> None:
    with pytest.raises(InvalidArgumentError, match=r"with_context\(\) takes") as raised:
        check_callback(partial(with_context, "secret", 2))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("callback", NOT_SWAPPED)
def test_other_callbacks_are_accepted(callback: Callable[..., object]) -> None:
    check_callback(callback)


def test_a_partial_with_a_placeholder_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.14: the placeholder stands for the first argument of the call, not for a bound one."""
    placeholder = getattr(functools, "Placeholder", object())
    monkeypatch.setattr(arguments, "_PLACEHOLDER", placeholder, raising=False)

    def on_delivery(metadata: Any, context: Any, error: Any) -> None:
        pass

    check_callback(partial(on_delivery, placeholder, "context"))
