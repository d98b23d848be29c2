"""A streaming job: each line of the text files that appear in a folder becomes a record.

    python examples/spark_files_to_kafka.py --bootstrap localhost:9092 --topic lines --folder incoming/ \\
        --checkpoint checkpoint/

``--once`` ends it after the existing files have been written; with the same checkpoint, the next run
continues with new files. To run it with its own cluster and check every record: ``python -m
examples.spark_demo stream``.
"""

from __future__ import annotations

import argparse
import os
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--checkpoint", required=True, metavar="FOLDER")
    parser.add_argument("--once", action="store_true", help="end when all files have been written")
    arguments = parser.parse_args()

    # Workers must use the Python installation that has kproducer.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("files to kafka").config("spark.ui.enabled", "false")
    # How Spark passes rows of up to 10 kB to Python fastest: without computing a size for each.
    builder = builder.config("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
    if "SPARK_ENV_LOADED" not in os.environ:  # set by spark-submit
        builder = builder.master("local[2]")
    spark = builder.getOrCreate()
    lines = spark.readStream.format("text").load(arguments.folder)
    writer = (
        lines.writeStream.format("kproducer")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("topic", arguments.topic)
        .option("checkpointLocation", arguments.checkpoint)
    )
    trigger = {"availableNow": True} if arguments.once else {"processingTime": "5 seconds"}
    writer.trigger(**trigger).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
