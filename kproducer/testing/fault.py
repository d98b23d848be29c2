"""Faults that tests inject into a ``FakeKafka``: their names, and how the fake broker applies them."""

from __future__ import annotations

from kproducer_messages import API_NAMES

from kproducer.errors import BrokerError
from kproducer.errors.broker_errors import ERROR_TABLE
from kproducer.testing.fakebroker import faults
from kproducer.testing.fakebroker.actions import Control, Handler
from kproducer.testing.fakebroker.cluster import FakeCluster

_PRODUCE, _METADATA = 0, 3
_KEYS = {name.lower(): key for key, name in API_NAMES.items()}
_CODES = {row[1]: row[0] for row in ERROR_TABLE}
_NAMES = {row[0]: row[1] for row in ERROR_TABLE}


class Fault:
    """A fault that ``FakeKafka`` applies to requests. In a ``with`` statement, it ends with the block.

    Thread-safe.
    """

    def __init__(self, cluster: FakeCluster, control: Control, description: str) -> None:
        self._cluster = cluster
        self._control = control
        self._description = description

    def __repr__(self) -> str:
        return f"<Fault: {self._description}, applied {self.count} times>"

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def count(self) -> int:
        """The number of requests that it was applied to."""
        return self._control.taken

    def remove(self) -> None:
        """Apply it to no further request. May be called more than once; a forked child does nothing."""
        if not self._cluster.is_in_this_process:
            return
        with self._cluster.log.changed:
            self._control.remove()

    def wait_until_applied(self, times: int = 1, timeout: float = 10.0) -> None:
        """Wait until it was applied to this many requests.

        Args:
            times: number of requests.
            timeout: in seconds.

        Raises:
            AssertionError: it was not, within ``timeout``.
        """
        self._cluster.wait_for(
            lambda: self.count >= times, timeout, f"{self._description} was to be applied {times} times"
        )


def api_key_of(api: str) -> int:
    """The key of an API, by its name in the protocol, such as ``Produce`` or ``INIT_PRODUCER_ID``.

    Raises:
        ValueError: the fake broker has no such API.
    """
    key = _KEYS.get(api.replace("_", "").lower())
    if key is None:
        raise ValueError(f"{api!r} is not an API of this broker; it has {', '.join(API_NAMES.values())}")
    return key


def error_of(error: type[BrokerError] | BrokerError | str | int) -> tuple[int, str | None]:
    """The code of a broker error, and the broker's message if ``error`` is an object that has one.

    Raises:
        ValueError: Kafka has no error of this name or code.
        TypeError: it is not the error of a broker.
    """
    if isinstance(error, str) and error in _CODES:
        return _CODES[error], None
    if isinstance(error, int) and not isinstance(error, bool) and error in _NAMES:
        return error, None
    if isinstance(error, BrokerError):
        return error.code, error.broker_message
    if isinstance(error, type) and issubclass(error, BrokerError):
        return error.code, None
    if isinstance(error, (str, int)):
        raise ValueError(
            f"Kafka has no error {error!r}; use a class of kproducer.errors.broker_errors, a code, or a name"
            " such as 'NOT_LEADER_OR_FOLLOWER'"
        )
    raise TypeError(
        f"{error!r} is not the error of a broker: use a class of kproducer.errors.broker_errors; for a lost"
        " connection disconnect_next(), for a time-out hang_next()"
    )


def error_name(code: int) -> str:
    return _NAMES[code]


def refusal(
    api_key: int,
    code: int,
    message: str | None,
    *,
    processed: bool,
    topic: str | None,
    partition: int | None,
) -> Handler:
    """A handler that answers with an error code.

    Raises:
        ValueError: this API has no topics, or no partitions.
    """
    if api_key == _PRODUCE:
        forgery = faults.Forgery(code, processed, message)

        def decide(name: str, index: int) -> faults.Forgery | None:
            return forgery if topic in (None, name) and partition in (None, index) else None

        return faults.forge_produce(decide)
    if partition is not None or (topic is not None and api_key != _METADATA):
        raise ValueError(f"fail_next({API_NAMES[api_key]!r}, ...) cannot be limited to topics or partitions")
    refuse = faults.refuse_metadata(code, topic) if api_key == _METADATA else faults.refuse_coordination(code)
    return faults.after_processing(refuse) if processed else refuse
