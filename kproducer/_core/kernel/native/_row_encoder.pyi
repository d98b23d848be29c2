"""The compiled twin of ``pure/row_encoder.py``; ``kproducer._core.kernel.arrow`` imports it."""
