"""RecordRules: what the settings of a producer say about each record. Knows no engine."""

from __future__ import annotations

import copy
from typing import Any

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.kernel import IMPLEMENTATION, FastSend
from kproducer._core.runtime.arguments import check_callback
from kproducer._core.sending.interceptors import ProducerInterceptors
from kproducer._core.sending.partitioners import (
    default_partitioner,
    make_partitioner,
    uniform_sticky_partitioner,
)
from kproducer.serializers import (
    Preparation,
    TopicSerializer,
    preparation_of,
    serialize_function,
    serializer_for_field,
)

#: More than a record adds to its key, value and headers.
_GENEROUS_OVERHEAD_BYTES = 128


class RecordRules:
    """Fixed after construction, except for the code that was accepted last. Thread-safe.

    Args:
        config: the settings.
        interceptors: called around each record.
        fast_send: the compiled fast path of the same producer; configured here, opened and closed by
            ``EngineLifecycle``.

    Attributes:
        interceptors: as given.
        intercepts: there are interceptors.
        serializes_key, serializes_value: a serializer is configured.
        key_bytes, value_bytes: from (topic, headers, key or value) to bytes.
        may_prepare: a serializer may need a preparation.
        partitioner: of the application; ``None``: the kernel knows the configured one.
        ignores_keys: keys do not choose partitions.
        runs_application_code: interceptors, serializers or the application's partitioner may be called.
        has_fast_path: the kernel may write records; ``False``: every record takes the general path, because
            of interceptors, a partitioner of the application, or serializers that look at more than their
            datum.
        fast_send: takes records whose key and value are bytes; ``None``: the kernel must not be asked.
        size_limit, size_setting: bytes that a record may have, and the setting that limits them.
        small_size: key, value and headers that together are not larger need no exact check of their size.
        accepted_code: code object of the last callback that was accepted. Any thread; a lost update costs
            another check.
    """

    def __init__(
        self, config: ProducerConfig, interceptors: ProducerInterceptors, fast_send: FastSend
    ) -> None:
        self.interceptors = interceptors
        self.intercepts = bool(interceptors)
        self.serializes_key = config.key_serializer is not None
        self.serializes_value = config.value_serializer is not None
        key_serializer = serializer_for_field("key", config.key_serializer)
        value_serializer = serializer_for_field("value", config.value_serializer)
        self.key_bytes = serialize_function("key", key_serializer)
        self.value_bytes = serialize_function("value", value_serializer)
        #: Of the key and of the value; ``None``: the serializer does not block.
        self._preparations = (
            preparation_of("key", key_serializer),
            preparation_of("value", value_serializer),
        )
        self.may_prepare = self._preparations != (None, None)
        partitioner: Any = make_partitioner(config.partitioner, ignore_keys=config.partitioner_ignore_keys)
        self.ignores_keys = partitioner is uniform_sticky_partitioner
        is_default = self.ignores_keys or partitioner is default_partitioner
        self.partitioner: Any = None if is_default else partitioner
        self.runs_application_code = (
            self.intercepts or self.serializes_key or self.serializes_value or not is_default
        )
        uses_fast_send = is_default and not self.intercepts
        needs_topics = any(
            isinstance(each, TopicSerializer) for each in (config.key_serializer, config.value_serializer)
        )
        self.has_fast_path = uses_fast_send and not needs_topics
        # The pure kernel's declines every record.
        self.fast_send = fast_send if uses_fast_send and IMPLEMENTATION == "native" else None
        self.size_limit, self.size_setting = config.max_request_size, "max_request_size"
        if config.buffer_memory < config.max_request_size:
            self.size_limit, self.size_setting = config.buffer_memory, "buffer_memory"
        self.small_size = self.size_limit - _GENEROUS_OVERHEAD_BYTES
        self.accepted_code: Any = None
        fast_send.configure(
            takes_arguments=uses_fast_send and not self.serializes_key and not self.serializes_value,
            ignores_keys=self.ignores_keys,
            small_size=self.small_size,
        )

    def check_callback(self, on_delivery: Any) -> None:
        """Refuse what cannot be called with (metadata, error). Raises InvalidArgumentError."""
        # Lambdas and methods are created per record; their code is not.
        code = getattr(on_delivery, "__code__", None)
        if code is not None and code is self.accepted_code:
            return
        check_callback(on_delivery)
        self.accepted_code = code
        if code is not None and self.fast_send is not None:
            self.fast_send.accept_callbacks_of(code)

    def preparations_of(self, topic: str, key: Any, value: Any) -> list[Preparation]:
        """What has to be prepared, on a thread that may block, before the serializers get a record."""
        return [
            each
            for each, datum in zip(self._preparations, (key, value), strict=True)
            if each is not None and datum is not None and not each.is_prepared(topic)
        ]

    def of_bytes(self) -> RecordRules:
        """The same rules for records whose keys and values have been through the serializers."""
        if not self.serializes_key and not self.serializes_value:
            return self
        rules = copy.copy(self)
        rules.serializes_key = rules.serializes_value = False
        return rules
