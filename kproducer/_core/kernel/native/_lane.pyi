"""The compiled data plane; ``kproducer._core.kernel`` imports it."""
