"""The sink under test as a data source of its own, whose processes look for a trap at each step.

What it needs it finds in the environment, which every process of the driver inherits: options would be
refused by the sink, which knows its own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kproducer.spark import KafkaProducerDataSource
from kproducer.spark.writers import stream_writer_class
from tests.support.spark.divided_commit import COMMIT_REST, DividedCommit
from tests.support.spark.step_trap import StepTrap

#: Of the steps of the protocol, those that the sink which writes at least once has too.
AT_LEAST_ONCE_STEPS = ("prepared", "commit", "committed")
FOLDER = "EXACTLY_ONCE_FOLDER"
BREAKAGE = "EXACTLY_ONCE_BREAKAGE"


class TrappedSource(KafkaProducerDataSource):
    """``format("trapped")``: ``kproducer`` with traps; ``EXACTLY_ONCE_BREAKAGE`` says what does not work."""

    @classmethod
    def name(cls) -> str:
        return "trapped"

    def stream_writer_class(self) -> type[Any]:
        if os.environ.get(BREAKAGE) == "delivery":
            return TrappedAtLeastOnce
        return Trapped


class Trapped(stream_writer_class()):  # type: ignore[misc]
    """Looks for a trap at each step; the writer as it is otherwise, unless it is broken."""

    def task_kafka(self, port: Any) -> Any:
        return _WithoutMarkers(port) if os.environ.get(BREAKAGE) == "markers" else port

    def driver_kafka(self, port: Any) -> Any:
        # For no other trap: all tasks are committed at once then, as without one.
        return DividedCommit(port, self.on_step) if trap().is_set_at(COMMIT_REST) else port

    def on_step(self, name: str) -> None:
        trap().on_step(name)


class TrappedAtLeastOnce(stream_writer_class()):  # type: ignore[misc]
    """The sink that repeats what was not committed by Spark, with the steps that it has in common."""

    def write(self, iterator: Any) -> Any:
        message = super().write(iterator)
        trap().on_step("prepared")
        return message

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        trap().on_step("commit")
        super().commit(messages, batchId)
        trap().on_step("committed")


class _WithoutMarkers:
    """A task's Kafka that does not know what is committed."""

    def __init__(self, port: Any) -> None:
        self._port = port

    def marker(self, group: str) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def trap() -> StepTrap:
    return StepTrap(Path(os.environ[FOLDER]))
