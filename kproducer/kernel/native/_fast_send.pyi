"""The compiled twin of ``pure/fast_sender.py``; ``kproducer.kernel`` imports it."""
