"""The compiled twin of ``pure/arrow.py``; ``kproducer._core.kernel`` imports it."""
