"""The query of ``exactly_once_chaos`` in a driver that may be killed: ``... exactly_once_job FOLDER``.

Reads FOLDER/job.json, continues from FOLDER/checkpoint, and ends when FOLDER/stop exists and everything is
written. When the query fails, the reason is printed, and the query restarts as long as FOLDER/driver names
this process: another driver may have replaced it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from tests.support.spark.driver import RUN_NAME
from tests.support.spark.exactly_once_source import TrappedSource

FAILED = "QUERY FAILED: "
#: Puts each file into a task of its own, regardless of the number of cores: one file fills a task.
_ONE_FILE = str(4 * 1024 * 1024)
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": _QUICK_START,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _QUICK_START,
    # Executors are killed more often than the default limit allows.
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "4",
    "spark.sql.files.maxPartitionBytes": _ONE_FILE,
    "spark.sql.files.openCostInBytes": _ONE_FILE,
    "spark.sql.session.timeZone": "UTC",
}


def make_session(master: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("exactly once")
    session = builder.config(map=SESSION).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def read_rows(spark: Any, folder: Path, settings: dict[str, Any]) -> Any:
    """The rows of the source files; each names its partition."""
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", settings["files"])
    rows = lines.load(str(folder / "source")).where(settings["condition"])
    return rows.selectExpr(*settings["columns"])


def start(spark: Any, folder: Path, settings: dict[str, Any]) -> Any:
    """Start the query."""
    rows = read_rows(spark, folder, settings)
    writer = rows.writeStream.format("trapped").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.options(**settings["options"]).start()


def reason_of(text: str) -> str:
    """The relevant line of a failure that contains Java and Python stack traces."""
    python = re.findall(r"^(?!org\.|java\.)([\w.]+(?:Error|Exception): .*)$", text, re.MULTILINE)
    if python:
        return str(python[-1])[:800]
    # Spark describes the query before this phrase and the cause after it.
    said = " ".join(text.split()).split(" terminated with exception: ")[-1]
    return said.split(" === Streaming Query === ")[0][:400]


def run(spark: Any, folder: Path, settings: dict[str, Any]) -> bool:
    """Run until everything is written (True), or print why the query failed (False)."""
    try:
        query = start(spark, folder, settings)
        while not query.awaitTermination(0.2):
            if (folder / "stop").exists():
                query.processAllAvailable()
                query.stop()
                return True
    except Exception as error:
        print(f"{error}\n{FAILED}{reason_of(str(error))}", flush=True)
    return False


def main() -> None:
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "job.json").read_text())
    spark = make_session(settings["master"])
    spark.dataSource.register(TrappedSource)
    while not run(spark, folder, settings):
        if (folder / "driver").read_text() != os.environ[RUN_NAME] or spark._jsc.sc().isStopped():
            os._exit(1)  # the parent process kills the remaining processes
    spark.stop()


if __name__ == "__main__":
    main()
