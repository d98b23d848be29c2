"""The compiled ``ArrowRows``; described in ``kproducer.kernel.pure.arrow``."""

from kproducer.kernel.pure.arrow import ArrowRows as ArrowRows
