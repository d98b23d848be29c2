"""The options with which every command is told the cluster and the settings of its producer."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from kproducer._core.config.producer_config import SETTINGS, ProducerConfig
from kproducer._core.config.properties_file import read_properties
from kproducer._core.config.setting import parse_servers
from kproducer.cli.setting_names import in_our_terms
from kproducer.errors import ConfigError, KafkaError
from kproducer.serializers import Serializer, resolve_serializer

#: The type of an argument or an option that names a file to read.
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options from whose values ``producer_config`` makes the settings, and report errors.

    A ``ConfigError`` is wrong usage, and every other ``KafkaError`` a failure of the command.
    """

    @functools.wraps(command)
    def reporting(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except ConfigError as error:
            raise click.UsageError(str(error)) from None
        except KafkaError as error:
            raise click.ClickException(str(error)) from None

    decorated: Callable[..., Any] = reporting
    for option in (
        click.option(
            "-X", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, by Kafka's name."
        ),
        click.option("-F", "kcat_file", type=EXISTING_FILE, help="A configuration file of kcat."),
        click.option(
            "--config", "properties_file", type=EXISTING_FILE, help="A properties file of a Java client."
        ),
        click.option(
            "-b", "--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to connect to first."
        ),
    ):
        decorated = option(decorated)
    return decorated


def producer_config(given: Mapping[str, Any], *, serializes: bool = False) -> ProducerConfig:
    """The settings of all options; ``-b`` and ``-X`` override the files, and ``-F`` overrides ``--config``.

    Args:
        given: the values of a command's options, by parameter name. Those that ``connection_options`` did not
            add are ignored.
        serializes: whether the command uses serializers. Otherwise those that are set are ignored, as Kafka's
            tools ignore them: they may be classes that exist only in Java.

    Raises:
        ConfigError: a setting is unknown or has a wrong value, or a file cannot be read.
        click.UsageError: no option names the cluster.
    """
    dotted: dict[str, Any] = {}
    if given["properties_file"] is not None:
        dotted |= _read(given["properties_file"], is_kcat=False)
    if given["kcat_file"] is not None:
        dotted |= _read(given["kcat_file"], is_kcat=True)
    for setting in given["settings"]:
        dotted |= in_our_terms(name_and_value(setting, "-X"), is_java=False)
    for name in ("key.serializer", "value.serializer"):
        serializer = dotted.pop(name, None)
        if serializes:
            dotted[name] = _serializer(name, serializer)
    if given["bootstrap_server"] is not None:
        dotted["bootstrap.servers"] = parse_servers(
            SETTINGS["bootstrap_servers"], "-b", given["bootstrap_server"]
        )
    if "bootstrap.servers" not in dotted:
        raise click.UsageError("No cluster: pass -b HOST:PORT, or a file with bootstrap.servers.")
    return ProducerConfig.from_dotted(dotted)


def _read(file: Path, *, is_kcat: bool) -> dict[str, Any]:
    texts = read_kcat_file(file) if is_kcat else read_properties(file)
    try:
        return in_our_terms(texts, is_java=not is_kcat)
    except ConfigError as error:
        option = " --kcat" if is_kcat else ""
        raise ConfigError(
            f"{file}: {error}; for all mistakes: kproducer config check{option} {file}"
        ) from None


def _serializer(setting: str, given: str | None) -> Serializer | None:
    try:
        return resolve_serializer(setting, given)
    except ConfigError as error:
        raise ConfigError(f"{error}; -X {setting}=bytes sends the bytes of the input") from None


def name_and_value(text: str, option: str) -> dict[str, str]:
    """The one pair in ``name=value``. The error does not show the text, which may be a secret."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise click.UsageError(f"{option}: expected name=value.")
    return {name.strip(): value}


def read_kcat_file(path: Path) -> dict[str, str]:
    """The settings in a configuration file of kcat: ``name=value`` per line, ``#`` begins a comment line.

    Raises:
        ConfigError: the file cannot be read, or a line is something else.
    """
    settings: dict[str, str] = {}
    try:
        # str.splitlines would also split at characters that a password may contain.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {str(path)!r} cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"{path}, line {number}: expected 'name=value', got another text (not shown)")
        settings[name.strip()] = value.strip()
    return settings


def set_log_level(level: int) -> None:
    """Show the client's log from this level on, until the present command ends."""
    logger = logging.getLogger("kproducer")
    click.get_current_context().call_on_close(lambda before=logger.level: logger.setLevel(before))
    logger.setLevel(level)
