"""Setting: the rules of one setting, and the functions that check its value.

The settings themselves are the attributes of ``ProducerConfig``, which also checks settings against each
other; ``integer``, ``milliseconds``, ``boolean``, ``choice`` and ``special`` declare such an attribute.
Every error reads ``SETTING: expected WHAT IS RIGHT, got WHAT WAS FOUND``, with advice where there is some.
Source: the rules of Kafka's ``ConfigDef``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kproducer._core.runtime.arguments import LONGEST_TEXT_BYTES, text_mistake, whole_number
from kproducer.errors import ConfigError
from kproducer.serializers import resolve_serializer
from kproducer.types import INT32_MAX, INT64_MAX

#: Java writes "never" as Long.MAX_VALUE ms, which no operating system can wait for; 139 years will do.
LONGEST_MS = 2**42

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

#: Hosted Spark renames Kafka's packages.
SHADED_PREFIX = "kafkashaded."
_OAUTH_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
#: librdkafka selects the retriever by the grant's name in OAuth.
_RETRIEVER_OF_GRANT = {
    "client_credentials": "ClientCredentialsJwtRetriever",
    "urn:ietf:params:oauth:grant-type:jwt-bearer": "JwtBearerJwtRetriever",
}

#: From (setting, name as the user wrote it, value) to the value that is stored. Raises ConfigError.
Parser = Callable[["Setting", str, Any], Any]

_SHOWN_LENGTH = 80
#: Only what its groups match may be shown: the scheme, and host and path.
_URL = r"((?:[^/?#@]*://)?)(?:[^/?#@]*@)?([^?#@]*)(?:[?#][^@]*)?"


class Setting(NamedTuple):
    """One setting: its type and its rules. Immutable.

    Attributes:
        kind: the type as the documentation calls it.
        parse: checks and converts a value.
        default: the default as the documentation shows it; ``None`` if the setting is required.
        adjust: returns the default of a configuration if it depends on other settings.
        unit: ``ms``, ``bytes`` or empty.
        minimum, maximum: inclusive bounds of a number.
        choices: the allowed texts; empty if any text is.
        dotted: Kafka's dotted name, unless it is the attribute's name with dots.
        aliases: dotted names of the same setting in librdkafka.
        source: the KIP or Kafka class that defines the setting.
        is_secret: the value appears in no repr, error or log line.
        show: returns the value as reprs show it.
    """

    kind: str
    parse: Parser
    default: Any
    adjust: Callable[[Any], Any] | None = None
    unit: str = ""
    minimum: float = 0
    maximum: float = 0
    choices: tuple[str, ...] = ()
    dotted: str = ""
    aliases: tuple[str, ...] = ()
    source: str = "Kafka ProducerConfig"
    is_secret: bool = False
    show: Callable[[Any], str] = repr

    @property
    def allowed_text(self) -> str:
        """The allowed values, for the documentation."""
        if self.choices:
            return ", ".join(self.choices)
        if self.kind not in ("integer", "number"):
            return self.kind
        is_bounded = self.maximum not in (INT32_MAX, INT64_MAX)
        return f"{self.minimum} to {self.maximum}" if is_bounded else f"{self.minimum} or more"

    @property
    def default_text(self) -> str:
        """The default with its unit, for the documentation."""
        return f"{self.default!r} {self.unit}".rstrip()


def shown(value: object) -> str:
    """A value as an error message shows it: its repr, shortened, and its type."""
    text = repr(value)
    if len(text) > _SHOWN_LENGTH:
        text = text[:_SHOWN_LENGTH] + "..."
    return f"{text} ({type(value).__name__})"


def shown_url(url: str) -> str:
    """A URL without user, password, query and fragment. Other texts are unchanged if they have none of them.

    If there is an "@" in a place where it is not clear what belongs to the password, nothing is shown.
    """
    match = re.fullmatch(_URL, url, re.DOTALL)
    return match[1] + match[2] if match else "(not shown)"


def refused(name: str, expected: str, found: object, advice: str = "") -> ConfigError:
    """The error for a value that a setting does not accept.

    Args:
        name: the setting, as the user wrote it.
        expected: what would be right.
        found: what was given, as the error shows it.
        advice: what else to do, if there is something.
    """
    return ConfigError(f"{name}: expected {expected}, got {found}" + (f"; {advice}" if advice else ""))


def from_text(setting: Setting, name: str, value: Any) -> Any:
    """Convert a text from a configuration file into the setting's Python type; other values are returned."""
    if not isinstance(value, str):
        return value
    if setting.kind in ("integer", "number"):
        try:
            return int(value) if setting.kind == "integer" else float(value)
        except ValueError:
            raise refused(name, _number_text(setting), shown(value)) from None
    if setting.kind == "boolean":
        flags = {"true": True, "false": False}
        if (flag := flags.get(value.strip().lower())) is None:
            raise refused(name, "'true' or 'false'", shown(value))
        return flag
    return value


