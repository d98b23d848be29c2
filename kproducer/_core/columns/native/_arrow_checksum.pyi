"""The compiled twin of ``pure/arrow_checksum.py``; ``kproducer._core.columns.arrow`` imports it."""
