"""Setting: what is known of one setting, and how a given value is checked and turned into a stored one.

The settings themselves are the attributes of ``ProducerConfig``; the functions at the end of this file make
such an attribute. Checks of one setting against another are not made here.
Source: the rules of Kafka's ``ConfigDef``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from kproducer.errors import ConfigError
from kproducer.serializers import resolve_serializer
from kproducer.types import INT32_MAX, INT64_MAX

#: Java's "for ever" is Long.MAX_VALUE ms, which no operating system can wait for; 139 years will do.
LONGEST_MS = 2**42

#: Where a Setting hides in the metadata of an attrs attribute.
METADATA_KEY = "kproducer.setting"
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

#: (setting, name as the user wrote it, value) to the stored value; raises ConfigError.
Parser = Callable[["Setting", str, Any], Any]

_SHOWN_LENGTH = 80


@attrs.frozen(kw_only=True)
class Setting:
    """One setting: documentation and rules. Immutable.

    Attributes:
        kind: the type as the documentation calls it.
        parse: checks a value of the right Python type.
        default: as the documentation shows it.
        unit: ``ms``, ``bytes``, ...; empty where there is none.
        minimum, maximum: inclusive bounds of a number, or ``None``.
        choices: the allowed texts, if only some are.
        dotted: Kafka's dotted name, where it is not simply the attribute's name with dots.
        source: the KIP or Kafka class that defines it.
        about: one sentence for the reader of the documentation.
    """

    kind: str
    parse: Parser
    default: Any
    unit: str = ""
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    dotted: str = ""
    source: str = ""
    about: str = ""

    @property
    def range_text(self) -> str:
        """The legal values in words, for documentation and errors."""
        if self.choices:
            return ", ".join(self.choices)
        low, high = self.minimum, self.maximum
        if low is None:
            return ""
        return f"{low} or more" if high in (None, INT32_MAX, INT64_MAX) else f"{low} to {high}"


def shown(value: object) -> str:
    """A value as an error message shows it: its repr, shortened, and its type."""
    text = repr(value)
    if len(text) > _SHOWN_LENGTH:
        text = text[:_SHOWN_LENGTH] + "..."
    return f"{text} ({type(value).__name__})"


def from_text(setting: Setting, name: str, value: str) -> Any:
    """Turn a text from a configuration file into the Python type that the setting has."""
    text = value.strip()
    if setting.kind == "integer":
        try:
            return int(text)
        except ValueError:
            unit = f" of {setting.unit}" if setting.unit else ""
            raise ConfigError(f"{name}: {value!r} is not a whole number{unit}") from None
    if setting.kind == "boolean":
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{name}: {value!r} is neither 'true' nor 'false'")
        return text.lower() == "true"
    return value


def integer(
    default: Any, unit: str, minimum: int, maximum: int = INT32_MAX, *, source: str, about: str
) -> Any:
    """A whole number between two bounds. ``default`` may be a ``YieldingDefault``."""
    return _attribute(
        Setting(
            kind="integer",
            parse=_parse_integer,
            default=_plain_default(default),
            unit=unit,
            minimum=minimum,
            maximum=maximum,
            source=source,
            about=about,
        ),
        default,
    )


def boolean(default: bool | YieldingDefault, *, source: str, about: str) -> Any:
    """True or false."""
    plain = _plain_default(default)
    return _attribute(
        Setting(kind="boolean", parse=_parse_boolean, default=plain, source=source, about=about), default
    )


def choice(default: str, choices: tuple[str, ...], *, source: str, about: str) -> Any:
    """One of a few words, in any case; stored as written in ``choices``."""
    return _attribute(
        Setting(
            kind="text", parse=_parse_choice, default=default, choices=choices, source=source, about=about
        ),
        default,
    )


def special(
    kind: str, parse: Parser, default: Any = attrs.NOTHING, *, dotted: str = "", source: str, about: str
) -> Any:
    """A setting with a parser of its own; without ``default`` it must be given."""
    shown_default = None if default is attrs.NOTHING else default
    setting = Setting(
        kind=kind, parse=parse, default=shown_default, dotted=dotted, source=source, about=about
    )
    return _attribute(setting, default)


@attrs.frozen
class YieldingDefault:
    """A default that gives way to another setting that leaves it no room. ``adjust(config)`` gives it."""

    plain: Any
    adjust: Callable[[Any], Any]


def _attribute(setting: Setting, default: Any) -> Any:
    if isinstance(default, YieldingDefault):
        default = attrs.Factory(default.adjust, takes_self=True)
    return attrs.field(default=default, metadata={METADATA_KEY: setting})


def _plain_default(default: Any) -> Any:
    return default.plain if isinstance(default, YieldingDefault) else default


def _parse_integer(setting: Setting, name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        unit = f" of {setting.unit}" if setting.unit else ""
        raise ConfigError(f"{name}: expected a whole number{unit}, got {shown(value)}")
    low, high = setting.minimum, setting.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        unit = f" {setting.unit}" if setting.unit else ""
        raise ConfigError(f"{name}: {number}{unit} is out of range; legal is {low} to {high}")
    return min(number, LONGEST_MS) if setting.unit == "ms" else number


def _parse_boolean(setting: Setting, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{name}: expected True or False, got {shown(value)}")
    return value


def _parse_choice(setting: Setting, name: str, value: Any) -> str:
    if isinstance(value, str):
        for legal in setting.choices:
            if value.strip().lower() == legal.lower():
                return legal
    elif value is None and "none" in setting.choices:
        return "none"
    raise ConfigError(f"{name}: {shown(value)} is not one of {', '.join(setting.choices)}")


def parse_acks(setting: Setting, name: str, value: Any) -> int:
    """0, 1, -1 or 'all' (which is -1), as number or text."""
    known = {"all": -1, "-1": -1, "0": 0, "1": 1}
    key = str(value).strip().lower()
    if isinstance(value, bool) or not isinstance(value, (int, str)) or key not in known:
        raise ConfigError(f"{name}: {shown(value)} is not one of 0, 1, -1, 'all'")
    return known[key]


def parse_text(setting: Setting, name: str, value: Any) -> str:
    """Any text that fits a Kafka string; ``None`` counts as empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigError(f"{name}: expected text, got {shown(value)}")
    try:
        length = len(value.encode())
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name}: UTF-8 cannot encode {shown(value)}: {error}") from None
    if length > 32767:
        raise ConfigError(f"{name}: {length} bytes are too long; Kafka's strings end at 32767")
    return value


