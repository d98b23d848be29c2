"""SchemaRegistryClient: what a producer needs of a schema registry's API, with a cache.

Method names and arguments are those of confluent-kafka's client.
Source: Confluent Schema Registry API reference.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kproducer.errors import InvalidArgumentError, SchemaRegistryError
from kproducer.errors.hidden_variables import hides_arguments
from kproducer.schema_registry import answers, forked_children
from kproducer.schema_registry.client_settings import ClientSettings
from kproducer.schema_registry.connection import RegistryConnection, quoted, target
from kproducer.schema_registry.schemas import Association, RegisteredSchema, Schema

if TYPE_CHECKING:
    from typing_extensions import Self

_Value = TypeVar("_Value")


class SchemaRegistryClient:
    """A client of a schema registry. Thread-safe; usable in a forked child.

    Answers that cannot change (schemas by id, registrations) are kept; the latest version of a subject is
    kept for ``cache.latest.ttl.sec``. Each call that needs the registry blocks for at most ``max.block.ms``.

    Args:
        conf: settings with the names that confluent-kafka uses; ``url`` is required.
            The reference lists them (``kproducer.schema_registry.client_settings``).

    Raises:
        ConfigError: a setting is wrong, or httpcore is not installed.
    """

    @hides_arguments
    def __init__(self, conf: Mapping[str, Any]) -> None:
        # Fixed after construction.
        self._settings = ClientSettings.from_conf(conf)
        self._connection = RegistryConnection(self._settings)
        self._given = _hidden(dict(conf))
        # Thread-safe by its own lock.
        self._cache: _BoundedCache[Any] = _BoundedCache(self._settings.cache_capacity)
        forked_children.register(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        # Pickled as its settings: the client in the other process has connections of its own.
        return type(self), (self._given(),)

    def __repr__(self) -> str:
        return f"SchemaRegistryClient({', '.join(self._settings.urls)})"

    @property
    def max_block_ms(self) -> float:
        """A call ends after this time, in milliseconds."""
        return self._settings.max_block_ms

    @property
    def latest_ttl_s(self) -> float | None:
        """How long the latest version of a subject is used, in seconds; ``None``: for ever."""
        return self._settings.latest_ttl_s

    def close(self) -> None:
        """Close the connections. Calls that need the registry raise from then on."""
        self._connection.close()

    def register_schema(self, subject_name: str, schema: Schema, normalize_schemas: bool = False) -> int:
        """Register a schema under a subject, or find it there.

        Args:
            subject_name: the subject.
            schema: the schema.
            normalize_schemas: the registry brings the schema into a standard form first.

        Returns:
            The schema's id.

        Raises:
            SchemaRegistryError: the schema is not valid or not compatible (409, 422), or see ``get_schema``.
        """
        registered = self.register_schema_full_response(subject_name, schema, normalize_schemas)
        assert registered.schema_id is not None  # register_schema_full_response has checked it
        return registered.schema_id

    def register_schema_full_response(
        self, subject_name: str, schema: Schema, normalize_schemas: bool = False
    ) -> RegisteredSchema:
        """Like ``register_schema``, but returns everything that the registry answers."""
        return self._cached(
            f"subjects/{quoted(subject_name)}/versions",
            lambda answer: _registered(answer, subject_name, schema),
            {"normalize": normalize_schemas},
            _checked(schema),
        )

    def lookup_schema(
        self, subject_name: str, schema: Schema, normalize_schemas: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """Find a schema under a subject, without registering it.

        Args:
            subject_name: the subject.
            schema: the schema.
            normalize_schemas: the registry brings the schema into a standard form first.
            deleted: versions that were deleted count, too.

        Raises:
            SchemaRegistryError: it is not registered there (404), or see ``get_schema``.
        """
        return self._cached(
            f"subjects/{quoted(subject_name)}",
            lambda answer: _registered(answer, subject_name, schema),
            {"normalize": normalize_schemas, "deleted": deleted},
            _checked(schema),
        )

    def get_schema(self, schema_id: int, subject_name: str | None = None, fmt: str | None = None) -> Schema:
        """The schema with an id.

        Args:
            schema_id: its number.
            subject_name: the subject that it was found under, for registries with contexts.
            fmt: ``serialized`` for a Protobuf schema as ``FileDescriptorProto`` in base64.

        Raises:
            SchemaRegistryError: the registry does not know it (404), refuses, or is not reachable.
        """
        return self.get_registered_schema(schema_id, subject_name, fmt).schema

    def get_registered_schema(
        self, schema_id: int, subject_name: str | None = None, fmt: str | None = None
    ) -> RegisteredSchema:
        """Like ``get_schema``, with the GUID."""
        if type(schema_id) is not int or not 0 <= schema_id <= answers.MOST_INT32:
            raise InvalidArgumentError(
                f"schema_id: expected a whole number from 0 to {answers.MOST_INT32}, got {schema_id!r}"
            )
        return self._cached(
            f"schemas/ids/{schema_id}",
            lambda answer: _registered(answer, subject_name, None, schema_id=schema_id),
            {**({"subject": subject_name} if subject_name else {}), **_format(fmt)},
        )

    def get_schema_by_guid(self, guid: str, fmt: str | None = None) -> Schema:
        """The schema with a GUID. Raises as ``get_schema``."""
        return self._cached(f"schemas/guids/{quoted(guid)}", Schema.from_dict, _format(fmt))

    def get_latest_version(self, subject_name: str, fmt: str | None = None) -> RegisteredSchema:
        """The latest version under a subject. Raises as ``get_schema``."""
        return self._cached(
            f"subjects/{quoted(subject_name)}/versions/latest",
            lambda answer: _registered(answer, subject_name, None),
            _format(fmt),
            ttl_s=self._settings.latest_ttl_s,
        )

    def get_latest_with_metadata(
        self, subject_name: str, metadata: Mapping[str, str], deleted: bool = False, fmt: str | None = None
    ) -> RegisteredSchema:
        """The latest version under a subject with these properties. Raises as ``get_schema``."""
        names = sorted(metadata)
        return self._cached(
            f"subjects/{quoted(subject_name)}/metadata",
            lambda answer: _registered(answer, subject_name, None),
            {"key": names, "value": [metadata[name] for name in names], "deleted": deleted, **_format(fmt)},
            ttl_s=self._settings.latest_ttl_s,
        )

    def get_version(
        self, subject_name: str, version: int, deleted: bool = False, fmt: str | None = None
    ) -> RegisteredSchema:
        """One version under a subject. Raises as ``get_schema``."""
        return self._cached(
            f"subjects/{quoted(subject_name)}/versions/{version}",
            lambda answer: _registered(answer, subject_name, None, version=version if version > 0 else None),
            {"deleted": deleted, **_format(fmt)},
        )

    def get_subjects(self) -> list[str]:
        """All subjects. Raises as ``get_schema``."""
        return self._request("GET", "subjects", lambda answer: _list_of(answer, answers.text, "subject"))

    def get_versions(self, subject_name: str) -> list[int]:
        """The versions under a subject. Raises as ``get_schema``."""
        return self._request(
            "GET",
            f"subjects/{quoted(subject_name)}/versions",
            lambda answer: _list_of(answer, _version, "version"),
        )

    def set_compatibility(self, subject_name: str | None = None, level: str = "BACKWARD") -> str:
        """Set which changes of schemas a subject allows; ``None``: all subjects without a level of their own.

        Args:
            subject_name: the subject.
            level: ``NONE``, ``BACKWARD``, ``FORWARD``, ``FULL``, or one of these with ``_TRANSITIVE``.

        Returns:
            The level.

        Raises:
            SchemaRegistryError: see ``get_schema``.
        """
        path = f"config/{quoted(subject_name)}" if subject_name else "config"
        return self._request(
            "PUT",
            path,
            lambda answer: answers.text(answers.mapping(answer).get("compatibility"), "compatibility"),
            body={"compatibility": level},
        )

    def test_compatibility(self, subject_name: str, schema: Schema, version: int | str = "latest") -> bool:
        """Whether a schema is compatible with a version under a subject. Raises as ``get_schema``."""
        path = f"compatibility/subjects/{quoted(subject_name)}/versions/{version}"
        return self._request(
            "POST",
            path,
            lambda answer: answers.flag(answers.mapping(answer).get("is_compatible"), "is_compatible"),
            body=_checked(schema).to_dict(),
        )

    def get_associations_by_resource_name(
        self,
        resource_name: str,
        resource_namespace: str = "-",
        resource_type: str = "topic",
        association_types: list[str] | None = None,
    ) -> list[Association]:
        """The subjects that are associated with a topic. Raises as ``get_schema``.

        Args:
            resource_name: the topic.
            resource_namespace: the id of the Kafka cluster; ``-`` for any.
            resource_type: always ``topic`` today.
            association_types: ``key``, ``value`` or both.
        """
        query: dict[str, Any] = {"resourceType": resource_type}
        if association_types is not None:
            query["associationType"] = association_types
        path = f"associations/resources/{quoted(resource_namespace)}/{quoted(resource_name)}"
        return self._request("GET", path, lambda answer: _list_of(answer, _association, "association"), query)

    def clear_caches(self) -> None:
        """Forget all answers."""
        self._cache.clear()

    def _cached(
        self,
        path: str,
        convert: Callable[[Any], _Value],
        query: Mapping[str, Any],
        schema: Schema | None = None,
        ttl_s: float | None = None,
    ) -> _Value:
        """The answer to a request, which posts a schema if one is given, from the cache or the registry."""
        key = target(path, query), schema
        found: _Value | None = self._cache.get(key)
        if found is None:
            method, body = ("GET", None) if schema is None else ("POST", schema.to_dict())
            found = self._request(method, path, convert, query, body)
            self._cache.put(key, found, ttl_s)
        return found

    def _request(
        self,
        method: str,
        path: str,
        convert: Callable[[Any], _Value],
        query: Mapping[str, Any] | None = None,
        body: object = None,
    ) -> _Value:
        try:
            return convert(self._connection.request(method, path, query, body))
        except answers.InvalidAnswerError as error:
            mistake = str(error)
        # Raised without a cause, whose frames would have the answer, which may repeat the credentials.
        url = self._settings.urls[0]
        raise SchemaRegistryError(
            f"{method} {url}/{path}: the response is not what a schema registry sends: {mistake}; check that "
            "the url is that of a schema registry",
            url=url,
        )

    def after_fork_in_child(self) -> None:
        """Called in a forked child: locks and sockets belong to the parent. Must not lock."""
        self._connection.after_fork_in_child()
        self._cache.after_fork_in_child()


def _hidden(conf: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """A function that returns the settings: tools that report errors would show an attribute."""
    return lambda: conf


def _checked(schema: Schema) -> Schema:
    if not isinstance(schema, Schema):
        raise InvalidArgumentError(
            f"schema: expected a Schema, such as Schema(text, 'AVRO'), got {type(schema).__name__}"
        )
    return schema


def _registered(
    answer: object,
    subject: str | None,
    given: Schema | None,
    *,
    schema_id: int | None = None,
    version: int | None = None,
) -> RegisteredSchema:
    """Read the registry's JSON, which after a registration may have nothing but an id.

    Args:
        answer: the JSON.
        subject: where the schema is, if the answer does not say.
        given: the schema, if the answer does not have it.
        schema_id, version: what the registry was asked for; an answer about another one is refused.
    """
    fields = answers.mapping(answer)
    found_id = answers.number(fields.get("id", schema_id), "id", 0)
    found_subject, found_version, guid = (fields.get(name) for name in ("subject", "version", "guid"))
    if schema_id is not None and found_id != schema_id:
        raise answers.InvalidAnswerError(f"id: expected {schema_id}, got {found_id}")
    if found_version is not None:
        found_version = _version(found_version)
        if version is not None and found_version != version:
            raise answers.InvalidAnswerError(f"version: expected {version}, got {found_version}")
    return RegisteredSchema(
        subject if found_subject is None else answers.text(found_subject, "subject"),
        found_version,
        found_id,
        None if guid is None else answers.guid(guid),
        Schema.from_dict(fields) if given is None or fields.get("schema") is not None else given,
    )


def _version(value: object, what: str = "version") -> int:
    return answers.number(value, what, 1)


def _association(answer: object, what: str) -> Association:
    fields = answers.mapping(answer, what)
    names = ("subject", "resourceName", "resourceNamespace", "associationType")
    return Association(*(answers.text(fields.get(name), name) for name in names))


def _list_of(answer: object, check: Callable[[Any, str], _Value], what: str) -> list[_Value]:
    return [check(each, what) for each in answers.array(answer)]


def _format(fmt: str | None) -> dict[str, str]:
    return {} if fmt is None else {"format": fmt}


class _BoundedCache(Generic[_Value]):
    """The values that were used last. Thread-safe."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        # Guarded by _lock, which a signal handler may take again on the same thread. By key: the value, and
        # when it ends (monotonic s).
        self._lock = threading.RLock()
        self._values: OrderedDict[tuple[Any, ...], tuple[_Value, float]] = OrderedDict()

    def get(self, key: tuple[Any, ...]) -> _Value | None:
        with self._lock:
            found = self._values.get(key)
            if found is None or time.monotonic() >= found[1]:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: tuple[Any, ...], value: _Value, ttl_s: float | None) -> None:
        with self._lock:
            self._values[key] = value, float("inf") if ttl_s is None else time.monotonic() + ttl_s
            self._values.move_to_end(key)
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()

    def after_fork_in_child(self) -> None:
        # At the fork, another thread of the parent may have held the lock or have been in the middle of a
        # change.
        self._lock = threading.RLock()
        self._values = OrderedDict()
