"""``kproducer produce``: sends files or stdin, and accounts for every line."""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from kproducer._core.runtime.extra_packages import need_package
from kproducer.cli.connection_options import connection_options, name_and_value, producer_config
from kproducer.cli.deliveries import Deliveries
from kproducer.cli.input_bytes import BrokenInputError, InterruptedInputError, StopSignals
from kproducer.cli.input_formats import FORMATS, STDIN, Input
from kproducer.cli.input_types import InputTypes, input_types
from kproducer.cli.rejected_topic import RejectedTopic
from kproducer.cli.rows import RowMapping
from kproducer.cli.sending import Sending
from kproducer.errors import InvalidArgumentError, KafkaError, Outcome
from kproducer.kafka_producer import KafkaProducer

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "0": "\0"}


def _separator(text: str | None) -> bytes | None:
    """The bytes that a separator stands for: ``\\t``, ``\\n``, ``\\0``, ``\\x1f`` and so on are escapes."""
    if text is None:
        return None
    if not text:
        raise click.UsageError("-K: the separator is empty.")

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 3 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(plain, text).encode("utf-8", "surrogateescape")


def _headers(texts: tuple[str, ...]) -> list[tuple[str, bytes | None]]:
    return [
        (name, value.encode("utf-8", "surrogateescape"))
        for text in texts
        for name, value in name_and_value(text, "-H").items()
    ]


def _check_usage(given: dict[str, Any]) -> None:
    """Refuse files that do not exist and options that do not fit together, before anything is read."""
    is_file = os.path.isfile(given["topic"])
    swapped = f" The first argument is the topic, and {given['topic']!r} is a file: pass the topic before it."
    for name in given["files"]:
        if name != STDIN and not os.path.exists(name):
            raise click.UsageError(f"The file {name!r} does not exist.{swapped if is_file else ''}")
    if is_file and STDIN in given["files"] and sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError(f"There is no file to send.{swapped}")
    columns = [
        f"--{each}"
        for each in ("key", "value", "headers", "timestamp")
        if given[f"{each}_column"] is not None
    ]
    if given["input_format"] == "lines" and columns:
        raise click.UsageError(f"{', '.join(columns)}: lines have no columns; pass --format.")
    if given["input_format"] != "lines" and given["key_separator"] is not None:
        raise click.UsageError("-K is for lines; pass --key COLUMN.")
    if given["headers_column"] is not None and given["fixed_headers"]:
        raise click.UsageError("--headers and -H: pass one of them.")
    if given["input_format"] == "parquet" and STDIN in given["files"]:
        raise click.UsageError("Parquet files are not read from beginning to end; pass a file, not stdin.")
    if given["rejected_topic"] == given["topic"]:
        raise click.UsageError("--rejected-topic: name another topic than that of the records.")
    if given["input_format"] in ("parquet", "arrow"):
        need_package(f"--format {given['input_format']}", "pyarrow", "pyarrow", "arrow")


_column = functools.partial(click.option, metavar="COLUMN")


