"""Settings by the names that they have here, in Java's client, in librdkafka or in kafka-python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kproducer._core.config.producer_config import DOTTED_NAMES, SETTINGS
from kproducer._core.config.setting import from_text
from kproducer.errors import ConfigError
from kproducer.errors.suggestions import instead_of, own_name

_ALIASES = {alias: name for name, setting in SETTINGS.items() for alias in setting.aliases}
_BY_DOTTED = {dotted: name for name, dotted in DOTTED_NAMES.items()}
#: Names of librdkafka that are so similar to ours that errors find them without a table.
_SIMILAR = {
    "compression.codec": "compression_type",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "socket.send.buffer.bytes": "send_buffer_bytes",
}
#: Settings of other clients that errors suggest to replace, but with another value.
_OTHER_MEANING = {"api_version_auto_timeout_ms"}
_KIBIBYTES = {"queue.buffering.max.kbytes", "queue_buffering_max_kbytes"}


class Resolved(NamedTuple):
    """What a name means: ``name`` is the attribute name of a setting, or ``None`` and there is advice."""

    name: str | None
    advice: str = ""


def resolve(given: str) -> Resolved:
    """Find the setting that has a name here, in Java's client, in librdkafka or in kafka-python."""
    name = given if given in SETTINGS else None
    name = name or java_setting(given) or _SIMILAR.get(given)
    if name is None and given.replace(".", "_") not in _OTHER_MEANING:
        name = own_name(given)
    if name is not None:
        return Resolved(name)
    return Resolved(None, instead_of(given, {each: each for each in SETTINGS}))


def java_setting(given: str) -> str | None:
    """The setting that a properties file names. A few names of librdkafka work there, too."""
    return _BY_DOTTED.get(given) or _ALIASES.get(given)


def setting_value(name: str, given: str, text: str) -> Any:
    """The value of a setting as Python's type, in our unit.

    Args:
        name: the attribute name of the setting.
        given: the name that it was given by.
        text: the value in a file or an option.

    Raises:
        ConfigError: the text is not of this type; names ``given``.
    """
    value = from_text(SETTINGS[name], given, text)
    return value * 1024 if given in _KIBIBYTES and isinstance(value, int) else value


def in_our_terms(settings: Mapping[str, str], *, is_java: bool) -> dict[str, Any]:
    """Settings by Kafka's dotted names, with values of Python's types.

    Args:
        settings: texts by name.
        is_java: the names are those of a properties file; otherwise those of any client.

    Raises:
        ConfigError: names all unknown settings; or two names mean the same setting, or a value is wrong.
    """
    ours: dict[str, Any] = {}
    given_names: dict[str, str] = {}
    unknown = []
    for given, text in settings.items():
        name = java_setting(given) if is_java else resolve(given).name
        if name is None:
            unknown.append(f"unknown setting {given!r}: {instead_of(given, DOTTED_NAMES)}")
            continue
        if name in given_names:
            raise ConfigError(f"{given}: the same setting as {given_names[name]}; remove one of them")
        given_names[name] = given
        value = ours[DOTTED_NAMES[name]] = setting_value(name, given, text)
        if SETTINGS[name].kind != "serializer":  # not every command uses them
            SETTINGS[name].parse(SETTINGS[name], given, value)
    if unknown:
        raise ConfigError("; ".join(unknown))
    return ours
