"""Errors of the Spark sink: two mistakes of the caller, found on the driver, and one failure of a task.

They are ordinary members of the package's tree, so that code which catches ``KafkaError`` catches them. Spark
turns whatever a task or a driver process raises into text, so everything worth knowing is in the message.
"""

from __future__ import annotations

from kproducer.errors import ConfigError, KafkaError


class SparkOptionError(ConfigError):
    """Options of the write are unknown, wrong, missing or contradict each other."""


class SparkSchemaError(ConfigError):
    """The DataFrame lacks a column, or has one of a type that cannot be written."""


class SparkWriteError(KafkaError):
    """A task could not write all of its rows; the message names topic, partition and reason."""
