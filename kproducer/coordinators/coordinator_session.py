"""CoordinatorSession: ends transactions of other producers, fences them, reads committed offsets.

Blocks its caller and has no thread of its own: while nobody calls it nothing happens. One network client
carries the requests of many transactional ids and groups, all at once. For whoever coordinates producers in
other processes: the driver of a distributed write. Knows nothing of who that is.
Source: KIP-98, KIP-447, KIP-890; Kafka's ``Admin`` (fenceProducers, listConsumerGroupOffsets).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from kproducer.config import ProducerConfig
from kproducer.errors import KafkaError
from kproducer.producer.transactions.consumer_offsets import OffsetAndMetadata
from kproducer.producer.transactions.open_transaction import PreparedTransaction
from kproducer.types import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self


class CoordinatorSession:
    """Requests to coordinators in the name of other producers. Not thread-safe: one thread at a time.

    Args:
        config: servers, timeouts, backoffs; ``transaction_timeout_ms`` goes into InitProducerId. Its
            ``transactional_id``, if it has one, is not used.

    Every call takes ``timeout_s``, in seconds, and comes back about then at the latest. Brokers that are
    down, coordinators that move, load or are busy are tried again until then; after it, KafkaTimeoutError
    names the stage, the broker and its last error. The same call again puts right what a timeout left behind.

    Errors of all calls: AuthorizationError names what lacks which permission; AuthenticationError;
    UnsupportedVersionError, brokers are too old; IllegalStateError, the session is closed.
    """

    def __init__(self, config: ProducerConfig) -> None:
        raise NotImplementedError

    def fence(self, transactional_ids: Iterable[str], timeout_s: float) -> None:
        """Fence the producers with these ids: what they have open is aborted, and they can do nothing more.

        Returns when all of it has been ended wholly: offsets that a transaction had committed are there.
        From now on this session is the producer of these ids: ``write_offsets``.

        Raises:
            KafkaTimeoutError: not all in time. Some may be fenced.
            AuthorizationError: an id lacks Write and Describe. The other ids were fenced.
        """
        raise NotImplementedError

    def write_offsets(
        self,
        transactional_id: str,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout_s: float,
    ) -> None:
        """Commit offsets of a group in a transaction of their own, as the producer that ``fence`` made.

        Returns when they are committed. Any error but a timeout says that they are not and will not be; then
        it may be called again, unless it was FencedError.

        Raises:
            FencedError: the id was fenced by somebody else meanwhile.
            IllegalStateError: ``fence`` was not called for this id, or the last call timed out or was fenced.
            KafkaTimeoutError: they may be committed, or not. ``fence`` settles it; then read them.
            AuthorizationError: id (Write), group (Read) or topic (Read) lacks a permission.
        """
        raise NotImplementedError

    def committed_offsets(
        self, groups: Iterable[str], topic_partition: TopicPartition, timeout_s: float
    ) -> dict[str, OffsetAndMetadata | None]:
        """What each group has committed for one partition; ``None``: nothing.

        Stable: as long as a transaction that would change it is open, it waits.

        Raises:
            KafkaTimeoutError: not all in time, for instance since a transaction stays open.
            AuthorizationError: a group (Describe) or the topic (Describe) lacks a permission.
            UnsupportedVersionError: brokers before 2.5 cannot tell whether offsets are stable.
        """
        raise NotImplementedError

    def end(
        self, prepared: Sequence[PreparedTransaction], commit: bool, timeout_s: float
    ) -> list[KafkaError | None]:
        """Commit or abort transactions that were handed over, all at once. Harmless when it was done before.

        Returns:
            For each, in order: ``None``: it is committed (aborted). Else what ``commit_prepared`` of a
            ``KafkaProducer`` would raise: TransactionAbortedError, it was aborted; FencedError, its epoch is
            gone; KafkaTimeoutError, not known yet, call it again; AuthorizationError, the id lacks Write or
            Describe; IllegalStateError, it was to be aborted, and was committed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End the connections. Idempotent; waits for nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
