"""The compiled twin of ``pure/batch_v2.py`` and ``pure/murmur2.py``; ``kproducer.kernel`` imports it."""
