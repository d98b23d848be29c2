"""The command ``kproducer`` with its subcommands."""

from __future__ import annotations

import logging

import click

from kproducer.cli.cluster_metadata import metadata
from kproducer.cli.configuration import config
from kproducer.cli.doctor import doctor
from kproducer.cli.perf import perf
from kproducer.cli.produce import produce
from kproducer.types import VERSION


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="kproducer")
def command_line() -> None:
    """Send records to Apache Kafka, and describe its clusters."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")


command_line.add_command(produce)
command_line.add_command(metadata)
command_line.add_command(config)
command_line.add_command(doctor)
command_line.add_command(perf)
