"""The compiled twin of ``pure/append.py``; ``kproducer._core.kernel`` imports it."""
