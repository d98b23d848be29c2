"""TlsTransport: a TLS connection over a non-blocking socket, with the standard library's ``ssl``.

The cryptography happens in an ``ssl.SSLObject`` between two memory buffers; this module moves the ciphertext
between them and the socket. It knows no settings: it gets a finished ``ssl.SSLContext``. Where ``native_tls``
allows it, compiled code takes over after the handshake; the code here is then its reference.

``send`` encrypts at most ``MAX_AHEAD_BYTES`` ahead of what the socket takes, and counts bytes only once all
of their ciphertext is in the socket. So a completed send means the same as without encryption, which matters
for ``acks=0`` and for the outcome of records when a connection breaks. Each call into ``ssl`` or the socket
gives the interpreter lock away, and next to a busy thread it takes a switch interval to get it back. So small
buffers are joined, and a chunk costs one call to encrypt and one to send.
Source: Kafka class ``SslTransportLayer``.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kproducer._core.network.transport_layer import TransportLayer, describe_os_error
from kproducer.errors import KafkaError, NetworkError, SslAuthenticationError, printable

if TYPE_CHECKING:
    from kproducer._core.network import _native_channel_io as native

#: The most plaintext whose ciphertext waits for the socket. Twice the usual socket buffer, so that one chunk
#: fills it; small enough for the CPU's cache.
MAX_AHEAD_BYTES: Final = 256 * 1024

#: The most ciphertext that one read takes from the socket.
_READ_SIZE_BYTES: Final = 256 * 1024

#: The most ciphertext that one call takes without a result. A peer can send records without content as fast
#: as they are read, and the caller has deadlines and other connections.
_LONGEST_READ_BYTES: Final = 4 * _READ_SIZE_BYTES

#: The first byte of a peer that speaks TLS: an alert or a handshake record.
_FIRST_RECORD_TYPES: Final = (0x15, 0x16)

#: OpenSSL's verification results (X509_V_ERR_...) with their own advice.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_WRONG_NAME: Final = (62, 64)  # host name, IP address

#: Alerts that say nothing about the identity of either side: the connection is tried again.
_TRANSIENT_ALERTS: Final = ("internal error", "user cancelled")

#: What brokers say of a client without a certificate.
_CLIENT_CERTIFICATE_ALERTS: Final = ("bad certificate", "certificate required", "handshake failure")

_CLIENT_CERTIFICATE_ADVICE: Final = (
    "; if the listener requires a client certificate (ssl.client.auth=required), set ssl_keystore_location,"
    " or ssl_certfile and ssl_keyfile, to one that the broker trusts"
)

#: What to do about a failure that OpenSSL reports on this side.
_ADVICE_ON_FAILURES: Final = {
    "NO_CIPHERS_AVAILABLE": "; OpenSSL allows no cipher suite of these TLS versions: use TLSv1.2 or"
    " TLSv1.3 in ssl_enabled_protocols, and check ssl_cipher_suites",
}

#: The most names of a certificate that an error shows.
_MOST_NAMES: Final = 8


class TlsTransport(TransportLayer):
    """A TLS connection. I/O thread only. ``TransportLayer`` documents the methods.

    ``close`` sends no close_notify: frames carry their length, and in a forked child it would end the
    connection of the parent. For the same reason the end of the stream without close_notify is an ordinary
    end.

    Args:
        sock: connecting, non-blocking.
        context: what to trust and what to present; decides whether the host name is verified.
        host: the host as the user or the cluster's metadata names it. It is verified, and sent for SNI unless
            it is an IP address.
        trust: what the context trusts, in words, for error messages.
        lacks_certificate: the context is known to present no client certificate.
    """

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        host: str,
        trust: str = "",
        *,
        lacks_certificate: bool = False,
    ) -> None:
        super().__init__(sock)
        self._host = host
        self._trust = trust
        self._lacks_certificate = lacks_certificate
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        try:
            self._tls = context.wrap_bio(
                self._incoming, self._outgoing, server_hostname=server_name(host) or None
            )
        except ValueError as error:  # also UnicodeError
            raise NetworkError(f"the host name {host!r} cannot be used for TLS: {error}") from error
        self._is_ready = False
        self._is_unproven = True  # no application data has arrived: TLS 1.3 servers verify us only now
        self._head = b""  # the peer's first byte
        self._has_ended = False
        self._failure: KafkaError | OSError | None = None  # of a read; raised after all bytes before it
        self._ciphertext = memoryview(b"")  # produced, and not taken by the socket yet
        self._ahead = 0  # the plaintext bytes in it, which were not counted yet
        self._session: native.TlsSession | None = None  # moves the bytes, if native code does

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    @property
    def wants_write(self) -> bool:
        if self._session is not None:
            return False
        return self._ciphertext.nbytes > 0 or self._outgoing.pending > 0

    def handshake(self) -> None:
        """Raises SslAuthenticationError if either side refuses the other, NetworkError if the peer leaves."""
        read = 0
        try:
            while not self._is_ready:
                is_done = False
                try:
                    self._tls.do_handshake()
                    is_done = True
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    # The alert close_notify: the peer is being stopped, and refuses nobody.
                    raise NetworkError(self._describe_ended_handshake("")) from None
                except ssl.SSLError as error:
                    with contextlib.suppress(OSError):
                        self._flush()  # the alert
                    raise self._describe_handshake_error(error) from error
                is_sent = self._flush()
                if is_done:
                    self._is_ready = is_sent
                    return
                if read >= _LONGEST_READ_BYTES:
                    return  # the socket may have more: the next poll reports it again
                read += self._receive()
                if self._has_ended:
                    raise NetworkError(self._describe_ended_handshake(""))
        except BlockingIOError:
            return
        except OSError as error:
            raise NetworkError(self._describe_ended_handshake(f" ({describe_os_error(error)})")) from error

    def send(self, buffers: Sequence[memoryview]) -> int:
        """Encrypt and send. ``buffers`` begins with the bytes that an earlier call got and did not count."""
        counted = 0
        total = sum(piece.nbytes for piece in buffers)
        while self._flush():
            counted += self._ahead
            self._ahead = 0
            if counted == total:
                break
            try:
                self._ahead = self._tls.write(_chunk(buffers, counted, MAX_AHEAD_BYTES))
            except ssl.SSLError as error:
                raise self._describe_later_error(_reason(error)) from error
        return counted

    def receive_into(self, buffer: memoryview) -> int:
        read = 0
        while True:
            filled = self._decrypt(buffer)
            if filled:
                return filled
            if self._failure is not None:
                raise self._failure
            if self._has_ended:
                return 0
            if read >= _LONGEST_READ_BYTES:
                raise BlockingIOError
            read += self._receive()

    @property
    def has_buffered_bytes(self) -> bool:
        if self._session is not None:
            return False
        return self._has_encrypted_bytes or self._has_ended or self._failure is not None

    def attach(self, sock: native.NativeSocket) -> None:
        from kproducer._core.network.native_tls import new_session

        try:
            self._session = new_session(self._tls, self._incoming, self._outgoing)
        except ValueError as error:
            raise NetworkError(
                f"native code cannot use this TLS connection: {error}; set the environment variable"
                " KPRODUCER_NATIVE_TLS=0"
            ) from error
        sock.encrypt(self._session)

    def native_error(self, code: int) -> KafkaError | OSError:
        if self._session is not None:
            self._is_unproven = not self._session.has_received
            if self._session.failure:
                return self._describe_later_error(self._session.failure)
        return super().native_error(code)

    # -- inside --------------------------------------------------------------------------------------------

    @property
    def _has_encrypted_bytes(self) -> bool:
        # When a part of a record is read, it moves from _incoming into OpenSSL, and neither of them counts
        # it.
        return self._incoming.pending > 0 or self._tls.pending() > 0

    def _decrypt(self, buffer: memoryview) -> int:
        """Fill ``buffer`` as far as complete records have arrived. An error is raised by the next read."""
        filled = 0
        try:
            while filled < buffer.nbytes and self._has_encrypted_bytes and not self._has_ended:
                count = _read_into(self._tls, buffer[filled:])
                self._has_ended = not count  # close_notify
                filled += count
                self._is_unproven = False
        except ssl.SSLWantReadError:
            pass  # the rest of a record has not arrived, or the record was a session ticket
        except ssl.SSLError as error:
            self._failure = self._describe_later_error(_reason(error))
        if self._outgoing.pending:
            # The answer to a key update, or an alert. If the socket is full, it goes before the next send.
            with contextlib.suppress(OSError):
                self._flush()
        return filled

    def _receive(self) -> int:
        """Take ciphertext from the socket; returns the byte count.

        Raises OSError: BlockingIOError if there is none.
        """
        data = self._socket.recv(_READ_SIZE_BYTES)
        self._has_ended = not data
        self._head = self._head or data[:1]
        self._incoming.write(data)
        return len(data)

    def _flush(self) -> bool:
        """Send the ciphertext; returns whether the socket took all of it. Raises OSError."""
        if not self._ciphertext:
            self._ciphertext = memoryview(self._outgoing.read())
        while self._ciphertext:
            try:
                sent = self._socket.send(self._ciphertext)
            except BlockingIOError:
                return False
            is_short = sent < self._ciphertext.nbytes
            self._ciphertext = self._ciphertext[sent:]
            if is_short:
                return False  # the socket is full: another system call could only confirm it
            self._ciphertext = memoryview(self._outgoing.read())
        return True

    # -- errors --------------------------------------------------------------------------------------------

    def _describe_handshake_error(self, error: ssl.SSLError) -> KafkaError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return SslAuthenticationError(self._describe_verification_error(error))
        if self._head and self._head[0] not in _FIRST_RECORD_TYPES:
            return SslAuthenticationError(
                "the peer's answer to the TLS handshake is not TLS: this is probably a PLAINTEXT or"
                " SASL_PLAINTEXT listener; use the port of an SSL or SASL_SSL listener, or set"
                " security_protocol to what this one speaks"
            )
        alert = _alert(_reason(error))
        if alert is None:
            return SslAuthenticationError(
                f"the TLS handshake failed: {_reason(error)}{_ADVICE_ON_FAILURES.get(error.reason or '', '')}"
            )
        text = f"the broker ended the TLS handshake with the alert {alert!r}"
        if alert in _TRANSIENT_ALERTS:
            return NetworkError(text)
        return SslAuthenticationError(text + _advice_on_alert(alert))

    def _describe_later_error(self, reason: str) -> KafkaError | OSError:
        alert = _alert(reason)
        if alert is not None and self._is_unproven and alert not in _TRANSIENT_ALERTS:
            # With TLS 1.3 the client's handshake ends before the server has verified its certificate.
            return SslAuthenticationError(
                f"the broker ended the TLS handshake with the alert {alert!r}{_advice_on_alert(alert)}"
            )
        return OSError(errno.ECONNABORTED, f"TLS failed: {reason}")

    def _describe_ended_handshake(self, how: str) -> str:
        text = f"the broker closed the connection during the TLS handshake{how}"
        if self._head:
            # Not every server sends an alert, and a reset can overtake it.
            return text + (_CLIENT_CERTIFICATE_ADVICE if self._lacks_certificate else "")
        return (
            f"{text}, without an answer: this is probably a PLAINTEXT or SASL_PLAINTEXT listener; use the"
            " port of an SSL or SASL_SSL listener, or set security_protocol to what this one speaks"
        )

    def _describe_verification_error(self, error: ssl.SSLCertVerificationError) -> str:
        certificate = _certificate_of(self._tls)
        names = _names_in(certificate)
        text = f"the certificate of {self._host!r} is not accepted: "
        if error.verify_code in _WRONG_NAME:
            return (
                f"{text}it is valid for {names or 'other names'}, not for {self._host!r}; connect to a name"
                " in the certificate, or give the broker a certificate with the name that it advertises"
                " (ssl_endpoint_identification_algorithm='' accepts any name)"
            )
        of = f" (a certificate for {names})" if names else ""
        if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
            begin, end = certificate.get("notBefore"), certificate.get("notAfter")
            valid = f"; the broker's own is valid from {begin} to {end}" if begin else ""
            return f"{text}{error.verify_message}{of}{valid}; renew it, or correct this machine's clock"
        trust = f"; trusted are {self._trust}" if self._trust else ""
        return (
            f"{text}{error.verify_message}{of}{trust}; set ssl_cafile or ssl_truststore_location to the"
            " certificate of the authority that issued it"
        )


def server_name(host: str) -> str:
    """The name to verify and to send: without the dot of an absolute name, and without an IPv6 zone."""
    name = host.removesuffix(".")
    return name.partition("%")[0] if ":" in name else name


def _read_into(tls: ssl.SSLObject, buffer: memoryview) -> int:
    # The type stubs say that it returns bytes.
    count: Any = tls.read(buffer.nbytes, buffer)
    return int(count)


def _chunk(buffers: Sequence[memoryview], skip: int, size: int) -> bytes | memoryview:
    """Up to ``size`` bytes of the buffers after the first ``skip``, in one piece."""
    pieces: list[memoryview] = []
    for buffer in buffers:
        if skip >= buffer.nbytes:
            skip -= buffer.nbytes
            continue
        pieces.append(buffer[skip : skip + size])
        skip = 0
        size -= pieces[-1].nbytes
        if not size:
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's reason in lower-case words."""
    return error.reason.replace("_", " ").lower() if error.reason else describe_os_error(error)


