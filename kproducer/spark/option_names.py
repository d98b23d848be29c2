"""The names of options in errors: the one place where the names of settings become those of Spark's options.

Errors of the producer name settings as arguments in Python (``sasl_mechanism``), and errors of formats and of
the schema registry's client as that client does (``ssl.ca.location``). A user of Spark has written
``kafka.sasl.mechanism`` and ``schema.registry.ssl.ca.location``. Independent of Spark's classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from kproducer._core.config.producer_config import DOTTED_NAMES
from kproducer.errors import AuthenticationError, ConfigError, SslAuthenticationError
from kproducer.spark.format_options import CONF_NAMES, REGISTRY_PREFIX

KAFKA_PREFIX = "kafka."
#: The option that sets a producer setting, by the setting's name as an argument.
OPTION_OF_SETTING = {name: f"{KAFKA_PREFIX}{dotted}" for name, dotted in DOTTED_NAMES.items()}

#: Settings that no option sets directly.
_SET_OTHERWISE = {
    "transactional_id": "delivery=exactly-once",
    # The values of these are Python objects, which no option can have.
    **{name: name for name in ("interceptors", "sasl_oauth_token_provider", "ssl_context")},
}
_RENAMED = {**OPTION_OF_SETTING, **_SET_OTHERWISE}

#: A setting, perhaps with a value in Python. Not within a path, and not quoted: users and topics are.
_SETTING = re.compile(
    r"""(?<![\w./'"-])(?P<name>[a-z][a-z0-9]*(?:_[a-z0-9]+)*)(?P<value>=(?:True|False|'[^']*'))?(?![\w/-])"""
)
#: A setting of the registry's client, or of a serializer.
_DOTTED = re.compile(r"(?<![\w./-])[a-z]+(?:\.[a-z]+)+(?![\w/])")
#: Phrases of errors that speak of arguments, and what they mean here.
_PHRASES = {
    ", with columns=[...]": " (df.drop)",
    "pass columns='name'": "set the option '{role}.column'",
    "pass one to the serializer": "set the option '{role}.schema'",
    "the bearer token": f"{REGISTRY_PREFIX}bearer.auth.token",
    "the url": f"{REGISTRY_PREFIX}url",
    "the proxy": f"{REGISTRY_PREFIX}proxy",
}


def in_options(text: str, renamed: Mapping[str, str] = MappingProxyType({})) -> str:
    """A text about producer settings, with the names of options in place of those of settings.

    Args:
        text: of an error.
        renamed: the options of settings that this write sets by other options.
    """

    def replace(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"] or ""
        # A single word is a setting only with a value: it may be an English word.
        if "_" not in name and not text.startswith("=", found.end("name")):
            return found[0]
        option = renamed.get(name) or _RENAMED.get(name)
        if option is None:
            return found[0]
        if "=" in option:
            return option
        return option + (value.lower() if value in ("=True", "=False") else value)

    return _SETTING.sub(replace, text)


def config_mistake(error: ConfigError) -> str:
    """The text of an error about producer settings, beginning with the option that is wrong."""
    return _mistake(error, OPTION_OF_SETTING, in_options)


def _mistake(error: ConfigError, options: Mapping[str, str], translate: Callable[[str], str]) -> str:
    setting, colon, text = str(error).partition(": ")
    if colon and setting in options:
        return f"option '{options[setting]}': {translate(text)}"
    return translate(str(error))


def explained(
    error: BaseException,
    settings: Iterable[tuple[str, str]],
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The text of a producer's error. If credentials were refused, it names the options that have them.

    Args:
        error: of a producer, or of a coordinator session.
        settings: dotted names and values of the producer's settings, which are not shown.
        renamed: see ``in_options``.
    """
    own_text = str(error)
    text = in_options(own_text, renamed)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, AuthenticationError):
        cause = cause.__cause__
    if cause is None or (text != own_text and "the credentials" not in text):
        return text
    prefix = "ssl." if isinstance(cause, SslAuthenticationError) else "sasl."
    given = [f"'{KAFKA_PREFIX}{name}'" for name, _ in settings if name.startswith(prefix)]
    return f"{text}; check {', '.join(given) or f'the options {KAFKA_PREFIX}{prefix}*'}"


def registry_mistake(error: ConfigError) -> str:
    """The text of an error about the registry's client, beginning with the option that is wrong."""
    from kproducer.schema_registry.client_settings import SETTING_NAMES

    options = {name: f"{REGISTRY_PREFIX}{name}" for name in SETTING_NAMES}
    return _mistake(error, options, in_format_options)


def in_format_options(text: str, role: str = "value") -> str:
    """A text of a format or of the registry's client, with the names of options in place of its settings.

    Args:
        text: of an error.
        role: ``"value"`` or ``"key"``, which the format makes.
    """
    # Imported here, because most writes do not need it.
    from kproducer.schema_registry.client_settings import SETTING_NAMES

    names = {name: f"{REGISTRY_PREFIX}{name}" for name in SETTING_NAMES}
    names |= {name: f"{role}.{name}" for name in CONF_NAMES}
    names["subject.name.strategy.type"] = f"{role}.subject.name.strategy"
    for phrase, meaning in _PHRASES.items():
        text = re.sub(rf"{re.escape(phrase)}(?!\w)", meaning.format(role=role), text)
    return _DOTTED.sub(lambda found: names.get(found[0], found[0]), text)
