"""The garbage collector of a Python worker: spared what stays for good.

Spark's daemon collects all garbage after each task, and the next task of the worker waits meanwhile: tens of
milliseconds in which nothing is looked through but modules and what their functions keep. What is there when
the first task has delivered its rows stays until the worker ends. Source: ``pyspark.daemon``; ``gc.freeze``.
"""

from __future__ import annotations

import gc

from pyspark import TaskContext

_is_done = False


def spare_what_stays() -> None:
    """Take all objects that are there out of the collector's sight: once in a worker, never elsewhere."""
    global _is_done
    if _is_done or TaskContext.get() is None:
        return
    _is_done = True
    gc.freeze()
