"""Habits from other clients meet a hint, and what exists is not hidden by it."""

from __future__ import annotations

import _thread
import contextlib
import copy
import queue
import re
import sys
from typing import Any

import pytest

import kproducer
from kproducer import (
    AsyncKafkaProducer,
    FutureRecordMetadata,
    KafkaProducer,
    RecordMetadata,
    SendManyResult,
    TopicPartition,
)
from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
from kproducer.aio.async_kafka_producer import AsyncTransaction
from kproducer.errors.suggestions import (
    FUTURE_METHODS,
    METADATA_FIELDS,
    PACKAGE_NAMES,
    PRODUCER_METHODS,
    SEND_MANY_RESULT_METHODS,
    keyword_hints,
    no_such_attribute,
)


def test_names_that_have_a_hint_do_not_exist() -> None:
    assert not [name for name in PRODUCER_METHODS if name in dir(KafkaProducer)]
    assert not [name for name in FUTURE_METHODS if name in dir(FutureRecordMetadata)]
    assert not [name for name in METADATA_FIELDS if name in dir(RecordMetadata)]
    assert not [name for name in SEND_MANY_RESULT_METHODS if name in dir(SendManyResult)]
    assert not [name for name in PACKAGE_NAMES if name in dir(kproducer)]


@pytest.mark.parametrize(
    ("name", "hints"),
    [
        ("Producer", ["kproducer.KafkaProducer", "kproducer.compat.confluent_kafka.Producer"]),
        ("AIOKafkaProducer", ["kproducer.AsyncKafkaProducer", "kproducer.compat.aiokafka.AIOKafkaProducer"]),
        ("AsyncProducer", ["kproducer.AsyncKafkaProducer"]),
        ("KafkaConsumer", ["kproducer has no consumer"]),
        ("AdminClient", ["kproducer has no admin client"]),
    ],
)
def test_classes_of_other_clients_get_a_hint(name: str, hints: list[str]) -> None:
    start = f"module 'kproducer' has no attribute '{name}': "
    with pytest.raises(AttributeError, match=re.escape(start)) as missing:
        getattr(kproducer, name)
    with pytest.raises(ImportError, match=f"^cannot import name '{name}' from 'kproducer': ") as failed:
        exec(f"from kproducer import {name}", {})
    for hint in hints:
        assert hint in str(missing.value)
        assert hint in str(failed.value)
    assert failed.value.name == "kproducer"
    assert not hasattr(kproducer, name)


def test_other_names_have_pythons_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'kproducer' has no attribute 'Nothing'$"):
        kproducer.Nothing  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Nothing' from 'kproducer' "):
        exec("from kproducer import Nothing", {})


