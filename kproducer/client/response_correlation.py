"""Which request a received frame answers, and whether it may be believed to.

Brokers answer in order on a connection, so it is the oldest request in flight, or a stray answer to a request
that expects none. Anything else means that the connection is out of step. Knows no states and closes nothing.
Source: Kafka's ``NetworkClient`` (handleCompletedReceives), with the checks it leaves to exceptions.
"""

from __future__ import annotations

from typing import Any

from kproducer.client.in_flight_requests import InFlightRequest, InFlightRequests
from kproducer.client.unanswered_requests import UnansweredRequests
from kproducer.errors import RemoteProtocolError
from kproducer.network.network_receive import NetworkReceive
from kproducer.protocol.responses import CorrelationIdMismatchError, parse_response


class ResponseCorrelation:
    """Finds the request of a response. I/O thread only.

    Args:
        in_flight: requests that wait for an answer; only read.
        unanswered: requests that expect none; stray answers to them are forgiven once.
    """

    __slots__ = ("_in_flight", "_unanswered")

    def __init__(self, in_flight: InFlightRequests, unanswered: UnansweredRequests) -> None:
        self._in_flight = in_flight
        self._unanswered = unanswered

    def request_of(self, receive: NetworkReceive, broker: str) -> InFlightRequest | None:
        """The request that is next to be answered; None when the frame is a stray answer to be dropped.

        Raises RemoteProtocolError for an answer to nothing, or to a request that was not wholly sent.
        """
        node_id, payload = receive
        pending = self._in_flight.oldest(node_id)
        if pending is None or not pending.request.expect_response:
            if self._unanswered.take(node_id, payload):
                return None
            raise RemoteProtocolError(
                f"{broker} sent a response of {len(payload)} bytes that nothing asked for"
            )
        if not pending.send.completed:
            # Taking it would give the record buffers away while the rest of them still has to be written.
            raise RemoteProtocolError(
                f"{broker} answered a request of which {pending.send.remaining_bytes} bytes were not sent yet"
            )
        return pending

    def parse(self, receive: NetworkReceive, pending: InFlightRequest) -> Any | None:
        """The decoded answer to ``pending``; None when the frame is a stray answer to be dropped.

        Raises RemoteProtocolError when it cannot be read, or has the correlation id of nothing known.
        """
        node_id, payload = receive
        request = pending.request
        try:
            return parse_response(request.api_key, pending.api_version, request.correlation_id, payload)
        except CorrelationIdMismatchError:
            if self._unanswered.take(node_id, payload):
                return None
            raise
