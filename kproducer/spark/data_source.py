"""KafkaProducerDataSource: what Spark finds under the format name ``kproducer``.

Checks options and schema where ``writer`` or ``streamWriter`` is called, which is on the driver before any
task starts. Uses the Python Data Source API alone, so classic and Spark Connect sessions are the same to it.
Source: ``pyspark.sql.datasource`` (Spark 4.0 and later).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from kproducer.spark.cluster_check import check_cluster
from kproducer.spark.errors import SparkOptionError
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.spark.writers import batch_writer_class, stream_writer_class

_READING = (
    "the format 'kproducer' writes only; to read from Kafka use spark.read.format('kafka') "
    "(org.apache.spark:spark-sql-kafka-0-10)"
)


class KafkaProducerDataSource(DataSource):
    """A DataFrame sink for Kafka: ``df.write.format("kproducer")``, ``df.writeStream.format("kproducer")``.

    Options and columns are described in docs/spark.md. An installed package is found by Spark without
    registration; ``spark.dataSource.register(KafkaProducerDataSource)`` does it by hand.
    """

    #: Whether this is the process that plans a write. Spark pickles a source only for the process that
    #: commits a micro-batch: its rows are written by then, and a check that fails would only repeat them.
    _is_planning = True

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kproducer"

    def __repr__(self) -> str:
        # Options may hold credentials.
        return f"{type(self).__name__}()"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_is_planning": False}

    def schema(self) -> StructType | str:
        """Called for reading only."""
        raise SparkOptionError(_READING)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Check everything and make the writer of a DataFrame.

        Raises:
            SparkOptionError: wrong options, or ``mode("overwrite")``.
            SparkSchemaError: wrong columns.
            SparkWriteError: no broker answers, or the topic does not exist.
        """
        if overwrite:
            raise SparkOptionError(
                "mode('overwrite') is not possible: a topic's records cannot be replaced; use mode('append')"
            )
        writer: DataSourceWriter = self._make(self.batch_writer_class(), schema)
        return writer

    def streamWriter(  # noqa: N802 (Spark's name)
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Check everything and make the writer of a micro-batch.

        ``overwrite`` is set for the output mode "complete": then each micro-batch writes the whole result, as
        with Spark's own sink.

        Raises:
            SparkOptionError, SparkSchemaError, SparkWriteError: as above.
        """
        writer: DataSourceStreamWriter = self._make(self.stream_writer_class(), schema)
        return writer

    def batch_writer_class(self) -> type[Any]:
        """Which writer DataFrames get; a subclass of it, in a subclass of this."""
        return batch_writer_class()

    def stream_writer_class(self) -> type[Any]:
        """Which writer micro-batches get; as above."""
        return stream_writer_class()

    def _make(self, writer_class: type[Any], schema: StructType) -> Any:
        is_stream = issubclass(writer_class, DataSourceStreamWriter)
        options = WriteOptions.parse(self.options, is_stream=is_stream)
        columns = WriteColumns.check(schema, options.topic, fail_on_extra=options.extra_columns == "fail")
        if self._is_planning and options.check_timeout_ms:
            servers = options.producer_config().bootstrap_servers
            check_cluster(servers, options.topics, options.check_timeout_ms / 1000)
        return writer_class(schema, columns, options)