def parse_servers(setting: Setting, name: str, value: Any) -> tuple[str, ...]:
    """``host:port`` texts from one comma-separated text or from a sequence."""
    if isinstance(value, Mapping):
        raise ConfigError(
            f"{name}: expected 'host:port', got a mapping; settings in Kafka's dotted names go to "
            "KafkaProducer.from_config(mapping)"
        )
    if isinstance(value, str):
        given: list[Any] = [value]
    elif isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        given = list(value)
    else:
        # Values that are not text are named by their type: whole configurations, with secrets in them, end
        # up here too.
        raise ConfigError(
            f"{name}: expected 'host:port,host:port' or a list of 'host:port', got a value of type "
            f"{type(value).__name__}"
        )
    for one in given:
        if not isinstance(one, str):
            raise ConfigError(
                f"{name}: expected a list of 'host:port', got an element of type {type(one).__name__}"
            )
        # Looked for before commas are: a password may have some.
        if "@" in one:
            raise ConfigError(
                f"{name}: expected 'host:port', got an address with '@' (not shown here, as it may hold a "
                "password); write it without user name and password"
            )
    # A list may hold comma-separated texts too: configuration files are often put together that way.
    parts = [part for one in given for part in one.split(",")]
    servers = tuple(dict.fromkeys(_parse_server(name, part) for part in parts if part != ""))
    if not servers:
        raise ConfigError(f"{name}: at least one 'host:port' is needed, got {shown(value)}")
    return servers


def _parse_server(name: str, given: str) -> str:
    text = given.strip()
    scheme, separator, address = text.partition("://")
    if not separator:
        address = text
    elif scheme.upper() != "PLAINTEXT":
        # People copy listeners from broker files. Java drops the protocol in front, and then talks plaintext
        # to a TLS port.
        if scheme.upper() in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"{name}: {given!r}: {scheme} is not available yet; only PLAINTEXT listeners are"
            )
        raise ConfigError(f"{name}: {given!r} is a URL; write 'host:port' without {scheme}://")
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        if address.count(":") > 1:
            # Whether the last group is a port or not cannot be told.
            ipv6, _, tail = address.rpartition(":")
            guess = f"'[{ipv6}]:{tail}' or '[{address}]:9092'" if tail.isdigit() else f"'[{address}]:9092'"
            raise ConfigError(f"{name}: {given!r}: an IPv6 address needs brackets and a port: write {guess}")
        raise ConfigError(f"{name}: {given!r} has no port; write '{address}:9092' if that is the port")
    if not host.strip("[]") or any(character.isspace() for character in host) or "/" in host:
        raise ConfigError(f"{name}: {given!r} has no valid host name; expected 'host:port'")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"{name}: {given!r}: the port must be a number from 1 to 65535")
    return f"{host}:{int(port)}"


def parse_partitioner(setting: Setting, name: str, value: Any) -> Any:
    """``None``, a callable, or the name of a partitioner."""
    if value is None or callable(value) or hasattr(value, "partition"):
        return value
    if isinstance(value, str) and value.strip():
        # Which names exist is known to the partitioners themselves, further up.
        return value.strip()
    raise ConfigError(f"{name}: expected a partitioner's name or a callable, got {shown(value)}")


def parse_serializer(setting: Setting, name: str, value: Any) -> Any:
    """Whatever ``resolve_serializer`` takes."""
    return resolve_serializer(name, value)


def parse_interceptors(setting: Setting, name: str, value: Any) -> tuple[Any, ...]:
    """A sequence of interceptor objects."""
    if value is None:
        return ()
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ConfigError(f"{name}: expected a list of interceptor objects, got {shown(value)}")
    interceptors = tuple(value)
    for interceptor in interceptors:
        hooks = ("on_send", "on_acknowledgement")
        if isinstance(interceptor, type) or not any(hasattr(interceptor, hook) for hook in hooks):
            raise ConfigError(
                f"{name}: {shown(interceptor)} is no interceptor: "
                "an object with on_send, on_acknowledgement or both is needed"
            )
    return interceptors
