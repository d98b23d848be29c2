"""The compiled twin of ``pure/row_encoder.py``; ``kproducer._core.columns.arrow`` imports it."""
