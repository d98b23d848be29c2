"""Errors that the client itself tells apart; the application sees their base classes, or none of them.

Not in the modules that raise them: mypyc compiles those, and compiled subclasses of interpreted exceptions
cannot be copied.
"""

from __future__ import annotations

from kproducer.errors import DisconnectedError, IllegalStateError, RemoteProtocolError


class CorrelationIdMismatchError(RemoteProtocolError):
    """The response answers another request than the oldest one in flight."""


class IdleDisconnectError(DisconnectedError):
    """This client closed the connection because it was idle."""


class TlsListenerError(RemoteProtocolError):
    """The peer answered in TLS."""


class PendingOperationError(IllegalStateError):
    """Another transactional call has timed out and is not done yet."""
