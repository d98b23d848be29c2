"""Reads ``sasl.jaas.config``, the text in which Java clients write SASL credentials.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

Class names may begin with ``kafkashaded.``, as hosted Spark writes them. Errors name positions and options,
never values. Source: Kafka class ``JaasConfig``, and Java's ``StreamTokenizer``, whose quotes, escapes and
comments apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import attrs

from kproducer._core.config.setting import SHADED_PREFIX
from kproducer.errors import ConfigError, printable

_FLAGS = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<symbol>[=;])
    |"(?P<double>(?:[^"\\\n]|\\.)*)"
    |'(?P<single>(?:[^'\\\n]|\\.)*)'
    |(?P<word>[^\s"'=;]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class LoginModule(NamedTuple):
    """One login module. Its repr shows no option.

    Attributes:
        class_name: without ``kafkashaded.``.
        options: by name.
    """

    class_name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.class_name!r}, {len(self.options)} options)"

    @property
    def simple_name(self) -> str:
        """The class name without its package."""
        return self.class_name.rpartition(".")[2]


@attrs.frozen
class _Token:
    """A symbol, or a text (quoted or not)."""

    text: str = attrs.field(repr=False)
    is_symbol: bool
    line: int

    def is_(self, symbol: str) -> bool:
        return self.is_symbol and self.text == symbol


def parse_jaas_config(name: str, text: str) -> LoginModule:
    """Read the one login module of a JAAS configuration.

    Args:
        name: the setting, for errors.
        text: its value.

    Raises:
        ConfigError: the text is not valid, or has no login module or several of them.
    """
    tokens = list(_tokens(name, text))
    if not tokens:
        raise ConfigError(f"{name}: it has no login module")
    if " " in tokens[0].text:  # only a quoted text has a blank
        raise ConfigError(f"{name}: it begins with a quote; remove the quotes around the whole text")
    if len(tokens) > 1 and (tokens[0].text.endswith("{") or tokens[1].text == "{"):
        raise ConfigError(
            f"{name}: expected only a login module, got a section in braces, as in a JAAS file; remove its"
            " name and the braces"
        )
    if not any(token.is_(";") for token in tokens):
        raise ConfigError(f"{name}: the ';' at the end is missing")
    end = next(at for at, token in enumerate(tokens) if token.is_(";"))
    if end != len(tokens) - 1:
        more = "another login module or text" if any(t.is_(";") for t in tokens[end + 1 :]) else "text"
        raise ConfigError(
            f"{name}: expected one login module, got {more} after the ';' in line {tokens[end].line};"
            " put values that contain ';' into quotes"
        )
    head = tokens[:2]
    if head[0].is_symbol:
        raise ConfigError(f"{name}: it begins with {head[0].text!r} instead of the class of a login module")
    class_name = head[0].text.removeprefix(SHADED_PREFIX)
    if head[1].is_symbol or head[1].text.lower() not in _FLAGS:
        raise ConfigError(
            f"{name}: the control flag after the class of the login module is missing: write 'required'"
        )
    options: dict[str, str] = {}
    for at in range(2, end, 3):
        key, *others = tokens[at : min(at + 3, end)]
        if key.is_symbol:
            raise ConfigError(f"{name}: there is no option before the '=' in line {key.line}")
        shown = f"option {printable(key.text)!r} in line {key.line}"
        if not others or not others[0].is_("="):
            # This may be a part of a value that is not quoted.
            raise ConfigError(
                f"{name}: an option in line {key.line} has no '=' after its name (not shown because it may be"
                f" a part of a value); complete options before it: {len(options)}; put values that contain"
                " spaces into quotes, and no ',' between options"
            )
        if len(others) < 2 or others[1].is_symbol:
            raise ConfigError(f"{name}: {shown} has no value")
        if key.text in options:
            raise ConfigError(f"{name}: {shown} is there twice")
        options[key.text] = others[1].text
    return LoginModule(class_name, options)


def _tokens(name: str, text: str) -> Iterator[_Token]:
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConfigError(f"{name}: a quote in line {line} is not closed")
        kind = match.lastgroup
        assert kind is not None
        if kind != "skip":
            value = match[kind]
            if kind in ("double", "single"):
                value = _ESCAPE.sub(_unescaped, value)
            yield _Token(value, kind == "symbol", line)
        line += text.count("\n", position, match.end())
        position = match.end()


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)
