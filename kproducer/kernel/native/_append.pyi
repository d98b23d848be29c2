"""The compiled twin of ``pure/append.py``; ``kproducer.kernel`` imports it."""
