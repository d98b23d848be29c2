"""public: classes and functions of ``kproducer._core`` say the name by which applications import them."""

from __future__ import annotations

from typing import TypeVar

_Named = TypeVar("_Named")


def public(named: _Named) -> _Named:
    """Decorate a class or a function that ``kproducer`` exports: its ``__module__`` becomes ``kproducer``.

    Pickles and tracebacks then refer to ``kproducer.X``. So a pickle that one version wrote, such as that of
    a ``PreparedTransaction``, can be read by a version in which X is in another module.
    """
    named.__module__ = "kproducer"
    return named
