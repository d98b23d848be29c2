"""Errors of the Spark sink: invalid options and columns, failed tasks, and replays that cannot be verified.

They derive from ``KafkaError`` like all errors of the package. Spark turns what a task or a driver process
raises into text, so everything that a user has to know is in the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kproducer.errors import ConfigError, FencedError, KafkaError, Outcome, TransactionAbortedError

_OUTCOMES = {
    Outcome.NOT_SENT: " (it was not sent)",
    Outcome.REJECTED: " (it was not written)",
    Outcome.UNKNOWN: " (it may have been written)",
}


def _text(error: KafkaError) -> str:
    # Imported here: a process that only looks up the format needs no settings.
    from kproducer.spark.option_names import in_options

    return f"{type(error).__name__}: {in_options(str(error))}"


class SparkOptionError(ConfigError):
    """Options of the write are unknown, invalid, missing or contradict each other."""


class SparkSchemaError(ConfigError):
    """The DataFrame lacks a column, or has a column of a type that cannot be written."""


class SparkWriteError(KafkaError):
    """Rows could not be written; the message names topic, partition and reason.

    Raised by a task; by the driver before tasks start, if no broker responds or a topic does not exist; and
    before it commits, if there are more bad rows than ``maxBadRows`` allows.
    """

    @classmethod
    def for_record(
        cls,
        error: BaseException,
        topic: str | None,
        partition: int,
        settings: Iterable[tuple[str, str]],
        row: str = "",
        what: str = "a record",
    ) -> SparkWriteError:
        """The error of a task: where, why, and what is known about the record.

        Args:
            error: of the record.
            topic, partition: of the record, as far as they are known.
            settings: of the producer; the text names the options that are behind them.
            row: a text that names the row.
            what: a text that names the record.
        """
        from kproducer.spark.option_names import explained

        outcome: Outcome | None = getattr(error, "outcome", None)
        place = f"topic '{topic}'" if topic else "an unknown topic"
        place += f", partition {partition}" if partition >= 0 else ", no partition chosen yet"
        reason = f"{type(error).__name__}: {explained(error, settings)}"
        known = _OUTCOMES[outcome] if outcome else ""
        failure = cls(f"{what} could not be written to {place}{row}: {reason}{known}")
        failure.outcome = outcome
        return failure


class ExactlyOnceError(SparkWriteError):
    """Rows could not be written exactly once; the message says what is committed, and what to do."""


class ReplayMismatchError(ExactlyOnceError):
    """Part of this write is committed with other rows than it has now; nothing else was committed.

    Undo the change of the query or its input, or use a new checkpoint or ``writeId`` and accept duplicates.
    """

    @classmethod
    def of(cls, subject: object, difference: str) -> ReplayMismatchError:
        """``subject``: the write; ``difference``: the committed rows and the present ones."""
        return cls(
            f"{subject} is a replay with other rows: {difference}. Nothing of the replay was committed. To "
            "complete a partly committed write, each task needs the same rows again: same input and query "
            "(no rand() or current_timestamp()), divided into as many partitions (number of cores, "
            "spark.sql.shuffle.partitions, spark.sql.adaptive.enabled). To continue, undo the change, or use "
            "a new checkpoint or writeId and accept duplicates of the committed rows"
        )


class StaleReplayError(ExactlyOnceError):
    """A later micro-batch or version than this one is already committed.

    If the checkpoint is an old copy, restore the newest. If it is new and ``foreachBatch`` uses the old
    ``writeId``, choose a new one.
    """

    @classmethod
    def of(cls, subject: object, latest: int) -> StaleReplayError:
        """``subject``: the write; ``latest``: the number that is committed."""
        return cls(
            f"{subject}: number {latest} is already committed, so this write is outdated. Nothing was "
            "committed. Restore the newest checkpoint, or start with an empty one (a new query; within "
            "foreachBatch it also needs a new writeId) and accept duplicates. If you set writeVersion, it "
            "must not decrease"
        )


class UncertainReplayError(ExactlyOnceError):
    """It cannot be determined what of this write is committed, because markers are missing.

    The query was at-least-once until now; ``topic``, ``markerTopic`` or ``transactionalIdPrefix`` changed;
    the topic was deleted; or the query was stopped for longer than the brokers' ``offsets.retention.minutes``
    (7 days). If no micro-batch was interrupted, start the query once with ``onUncertainReplay=write``.
    """

    @classmethod
    def of(cls, subject: object, found: str) -> UncertainReplayError:
        """``subject``: the write; ``found``: what Kafka has of it."""
        return cls(
            f"{subject}: Kafka has {found} for this write, so it is unknown whether this number is already "
            "committed. Nothing was committed now. Possible causes: the query wrote at-least-once until now; "
            "markerTopic, topic or transactionalIdPrefix was changed; the topic or group was deleted; the "
            "query was stopped for longer than the brokers' offsets.retention.minutes. To continue, start it "
            "once with onUncertainReplay=write. If no part of this micro-batch was committed (for example "
            "after a clean stop), no row is duplicated; otherwise the committed rows are written again"
        )


class FullRefreshError(ExactlyOnceError):
    """A full refresh has reset the checkpoint of a pipeline's flow: all rows would be written a second time.

    To continue where the pipeline was, delete the folder that the message names. To write all rows again, set
    ``acceptedFullRefreshes``.
    """

    @classmethod
    def of(cls, checkpoint: str, number: int, accepted: int) -> FullRefreshError:
        """``checkpoint``: its folder; ``number``: of full refreshes; ``accepted``: the option."""
        return cls(
            f"the checkpoint '{checkpoint}' is that of a pipeline after full refresh {number}, and "
            f"acceptedFullRefreshes={accepted}. The flow starts from the beginning of its source, so the "
            "rows that are already in the topic would be written a second time. Nothing was written now. If "
            "this folder has been used before (it has files in 'commits'), or is not that of a pipeline, "
            f"keep it and set the sink's option acceptedFullRefreshes={number}. Otherwise, to continue where "
            "the pipeline was, delete this folder and run the pipeline without a full refresh, unless the "
            "flow reads a table that was refreshed too. To write all rows again, set "
            f"acceptedFullRefreshes={number}"
        )


class CommitFailedError(ExactlyOnceError):
    """Some tasks may not be committed; a replay of the write completes it without duplicates.

    A transaction was older than ``kafka.transaction.timeout.ms``, a speculative copy fenced the task, or the
    query ran twice. Restart the query, or repeat the ``writeId``. Raise the timeout (brokers accept up to
    their ``transaction.max.timeout.ms``, 15 minutes by default), or make batches smaller.
    """

    @classmethod
    def of(
        cls, subject: object, failed: Sequence[tuple[str, KafkaError]], count: int, *, can_repeat: bool
    ) -> CommitFailedError:
        """``failed``: transactional id and error of each of the ``count`` tasks that failed."""
        name, error = failed[0]
        remedy = (
            "Restart the query (or repeat the writeId) to complete it without duplicates"
            if can_repeat
            else "Without the option 'writeId' it cannot be completed: a repetition writes the committed "
            "rows a second time"
        )
        hint = ""
        if any(isinstance(each, (TransactionAbortedError, FencedError)) for _, each in failed):
            hint = (
                ". Brokers abort a transaction that is open for longer than kafka.transaction.timeout.ms "
                "(raise it, up to the brokers' transaction.max.timeout.ms, or make batches smaller). A "
                "speculative copy of a task, or the same query running twice, aborts it as well"
            )
        return cls(
            f"{subject}: {len(failed)} of {count} tasks could not be committed; the first is "
            f"'{name}': {_text(error)}. The others are committed. {remedy}{hint}"
        )

    @classmethod
    def unconfirmed(cls, subject: object, error: KafkaError) -> CommitFailedError:
        """All tasks are committed, but reading the decision back failed with ``error``."""
        return cls(
            f"{subject}: all rows are committed, but the decision could not be read back: "
            f"{_text(error)}. Restart the query (or repeat the writeId): it finds the rows "
            "and writes none twice"
        )
