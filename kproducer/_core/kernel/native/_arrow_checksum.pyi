"""The compiled twin of ``pure/arrow_checksum.py``; ``kproducer._core.kernel`` imports it."""
