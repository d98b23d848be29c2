"""Metadata of topics: topics in use, requests for new ones only, and waiting that always ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kproducer._core.client.metadata import Metadata
from kproducer._core.config.producer_config import ProducerConfig
from kproducer.errors import AuthenticationError, KafkaError, ProducerClosedError
from tests.support.units.metadata_messages import response

IDLE_MS = 5000


def make() -> Metadata:
    return Metadata(ProducerConfig(bootstrap_servers="host:1", metadata_max_idle_ms=IDLE_MS))


def answer(metadata: Metadata, now_ms: int, *topics: str, errors: dict[str, int] | None = None) -> None:
    """Answer the request that is due now."""
    request = metadata.new_metadata_request_and_version(now_ms)
    message = response({name: [(1, 1)] for name in topics}, errors=errors)
    metadata.update(request, message, now_ms)


class Waiter:
    """Waits for the next update, as the needs of records do."""

    def __init__(self, metadata: Metadata) -> None:
        self.has_been_told = False
        self._metadata = metadata
        self._version = metadata.update_version
        self._fatal_count = metadata.begin_wait()
        metadata.add_listener(self._told)

    def _told(self) -> None:
        self.has_been_told = True

    def is_over(self) -> bool:
        return self.has_been_told and self._metadata.has_update(self._version, self._fatal_count)


def test_new_topic_is_asked_for_alone_and_at_once() -> None:
    metadata = make()
    metadata.add("a", 0)
    request = metadata.new_metadata_request_and_version(0)
    assert (request.topics, request.is_partial) == (("a",), False)
    answer(metadata, 0, "a")
    metadata.add("a", 10)
    assert not metadata.update_requested
    metadata.add("b", 10)
    assert metadata.time_to_next_update(10) == 0
    request = metadata.new_metadata_request_and_version(10)
    assert (request.topics, request.is_partial) == (("b",), True)
    answer(metadata, 10, "b")
    assert set(metadata.snapshot.topics) == {"a", "b"}
    assert not metadata.update_requested


def test_partial_answer_does_not_put_off_the_full_refresh() -> None:
    metadata = make()
    metadata.add("a", 0)
    answer(metadata, 0, "a")
    metadata.add("a", 299_000)
    metadata.add("b", 299_000)
    answer(metadata, 299_000, "b")
    assert metadata.last_successful_update_ms == 0
    assert metadata.time_to_next_update(299_500) == 500


def test_topic_added_while_a_request_is_out_is_asked_for_next() -> None:
    metadata = make()
    metadata.add("a", 0)
    answer(metadata, 0, "a")
    metadata.add("b", 1)
    request = metadata.new_metadata_request_and_version(1)
    metadata.add("c", 2)
    metadata.update(request, response({"b": [(1, 1)]}), 3)
    assert metadata.update_requested
    assert metadata.new_metadata_request_and_version(3).topics == ("c",)


def test_full_update_asked_for_wins_over_partial() -> None:
    metadata = make()
    metadata.add("a", 0)
    answer(metadata, 0, "a")
    metadata.add("b", 1)
    metadata.request_update("leader moved")
    request = metadata.new_metadata_request_and_version(1)
    assert request.topics is not None
    assert (set(request.topics), request.is_partial) == ({"a", "b"}, False)
    answer(metadata, 1, "a", "b")
    assert not metadata.update_requested


def test_idle_topic_is_dropped_and_fetched_again_when_used() -> None:
    metadata = make()
    metadata.add("a", 0)
    metadata.add("b", 0)
    answer(metadata, 0, "a", "b")
    metadata.add("b", IDLE_MS - 1)
    answer(metadata, IDLE_MS, "a", "b")
    assert set(metadata.snapshot.topics) == {"b"}
    assert metadata.new_metadata_request_and_version(IDLE_MS + 300_001).topics == ("b",)
    metadata.add("a", IDLE_MS)
    assert metadata.new_metadata_request_and_version(IDLE_MS).topics == ("a",)
    answer(metadata, IDLE_MS, "a")
    assert set(metadata.snapshot.topics) == {"a", "b"}


def test_topic_never_answered_does_not_expire() -> None:
    metadata = make()
    metadata.add("a", 0)
    answer(metadata, IDLE_MS + 1)
    assert "a" in (metadata.new_metadata_request_and_version(IDLE_MS + 1).topics or ())


def test_new_topic_skips_the_backoff_and_known_one_does_not() -> None:
    metadata = make()
    metadata.add("a", 0)
    answer(metadata, 0, "a")
    metadata.request_update_for_topic("a", "test")
    assert metadata.time_to_next_update(0) > 0
    metadata.add("b", 0)
    answer(metadata, 0, "a")
    metadata.request_update_for_topic("b", "test")
    assert metadata.time_to_next_update(0) == 0


def test_topic_answered_with_an_error_is_asked_for_again_with_all_others() -> None:
    metadata = make()
    metadata.add("a", 0)
    answer(metadata, 0, errors={"a": 3})
    request = metadata.new_metadata_request_and_version(0)
    assert (request.topics, request.is_partial) == (("a",), False)
    assert metadata.time_to_next_update(0) > 0


def test_waiting_ends_with_the_next_update() -> None:
    metadata = make()
    metadata.add("a", 0)
    waiters = [Waiter(metadata) for _ in range(3)]
    assert not any(w.is_over() for w in waiters)
    answer(metadata, 0, "a")
    assert all(w.is_over() for w in waiters)


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (lambda m: m.fatal_error(AuthenticationError("bad password")), AuthenticationError),
        (lambda m: m.close(), ProducerClosedError),
        (lambda m: m.refuse_waiters(), ProducerClosedError),
    ],
    ids=["fatal error", "close", "refused"],
)
def test_everybody_who_waits_is_woken_with_the_reason(
    end: Callable[[Metadata], None], kind: type[KafkaError]
) -> None:
    metadata = make()
    waiters = [Waiter(metadata) for _ in range(4)]
    end(metadata)
    for waiter in waiters:
        with pytest.raises(kind):
            waiter.is_over()


def test_fatal_error_from_before_the_wait_is_raised_once() -> None:
    metadata = make()
    metadata.fatal_error(AuthenticationError("bad password"))
    with pytest.raises(AuthenticationError):
        metadata.begin_wait()
    assert not metadata.has_update(metadata.update_version, metadata.begin_wait())


@pytest.mark.parametrize("end", [Metadata.close, Metadata.refuse_waiters])
def test_waiting_after_close_is_refused(end: Callable[[Metadata], None]) -> None:
    metadata = make()
    end(metadata)
    with pytest.raises(ProducerClosedError):
        metadata.has_update(-1, metadata.begin_wait())


def test_updates_go_on_when_nobody_may_wait_any_more() -> None:
    metadata = make()
    metadata.add("t", 0)
    metadata.refuse_waiters()
    answer(metadata, 0, "t")
    assert metadata.snapshot.partition_count("t") == 1
