"""Errors of the Spark sink: the caller's mistakes, failures of tasks, and doubts about repetitions.

They are ordinary members of the package's tree, so that code which catches ``KafkaError`` catches them. Spark
turns whatever a task or a driver process raises into text, so everything worth knowing is in the message.
"""

from __future__ import annotations

from collections.abc import Sequence

from kproducer.errors import ConfigError, FencedError, KafkaError, TransactionAbortedError


class SparkOptionError(ConfigError):
    """Options of the write are unknown, wrong, missing or contradict each other."""


class SparkSchemaError(ConfigError):
    """The DataFrame lacks a column, or has one of a type that cannot be written."""


class SparkWriteError(KafkaError):
    """Rows could not be written; the message names topic, partition and reason.

    Raised by a task; or by the driver, before tasks start, if no broker answers or a topic does not exist.
    """


class ExactlyOnceError(SparkWriteError):
    """Rows could not be written exactly once; the message says what is committed, and what helps."""


class ReplayMismatchError(ExactlyOnceError):
    """Part of this write is committed, with other rows than it has now; nothing more was committed."""

    @classmethod
    def of(cls, subject: str, difference: str) -> ReplayMismatchError:
        """``subject``: the task or the write; ``difference``: what was and what is."""
        return cls(
            f"{subject} is a repetition with other rows: {difference}. Nothing of the repetition was "
            "committed. It can be completed only when each task has the rows that it had (in any division "
            "into tasks, once all rows are committed): the source has to "
            "give the same rows again, without rand() or current_timestamp(), in as many partitions as "
            "before. To go on, bring back what changed (input, query, number of cores, "
            "spark.sql.shuffle.partitions, spark.sql.adaptive.enabled); "
            "or take a new checkpoint, or writeId, and accept that the rows "
            "which are committed come again"
        )


class StaleReplayError(ExactlyOnceError):
    """A later number than this write's is committed already."""

    @classmethod
    def of(cls, subject: str, latest: int) -> StaleReplayError:
        """``subject``: the write; ``latest``: the number that is committed."""
        return cls(
            f"{subject}: number {latest} is committed already, so this one is older. Nothing was committed. "
            "Is the checkpoint an old copy, or did a writeVersion go back? Bring back the newest checkpoint; "
            "or start with an empty one, which is another query, and accept that rows come again. A writeId "
            "within foreachBatch does not change with the checkpoint: a new checkpoint needs a new writeId"
        )


class UncertainReplayError(ExactlyOnceError):
    """What of this write is committed cannot be told any more."""

    @classmethod
    def of(cls, subject: str, found: str) -> UncertainReplayError:
        """``subject``: the write; ``found``: what there is of it."""
        return cls(
            f"{subject}: of this write Kafka has {found}, so it cannot be told whether this number is "
            "committed. Nothing was committed now. Either the query wrote at-least-once until now; or its "
            "options markerTopic, topic or transactionalIdPrefix were changed; or its markers are gone: the "
            "topic or the group was deleted, or the query stood still for longer than the brokers' "
            "offsets.retention.minutes. To go on, start it once with the option onUncertainReplay=write: if "
            "nothing of this one micro-batch is committed, as after a clean stop, no row comes twice; else "
            "what is comes again"
        )


class CommitFailedError(ExactlyOnceError):
    """Not everything is known to be committed; a repetition of the write completes it, without duplicates."""

    @classmethod
    def of(
        cls, subject: str, failed: Sequence[tuple[str, KafkaError]], count: int, *, can_repeat: bool
    ) -> CommitFailedError:
        """``failed``: transactional id and reason of each of ``count`` tasks that failed."""
        name, error = failed[0]
        mending = (
            "A restart of the query (or the same writeId again) completes it, without duplicates"
            if can_repeat
            else "Without the option 'writeId' it cannot be completed: a repetition writes those once more"
        )
        hint = ""
        if any(isinstance(each, (TransactionAbortedError, FencedError)) for _, each in failed):
            hint = (
                ". A transaction ends by itself when it is open for longer than kafka.transaction.timeout.ms "
                "(from a task's first row to the driver's commit): raise it, up to the brokers' "
                "transaction.max.timeout.ms, or make smaller batches. A speculative copy of a task, or the "
                "same query started twice, ends it too"
            )
        return cls(
            f"{subject}: {len(failed)} of {count} tasks could not be committed; the first is "
            f"'{name}': {type(error).__name__}: {error}. The others are committed. {mending}{hint}"
        )

    @classmethod
    def unconfirmed(cls, subject: str, error: KafkaError) -> CommitFailedError:
        """All tasks are committed; ``error``: why the decision could not be read back."""
        return cls(
            f"{subject}: all rows are committed, and that could not be read back, as the next number would "
            f"have to: {type(error).__name__}: {error}. A restart of the query (or the same writeId again) "
            "finds them, and writes none twice"
        )
