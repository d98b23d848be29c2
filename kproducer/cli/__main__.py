"""``python -m kproducer.cli``: the same as the command ``kproducer``."""

from kproducer.cli.command_line import command_line

command_line(prog_name="kproducer")