@click.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False, allow_dash=True))
@connection_options
@click.option(
    "--format", "input_format", type=click.Choice(list(FORMATS)), default="lines", show_default=True
)
@click.option(
    "-K",
    "--key-separator",
    metavar="TEXT",
    help="Lines: what separates key and value, such as \\t. A line without it has no key.",
)
@_column("--key", "key_column", help="The column of keys: texts, or other values as JSON; null is no key.")
@_column(
    "--value",
    "value_column",
    help="The column of values, as for --key; null is a tombstone [default: the row as JSON].",
)
@_column(
    "--headers",
    "headers_column",
    help="The column of headers: an object, a list of pairs, or a list of objects with key and value; in CSV"
    " as JSON.",
)
@click.option(
    "-H",
    "fixed_headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of every record; may be repeated.",
)
@_column(
    "--timestamp",
    "timestamp_column",
    help="The column of timestamps: milliseconds since the epoch, or times in ISO 8601, which are UTC unless"
    " they have an offset.",
)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="The partition of every record.")
@click.option(
    "--rejected",
    "rejected_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append what was not delivered to this file, as JSON lines with the reasons.",
)
@click.option(
    "--rejected-topic",
    metavar="TOPIC",
    help="Send input that cannot be written to this topic, with the reasons as headers.",
)
@click.option(
    "--max-rejected",
    type=click.IntRange(min=0),
    help="Stop when more records than this were not delivered.",
)
@click.pass_context
def produce(context: click.Context, /, **given: Any) -> None:
    """Send FILES, or stdin, to TOPIC: each line is a record.

    The exit status is 0 only if every record was delivered.
    """
    given["files"] = given["files"] or (STDIN,)
    _check_usage(given)
    separator = _separator(given["key_separator"])
    mapping = RowMapping(
        given["value_column"],
        given["key_column"],
        given["headers_column"],
        given["timestamp_column"],
        _headers(given["fixed_headers"]) or None,
    )
    config, types = input_types(producer_config(given, serializes=True))
    if config.acks == 0:
        raise click.UsageError("acks=0: nobody would know what was delivered; use acks=1 or acks=all.")
    if config.transactional_id:
        raise click.UsageError("transactional.id: this command has no transactions; remove the setting.")
    with ExitStack() as stack:
        rejected = None
        if given["rejected_file"] is not None:
            rejected = stack.enter_context(_opened_rejected(given["rejected_file"], given["files"]))
        producer = stack.enter_context(KafkaProducer.from_config(config))
        dead_letters = None
        if given["rejected_topic"] is not None:
            plain = config.evolve(key_serializer=None, value_serializer=None)
            dead_letters = RejectedTopic(
                stack.enter_context(KafkaProducer.from_config(plain)),
                given["rejected_topic"],
                given["topic"],
                given["partition"],
            )
        context.exit(
            _Run(producer, rejected, dead_letters, types, given).run(
                given["files"], FORMATS[given["input_format"]], mapping, separator
            )
        )


def _opened(name: str, signals: StopSignals) -> AbstractContextManager[BinaryIO]:
    try:
        with signals.ending_call():
            return cast("AbstractContextManager[BinaryIO]", click.open_file(name, "rb"))
    except OSError as error:
        raise BrokenInputError(name, 0, error.strerror) from None
    except RuntimeError:
        raise BrokenInputError(name, 0, "stdin is closed") from None


@contextmanager
def _opened_rejected(path: Path, inputs: Iterable[str]) -> Iterator[RawIOBase]:
    """The file of rejected input, which is closed afterwards.

    Raises:
        click.UsageError: it cannot be opened, or is an input, which would have no end.
        click.ClickException: it cannot be closed.
    """
    if path.is_file() and any(_is_same(path, name) for name in inputs):
        raise click.UsageError(f"--rejected: {str(path)!r} is also read; name another file.")
    try:
        file = open(path, "ab", buffering=0)  # noqa: SIM115 - closing it may fail, too
    except OSError as error:
        raise click.UsageError(f"--rejected: {str(path)!r} cannot be opened: {error.strerror}") from None
    try:
        yield file
    finally:
        try:
            file.close()
        except OSError as error:
            raise click.ClickException(
                f"--rejected: {str(path)!r} may lack entries: it cannot be closed: {error.strerror}"
            ) from None


def _is_same(path: Path, name: str) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(0) if name == STDIN else os.stat(name))
    except OSError:  # stdin is closed
        return False


def _stderr() -> Console:
    return Console(stderr=True, highlight=False)


