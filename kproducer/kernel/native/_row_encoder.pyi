"""The compiled twin of ``pure/row_encoder.py``; ``kproducer.kernel.arrow`` imports it."""