def special(
    kind: str,
    parse: Parser,
    default: Any = None,
    adjust: Callable[[Any], Any] | None = None,
    **facts: Any,
) -> Any:
    """Declare a setting with its own parser.

    Args:
        kind, parse, default, adjust: see ``Setting``.
        facts: other attributes of the ``Setting``.
    """
    return Setting(kind, parse, default, adjust, **facts)


def integer(default: int | None, minimum: int = 0, maximum: int = INT32_MAX, **facts: Any) -> Any:
    """Declare a whole number between two bounds."""
    return special("integer", _parse_integer, default, minimum=minimum, maximum=maximum, **facts)


def milliseconds(default: int, minimum: int = 0, maximum: int = INT64_MAX, **facts: Any) -> Any:
    """Declare a time in milliseconds."""
    return integer(default, minimum, maximum, unit="ms", **facts)


def seconds(default: int, minimum: int, maximum: int, **facts: Any) -> Any:
    """Declare a time in whole seconds."""
    return integer(default, minimum, maximum, unit="s", **facts)


def number(default: float, minimum: float, maximum: float, **facts: Any) -> Any:
    """Declare a number between two bounds that need not be whole."""
    return special("number", _parse_number, default, minimum=minimum, maximum=maximum, **facts)


def boolean(default: bool, **facts: Any) -> Any:
    """Declare a setting that is true or false."""
    return special("boolean", _parse_boolean, default, **facts)


def choice(*choices: str, **facts: Any) -> Any:
    """Declare a setting with a few allowed texts, in any case; the first is the default."""
    return special("text", _parse_choice, choices[0], choices=choices, **facts)


def java_class(*choices: str, **facts: Any) -> Any:
    """Declare a setting that names a class of the Java client, in full or without its package."""
    return special("class name", _parse_java_class, choices[0], choices=choices, **facts)


def text(default: str = "", **facts: Any) -> Any:
    """Declare a text."""
    return special("text", _parse_text, default, **facts)


def secret(**facts: Any) -> Any:
    """Declare a text that appears in no repr, error or log line."""
    return special("secret text", _parse_document, "", is_secret=True, **facts)


def url(**facts: Any) -> Any:
    """Declare a text that may be a URL; errors do not show it, and reprs neither user, password nor query."""
    show = lambda value: repr(shown_url(value))  # noqa: E731
    return special("text", _parse_document, "", show=show, **facts)


def document(**facts: Any) -> Any:
    """Declare a text of any length, as certificates are; errors do not show it."""
    return special("PEM text", _parse_document, "", **facts)


def path(**facts: Any) -> Any:
    """Declare the path of a file."""
    return special("path", _parse_path, "", **facts)


def names(default: tuple[str, ...], **facts: Any) -> Any:
    """Declare a list of names."""
    return special("list of names", _parse_names, default, **facts)


def serializer() -> Any:
    """Declare a serializer."""
    return special("serializer", lambda setting, name, value: resolve_serializer(name, value))


def _number_text(setting: Setting) -> str:
    kind = "whole number" if setting.kind == "integer" else "number"
    unit = f" of {setting.unit}" if setting.unit else ""
    return f"a {kind}{unit} from {setting.minimum} to {setting.maximum}"


