"""``python -m tests.support.spark.run_pipelines ARGUMENTS``: becomes ``spark-pipelines ARGUMENTS``.

``SparkDriver`` starts modules; this one makes it start a program of PySpark, which needs ``PLUGIN_PATH`` and
``connect_port``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[3]
#: For ``PYTHONPATH``: ``format("kproducer")`` is the sink with traps.
PLUGIN_PATH = os.pathsep.join([str(Path(__file__).with_name("pipeline_plugins")), str(_ROOT)])


@contextlib.contextmanager
def connect_port() -> Iterator[None]:
    """Spark's own local Connect server listens on 15002 and nowhere else: one run at a time on a machine."""
    with (Path(tempfile.gettempdir()) / f"kproducer-connect-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    program = str(Path(os.environ["SPARK_HOME"]) / "bin" / "spark-pipelines")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
