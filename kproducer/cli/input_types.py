"""What serializers mean for input, which has texts: a serializer of numbers gets the number in the text.

Files of Java clients name serializers for keys and values. Kafka's own tools ignore them; here they apply, so
that consumers with the matching deserializers can read the records. Source: Java package
``org.apache.kafka.common.serialization``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from kproducer._core.config.producer_config import ProducerConfig
from kproducer.errors import ConfigError
from kproducer.serializers import (
    BytesSerializer,
    FloatSerializer,
    IntegerSerializer,
    JsonSerializer,
    StringSerializer,
    UuidSerializer,
)


class InputType(NamedTuple):
    """What a serializer takes.

    Attributes:
        name: for errors.
        parse: makes it of the text; raises ``ValueError``.
    """

    name: str
    parse: Callable[[str], object]

    def read(self, role: str, text: bytes) -> object:
        """The object for the serializer.

        Args:
            role: ``key`` or ``value``, for the error.
            text: from the input.

        Raises:
            ValueError: the text is not of this type; says so.
        """
        try:
            if b"_" not in text:  # which Python allows in numbers
                return self.parse(text.decode())
        except ValueError:
            pass
        raise ValueError(f"the {role} is not {self.name}, which {role}.serializer needs")


_TYPES = {
    IntegerSerializer: InputType("a whole number", int),
    FloatSerializer: InputType("a number", float),
    UuidSerializer: InputType("a UUID", UUID),
}


class InputTypes(NamedTuple):
    """The types of keys and values; ``None``: bytes, as they are."""

    key: InputType | None
    value: InputType | None


def input_types(config: ProducerConfig) -> tuple[ProducerConfig, InputTypes]:
    """The types of the input, and the settings without serializers that would write the same bytes.

    Raises:
        ConfigError: no text is what a serializer takes.
    """
    types: dict[str, InputType | None] = {}
    plain: dict[str, None] = {}
    for role in ("key", "value"):
        serializer = getattr(config, f"{role}_serializer")
        if isinstance(serializer, JsonSerializer):
            raise ConfigError(
                f"{role}.serializer: expected a serializer of bytes, texts, numbers or UUIDs, got json;"
                " use bytes: the input is sent as it is"
            )
        types[role] = _TYPES.get(type(serializer))
        if isinstance(serializer, (StringSerializer, BytesSerializer)):
            plain[f"{role}_serializer"] = None
    return config.evolve(**plain), InputTypes(**types)
