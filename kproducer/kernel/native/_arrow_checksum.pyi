"""The compiled twin of ``pure/arrow_checksum.py``; ``kproducer.kernel`` imports it."""
