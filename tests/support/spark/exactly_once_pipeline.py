"""The query of ``exactly_once_job`` as a declarative pipeline; ``spark-pipelines run`` loads this file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from tests.support.spark.exactly_once_job import read_rows
from tests.support.spark.exactly_once_source import FOLDER

_folder = Path(os.environ[FOLDER])
_settings = json.loads((_folder / "job.json").read_text())
dp.create_sink("rows", format="kproducer", options=_settings["options"])


@dp.append_flow(target="rows")
def files() -> Any:
    return read_rows(SparkSession.active(), _folder, _settings)
