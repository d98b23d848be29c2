"""What to do about the broker errors that a producer meets, for docs/reference/errors.md."""

from __future__ import annotations

from typing import Final

#: What to do about each error, by code, in Markdown.
BROKER_ERROR_ADVICE: Final[dict[int, str]] = {
    -1: (
        "Outcome `UNKNOWN`. An error without a code of its own: look at the broker's log. "
        "`UnrecognizedCodeError` is a code that is newer than this version of kproducer; also `UNKNOWN`."
    ),
    2: ("If it repeats, something on the way changes bytes (a proxy, broken memory); if not, report it."),
    3: (
        "Outcome `UNKNOWN`. The broker does not have the partition: the topic was deleted, or was created "
        "just now, or this user may not see it. Check the name, and permissions (Describe)."
    ),
    5: (
        "The partition has no leader: brokers are down or an election is in progress. Check the brokers "
        "with its replicas."
    ),
    6: (
        "Outcome `UNKNOWN`. The producer refreshes metadata and sends to the new leader. Nothing to do, "
        "unless it does not end: then compare what the brokers know of the partition "
        "(`kproducer metadata TOPIC`)."
    ),
    7: (
        "Outcome `UNKNOWN`. Replicas did not copy the batch in time. Check followers, disks and network of "
        "the cluster."
    ),
    10: (
        "The batch is larger than `max.message.bytes` of the topic. Batches of several records are split "
        "and sent again, so this is about a single record: make it smaller, compress it, or raise "
        "`max.message.bytes` (and `replica.fetch.max.bytes` of the brokers)."
    ),
    17: (
        "The name has other characters than letters, digits, `.`, `_` and `-`, or is longer than "
        "249 characters; or a broker does not allow clients to write to this topic."
    ),
    18: ("Lower `batch_size`, or raise `segment.bytes`."),
    19: (
        "Fewer replicas are in sync than `min.insync.replicas`. Start the missing brokers, or check why "
        "followers lag (`kproducer metadata TOPIC` shows the in-sync replicas)."
    ),
    20: "Outcome `UNKNOWN`. As NOT_ENOUGH_REPLICAS, noticed after the leader had written the batch.",
    29: "This user lacks Write on the topic. If Describe is missing too, `send()` raises it (`NOT_SENT`).",
    30: "`send_offsets_to_transaction` needs Read on the group.",
    31: (
        "Before Kafka 2.8, idempotence needs IdempotentWrite on the cluster: grant it, or set "
        "`enable_idempotence=False`."
    ),
    32: (
        "`timestamp_ms` is further from the broker's time than `message.timestamp.before.max.ms` or "
        "`...after.max.ms` of the topic. Check its unit (milliseconds), and the clocks."
    ),
    35: (
        "From a broker or found by the producer (`NOT_SENT`). Broker and producer have no version of a "
        "request in common; the text names both ranges. Check that it is a Kafka broker, and its version."
    ),
    44: "A plug-in of the cluster refuses the request. Ask its administrators.",
    45: (
        "The broker misses an earlier batch of this producer. The producer restarts its numbers if that is "
        "safe; you see the error only if it is not, often with `UNKNOWN`. Check whether brokers lost data "
        "(unclean election, deleted topic)."
    ),
    50: (
        "As the cause of a `FatalProducerError`. `transaction_timeout_ms` is larger than "
        "`transaction.max.timeout.ms` of the brokers."
    ),
    53: (
        "This user needs Write and Describe on the transactional id. With "
        "`transaction_two_phase_commit_enable`, this user also needs TwoPhaseCommit on it, and the brokers "
        "`transaction.two.phase.commit.enable=true`: they give the same code for both."
    ),
    56: (
        "Outcome `UNKNOWN`. A disk of the broker has failed. Repair it; meanwhile another replica becomes "
        "the leader."
    ),
    59: "The broker has forgotten this producer: as OUT_OF_ORDER_SEQUENCE_NUMBER.",
    76: (
        "The broker does not know the codec. Choose another `compression_type`. (With zstd and a broker "
        "before Kafka 2.1 the producer itself raises an UnsupportedVersionError.)"
    ),
    87: (
        "A record failed the broker's validation, for example because a compacted topic requires a key. The "
        "other records of the batch get a BatchRejectedError."
    ),
}
