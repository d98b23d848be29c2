"""The syntax of Java's properties files: comments, continued lines, separators and escapes.

Source: Java class ``Properties`` (method ``load``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kproducer.errors import ConfigError

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, where: str) -> dict[str, str]:
    """The properties in a text; the last one of a name counts.

    Raises:
        ConfigError: a malformed Unicode escape; names ``where`` and the line, and shows no value.
    """
    return {name: value for _, name, value in properties_of(text, where)}


def properties_of(text: str, where: str) -> Iterator[tuple[int, str, str]]:
    """Line number, name and value of each property. Raises as ``parse_properties``."""
    parts: list[str] = []
    begin = 0
    for number, line in enumerate([*_LINE_END.split(text), ""], start=1):
        part = line.lstrip(_BLANKS)
        if not parts:
            if part.startswith(("#", "!")):
                continue
            begin = number
        if _is_continued(part):
            # An empty continued line is still the beginning of the next one.
            if len(part) > 1:
                parts.append(part[:-1])
            continue
        logical = "".join([*parts, part])
        parts.clear()
        if logical:
            match = _KEY.match(logical)
            assert match is not None
            place = f"{where}, line {begin}"
            yield begin, _unescaped(match[1], place), _unescaped(logical[match.end() :], place)


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
