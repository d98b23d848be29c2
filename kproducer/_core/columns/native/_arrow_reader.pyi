"""The compiled twin of ``pure/arrow_reader.py``; ``kproducer._core.columns.arrow`` imports it."""
