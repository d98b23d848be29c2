"""Writes to a secured cluster in a process of its own: ``secured_job.py FOLDER``.

FOLDER/writes.json has the writes, with their options; FOLDER/answers.json gets what became of each. The
session has everything that could show an option: the web interface, an event log, and the workers' logs. What
they show goes to FOLDER/shown. It also serves Spark Connect: the writes that
ask for it are made by a second process, ``secured_job.py FOLDER sc://...``, in the same way.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import traceback
import urllib.request
from pathlib import Path
from typing import Any

_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
logger.spark.name = org.apache.spark
logger.spark.level = info
logger.kafka.name = org.apache.kafka
logger.kafka.level = info
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
"""
_QUERY_TIMEOUT_S = 100
_CLIENT_TIMEOUT_S = 150


def classic_session(folder: Path, jars: str) -> Any:
    from pyspark.sql import SparkSession

    (folder / "events").mkdir()
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    builder = SparkSession.builder.master("local[2]").appName("secured")
    for name, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={logging}",
        # docs/spark.md recommends this for Spark Connect, whose server shows the options of all writes.
        "spark.redaction.string.regex": 'value: ".*"',
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.pyspark.worker.logging.enabled": "true",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.jars": jars,
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(spark: Any, write: dict[str, Any], folder: Path) -> dict[str, str]:
    """Make one write; the answer has what a user can see of it."""
    shown = io.StringIO()
    error = ""
    values = "CAST(id AS STRING) AS value"
    try:
        with contextlib.redirect_stdout(shown):
            if write["is_stream"]:
                error = _stream(spark, write, folder)
            else:
                frame = spark.range(0, 20, 1, 2).selectExpr(values)
                frame.explain("extended")
                writer = frame.write.format(write["format"]).mode("append")
                writer.options(**write["options"]).save()
    except Exception as failure:
        error = f"{failure}\n{failure!r}\n{traceback.format_exc()}"
    return {"name": write["name"], "error": error, "shown": shown.getvalue()}


def _stream(spark: Any, write: dict[str, Any], folder: Path) -> str:
    lines = spark.readStream.format("text").load(str(folder / "lines"))
    writer = lines.writeStream.format(write["format"]).options(**write["options"])
    writer = writer.option("checkpointLocation", str(folder / "checkpoints" / write["name"]))
    query = writer.queryName(write["name"].replace("-", "_")).trigger(availableNow=True).start()
    error = ""
    try:
        assert query.awaitTermination(_QUERY_TIMEOUT_S), "the query did not end"
    except Exception as failure:
        error = f"{failure}\n{failure!r}\n{traceback.format_exc()}"
    print(query.lastProgress, query.recentProgress, query.status, query.exception())
    query.explain(True)
    return error


def main(folder: Path, remote: str = "") -> None:
    job = json.loads((folder / "writes.json").read_text())
    if remote:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote(remote).getOrCreate()
    else:
        spark = classic_session(folder, job["jars"])
    writes = [write for write in job["writes"] if write["is_connect"] == bool(remote)]
    answers = [run(spark, write, folder) for write in writes]
    logs = spark.tvf.python_worker_logs().collect() if hasattr(spark.tvf, "python_worker_logs") else []
    (folder / "shown" / f"worker-logs-{bool(remote)}").write_text("\n".join(map(str, logs)))
    if remote:
        (folder / "client-answers.json").write_text(json.dumps(answers))
        return
    if any(write["is_connect"] for write in job["writes"]):
        answers += connect_answers(spark, folder)
    save_web_interface(spark, folder / "shown")
    spark.stop()
    (folder / "answers.json").write_text(json.dumps(answers))


def connect_answers(spark: Any, folder: Path) -> list[dict[str, str]]:
    service = getattr(spark._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()
    command = [sys.executable, __file__, str(folder), f"sc://127.0.0.1:{port}"]
    subprocess.run(command, timeout=_CLIENT_TIMEOUT_S, check=True)
    answers: list[dict[str, str]] = json.loads((folder / "client-answers.json").read_text())
    return answers


def save_web_interface(spark: Any, folder: Path) -> None:
    """The pages and REST answers that show queries, plans, failures and settings."""
    base = spark.sparkContext.uiWebUrl
    api = f"{base}/api/v1/applications/{spark.sparkContext.applicationId}"
    executions = json.loads(_get(f"{api}/sql?details=true&planDescription=true&length=1000"))
    pages = {f"sql-{each['id']}": f"{base}/SQL/execution/?id={each['id']}" for each in executions}
    pages |= {
        name: f"{base}/{name}/"
        for name in ("jobs", "stages", "environment", "SQL", "StreamingQuery", "connect")
    }
    pages |= {f"api-{name}": f"{api}/{name}" for name in ("jobs", "stages?details=true", "environment")}
    pages["api-sql"] = f"{api}/sql?details=true&planDescription=true&length=1000"
    for name, url in pages.items():
        (folder / f"web-{name.partition('?')[0]}").write_text(_get(url))


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as response:
        text: str = response.read().decode()
    return text


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