def _alert(reason: str) -> str | None:
    """The alert that the peer sent, for example ``certificate required``; ``None``: the error is ours."""
    _, found, alert = reason.partition("alert ")
    return alert if found else None


def _advice_on_alert(alert: str) -> str:
    if alert in _CLIENT_CERTIFICATE_ALERTS:
        return _CLIENT_CERTIFICATE_ADVICE
    if alert in ("unknown ca", "certificate unknown", "certificate expired", "certificate revoked"):
        return "; it does not accept the certificate of this client (ssl_keystore_location, ssl_certfile)"
    if alert == "protocol version":
        return "; it supports none of the TLS versions in ssl_enabled_protocols"
    return ""


def _certificate_of(tls: ssl.SSLObject) -> dict[str, Any]:
    """The fields of the peer's certificate although it was not accepted; empty if ``ssl`` does not tell."""
    # ``getpeercert`` has only certificates that were accepted. Public from Python 3.13 on, without fields.
    try:
        found: dict[str, Any] = tls._sslobj.get_unverified_chain()[0].get_info()  # type: ignore[attr-defined]
    except Exception:
        return {}
    return found


def _names_in(certificate: dict[str, Any]) -> str:
    """The host names and addresses in a certificate, comma-separated; empty if there are none."""
    names = [name for kind, name in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    if not names:
        subject = certificate.get("subject", ())
        names = [name for part in subject for kind, name in part if kind == "commonName"]
    shown = ", ".join(printable(str(name)) for name in names[:_MOST_NAMES])
    return shown + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")
