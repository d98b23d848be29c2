"""The compiled twin of ``pure/completion.py``; ``kproducer._core.kernel`` imports it."""
