"""Reads a Java properties file, in which Java clients and Kafka's tools keep their settings.

Differs from Java: a file that is valid UTF-8 is read as UTF-8; Java reads every file as ISO 8859-1.
"""

from __future__ import annotations

import os
import re

from kproducer._core.config.config_providers import provided
from kproducer._core.config.properties_syntax import properties_of
from kproducer.errors import ConfigError

#: What a name of a setting looks like. Anything else may be a part of a value, so errors do not show it.
_NAME = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*")


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """The settings in a file, by name; the last one of a name counts. Config providers are applied.

    Raises:
        ConfigError: the file cannot be read, has a malformed Unicode escape, or a line without a setting; or
            a config provider does not find a value.
    """
    where = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        if "\n" in where or "=" in where:
            raise ConfigError(
                "from_config: expected the path of a properties file, got a text (not shown because it may"
                " contain a secret); pass its settings as a dictionary"
            ) from None
        raise ConfigError(f"the properties file {where!r} cannot be read: {error.strerror}") from None
    except ValueError:  # NUL characters, surrogates
        text = "from_config: expected the path of a properties file, got a text that cannot be one"
        raise ConfigError(text) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    properties: dict[str, str] = {}
    for number, name, value in properties_of(text, where):
        is_name = _NAME.fullmatch(name) or name.startswith("config.providers.")
        if not is_name or not (value or "." in name):
            raise ConfigError(
                f"{where}, line {number}: expected 'name=value' with the name of a setting, got another text"
                " (not shown because it may be a part of a value); if it continues the line before, end that"
                " line with a backslash"
            )
        is_whole = value.rstrip().endswith(";") or "${" in value
        if name == "sasl.jaas.config" and value and not is_whole:
            raise ConfigError(
                f"{where}, line {number}: sasl.jaas.config does not end with ';'; end each of its lines but"
                " the last with a backslash"
            )
        properties[name] = value
    try:
        return provided(properties)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
