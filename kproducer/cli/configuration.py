"""``kproducer config``: explains and lists settings, and checks and translates files of settings."""

from __future__ import annotations

import json
import logging
import re
import textwrap
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kproducer._core.client.metadata import Metadata
from kproducer._core.client.network_client import new_network_client
from kproducer._core.config import producer_config
from kproducer._core.config.producer_config import DOTTED_NAMES, SETTINGS, ProducerConfig
from kproducer._core.config.properties_file import read_properties
from kproducer._core.config.setting_meanings import meanings
from kproducer._core.records.compression import Compression
from kproducer._core.runtime.clock import SystemClock
from kproducer._core.sending.partitioners import make_partitioner
from kproducer.cli.connection_options import EXISTING_FILE, read_kcat_file, set_log_level
from kproducer.cli.setting_names import in_our_terms, java_setting, resolve, setting_value
from kproducer.errors import ConfigError
from kproducer.errors.suggestions import instead_of
from kproducer.serializers import serializer_name

#: Least widths in the table of settings: narrower cells would be hard to read.
_VALUES_COLUMNS, _MEANING_COLUMNS = 30, 40
_SENTENCE_END = re.compile(r"(?<=\.) ")
_HIDDEN = "***"


@click.group()
def config() -> None:
    """Explain, check and translate settings."""


@config.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_settings(as_json: bool) -> None:
    """List all settings with defaults and allowed values."""
    found = _meanings()
    if as_json:
        facts = [_facts(name, meaning) for name, meaning in found.items()]
        click.echo(json.dumps(facts, indent=2))
        return
    console = Console(highlight=False)
    table = Table()
    table.add_column("setting", no_wrap=True)
    for title in ("default", "allowed values"):
        table.add_column(title, max_width=_VALUES_COLUMNS)
    table.add_column("meaning", min_width=_MEANING_COLUMNS)
    for name, meaning in found.items():
        table.add_row(*map(Text, (name, _default(name), SETTINGS[name].allowed_text, meaning)))
    if table.__rich_measure__(console, console.options).minimum <= console.width:
        console.print(table)
        return
    for name, meaning in found.items():
        click.echo(f"{click.style(name, bold=True)}  {_default(name)}")
        sentence = _SENTENCE_END.split(meaning)[0]
        indent = "    "
        click.echo(
            textwrap.fill(
                sentence,
                max(console.width, 40),
                initial_indent=indent,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    click.echo("\nconfig explain NAME has the rest, and the allowed values.")


@config.command(short_help="Explain one setting.")
@click.argument("name")
def explain(name: str) -> None:
    """Explain the setting NAME, which may be a name of another client."""
    resolved = resolve(name)
    if resolved.name is None:
        raise click.ClickException(f"there is no setting {name!r}: {resolved.advice}")
    facts = _facts(resolved.name, _meanings()[resolved.name])
    click.echo(f"{facts['name']}: {facts['about']}")
    for title, key in (
        ("Kafka's name", "dotted"),
        ("Other names", "aliases"),
        ("Default", "default"),
        ("Allowed values", "allowed"),
        ("Source", "source"),
    ):
        if facts[key]:
            value = ", ".join(facts[key]) if isinstance(facts[key], list) else facts[key]
            click.echo(f"  {title}: {value}")
    if facts["secret"]:
        click.echo("  Its value appears in no log line and no error.")


def _meanings() -> dict[str, str]:
    return meanings(producer_config, "ProducerConfig")


def _facts(name: str, meaning: str) -> dict[str, Any]:
    setting = SETTINGS[name]
    return {
        "name": name,
        "dotted": DOTTED_NAMES[name],
        "aliases": list(setting.aliases),
        "default": _default(name),
        "allowed": setting.allowed_text,
        "source": setting.source,
        "about": meaning,
        "secret": setting.is_secret,
    }


def _default(name: str) -> str:
    return "required" if name == "bootstrap_servers" else SETTINGS[name].default_text


# -- files ---------------------------------------------------------------------------------------------


@config.command(short_help="Check a file of settings.")
@click.argument("file", type=EXISTING_FILE)
@click.option("--kcat", "is_kcat", is_flag=True, help="FILE is a configuration file of kcat.")
def check(file: Path, is_kcat: bool) -> None:
    """Check a properties FILE as a producer would, without connecting to a cluster."""
    settings = _read(file, is_kcat)
    mistakes = []
    for given, value in settings.items():
        name = resolve(given).name if is_kcat else java_setting(given)
        try:
            if name is None:
                mistakes.append(f"unknown setting {given!r}: {instead_of(given, DOTTED_NAMES)}")
            else:
                SETTINGS[name].parse(SETTINGS[name], given, setting_value(name, given, value))
        except ConfigError as error:
            mistakes.append(str(error))
    if not mistakes:
        # Each setting is valid by itself. This finds contradictions, and files and packages that are missing.
        set_log_level(logging.INFO)
        try:
            config = ProducerConfig.from_dotted(in_our_terms(settings, is_java=not is_kcat))
            make_partitioner(config.partitioner)
            Compression.of(config.compression_type)
            new_network_client(config, Metadata(config), SystemClock()).close()
        except ConfigError as error:
            mistakes.append(str(error))
    for mistake in mistakes:
        click.echo(f"{file}: {mistake}", err=True)
    if mistakes:
        raise click.exceptions.Exit(1)
    click.echo(f"{file}: {len(settings)} settings, no mistakes")


@config.command(short_help="Print a file as a call of KafkaProducer.")
@click.argument("file", type=EXISTING_FILE)
@click.option("--kcat", "is_kcat", is_flag=True, help="FILE is a configuration file of kcat.")
@click.option("--show-secrets", is_flag=True, help=f"Print passwords and keys instead of {_HIDDEN}.")
def translate(file: Path, is_kcat: bool, show_secrets: bool) -> None:
    """Print the settings in FILE, of any Kafka client, as a call of KafkaProducer."""
    given_names: dict[str, str] = {}
    arguments, mistakes = [], []
    for given, text in _read(file, is_kcat).items():
        resolved = resolve(given)
        if resolved.name is None:
            mistakes.append(f"{given}: {resolved.advice}")
        elif resolved.name in given_names:
            mistakes.append(f"{given}: the same setting as {given_names[resolved.name]}; remove one of them")
        else:
            given_names[resolved.name] = given
            try:
                value = _value(resolved.name, given, text)
            except ConfigError as error:
                mistakes.append(str(error))
            else:
                setting = SETTINGS[resolved.name]
                # URLs may contain passwords.
                is_hidden = setting.is_secret or setting.show(value) != repr(value)
                shown = repr(_HIDDEN if is_hidden and not show_secrets else value)
                arguments.append(f"    {resolved.name}={shown},\n")
    click.echo(f"KafkaProducer(\n{''.join(arguments)})")
    for mistake in mistakes:
        click.echo(f"Not translated: {mistake}", err=True)
    if mistakes:
        raise click.exceptions.Exit(1)


def _value(name: str, given: str, text: str) -> Any:
    """The value as Python's type, checked as far as it does not depend on other settings."""
    setting = SETTINGS[name]
    value = setting_value(name, given, text)
    parsed = setting.parse(setting, given, value)
    if setting.kind == "serializer":
        return serializer_name(value)
    # Names of Java's classes are stored without their packages.
    return parsed if setting.kind == "class name" else value


def _read(file: Path, is_kcat: bool) -> dict[str, str]:
    try:
        return read_kcat_file(file) if is_kcat else read_properties(file)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
