"""librdkafka's error codes and their names. Source: its ``rd_kafka_resp_err_t``."""

from __future__ import annotations

from kproducer.errors.broker_errors import ERROR_TABLE

# fmt: off
#: librdkafka's names of its own codes, from -199 upwards.
_LOCAL_NAMES = [
    "_BAD_MSG", "_BAD_COMPRESSION", "_DESTROY", "_FAIL", "_TRANSPORT", "_CRIT_SYS_RESOURCE", "_RESOLVE",
    "_MSG_TIMED_OUT", "_PARTITION_EOF", "_UNKNOWN_PARTITION", "_FS", "_UNKNOWN_TOPIC", "_ALL_BROKERS_DOWN",
    "_INVALID_ARG", "_TIMED_OUT", "_QUEUE_FULL", "_ISR_INSUFF", "_NODE_UPDATE", "_SSL", "_WAIT_COORD",
    "_UNKNOWN_GROUP", "_IN_PROGRESS", "_PREV_IN_PROGRESS", "_EXISTING_SUBSCRIPTION", "_ASSIGN_PARTITIONS",
    "_REVOKE_PARTITIONS", "_CONFLICT", "_STATE", "_UNKNOWN_PROTOCOL", "_NOT_IMPLEMENTED",
    "_AUTHENTICATION", "_NO_OFFSET", "_OUTDATED", "_TIMED_OUT_QUEUE", "_UNSUPPORTED_FEATURE",
    "_WAIT_CACHE", "_INTR", "_KEY_SERIALIZATION", "_VALUE_SERIALIZATION", "_KEY_DESERIALIZATION",
    "_VALUE_DESERIALIZATION", "_PARTIAL", "_READ_ONLY", "_NOENT", "_UNDERFLOW", "_INVALID_TYPE", "_RETRY",
    "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL", "_INCONSISTENT", "_GAPLESS_GUARANTEE",
    "_MAX_POLL_EXCEEDED", "_UNKNOWN_BROKER", "_NOT_CONFIGURED", "_FENCED", "_APPLICATION",
    "_ASSIGNMENT_LOST", "_NOOP", "_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "_INVALID_DIFFERENT_RECORD",
    "_DESTROY_BROKER",
]
# fmt: on
_FIRST_LOCAL_CODE = -199
#: Brokers' codes that have another name in librdkafka than in Kafka.
_OTHER_NAMES = {
    -1: "UNKNOWN",
    0: "NO_ERROR",
    2: "INVALID_MSG",
    3: "UNKNOWN_TOPIC_OR_PART",
    4: "INVALID_MSG_SIZE",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MSG_SIZE_TOO_LARGE",
    11: "STALE_CTRL_EPOCH",
    17: "TOPIC_EXCEPTION",
}


def code_names() -> dict[int, str]:
    """librdkafka's name of every code: its own, and those of brokers."""
    names = dict(enumerate(_LOCAL_NAMES, _FIRST_LOCAL_CODE))
    names.update((code, name) for code, name, *_ in ERROR_TABLE)
    return {**names, **_OTHER_NAMES}


def local_code(name: str) -> int:
    """The code of one of librdkafka's own errors, such as ``_STATE``."""
    return _LOCAL_NAMES.index(name) + _FIRST_LOCAL_CODE
