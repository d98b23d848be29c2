"""Finds a secret in what tools that report errors show: texts, attributes, and variables of every function.

Such tools (rich with locals, Sentry, pytest --showlocals) show the ``repr`` of the variables of all functions
in a traceback, also in those of the errors that caused it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_DEEPEST = 4


def places_of(secret: str, error: BaseException) -> list[str]:
    """Where a secret can be seen in an error: empty if nowhere. The variables of tests do not count."""
    found = []
    for number, each in enumerate(_chain(error)):
        where = f"{number}: {type(each).__name__}"
        shown = {
            "str": str(each),
            "repr": repr(each),
            "args": repr(each.args),
            "attributes": repr(vars(each)),
        }
        found += [f"{where}: {name}" for name, text in shown.items() if secret in text]
        trace = each.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if "/tests/" not in code.co_filename:
                place = f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} {code.co_name}"
                found += [
                    f"{where}: {place}: {name}"
                    for name, value in trace.tb_frame.f_locals.items()
                    if any(secret in text for text in _shown(value, _DEEPEST))
                ]
            trace = trace.tb_next
    return found


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and not any(each is other for other in found):
            found.append(each)
            waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
    return found


def _shown(value: Any, depth: int) -> Iterator[str]:
    """The ``repr`` of a value, of what it contains, and of the attributes of kproducer's objects."""
    try:
        yield repr(value)
    except Exception:
        return
    if isinstance(value, (bytes, bytearray)):
        yield value.decode("latin-1")
    if depth == 0:
        return
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _shown(each, depth - 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from _shown(each, depth - 1)
    elif type(value).__module__.startswith("kproducer") and type(value).__repr__ is object.__repr__:
        for each in getattr(value, "__dict__", {}).values():
            yield from _shown(each, 0)
