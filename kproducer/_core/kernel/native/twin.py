"""The compiled kernel as a whole: the names of ``kernel.pure``. Importing it needs all modules."""

from __future__ import annotations

from kproducer._core.kernel import batch_header
from kproducer._core.kernel.native import _append, _batch, _completion, _fast_send, _send_many

__all__: list[str] = []

for _module in (batch_header, _append, _batch, _completion, _fast_send, _send_many):
    for _name, _value in vars(_module).items():
        # A module also has names that it imports.
        if getattr(_value, "__module__", "") == _module.__name__ and _name[0] != "_":
            globals()[_name] = _value
            __all__.append(_name)

__all__.sort()
