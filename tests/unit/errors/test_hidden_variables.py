"""Constructors that hide their arguments: what is left of an error, and what must not be lost."""

from __future__ import annotations

import traceback

import pytest

from kproducer import ConfigError, KafkaProducer, KafkaTimeoutError
from kproducer.errors.hidden_variables import hides_arguments, hides_arguments_in


@hides_arguments
def fails(secret: str, cause: BaseException | None) -> None:
    raise ConfigError("linger_ms: wrong") from cause


def test_the_traceback_ends_at_the_wrapper_and_begins_with_the_line_of_the_call() -> None:
    with pytest.raises(ConfigError) as raised:
        fails("s3cret", None)
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert [frame.name for frame in frames] == [
        "test_the_traceback_ends_at_the_wrapper_and_begins_with_the_line_of_the_call",
        "call",
    ]
    assert frames[0].line == 'fails("s3cret", None)'


def test_an_error_that_the_caller_handles_stays_the_context() -> None:
    try:
        {}["the first choice"]
    except KeyError:
        with pytest.raises(ConfigError) as raised:
            KafkaProducer(linger_ms=-1)
    text = "".join(traceback.format_exception(raised.value))
    assert "KeyError: 'the first choice'" in text


def test_causes_that_are_errors_of_kproducer_stay_without_their_frames() -> None:
    cause = KafkaTimeoutError("no answer")
    cause.__cause__ = ValueError("s3cret")
    try:
        raise cause
    except KafkaTimeoutError:
        pass
    with pytest.raises(ConfigError) as raised:
        fails("s3cret", cause)
    assert raised.value.__cause__ is cause
    assert (cause.__cause__, cause.__context__, cause.__traceback__) == (None, None, None)


def test_other_errors_are_hidden_only_if_they_are_named() -> None:
    def fails(secret: str) -> None:
        raise ValueError("wrong")

    for hide, frames in ((hides_arguments, 3), (hides_arguments_in(ValueError), 2)):
        with pytest.raises(ValueError, match="wrong") as raised:
            hide(fails)("s3cret")
        assert len(traceback.extract_tb(raised.value.__traceback__)) == frames
