"""A Spark job in a process of its own: ``write_job.py KIND BOOTSTRAP TOPIC ROWS [STREAM_FOLDER]``.

KIND is a master URL, or ``connect`` for a Spark Connect session. Written as a user would: no test code is
used, nothing is registered. With a folder, the text files in it go to the same topic as a stream, and three
rows of typed columns to ``TOPIC-typed``. The last line it prints is JSON: the session's class, the logs that
Spark collected before the typed columns (null where it collects none: before 4.1), and the answer to a
mistake.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def session(kind: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    builder = builder.remote("local[2]") if kind == "connect" else builder.master(kind)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.pyspark.worker.logging.enabled": "true",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(kind: str, bootstrap_servers: str, topic: str, rows: int, folder: str = "") -> None:
    from pyspark.sql import functions as f

    spark = session(kind)
    frame = spark.range(0, rows, 1, 4).select(
        f.concat(f.lit("key-"), f.col("id")).alias("key"),
        f.concat(f.lit("value-"), f.col("id")).alias("value"),
        (f.col("id") % 3).cast("int").alias("partition"),
    )
    writer = frame.write.format("kproducer").option("kafka.bootstrap.servers", bootstrap_servers)
    writer.option("topic", topic).mode("append").save()
    mistake = ""
    try:
        frame.write.format("kproducer").option("topic", topic).mode("append").save()
    except Exception as error:
        mistake = str(error)
    if folder:
        lines = spark.readStream.format("text").load(folder)
        stream = lines.writeStream.format("kproducer").option("topic", topic).option("summary", "job")
        stream = stream.option("kafka.bootstrap.servers", bootstrap_servers)
        stream = stream.option("checkpointLocation", f"{folder}-checkpoint")
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination(100)
    logs = None
    if hasattr(spark.tvf, "python_worker_logs"):
        logs = [row.asDict() for row in spark.tvf.python_worker_logs().select("msg", "context").collect()]
    if folder:
        typed = spark.range(3).selectExpr("named_struct('n', id) AS key", "id", "array(id) AS ids")
        options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": f"{topic}-typed"}
        typed.write.format("kproducer").mode("append").options(
            **options, valueFormat="json", keyFormat="avro"
        ).save()
    answer = {"session": type(spark).__module__, "logs": logs, "mistake": mistake}
    spark.stop()
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), *sys.argv[5:])
