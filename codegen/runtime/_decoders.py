"""Chooses the decoders: the generated functions, or compiled code with the same results.

Copied into every generated package. ``cythonize -i _native.pyx`` compiles the optional extension module. The
compiled decoders interpret the ``_LAYOUTS`` of each module. They raise no errors: input that they cannot
decode is passed to the generated function, which raises, so errors have one source. The environment variable
``KPRODUCER_KERNEL`` is read at import: ``pure`` disables the extension, with ``native`` its absence is an
error, and with any other value the extension is used if it exists.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from ._wire import ZERO_UUID

B = TypeVar("B")
M = TypeVar("M")

#: For each decoder by name: the class, the class of its arrays, and its fields in wire order.
Layouts = dict[str, tuple[type[Any], type[list[Any]], str]]


def _load() -> ModuleType | None:
    wanted = os.environ.get("KPRODUCER_KERNEL", "auto")
    if wanted == "pure":
        return None
    try:
        from . import _native
    except Exception as error:  # a module that was built for another Python or Cython may raise anything
        if wanted == "native":
            reason = f"KPRODUCER_KERNEL=native: {__package__}._native is not built; use auto or pure"
            raise ImportError(reason) from error
        return None
    _native.prepare(ZERO_UUID)
    return _native


_NATIVE = _load()
#: Which decoders this package uses: "native" or "pure".
IMPLEMENTATION = "pure" if _NATIVE is None else "native"


def decoders(
    generated: dict[int, Callable[[B, int, int], tuple[M, int]]], layouts: Layouts
) -> dict[int, Callable[[B, int, int], tuple[M, int]]]:
    """The decoders to use, by version.

    Args:
        generated: the generated functions, by version; ``_decode_x`` reads what ``layouts["x"]`` says.
        layouts: the layout of each struct; read when a message is decoded for the first time.
    """
    if _NATIVE is None:
        return generated
    shared: dict[str, Any] = {}
    return {
        version: _NATIVE.Decoder(function, function.__name__.removeprefix("_decode_"), layouts, shared).decode
        for version, function in generated.items()
    }
