"""The compiled kernel as a whole: the names of ``kproducer.kernel.pure``. Importing it needs all modules.

What runs once per batch is the pure twin's: compiled code would not be noticeably faster.
"""

from __future__ import annotations

from kproducer.kernel import pure
from kproducer.kernel.native import _append, _batch, _completion, _fast_send, _send_many

__all__ = pure.__all__

for _module in (pure, _append, _batch, _completion, _fast_send, _send_many):
    globals().update({name: getattr(_module, name) for name in __all__ if hasattr(_module, name)})
