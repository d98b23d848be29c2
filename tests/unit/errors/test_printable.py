"""What brokers write stays on one line and carries nothing out."""

from __future__ import annotations

import pytest

from kproducer.errors import printable
from kproducer.errors.broker_errors import error_for_code
from kproducer.types import Node

HOSTILE = "a\r\n2026-01-01 CRITICAL forged\x1b[2J\x1b]0;title\x07\u202egnol\u2028\x85\x00\x9b31m\ud800"


@pytest.mark.parametrize("text", ["", "plain text", "über 日本語 ü", "back\\slash 'quotes\""])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert printable(text) is text


def test_everything_else_is_written_out() -> None:
    escaped = printable(HOSTILE)
    assert escaped.isprintable()
    assert escaped.startswith("a\\r\\n2026")
    assert "\\x1b[2J" in escaped
    assert printable(escaped) == escaped
    escaped.encode()  # a lone surrogate could not be written to a log


@pytest.mark.parametrize("code", [87, 4711])
def test_the_text_of_a_broker_error(code: int) -> None:
    error = error_for_code(code, HOSTILE, "t-0")
    assert str(error).isprintable()
    assert "forged" in str(error)
    assert error.broker_message == HOSTILE


def test_the_name_of_a_broker() -> None:
    node = Node(1, HOSTILE, 9092, HOSTILE)
    assert str(node).isprintable()
    assert node.host == HOSTILE
