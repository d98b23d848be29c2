"""The reference kernel in plain Python. Reached through ``kproducer.kernel`` only."""
