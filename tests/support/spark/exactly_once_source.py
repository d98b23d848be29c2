"""The sink under test as a separate data source, whose processes look for a trap at each step.

Its settings come from environment variables, which every process of the driver inherits: the sink refuses
unknown options.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kproducer.spark import KafkaProducerDataSource
from kproducer.spark.writers import StreamWriter
from tests.support.spark.divided_commit import COMMIT_REST, DividedCommit
from tests.support.spark.step_trap import StepTrap
from tests.support.spark.stepping_ports import SteppingDriverPort, SteppingTaskPort
from tests.support.spark.wrapped_ports import WrapsPorts

#: The steps of the protocol that the at-least-once sink also takes.
AT_LEAST_ONCE_STEPS = ("prepared", "commit", "committed")
FOLDER = "EXACTLY_ONCE_FOLDER"
BREAKAGE = "EXACTLY_ONCE_BREAKAGE"


class TrappedSource(KafkaProducerDataSource):
    """``format("trapped")``: ``kproducer`` with traps; ``EXACTLY_ONCE_BREAKAGE`` says what is broken."""

    @classmethod
    def name(cls) -> str:
        return "trapped"

    @property
    def stream_writer(self) -> type[Any]:
        if os.environ.get(BREAKAGE) == "delivery":
            return TrappedAtLeastOnce
        return Trapped


class Trapped(WrapsPorts, StreamWriter):  # type: ignore[misc]
    """The stream writer with a trap at each step, and broken if requested."""

    def wrap_task_port(self, port: Any) -> Any:
        port = _WithoutMarkers(port) if os.environ.get(BREAKAGE) == "markers" else port
        return SteppingTaskPort(port, trap().on_step)

    def wrap_driver_port(self, port: Any) -> Any:
        # Only for this trap; otherwise all tasks are committed at once, as in the sink.
        on_step = trap().on_step
        divided = DividedCommit(port, on_step) if trap().is_set_at(COMMIT_REST) else port
        return SteppingDriverPort(divided, on_step)

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        trap().on_step("committed")


class TrappedAtLeastOnce(StreamWriter):  # type: ignore[misc]
    """The at-least-once sink, with the steps that it has in common with exactly once."""

    def write(self, iterator: Any) -> Any:
        message = super().write(iterator)
        trap().on_step("prepared")
        return message

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        trap().on_step("commit")
        super().commit(messages, batchId)
        trap().on_step("committed")


class _WithoutMarkers:
    """A task's Kafka that finds no committed markers."""

    def __init__(self, port: Any) -> None:
        self._port = port

    def stable_offset(self, group: str) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def trap() -> StepTrap:
    return StepTrap(Path(os.environ[FOLDER]))
