"""Reads a Java properties file, in which Java clients and Kafka's tools keep their settings.

Source: Java class ``Properties`` (method ``load``). Differs from Java: a file that is valid UTF-8 is read as
UTF-8; Java reads every file as ISO 8859-1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from kproducer.errors import ConfigError

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
#: What a name of a setting looks like. Anything else may be a part of a value, so errors do not show it.
_NAME = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """The settings in a file, by name; the last one of a name counts.

    Raises:
        ConfigError: the file cannot be read, has a malformed Unicode escape, or a line without a setting.
    """
    where = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        if "\n" in where or "=" in where:
            raise ConfigError(
                "from_config: expected the path of a properties file, got a text (not shown because it may"
                " contain a secret); pass its settings as a dictionary"
            ) from None
        raise ConfigError(f"the properties file {where!r} cannot be read: {error.strerror}") from None
    except ValueError:  # NUL characters, surrogates
        text = "from_config: expected the path of a properties file, got a text that cannot be one"
        raise ConfigError(text) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    properties: dict[str, str] = {}
    for number, name, value in _properties(text, where):
        if _NAME.fullmatch(name) is None or not (value or "." in name):
            raise ConfigError(
                f"{where}, line {number}: expected 'name=value' with the name of a setting, got another text"
                " (not shown because it may be a part of a value); if it continues the line before, end that"
                " line with a backslash"
            )
        if name == "sasl.jaas.config" and value and not value.rstrip().endswith(";"):
            raise ConfigError(
                f"{where}, line {number}: sasl.jaas.config does not end with ';'; end each of its lines but"
                " the last with a backslash"
            )
        properties[name] = value
    return properties


def parse_properties(text: str, where: str) -> dict[str, str]:
    """The properties in a text. Errors name ``where`` and the line, and show no value."""
    return {name: value for _, name, value in _properties(text, where)}


def _properties(text: str, where: str) -> Iterator[tuple[int, str, str]]:
    """Line number, name and value of each property."""
    logical, begin = "", 0
    for number, line in enumerate([*_LINE_END.split(text), ""], start=1):
        part = line.lstrip(_BLANKS)
        if not logical:
            if part.startswith(("#", "!")):
                continue
            begin = number
        logical += part
        if _is_continued(part):
            logical = logical[:-1]
            # An empty continued line is still the beginning of the next one.
            continue
        if logical:
            match = _KEY.match(logical)
            assert match is not None
            place = f"{where}, line {begin}"
            yield begin, _unescaped(match[1], place), _unescaped(logical[match.end() :], place)
        logical = ""


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str, place: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        code = match[1]
        if code == "u":
            raise ConfigError(f"{place}: '\\u' without four hexadecimal digits; write '\\\\' for a backslash")
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    # Java joins surrogates that were written as two escapes.
    plain = _ESCAPE.sub(replacement, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
