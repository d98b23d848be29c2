"""Reads a Java properties file, in which Java clients and Kafka's tools keep their settings.

Source: Java class ``Properties`` (method ``load``). Differs from Java: a file that is valid UTF-8 is read as
UTF-8; Java reads every file as ISO 8859-1.
"""

from __future__ import annotations

import os
import re

from kproducer.errors import ConfigError

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """The properties in a file, by name; the last one of a name counts.

    Raises:
        ConfigError: the file cannot be read, or has a malformed Unicode escape.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        where = os.fspath(path)
        raise ConfigError(f"the properties file {where!r} cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    return parse_properties(text, os.fspath(path))


def parse_properties(text: str, where: str) -> dict[str, str]:
    """The properties in a text. Errors name ``where`` and the line, and show no value."""
    properties: dict[str, str] = {}
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
            properties[_unescaped(match[1], place)] = _unescaped(logical[match.end() :], place)
        logical = ""
    return properties


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
