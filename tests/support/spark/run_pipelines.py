"""``python -m tests.support.spark.run_pipelines ARGUMENTS``: becomes ``spark-pipelines ARGUMENTS``.

``SparkDriver`` starts modules; this one makes it start a program of PySpark.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    program = str(Path(os.environ["SPARK_HOME"]) / "bin" / "spark-pipelines")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
