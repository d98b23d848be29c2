"""Options of exactly-once writes: how each is read, and which contradict each other.

Part of ``write_options``, which is where all options are. Knows nothing of Spark's classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kproducer.config.setting import shown

AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"

DEFAULT_PREFIX = "kproducer-spark"

#: A transaction lasts from a task's first row to the driver's commit, so this bounds a whole batch. Brokers
#: take no more than their transaction.max.timeout.ms, which is as much by default.
TRANSACTION_TIMEOUT_MS = 900_000

#: Names as documented: what means something only with ``delivery=exactly-once``.
EXACTLY_ONCE_OPTION_NAMES = (
    "writeId",
    "writeVersion",
    "markerTopic",
    "transactionalIdPrefix",
    "onUncertainReplay",
)

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-")
_LONGEST_NAME = 180


def parse_name(field: str) -> Callable[[str], dict[str, Any]]:
    """A part of transactional ids, which stand in ACLs and in the brokers' logs."""

    def parse(value: str) -> dict[str, Any]:
        if not value or len(value) > _LONGEST_NAME or set(value) - _NAME_CHARACTERS:
            raise ValueError(
                f"expected 1 to {_LONGEST_NAME} letters, digits or . _ : / -, got {shown(value)}"
            )
        return {field: value}

    return parse


def parse_version(value: str) -> dict[str, Any]:
    """A number that Kafka takes for an offset."""
    text = value.strip()
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**63:
        raise ValueError(f"expected a whole number, 0 to {2**63 - 1}, got {shown(value)}")
    return {"write_version": int(text)}


def contradictions(
    given: Mapping[str, object], kafka: Mapping[str, str], fields: Mapping[str, Any], is_stream: bool
) -> list[str]:
    """Everything that does not fit together.

    Args:
        given: the sink's own options that were given, in lower case.
        kafka: the producer settings that were given, by dotted names.
        fields: what the options say.
        is_stream: whether this is a streaming query.
    """
    given_here = [name for name in EXACTLY_ONCE_OPTION_NAMES if name.lower() in given]
    if fields.get("delivery") != EXACTLY_ONCE:
        return [
            f"option '{name}' means something only with the option delivery=exactly-once"
            for name in given_here
        ]
    mistakes = []
    if is_stream:
        mistakes += [
            f"option '{name}' is for batch writes: a streaming query is known by its checkpoint"
            for name in given_here
            if name in ("writeId", "writeVersion")
        ]
    elif "writeVersion" in given_here and "writeId" not in given_here:
        mistakes.append("option 'writeVersion' needs the option 'writeId', whose version it is")
    needs_markers = is_stream or "writeId" in given_here
    if needs_markers and not fields.get("topic") and not fields.get("marker_topic"):
        mistakes.append(
            "option 'markerTopic' is missing: where rows choose their topics, name one that exists and that "
            "may be read; committed offsets of its partition 0 note what was written, no record goes there"
        )
    return mistakes + _refused_settings(kafka)


def _refused_settings(kafka: Mapping[str, str]) -> list[str]:
    refused = []
    if kafka.get("enable.idempotence", "true").strip().lower() == "false":
        refused.append("'kafka.enable.idempotence' cannot be false")
    if kafka.get("acks", "all").strip().lower() not in ("all", "-1"):
        refused.append("'kafka.acks' can only be all")
    return [f"option {what} with delivery=exactly-once: leave it out" for what in refused]
