"""The compiled twin of ``pure/fast_sender.py``; ``kproducer._core.kernel`` imports it."""
