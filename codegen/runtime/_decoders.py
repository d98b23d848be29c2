"""Which decoders are used: the generated functions, or compiled code that does the same, only faster.

Copied into every generated package. ``cythonize -i _native.pyx`` compiles the extension module; a package
without it works as well. The compiled decoders go by the ``_LAYOUTS`` of each module. They only ever say what
was read: bytes that they cannot read they hand to the generated function, which raises the error, so there is
one source of errors. The environment variable ``KPRODUCER_KERNEL`` decides at import: ``pure`` leaves the
extension out, ``native`` makes its absence an error, anything else takes it where it is there.
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
    except Exception as error:  # a module of another Python or Cython may raise anything
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
        layouts: what each struct looks like; they are read when a message is decoded for the first time.
    """
    if _NATIVE is None:
        return generated
    shared: dict[str, Any] = {}
    return {
        version: _NATIVE.Decoder(function, function.__name__.removeprefix("_decode_"), layouts, shared).decode
        for version, function in generated.items()
    }
