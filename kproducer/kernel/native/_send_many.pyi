"""The compiled twin of ``pure/send_many.py``; ``kproducer.kernel`` imports it."""