def test_code_without_a_python_frame_gets_the_same_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extension modules and embedding programs ask for attributes, too."""
    raised: queue.SimpleQueue[Any] = queue.SimpleQueue()
    monkeypatch.setattr(sys, "unraisablehook", lambda failure: raised.put(failure.exc_value))
    for name, text in (
        ("Producer", "use kproducer.KafkaProducer"),
        ("Nothing", "has no attribute 'Nothing'"),
    ):
        _thread.start_new_thread(getattr, (kproducer, name))
        error = raised.get(timeout=60)
        assert isinstance(error, AttributeError)
        assert text in str(error)


async def enter(context: Any) -> None:
    async with context:
        raise AssertionError("the block runs")


def test_the_wrong_kind_of_with_names_the_right_one() -> None:
    with KafkaProducer("127.0.0.1:1") as producer:
        with pytest.raises(
            TypeError, match=r"'KafkaProducer' object.* 'async with': use 'with', or 'async with AsyncK"
        ):
            enter(producer).send(None)
        assert not isinstance(producer, contextlib.AbstractAsyncContextManager)
        assert not hasattr(producer, "__aenter__")
    for wrong in (AsyncKafkaProducer, AsyncTransaction):
        context: Any = wrong.__new__(wrong)
        with (
            pytest.raises(TypeError, match=f"'{wrong.__name__}' object .* 'with': use 'async with'"),
            context,
        ):
            raise AssertionError("the block runs")
        assert not isinstance(context, contextlib.AbstractContextManager)
        assert not hasattr(context, "__enter__")


def test_methods_of_other_clients_get_a_hint() -> None:
    with KafkaProducer("127.0.0.1:1") as producer:
        with pytest.raises(AttributeError, match=r"no attribute 'produce': use send\(topic"):
            producer.produce("t", b"v")  # type: ignore[attr-defined]
        assert not hasattr(producer, "poll")
        with pytest.raises(AttributeError, match=r"no attribute 'sent'$"):
            producer.sent  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(TypeError, match="cannot be pickled"):
            copy.copy(producer)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("start", "a new producer is already running"),
        ("stop", r"use 'await producer\.aclose\(\)'"),
        ("close", r"use 'await producer\.aclose\(\)'"),
        ("send_and_wait", r"use 'await producer\.send\("),
    ],
)
def test_names_of_aiokafka_get_a_hint(name: str, hint: str) -> None:
    producer = AsyncKafkaProducer.__new__(AsyncKafkaProducer)
    with pytest.raises(
        AttributeError, match=rf"'AsyncKafkaProducer' object has no attribute '{name}': .*{hint}"
    ):
        getattr(producer, name)


def test_futures_too() -> None:
    future = ProduceRequestResult(TopicPartition("t", 0)).future(0, 0, 0, 0)
    with pytest.raises(AttributeError, match=r"'FutureRecordMetadata' object.*on_delivery"):
        future.add_callback(print)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'offset': result\(\) waits for the metadata"):
        future.offset  # type: ignore[attr-defined]  # noqa: B018


def test_python_may_suggest_similar_names() -> None:
    owner = object()
    error = no_such_attribute(owner, "flsh", {})
    assert (error.name, error.obj) == ("flsh", owner)


METADATA = RecordMetadata("t", 0, 5, 1000, -1, 2)


def test_fields_of_other_clients_get_a_hint() -> None:
    with pytest.raises(
        AttributeError, match="'RecordMetadata' object has no attribute 'timestamp': use timestamp_ms"
    ):
        METADATA.timestamp  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="'topic_partition': use topic and partition"):
        METADATA.topic_partition  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="'error': the second argument of on_delivery"):
        METADATA.error()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'result': this is the metadata already"):
        METADATA.result()  # type: ignore[attr-defined]
    assert not hasattr(METADATA, "something")
    assert copy.copy(METADATA) == METADATA


@pytest.mark.parametrize(
    ("method", "keywords", "hint"),
    [
        ("send", {"timestamp": 1}, "'timestamp'; did you mean timestamp_ms?"),
        ("send", {"value": b"v", "callback": print}, "'callback'; did you mean on_delivery?"),
        ("send_many", {"values": [], "timestamp": 1}, "'timestamp'; did you mean timestamps_ms?"),
        ("send_many", {"value": [b"v"]}, "'value'; did you mean values?"),
        (
            "send_many",
            {"values": [], "callback": print},
            "'callback'; the SendManyResult that it returns has the outcome",
        ),
        ("send_arrow", {"data": None, "keys": "k"}, "'keys'; did you mean key?"),
    ],
)
def test_arguments_of_other_clients_get_a_hint(method: str, keywords: dict[str, Any], hint: str) -> None:
    with KafkaProducer("127.0.0.1:1") as producer:
        for call in (
            lambda: getattr(producer, method)("t", **keywords),
            lambda: getattr(producer, method)(topic="t", **keywords),
        ):
            with pytest.raises(TypeError, match=re.escape(hint)):
                call()


def test_a_wrong_name_of_the_topic_gets_a_hint() -> None:
    with KafkaProducer("127.0.0.1:1") as producer:
        with pytest.raises(TypeError, match="'topic_name'; did you mean topic"):
            producer.send_many(topic_name="t")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"missing .* required positional argument"):
            producer.send_many()  # type: ignore[call-arg]


@pytest.mark.parametrize("method", ["close", "flush"])
def test_a_timeout_in_another_unit_gets_a_hint(method: str) -> None:
    with KafkaProducer("127.0.0.1:1") as producer, pytest.raises(TypeError, match="mean timeout, in seconds"):
        getattr(producer, method)(timeout_ms=1000)


def test_a_type_error_of_the_method_itself_is_raised_as_it_is() -> None:
    class Owner:
        @keyword_hints
        def method(self, topic: str) -> None:
            raise TypeError("from a serializer")

    with pytest.raises(TypeError, match=r"^from a serializer$"):
        Owner().method(topic="t")
