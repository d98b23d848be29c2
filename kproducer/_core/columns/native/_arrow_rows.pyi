"""The compiled twin of ``pure/arrow_rows.py``; ``kproducer._core.columns.arrow`` imports it."""
