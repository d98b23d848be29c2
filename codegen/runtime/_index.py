"""The index of a generated package: message classes that are imported on first use.

A program uses few of a package's messages, and importing a module takes milliseconds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

#: Held during an import and during a fork. A child that is forked while another thread imports a module could
#: never import it, because the lock of that module would be held by a thread that the child does not have.
_importing = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
    )


def load_message(package: str, module: str, name: str) -> type[Any]:
    """Import a message's module and return its class."""
    with _importing:
        found: type[Any] = getattr(import_module(f"{package}.{module}"), name)
    return found


class MessagesByKey(Mapping[int, type[Any]]):
    """API keys to message classes. Thread-safe.

    Args:
        package: the generated package.
        places: key to module and class.
    """

    __slots__ = ("_found", "_package", "_places")

    def __init__(self, package: str, places: dict[int, tuple[str, str]]) -> None:
        self._package = package
        self._places = places
        self._found: dict[int, type[Any]] = {}

    def __getitem__(self, api_key: int) -> type[Any]:
        found = self._found.get(api_key)
        if found is None:
            module, name = self._places[api_key]
            found = self._found[api_key] = load_message(self._package, module, name)
        return found

    def __contains__(self, api_key: object) -> bool:
        return api_key in self._places

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key}: {name}' for key, (_, name) in self._places.items())}}}"
