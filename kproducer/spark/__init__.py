"""The Spark sink: ``df.write.format("kproducer")``. Needs PySpark 4.0 or later: ``kproducer[spark]``.

Spark finds the format by itself through the top-level module ``pyspark_kproducer``.
Public names only, no logic.
"""

from kproducer.spark.data_source import KafkaProducerDataSource
from kproducer.spark.errors import SparkOptionError, SparkSchemaError, SparkWriteError
from kproducer.spark.write_summary import WriteSummary

__all__ = [
    "KafkaProducerDataSource",
    "SparkOptionError",
    "SparkSchemaError",
    "SparkWriteError",
    "WriteSummary",
]
