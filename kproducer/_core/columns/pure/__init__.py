"""Readers and encoders of columns in plain Python, reached through ``kproducer._core.columns`` only."""
