"""KafkaProducerDataSource: the class that Spark finds under the format name ``kproducer``.

It checks options and schema in ``writer`` and ``streamWriter``, which Spark calls on the driver before any
task starts. It uses the Python Data Source API only, so classic and Spark Connect sessions work alike.
Spark imports this module in several processes of the driver, some of which only look up the class, so it
imports the rest on first use.
Source: ``pyspark.sql.datasource`` (Spark 4.0 and later).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from kproducer.spark.errors import SparkOptionError
from kproducer.spark.metrics_file import MetricsFile
from kproducer.spark.python_worker import freeze_gc_if_modules_were_imported
from kproducer.spark.writers import BatchWriter, CommitOptions, StreamWriter


class KafkaProducerDataSource(DataSource):
    """A DataFrame sink for Kafka: ``df.write.format("kproducer")``, ``df.writeStream.format("kproducer")``.

    docs/spark.md describes options and columns. Spark finds an installed package without registration;
    otherwise call ``spark.dataSource.register(KafkaProducerDataSource)``.
    """

    # Tests replace these classes.
    batch_writer: type[Any] = BatchWriter
    stream_writer: type[Any] = StreamWriter

    #: Whether this process plans a write. Spark pickles a source only for the process that commits a
    #: micro-batch. At that point the rows are written, and a failed check would only cause a replay.
    _is_planning = True

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kproducer"

    def __repr__(self) -> str:
        # Options may contain credentials.
        return f"{type(self).__name__}()"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_is_planning": False}

    def schema(self) -> StructType | str:
        """Called for reading only."""
        raise SparkOptionError(
            "the format 'kproducer' cannot read; to read from Kafka use spark.read.format('kafka') "
            "(org.apache.spark:spark-sql-kafka-0-10)"
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Check options and schema, and create the writer of a DataFrame.

        Raises:
            SparkOptionError: wrong options, or ``mode("overwrite")``.
            SparkSchemaError: wrong columns.
            SparkWriteError: no broker responds, a topic does not exist, or the schema registry has no schema.
        """
        if overwrite:
            raise SparkOptionError(
                "mode('overwrite') is not supported: the records of a topic cannot be replaced; use "
                "mode('append')"
            )
        writer: DataSourceWriter = self._checked(self.batch_writer, schema)
        freeze_gc_if_modules_were_imported()
        return writer

    def streamWriter(  # noqa: N802 (Spark's name)
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Check options and schema, and create the writer of a micro-batch.

        ``overwrite`` is set for the output mode "complete": then each micro-batch writes the whole result,
        as with Spark's own sink.

        Spark refuses the output mode "update" before it calls this: write from ``foreachBatch``, or use
        ``KafkaForeachWriter``.

        Raises:
            SparkOptionError, SparkSchemaError, SparkWriteError: as above.
            FullRefreshError: exactly once, after a full refresh of a pipeline.
        """
        writer: DataSourceStreamWriter = self._checked(self.stream_writer, schema)
        freeze_gc_if_modules_were_imported()
        return writer

    def _checked(self, writer_class: type[Any], schema: StructType) -> Any:
        is_stream = issubclass(writer_class, DataSourceStreamWriter)
        if not self._is_planning:
            commit = CommitOptions.of(self.options)
            if not commit.is_exactly_once:
                return writer_class(schema, None, commit)
        # Imported here, because committing such a write needs none of the settings.
        from kproducer.spark.format_options import is_format_option, parse_formats
        from kproducer.spark.write_columns import WriteColumns
        from kproducer.spark.write_options import WriteOptions

        others = {name: value for name, value in self.options.items() if not is_format_option(name)}
        if not self._is_planning:
            return writer_class(schema, None, WriteOptions.parse(others, is_stream=is_stream))
        mistakes: list[str] = []
        formats = parse_formats(self.options, mistakes)
        if formats and not mistakes:
            from kproducer.spark.resolved_formats import mistakes_in, resolve_formats

            mistakes += mistakes_in(formats)
        options = WriteOptions.parse(others, is_stream=is_stream, mistakes=mistakes)
        if is_stream and options.is_exactly_once:
            from kproducer.spark.exactly_once.full_refresh import refuse_full_refresh

            refuse_full_refresh(self.options.get("checkpointLocation", ""), options.accepted_full_refreshes)
        columns = WriteColumns.check(
            schema,
            options.topic,
            fail_on_extra=options.extra_columns == "fail",
            formatted={each.role: each.written_column for each in formats},
        )
        metrics_file = MetricsFile.of(options.metrics_file, options.query_name, options.topic)
        if metrics_file is not None:
            metrics_file.create(is_stream=is_stream)
        if options.check_timeout_ms:
            from kproducer.spark.cluster_check import check

            check(options)
        if formats:
            columns = resolve_formats(formats, columns, schema)
        return writer_class(schema, columns, options)
