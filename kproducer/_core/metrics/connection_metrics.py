"""ConnectionMetrics: requests, responses and bytes by node, and the connections of one client.

Source: Kafka class ``Selector`` (SelectorMetrics).
"""

from __future__ import annotations

from collections import defaultdict

from kproducer._core.metrics.windows import Series, Windows
from kproducer._core.runtime.clock import Clock


class NodeMetrics:
    """The traffic with one node, on all connections to it. The I/O thread adds, any thread reads.

    Attributes:
        requests: sizes of requests in bytes.
        responses: sizes of responses in bytes.
        latency: ms from a request to its response, for requests of the client's users.
    """

    def __init__(self, windows: Windows) -> None:
        self.requests = windows.series()
        self.responses = windows.series()
        self.latency = windows.series()


class ConnectionMetrics:
    """All traffic of one client. The I/O thread adds, any thread reads.

    Attributes:
        windows: of all series here.
        nodes: by node id as text; bootstrap servers have negative ids. Only the I/O thread looks an id up,
            which adds it. A node stays when it leaves the cluster.
        created, closed: connections that came up; connections and attempts that ended.
        polls: polls of the selector.
        transfers: connections on which a poll moved bytes.
        authenticated, reauthenticated: connections with TLS or SASL that became ready, for the first time and
            again.
        refused: connections that one side refused because of credentials or certificates.
    """

    def __init__(self, clock: Clock, windows: Windows | None = None) -> None:
        self.windows = windows = Windows(clock) if windows is None else windows
        self.nodes: dict[str, NodeMetrics] = defaultdict(lambda: NodeMetrics(windows))
        self.created = windows.series()
        self.closed = windows.series()
        self.polls = windows.series()
        self.transfers = windows.series()
        self.authenticated = windows.series()
        self.reauthenticated = windows.series()
        self.refused = windows.series()

    def count(self, series: Series) -> None:
        """Count an event that is too rare to be given the time."""
        series.add(1.0, self.windows.now())
