"""The compiled twin of ``pure/batch_v2.py`` and ``pure/murmur2.py``; the kernel imports it."""
