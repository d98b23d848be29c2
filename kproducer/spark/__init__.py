"""The Spark sink: ``df.write.format("kproducer")``. Needs PySpark 4.0 or later: ``kproducer[spark]``.

Spark finds the format by itself through the top-level module ``pyspark_kproducer``.
Public names only.
"""

try:
    import pyspark.sql.datasource  # noqa: F401
except ImportError as error:
    raise ImportError(
        "kproducer.spark needs the package pyspark, 4.0 or later: pip install 'kproducer[spark]'"
    ) from error

from kproducer.spark.data_source import KafkaProducerDataSource
from kproducer.spark.errors import (
    CommitFailedError,
    ExactlyOnceError,
    ReplayMismatchError,
    SparkOptionError,
    SparkSchemaError,
    SparkWriteError,
    StaleReplayError,
    UncertainReplayError,
)
from kproducer.spark.write_summary import WriteSummary

__all__ = [
    "CommitFailedError",
    "ExactlyOnceError",
    "KafkaProducerDataSource",
    "ReplayMismatchError",
    "SparkOptionError",
    "SparkSchemaError",
    "SparkWriteError",
    "StaleReplayError",
    "UncertainReplayError",
    "WriteSummary",
]
