"""A batch job: each row of a Parquet folder becomes a JSON record with the customer as its key.

    python examples/spark_parquet_to_kafka.py --bootstrap localhost:9092 --topic orders --parquet orders/

On a secured cluster, ``--options FILE`` names a JSON file with the options that Spark's own sink takes, too:

    {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": "..."}

``spark-submit`` runs the same file on a cluster and sets the master. To run it with its own cluster and
check every record: ``python -m examples.spark_demo batch``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--parquet", required=True, metavar="FOLDER")
    parser.add_argument("--options", metavar="FILE", help="JSON file with further options of the sink")
    arguments = parser.parse_args()
    options = json.loads(Path(arguments.options).read_text("utf-8")) if arguments.options else {}

    # Workers must use the Python installation that has kproducer.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("parquet to kafka").config("spark.ui.enabled", "false")
    # How Spark passes rows of up to 10 kB to Python fastest: without computing a size for each.
    builder = builder.config("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
    if "SPARK_ENV_LOADED" not in os.environ:  # set by spark-submit
        builder = builder.master("local[2]")
    spark = builder.getOrCreate()
    orders = spark.read.parquet(arguments.parquet)
    (
        orders.selectExpr("customer AS key", "to_json(struct(*)) AS value")
        .write.format("kproducer")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("topic", arguments.topic)
        .options(**options)
        .mode("append")
        .save()
    )
    spark.stop()


if __name__ == "__main__":
    main()
