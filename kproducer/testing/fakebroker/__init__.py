"""A strict, scripted Kafka cluster inside the test process, built on the generated messages.

Start with ``FakeCluster``. ``actions`` defines what a script may do with a request, and ``faults`` has the
usual scripts. ``connection.HANDLERS`` lists the APIs.
"""

from kproducer.testing.fakebroker.actions import (
    Bytes,
    Close,
    Gate,
    Hold,
    Reply,
    RequestContext,
    Silence,
    Stall,
    steps,
)
from kproducer.testing.fakebroker.batch_check import StoredRecord
from kproducer.testing.fakebroker.cluster import FakeCluster
from kproducer.testing.fakebroker.model import TopicOptions
from kproducer.testing.fakebroker.request_log import LoggedRequest

__all__ = [
    "Bytes",
    "Close",
    "FakeCluster",
    "Gate",
    "Hold",
    "LoggedRequest",
    "Reply",
    "RequestContext",
    "Silence",
    "Stall",
    "StoredRecord",
    "TopicOptions",
    "steps",
]