class _Run:
    """One run of the command, from the first input to the summary."""

    def __init__(
        self,
        producer: KafkaProducer,
        rejected: RawIOBase | None,
        dead_letters: RejectedTopic | None,
        types: InputTypes,
        given: dict[str, Any],
    ) -> None:
        self._producer, self._dead_letters = producer, dead_letters
        self._console = _stderr()
        self._deliveries = Deliveries(producer.config.buffer_memory // 2, self._echo, rejected, dead_letters)
        self._sending = Sending(
            producer, self._deliveries, given["topic"], given["partition"], types, given["max_rejected"]
        )
        self._began = time.monotonic()
        self._has_begun = False

    def run(
        self,
        files: tuple[str, ...],
        send_input: Callable[[Input], None],
        mapping: RowMapping,
        separator: bytes | None,
    ) -> int:
        """Send all inputs. Returns the exit status."""
        is_complete = False
        with ExitStack() as stack:
            if self._console.is_terminal:
                stack.enter_context(self._live_progress())
            signals = stack.enter_context(StopSignals(self._stop, self._give_up))
            unread = list(files)
            try:
                self._await_topic()
                while unread:
                    name = self._sending.begin(unread.pop(0))
                    with _opened(name, signals) as file:
                        send_input(Input(name, file, self._sending, signals, mapping, separator))
                    self._sending.flush()
                is_complete = self._sending.stopped_by is None
            except InterruptedInputError as interruption:
                if isinstance(interruption, BrokenInputError):
                    self._echo(f"Error: {interruption}")
                place = f"from line {interruption.line} on" if interruption.line else "of it"
                self._echo_unsent(place, unread)
            except KafkaError as error:
                self._echo(f"Error: {error}; nothing was read")
            except Exception:  # a bug, or no memory: still, every line that was read is accounted for
                self._echo_unsent(f"after line {self._sending.last_line}", unread)
                raise
            finally:
                self._sending.flush()
                if isinstance(self._sending.stopped_by, KafkaError):
                    self._echo(f"Error: {self._sending.stopped_by}")
                self._deliveries.finish()
                self._echo(self._summary())
        if not isinstance(self._sending.stopped_by, KafkaError | None):
            raise self._sending.stopped_by  # a bug, or no memory
        if signals.received:
            return 128 + signals.received
        return 0 if is_complete and not self._deliveries.failed else 1

    def _echo_unsent(self, place: str, unread: list[str]) -> None:
        others = f", and nothing of {', '.join(unread)}" if unread else ""
        self._echo(f"{self._sending.file}: nothing was sent {place}{others}")

    @contextmanager
    def _live_progress(self) -> Iterator[None]:
        live = Live(
            get_renderable=lambda: Text(self._progress()),
            console=self._console,
            transient=True,
            refresh_per_second=4,
        )
        # The terminal may be gone, as in _echo.
        with suppress(OSError, SystemExit):
            live.start()
        try:
            yield
        finally:
            with suppress(OSError, SystemExit):
                live.stop()

    def _await_topic(self) -> None:
        topic, partition = self._sending.topic, self._sending.partition
        count = len(self._producer.partitions_for(topic))
        if partition is not None and partition >= count:
            raise InvalidArgumentError(
                f"-p {partition}: topic {topic!r} has {count} partition{'s' * (count != 1)}, numbered from 0"
            )
        if self._dead_letters is not None:
            self._producer.partitions_for(self._dead_letters.topic)
        self._has_begun = True

    def _give_up(self) -> None:
        self._producer.close(0)
        if self._dead_letters is not None:
            self._dead_letters.close(0)

    def _stop(self) -> None:
        if not self._has_begun:
            self._producer.close(0)
        elif self._deliveries.undecided:
            seconds = self._producer.config.delivery_timeout_ms / 1000
            self._echo(
                f"Stopped. Waiting for the outcomes of accepted records: {self._deliveries.undecided:,}"
                f", for at most about {seconds:g} s (delivery.timeout.ms). Another Ctrl-C gives up on them."
            )

    def _echo(self, text: str) -> None:
        # If nobody reads stderr, rich ends the thread; the exit status still tells that records are missing.
        try:
            self._console.print(Text(text), soft_wrap=True)
        except SystemExit:
            pass  # from now on the console is quiet
        except OSError:
            # A console keeps what it could not write, and would try to write it each time.
            self._console = _stderr()

    def _progress(self) -> str:
        return f"{self._counts()}; {self._deliveries.undecided:,} not acknowledged yet"

    def _summary(self) -> str:
        failed = self._deliveries.failed
        parts = [
            f"{failed[outcome]:,} {text}"
            for outcome, text in (
                (Outcome.REJECTED, "rejected by a broker"),
                (Outcome.NOT_SENT, "not sent"),
                (Outcome.UNKNOWN, "with unknown outcome"),
            )
            if failed[outcome]
        ]
        if self._dead_letters is not None and failed:
            parts.append(f"{self._dead_letters.written:,} of them in {self._dead_letters.topic}")
        return "; ".join([self._counts(), *parts])

    def _counts(self) -> str:
        delivered, seconds = self._deliveries.delivered, max(time.monotonic() - self._began, 0.001)
        noun = "record" if delivered == 1 else "records"
        return (
            f"{delivered:,} {noun} delivered to {self._sending.topic} in {seconds:,.1f} s"
            f" ({delivered / seconds:,.0f} per second)"
        )