def _parse_number(setting: Setting, name: str, value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not setting.minimum <= value <= setting.maximum:
        raise refused(name, _number_text(setting), shown(value))
    return float(value)


def _parse_integer(setting: Setting, name: str, value: Any) -> int:
    whole = whole_number(value, int(setting.minimum), int(setting.maximum))
    if whole is None:
        raise refused(name, _number_text(setting), shown(value))
    return min(whole, LONGEST_MS) if setting.unit == "ms" else whole


def _parse_boolean(setting: Setting, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise refused(name, "True or False", shown(value))
    return value


def _parse_choice(setting: Setting, name: str, value: Any) -> str:
    if isinstance(value, str):
        for allowed in setting.choices:
            if value.strip().lower() == allowed.lower():
                return allowed
    elif value is None and "none" in setting.choices:
        return "none"
    raise refused(name, f"one of {', '.join(setting.choices)}", shown(value))


def _parse_java_class(setting: Setting, name: str, value: Any) -> str:
    if value is None:
        return setting.choices[0]
    if isinstance(value, str):
        package, _, simple_name = value.strip().removeprefix(SHADED_PREFIX).rpartition(".")
        simple_name = _RETRIEVER_OF_GRANT.get(value.strip(), simple_name)
        if simple_name in setting.choices and (not package or package.startswith(_OAUTH_PACKAGE)):
            return simple_name
    raise refused(name, f"one of {', '.join(setting.choices)}", shown(value), "other classes cannot run here")


def _parse_document(setting: Setting, name: str, value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise refused(name, "text", f"a value of type {type(value).__name__}")
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        raise refused(name, "text that UTF-8 can encode", "other characters (not shown)") from None
    return value or ""


def _parse_path(setting: Setting, name: str, value: Any) -> str:
    given = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(given, str) and ("\n" in given or "-----BEGIN" in given):
        raise refused(
            name,
            "the path of a file",
            "a text of several lines (not shown because it may be a secret)",
            "write it to a file; ssl_truststore_certificates, ssl_keystore_certificate_chain and"
            " ssl_keystore_key take PEM texts",
        )
    if given is None or isinstance(given, str):
        return given or ""
    raise refused(name, "the path of a file", shown(value))


def _parse_names(setting: Setting, name: str, value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value or ()
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) for one in given):
        raise refused(name, "a comma-separated text or a list of texts", shown(value))
    return tuple(part.strip() for one in given for part in one.split(",") if part.strip())


def parse_ssl_context(setting: Setting, name: str, value: Any) -> Any:
    """``None``, or an ``ssl.SSLContext`` for clients."""
    if value is None:
        return None
    import ssl  # plaintext producers do not need it

    if not isinstance(value, ssl.SSLContext):
        raise refused(name, "an ssl.SSLContext", f"a value of type {type(value).__name__}")
    if value.protocol is ssl.PROTOCOL_TLS_SERVER:
        advice = "create it with ssl.create_default_context()"
        raise refused(name, "a context for clients", "one with PROTOCOL_TLS_SERVER", advice)
    return value


def parse_acks(setting: Setting, name: str, value: Any) -> int:
    """0, 1, -1 or 'all' (which is -1), as number or text."""
    known = {"all": -1, "-1": -1, "0": 0, "1": 1}
    key = str(value).strip().lower()
    if isinstance(value, bool) or not isinstance(value, (int, str)) or key not in known:
        raise refused(name, "0, 1, -1 or 'all'", shown(value))
    return known[key]


def _parse_text(setting: Setting, name: str, value: Any) -> str:
    """Any text that fits into a Kafka string; ``None`` is the empty text."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise refused(name, "text", shown(value))
    mistake = text_mistake(value)
    if mistake is not None:
        raise refused(name, f"at most {LONGEST_TEXT_BYTES} bytes of UTF-8", mistake)
    return value


def parse_callable(setting: Setting, name: str, value: Any) -> Any:
    """``None`` or a callable."""
    if value is not None and not callable(value):
        raise refused(name, "a callable", f"a value of type {type(value).__name__}")
    return value


def parse_servers(setting: Setting, name: str, value: Any) -> tuple[str, ...]:
    """``host:port`` texts from one comma-separated text or from a sequence."""
    right = "'host:port,host:port' or a list of 'host:port'"
    # Errors show the type of a value that is not text: it may be a whole configuration, with secrets.
    if isinstance(value, Mapping):
        advice = "pass settings with Kafka's dotted names to KafkaProducer.from_config(mapping)"
        raise refused(name, right, "a mapping", advice)
    if isinstance(value, str):
        given: list[Any] = [value]
    elif isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        given = list(value)
    else:
        raise refused(name, right, f"a value of type {type(value).__name__}")
    for one in given:
        if not isinstance(one, str):
            found = f"an element of type {type(one).__name__}"
            raise refused(
                name, "a list of 'host:port'", found, "write host and port as one text: 'host:9092'"
            )
        # Checked before the text is split at commas, which a password may contain.
        if "@" in one:
            found = "an address with '@' (not shown because it may contain a password)"
            raise refused(name, "'host:port'", found, "remove user name and password")
    # An element of a list may itself contain commas: configuration files are often put together that way.
    parts = [part for one in given for part in one.split(",")]
    servers = tuple(dict.fromkeys(_parse_server(name, part) for part in parts if part != ""))
    if not servers:
        raise refused(name, "at least one 'host:port'", shown(value))
    return servers


def _parse_server(name: str, given: str) -> str:
    def bad(advice: str) -> ConfigError:
        return refused(name, "'host:port'", repr(given), advice)

    text = given.strip()
    scheme, separator, address = text.partition("://")
    if not separator:
        address = text
    elif scheme.upper() != "PLAINTEXT":
        # Users copy listeners from broker configurations. Java drops the protocol, and then connects to a TLS
        # port in plain text.
        if scheme.upper() in SECURITY_PROTOCOLS:
            raise bad(f"write 'host:port', and set security_protocol to {scheme.upper()}")
        raise bad(f"write 'host:port' without {scheme}://")
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        if any(each in address for each in "; |"):
            raise bad("separate servers with commas")
        if address.count(":") > 1:
            # An IPv6 address without brackets: the last group may be a port or not.
            ipv6, _, tail = address.rpartition(":")
            guess = f"'[{ipv6}]:{tail}' or '[{address}]:9092'" if tail.isdigit() else f"'[{address}]:9092'"
            raise bad(f"an IPv6 address needs brackets and a port: write {guess}")
        raise bad(f"the port is missing: write '{address}:9092' if the port is 9092")
    if not host.strip("[]") or any(character.isspace() for character in host) or "/" in host:
        raise bad("the host name is not valid")
    if "/" in port:
        raise bad(f"remove {port[port.index('/') :]!r}, which does not belong to a broker's address")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise bad("the port must be a number from 1 to 65535")
    return f"{host}:{int(port)}"


_PARTITIONER_ARGUMENTS = ("topic", "key", "key_bytes", "value", "value_bytes", "snapshot")


def parse_partitioner(setting: Setting, name: str, value: Any) -> Any:
    """``None``, a callable, or the name of a partitioner."""
    if callable(value):
        import inspect  # most producers have no partitioner of their own

        try:
            # What a wrapper of functools.wraps wraps may get other arguments. A class is never right.
            signature = inspect.signature(value, follow_wrapped=isinstance(value, type))
            signature.bind(*_PARTITIONER_ARGUMENTS)
        except TypeError:
            takes = f"a callable of ({', '.join(_PARTITIONER_ARGUMENTS)})"
            raise refused(name, takes, "one that takes other arguments") from None
        except ValueError:  # a function in C need not have a signature
            pass
        return value
    if value is None:
        return None
    if isinstance(value, str) and value.strip():
        # The partitioners, in a higher layer, check the name.
        return value.strip()
    raise refused(name, "a partitioner's name or a callable", shown(value))


def parse_interceptors(setting: Setting, name: str, value: Any) -> tuple[Any, ...]:
    """A sequence of interceptor objects. An empty text is Java's default."""
    if value is None or value == "":
        return ()
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise refused(name, "a list of interceptor objects", shown(value))
    interceptors = tuple(value)
    for interceptor in interceptors:
        hooks = ("on_send", "on_acknowledgement")
        if isinstance(interceptor, type) or not any(hasattr(interceptor, hook) for hook in hooks):
            raise refused(name, "objects with on_send, on_acknowledgement or both", shown(interceptor))
    return interceptors
