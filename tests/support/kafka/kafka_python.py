"""kafka-python, which uses a deprecated function when it is imported."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka as kafka
    import kafka.errors as kafka_errors
    import kafka.future
    import kafka.partitioner
    import kafka.producer.future
    import kafka.serializer

__all__ = ["kafka", "kafka_errors"]
