"""The compiled ``ArrowSource``; described in ``kproducer.kernel.pure.arrow``."""

from kproducer.kernel.pure.arrow import ArrowSource as ArrowSource
