"""Reads JSON with comments into nodes with line numbers.

Kafka's specs are JSON plus ``//`` and ``/* */`` comments, which the standard library cannot read, and
cutting lines at ``//`` would damage a URL inside a string. This reader also refuses a name that occurs
twice in one object with different values; the standard library and Kafka's generator silently keep the last
one.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import attrs

from codegen.errors import Problem, SpecError

_SKIP = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}
_WORD = re.compile(r"[A-Za-z_]+")


@attrs.frozen
class Node:
    """A JSON value and the line it starts on.

    ``value`` is a ``dict[str, Node]``, a ``list[Node]``, or a plain ``str``, ``int``, ``float``, ``bool``
    or ``None``. ``text`` is a string's content, or the spelling of a number or word in the file.
    """

    value: Any
    line: int = attrs.field(eq=False)
    text: str = ""


class _Reader:
    """Recursive descent over one text; ``self.position`` moves forward only."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.position = 0

    def document(self) -> Node:
        node = self.value()
        self.skip()
        if self.position < len(self.text):
            self.fail("the file continues after the closing brace; a file contains one message")
        return node

    def skip(self) -> str:
        """Skip blanks and comments; return the next character, or an empty string at the end."""
        match = _SKIP.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        if self.text.startswith("/*", self.position):
            self.fail("this comment is not closed with */")
        return self.text[self.position : self.position + 1]

    def value(self) -> Node:
        first = self.skip()
        line = self.line()
        if first == "{":
            return Node(self.object(), line)
        if first == "[":
            return Node(self.array(), line)
        if first == '"':
            text = self.string()
            return Node(text, line, text)
        if number := _NUMBER.match(self.text, self.position):
            try:
                value = json.loads(number.group())
            except ValueError:
                self.fail("this number has too many digits")
            self.position = number.end()
            return Node(value, line, number.group())
        if (word := _WORD.match(self.text, self.position)) and word.group() in _WORDS:
            self.position = word.end()
            return Node(_WORDS[word.group()], line, word.group())
        self.fail(f"expected a JSON value, found {self.found(first)}")

    def object(self) -> dict[str, Node]:
        members: dict[str, Node] = {}
        self.position += 1
        if self.skip() == "}":
            self.position += 1
            return members
        while True:
            if (first := self.skip()) != '"':
                hint = " (JSON allows no comma before a closing brace)" if first == "}" and members else ""
                self.fail(f"expected a name in double quotes, found {self.found(first)}{hint}")
            start = self.position
            name = self.string()
            if (first := self.skip()) != ":":
                self.fail(f'expected a colon after "{name}", found {self.found(first)}')
            self.position += 1
            value = self.value()
            if members.setdefault(name, value) != value:
                self.position = start
                earlier = members[name].line
                self.fail(
                    f'"{name}" occurs twice in this object with different values (first on line {earlier})'
                )
            if (first := self.skip()) not in (",", "}"):
                self.fail(f'expected a comma or a closing brace after "{name}", found {self.found(first)}')
            self.position += 1
            if first == "}":
                return members

    def array(self) -> list[Node]:
        items: list[Node] = []
        self.position += 1
        if self.skip() == "]":
            self.position += 1
            return items
        while True:
            if self.skip() == "]" and items:
                self.fail(
                    "expected another element, found ']' (JSON allows no comma before a closing bracket)"
                )
            items.append(self.value())
            if (first := self.skip()) not in (",", "]"):
                self.fail(f"expected a comma or a closing bracket, found {self.found(first)}")
            self.position += 1
            if first == "]":
                return items

    def string(self) -> str:
        match = _STRING.match(self.text, self.position)
        if match is None:
            self.fail("this string is not closed on its line")
        try:
            text = json.loads(match.group())
        except json.JSONDecodeError as error:
            self.fail(f"this string is not valid JSON: {error.msg}")
        self.position = match.end()
        assert isinstance(text, str)
        return text

    def found(self, first: str) -> str:
        if not first:
            return "the end of the file"
        word = _WORD.match(self.text, self.position)
        return repr(word.group() if word else first)

    def line(self) -> int:
        return self.text.count("\n", 0, self.position) + 1

    def fail(self, reason: str) -> NoReturn:
        column = self.position - self.text.rfind("\n", 0, self.position)
        raise SpecError([Problem(self.path, self.line(), "", f"column {column}: {reason}")])


def load(path: str, text: str) -> Node:
    """Read one spec.

    Args:
        path: the name that error messages show.
        text: the whole file.

    Raises:
        SpecError: the text is not valid JSON; with line and column.
    """
    return _Reader(path, text).document()
