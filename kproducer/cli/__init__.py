"""The command ``kproducer``. Needs the extra ``cli``: without it, importing this package ends the program."""

from __future__ import annotations

try:
    import click as _click  # noqa: F401
    import rich as _rich  # noqa: F401
except ImportError:
    raise SystemExit("The command kproducer needs more packages: pip install 'kproducer[cli]'") from None
