"""The Spark sink: ``df.write.format("kproducer")``. Needs PySpark 4.0 or later: ``kproducer[spark]``.

Spark finds the format by itself through the top-level module ``pyspark_kproducer``.
Public names only. Those that need PySpark are imported when they are used: the tables of options do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from kproducer.spark.errors import (
    CommitFailedError,
    ExactlyOnceError,
    FullRefreshError,
    ReplayMismatchError,
    SparkOptionError,
    SparkSchemaError,
    SparkWriteError,
    StaleReplayError,
    UncertainReplayError,
)

if TYPE_CHECKING:
    from kproducer.spark.data_source import KafkaProducerDataSource
    from kproducer.spark.foreach_writer import KafkaForeachWriter
    from kproducer.spark.write_summary import WriteSummary

__all__ = [
    "CommitFailedError",
    "ExactlyOnceError",
    "FullRefreshError",
    "KafkaForeachWriter",
    "KafkaProducerDataSource",
    "ReplayMismatchError",
    "SparkOptionError",
    "SparkSchemaError",
    "SparkWriteError",
    "StaleReplayError",
    "UncertainReplayError",
    "WriteSummary",
]

_LATER = {
    "KafkaForeachWriter": "foreach_writer",
    "KafkaProducerDataSource": "data_source",
    "WriteSummary": "write_summary",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            import pyspark.sql.datasource  # noqa: F401
        except ImportError as error:
            raise ImportError(
                "kproducer.spark needs the package pyspark, 4.0 or later: pip install 'kproducer[spark]'"
            ) from error
        value = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        return value
