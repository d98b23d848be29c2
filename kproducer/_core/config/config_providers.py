"""Config providers: values of a properties file that are kept elsewhere, such as ``${env:PASSWORD}``.

These can be environment variables, properties in other files, and files in a directory. Differs from Java: if
a value is not found, that is an error; Java uses the placeholder itself as the value. Source: KIP-297,
KIP-421, KIP-887, KIP-993; Kafka classes ``ConfigTransformer``, ``EnvVarConfigProvider``,
``FileConfigProvider``, ``DirectoryConfigProvider``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kproducer._core.config.properties_syntax import parse_properties
from kproducer.errors import ConfigError

_NAMES = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."


class _Kind(NamedTuple):
    """A class of providers.

    Attributes:
        parameter: limits what its providers may read.
        find: from the value of the parameter (empty: no limits), path and key to what is there. Raises
            ``LookupError`` with the reason.
    """

    parameter: str
    find: Callable[[str, str, str], str]


def provided(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without those of providers, and with values in place of placeholders.

    Raises:
        ConfigError: a provider is none of Kafka's or has unknown parameters, or does not find a value.
    """
    providers = _providers_of({name: properties[name] for name in properties if _is_of_providers(name)})

    def value_of(name: str, placeholder: str, provider: str, path: str, key: str) -> str:
        if provider not in providers:
            return placeholder  # as in Java: a value may look like this without being a placeholder
        try:
            return providers[provider](path, key)
        except LookupError as error:
            raise ConfigError(f"{name}: {placeholder}: {error.args[0]}") from None

    return {
        name: _replaced(value, partial(value_of, name))
        for name, value in properties.items()
        if not _is_of_providers(name)
    }


def _replaced(text: str, value_of: Callable[[str, str, str, str], str]) -> str:
    """The text with a value for each ``${provider:key}`` and ``${provider:path:key}``.

    A regular expression would look for the end of the text at every ``${``.
    """
    parts, begin = [], 0
    while (end := text.find("}", begin) + 1) > 0:
        at = text.find("${", begin, end)
        provider, *path_and_key = text[at + 2 : end - 1].split(":", 2)
        if at < 0 or not path_and_key:
            parts.append(text[begin:end])
        else:
            *path, key = path_and_key
            parts += text[begin:at], value_of(text[at:end], provider, "".join(path), key)
        begin = end
    return "".join([*parts, text[begin:]])


def _is_of_providers(name: str) -> bool:
    return name == _NAMES or name.startswith(f"{_NAMES}.")


def _providers_of(properties: dict[str, str]) -> dict[str, Callable[[str, str], str]]:
    """By name of a provider: the function that returns the value for a path and a key."""
    providers: dict[str, Callable[[str, str], str]] = {}
    known = {_NAMES}
    for name in filter(None, map(str.strip, properties.get(_NAMES, "").split(","))):
        class_setting = f"{_NAMES}.{name}.class"
        class_name = properties.get(class_setting, "")
        kind = _KINDS.get(class_name.removeprefix(_PACKAGE))
        if kind is None:
            mistake = f"{class_name!r} cannot be used here" if class_name else "it is missing"
            classes = ", ".join(_PACKAGE + each for each in _KINDS)
            raise ConfigError(f"{class_setting}: {mistake}; set it to one of {classes}")
        parameter = f"{_NAMES}.{name}.param.{kind.parameter}"
        known |= {class_setting, parameter}
        providers[name] = partial(kind.find, properties.get(parameter, ""))
    for setting in properties:
        if setting not in known:
            raise ConfigError(f"unknown setting {setting!r}: expected one of {', '.join(sorted(known))}")
    return providers


def _in_environment(pattern: str, path: str, key: str) -> str:
    if path:
        raise LookupError("environment variables have no path; write ${provider:VARIABLE}")
    try:
        is_allowed = not pattern or re.fullmatch(pattern, key)
    except re.error as error:
        raise LookupError(f"allowlist.pattern is not a regular expression: {error}") from None
    if not is_allowed:
        raise LookupError("allowlist.pattern does not allow this environment variable")
    if key not in os.environ:
        raise LookupError("the environment variable is not set")
    return os.environ[key]


def _in_file(allowed: str, path: str, key: str) -> str:
    properties = parse_properties(_text_of(path, allowed), path)
    if key not in properties:
        raise LookupError("the file has no such property")
    return properties[key]


def _in_directory(allowed: str, path: str, key: str) -> str:
    if not key or Path(key).name != key:
        raise LookupError("expected the name of a file in the directory")
    return _text_of(os.path.join(path, key), allowed)


def _text_of(path: str, allowed: str) -> str:
    """The content of a file, if it is allowed to read it: links are not followed to find out, as in Java."""
    normal = Path(os.path.abspath(path))
    directories = [Path(os.path.abspath(each.strip())) for each in allowed.split(",") if each.strip()]
    if directories and not any(normal.is_relative_to(each) for each in directories):
        raise LookupError("allowed.paths does not contain this file")
    try:
        return normal.read_text(encoding="utf-8")
    except OSError as error:
        raise LookupError(f"the file cannot be read: {error.strerror}") from None
    except ValueError:  # not UTF-8, or a path with a NUL character
        raise LookupError("the file is not a text in UTF-8") from None


_KINDS = {
    "EnvVarConfigProvider": _Kind("allowlist.pattern", _in_environment),
    "FileConfigProvider": _Kind("allowed.paths", _in_file),
    "DirectoryConfigProvider": _Kind("allowed.paths", _in_directory),
}
