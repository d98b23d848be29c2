"""What makes Spark know the format ``kproducer`` without registration.

Spark looks through the top-level modules whose names start with ``pyspark_`` and registers the
``DefaultSource`` of each. No logic, and nothing else to import from here: see ``kproducer.spark``.
"""

from kproducer.spark.data_source import KafkaProducerDataSource as DefaultSource

__all__ = ["DefaultSource"]
