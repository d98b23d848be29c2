"""The compiled twin of ``pure/completion.py``; ``kproducer.kernel`` imports it."""
