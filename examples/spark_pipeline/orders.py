"""A declarative pipeline that writes orders to Kafka exactly once.

    pip install -e '.[spark]' 'pyspark[pipelines]'
    export PYSPARK_PYTHON=$(which python)
    spark-pipelines run --spec examples/spark_pipeline/spark-pipeline.yml

spark-pipeline.yml names the brokers, the topic, and the folder of the orders: JSON files, one order per line:
{"customer": "alice", "item": "tea", "quantity": 2}

Run it again after it was interrupted: it writes only what is missing. A full refresh is refused, because the
topic keeps its records; the error says what to do. Consumers need isolation.level=read_committed.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

SCHEMA = "customer STRING, item STRING, quantity BIGINT"

spark = SparkSession.active()
dp.create_sink(
    "kafka_orders",
    format="kproducer",
    options={
        "kafka.bootstrap.servers": spark.conf.get("orders.bootstrap"),
        "topic": spark.conf.get("orders.topic"),
        "delivery": "exactly-once",
    },
)


@dp.append_flow(target="kafka_orders")
def orders_to_kafka() -> DataFrame:
    orders = spark.readStream.schema(SCHEMA).json(spark.conf.get("orders.source"))
    return orders.selectExpr("customer AS key", "to_json(struct(*)) AS value")
