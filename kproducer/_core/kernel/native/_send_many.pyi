"""The compiled twin of ``pure/send_many.py``; ``kproducer._core.kernel`` imports it."""
