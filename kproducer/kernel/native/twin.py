"""The compiled kernel as a whole: the names of ``kproducer.kernel.pure``. Importing it needs them all.

What runs once per batch is the pure twin's: compiled code would not be noticeably faster.
"""

from __future__ import annotations

from kproducer.kernel.native._append import *
from kproducer.kernel.native._batch import *
from kproducer.kernel.native._completion import *
from kproducer.kernel.native._fast_send import *
from kproducer.kernel.native._send_many import *
from kproducer.kernel.pure import __all__ as __all__
from kproducer.kernel.pure import record_size_upper_bound as record_size_upper_bound
from kproducer.kernel.pure import write_batch_header as write_batch_header
