"""The error codes that simulated brokers return without a reason in their state, by request."""

from __future__ import annotations

#: What Produce may be refused with: every retriable code, and those that end a batch, a producer id or a
#: producer. Not DUPLICATE_SEQUENCE_NUMBER, which says that the batch was written.
PRODUCE_REFUSALS = (
    *(-1, 2, 3, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16, 17, 19, 20, 21, 29, 31, 32, 45, 47, 48, 53, 56, 59, 60),
    *(72, 74, 75, 76, 77, 87, 90, 100, 120, 137),
)
#: What a leader may return although it has appended.
PRODUCE_AFTER_APPEND = (-1, 3, 6, 7, 13, 20, 46, 56)
#: Any coordinator: it is loading, moving, away or busy, or has a newer producer.
_COORDINATOR = (7, 14, 15, 16, 47, 51, 90, 120)
_FORGOTTEN = (49, 59)

#: Which codes a request may be refused with, by the name of its class in kproducer;
#: of Produce also those after an append.
CODES: dict[str, tuple[int, ...]] = {
    "Produce": tuple(sorted({*PRODUCE_REFUSALS, *PRODUCE_AFTER_APPEND})),
    "FindCoordinator": (-1, 7, 14, 15, 30, 53, 120),
    "InitProducerId": (*_COORDINATOR, 31, 50, 53),
    "AddPartitionsToTxn": (*_COORDINATOR, *_FORGOTTEN, -1, 29, 48, 55),
    "AddOffsetsToTxn": (*_COORDINATOR, *_FORGOTTEN, 30, 48),
    "TxnOffsetCommit": (*_COORDINATOR, *_FORGOTTEN, 12, 22, 25, 27, 29, 30, 69, 82, 113),
    "EndTxn": (*_COORDINATOR, *_FORGOTTEN, 48),
}
