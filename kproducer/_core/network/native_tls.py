"""Decides whether compiled code may use the ``SSL`` objects inside of the standard library's ``ssl``.

Where ``ssl`` keeps them is not public. So this module tries everything that the compiled code needs on a
connection in memory, once per producer, and on any doubt TLS connections use ``PortableChannelIo``.
``TlsSession`` compares the pointers again for each connection.
Source: ours; docs/decisions/0036-native-tls.md
"""

from __future__ import annotations

import os
import ssl
import sys
from typing import TYPE_CHECKING

from kproducer._core.network.channel_io import (
    ChannelIo,
    NativeChannelIo,
    PlaintextChannelIo,
    PortableChannelIo,
)
from kproducer._core.runtime.guarded_logger import GuardedLogger

if TYPE_CHECKING or NativeChannelIo is PlaintextChannelIo:
    from kproducer._core.network import _native_channel_io as native
else:
    native = None

_log = GuardedLogger(__name__)

#: The versions whose layout is known. Others use the portable path until somebody has looked at them.
_KNOWN_VERSIONS = ((3, 10), (3, 11), (3, 12), (3, 13), (3, 14), (3, 15))

#: A fatal alert, handshake_failure, as the peer's first record.
_REFUSAL = b"\x15\x03\x01\x00\x02\x02\x28"

_SSL_ERROR_SSL = 1
_SSL_ERROR_WANT_READ = 2


def channel_io_for(context: ssl.SSLContext) -> type[ChannelIo]:
    """How connections of this context move their bytes: natively if all that this relies on was proven."""
    reason = why_not(context)
    if reason:
        _log.debug("TLS connections use the portable I/O: %s", reason)
        return PortableChannelIo
    return NativeChannelIo


def why_not(context: ssl.SSLContext) -> str:
    """Why compiled code cannot use connections of this context; empty: it can."""
    if native is None:
        return "the native code is not in use"
    if os.environ.get("KPRODUCER_NATIVE_TLS") == "0":
        return "KPRODUCER_NATIVE_TLS=0"
    if sys.version_info[:2] not in _KNOWN_VERSIONS or hasattr(sys, "gettotalrefcount"):
        return "the layout of this Python's ssl objects is not known"
    if not ssl.OPENSSL_VERSION.startswith("OpenSSL "):
        return f"ssl uses {ssl.OPENSSL_VERSION}"
    try:
        _check(context)
    except Exception as error:
        return f"the check failed: {error}"
    return ""


def _check(context: ssl.SSLContext) -> None:
    """Raise an exception unless native calls and ``ssl`` see the same connection."""
    import _ssl

    path = getattr(_ssl, "__file__", None)
    if not path:
        raise ValueError("OpenSSL is linked into the interpreter")
    if native.load_openssl(path) != ssl.OPENSSL_VERSION_NUMBER:
        raise ValueError("its functions were not found in the libraries of ssl")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="check.invalid")
    session = new_session(tls, incoming, outgoing)
    # The first write begins the handshake.
    _expect(session.write(b"data"), -_SSL_ERROR_WANT_READ)
    pending = outgoing.pending
    hello = session.take(3)
    _expect((len(hello), hello[0]), (pending, 0x16))
    _expect(outgoing.read(), hello[3:])
    _expect(session.read(), -_SSL_ERROR_WANT_READ)
    session = new_session(tls, incoming, outgoing)
    _expect(session.feed(_REFUSAL), len(_REFUSAL))
    _expect(incoming.pending, len(_REFUSAL))
    _expect(session.read(), -_SSL_ERROR_SSL)
    _expect("handshake failure" in session.failure, True)
    _expect(incoming.pending, 0)


def new_session(tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> native.TlsSession:
    """A native session of a connection. Raises ValueError if its objects are not laid out as expected."""
    import _ssl

    inner = tls._sslobj  # type: ignore[attr-defined]
    for each, expected in (
        (inner, _ssl._SSLSocket),  # type: ignore[attr-defined]
        (incoming, _ssl.MemoryBIO),
        (outgoing, _ssl.MemoryBIO),
    ):
        if type(each) is not expected:
            raise ValueError(f"expected {expected.__name__}, got {type(each).__name__}")
    if not isinstance(inner.context, _ssl._SSLContext):
        raise ValueError(f"expected a context of ssl, got {type(inner.context).__name__}")
    return native.TlsSession(inner, incoming, outgoing)


def _expect(found: object, expected: object) -> None:
    if found != expected:
        raise ValueError(f"expected {expected!r}, got {found!r}")
