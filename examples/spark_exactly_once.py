"""A Spark job that writes orders to Kafka exactly once: a batch, or a stream of the files in a folder.

    pip install -e '.[spark]'
    export PYSPARK_PYTHON=$(which python)
    spark-submit examples/spark_exactly_once.py batch --bootstrap localhost:9092 --topic orders \\
        --source orders/ --write-id orders-of-monday
    spark-submit examples/spark_exactly_once.py stream --bootstrap localhost:9092 --topic orders \\
        --source orders/ --checkpoint checkpoint/

--source is a folder of JSON files, one order per line: {"customer": "alice", "item": "tea", "quantity": 2}

Run a job again after it failed, with the same --write-id or --checkpoint: it writes only what is missing.
Consumers need isolation.level=read_committed, and the brokers must be Kafka 2.5 or later.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

SCHEMA = "customer STRING, item STRING, quantity BIGINT"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=["batch", "stream"])
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--source", required=True, metavar="FOLDER")
    parser.add_argument("--write-id", help="batch: the name of this write, the same when it is repeated")
    parser.add_argument("--checkpoint", metavar="FOLDER", help="stream: what was written, for the next run")
    parser.add_argument("--once", action="store_true", help="stream: end when all files have been written")
    arguments = parser.parse_args()
    if arguments.kind == "batch" and not arguments.write_id:
        parser.error("batch needs --write-id")
    if arguments.kind == "stream" and not arguments.checkpoint:
        parser.error("stream needs --checkpoint")

    spark = (
        SparkSession.builder.appName("orders to Kafka")
        # How Spark passes rows of up to 10 kB to Python fastest: without computing a size for each.
        .config("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
        # Two copies of a task would fence each other.
        .config("spark.speculation", "false")
        .getOrCreate()
    )
    options = {
        "kafka.bootstrap.servers": arguments.bootstrap,
        "topic": arguments.topic,
        "delivery": "exactly-once",
    }
    columns = ("customer AS key", "to_json(struct(*)) AS value")
    try:
        if arguments.kind == "batch":
            orders = spark.read.schema(SCHEMA).json(arguments.source).selectExpr(*columns)
            writer = orders.write.format("kproducer").options(**options, writeId=arguments.write_id)
            writer.mode("append").save()
        else:
            orders = spark.readStream.schema(SCHEMA).json(arguments.source).selectExpr(*columns)
            trigger = {"availableNow": True} if arguments.once else {"processingTime": "5 seconds"}
            query = (
                orders.writeStream.format("kproducer")
                .options(**options, checkpointLocation=arguments.checkpoint)
                .trigger(**trigger)
                .start()
            )
            query.awaitTermination()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
