"""The compiled twin of ``pure/arrow.py``; ``kproducer.kernel`` imports it."""
