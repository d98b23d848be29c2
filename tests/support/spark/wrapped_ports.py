"""Watches or breaks the steps of exactly-once writes: what a test puts around the ports of a writer."""

from __future__ import annotations

from typing import Any
from unittest import mock

from kproducer.spark.exactly_once import spark_write
from kproducer.spark.exactly_once.driver_protocol import DriverProtocol
from kproducer.spark.exactly_once.task_protocol import TaskProtocol


class WrapsPorts:
    """The first base class of a writer; the second one is a writer of the sink."""

    def wrap_task_port(self, port: Any) -> Any:
        """What the task's protocol gets in place of its port."""
        return port

    def wrap_driver_port(self, port: Any) -> Any:
        """What the driver's protocol gets in place of its port."""
        return port

    def _write_batches(self, batches: Any) -> Any:
        def protocol(port: Any, checksum: Any) -> TaskProtocol:
            return TaskProtocol(self.wrap_task_port(port), checksum)

        with mock.patch.object(spark_write, "TaskProtocol", protocol):
            return super()._write_batches(batches)  # type: ignore[misc]

    def commit(self, *arguments: Any) -> None:
        with self._wrapped_driver():
            super().commit(*arguments)  # type: ignore[misc]

    def abort(self, *arguments: Any) -> None:
        with self._wrapped_driver():
            super().abort(*arguments)  # type: ignore[misc]

    def _wrapped_driver(self) -> Any:
        def protocol(port: Any, *arguments: Any) -> DriverProtocol:
            return DriverProtocol(self.wrap_driver_port(port), *arguments)

        return mock.patch.object(spark_write, "DriverProtocol", protocol)
