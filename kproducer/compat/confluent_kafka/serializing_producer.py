"""``SerializingProducer``: a ``Producer`` with serializers for keys and values, as in confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kproducer.compat.confluent_kafka.errors import KafkaException, new_error
from kproducer.compat.confluent_kafka.producer import Producer
from kproducer.errors.hidden_variables import hides_arguments_in


class SerializationContext:
    """Topic, field and headers of what is serialized."""

    def __init__(self, topic: str, field: str, headers: Any = None) -> None:
        self.topic, self.field, self.headers = topic, field, headers


class KeySerializationError(KafkaException):
    """The key could not be serialized."""

    def __init__(self, exception: Any = None) -> None:
        super().__init__(new_error("_KEY_SERIALIZATION", str(exception)))


class ValueSerializationError(KafkaException):
    """The value could not be serialized."""

    def __init__(self, exception: Any = None) -> None:
        super().__init__(new_error("_VALUE_SERIALIZATION", str(exception)))


if not TYPE_CHECKING:
    with suppress(ImportError):  # if it is installed: its own classes
        from confluent_kafka.error import KeySerializationError, ValueSerializationError
        from confluent_kafka.serialization import SerializationContext

_BUILDERS = ("key.serializer.builder", "value.serializer.builder")


class SerializingProducer(Producer):
    """A ``Producer`` whose ``produce`` takes objects.

    Args:
        conf: settings of ``Producer``, and ``key.serializer`` and ``value.serializer``: callables that get
            the object and a ``SerializationContext``, and return bytes.
    """

    @hides_arguments_in(KafkaException, TypeError)
    def __init__(self, conf: Mapping[str, Any]) -> None:
        given = dict(conf)
        for name in _BUILDERS:
            if given.get(name) is not None:
                text = f"{name}: not supported; build the serializer, and set {name.removesuffix('.builder')}"
                raise KafkaException(new_error("_INVALID_ARG", text))
            given.pop(name, None)
        self._key_serializer = given.pop("key.serializer", None)
        self._value_serializer = given.pop("value.serializer", None)
        super().__init__(given)

    def produce(  # type: ignore[override]  # confluent-kafka's order: the key comes first
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = -1,
        on_delivery: Callable[[Any, Any], object] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Serialize key and value, and queue the message; see ``Producer.produce``.

        Raises:
            KeySerializationError, ValueSerializationError: what a serializer raised is the argument.
        """
        context = SerializationContext(topic, "key", headers)
        if self._key_serializer is not None:
            try:
                key = self._key_serializer(key, context)
            except Exception as error:
                raise KeySerializationError(error) from error
        context.field = "value"
        if self._value_serializer is not None:
            try:
                value = self._value_serializer(value, context)
            except Exception as error:
                raise ValueSerializationError(error) from error
        super().produce(
            topic, value, key, partition, on_delivery=on_delivery, timestamp=timestamp, headers=headers
        )
