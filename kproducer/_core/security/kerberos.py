"""GSSAPI: authentication with Kerberos, by the operating system's library.

The first step of a conversation asks the KDC for a ticket, and may look up names: each runs on a short-lived
thread of its own, so that the I/O thread never waits. The other steps only compute. Kafka uses no security
layer of SASL: encryption is TLS's work.

With the system's library, krb5.conf, ticket caches, keytabs and DNS rules apply as in every other program.
Rejected: a library in the wheel, which reads the configuration differently, and running ``kinit`` as
librdkafka does. Importing this module needs the package ``gssapi``. It has no wheels for Linux, so it is an
extra.
Source: RFC 4752 (GSSAPI in SASL), KIP-12.
"""

from __future__ import annotations

import enum
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import attrs
import gssapi

from kproducer._core.security.sasl_mechanisms import SaslMechanism, shown_text
from kproducer.errors import AuthenticationError, NetworkError, printable

#: How long a first message may be used: it contains the time at which it was made, which brokers compare with
#: their clock.
_FRESH_S: Final = 60.0
#: What both sides say about security layers (RFC 4752): none, so that no message has a size.
_NO_LAYER: Final = 0x01
_LAYER_REPLY: Final = bytes((_NO_LAYER, 0, 0, 0))

#: Where Kerberos' error codes begin. Below: what to do, by the code's offset from it (MIT's ``krb5_err.et``).
_FIRST_CODE: Final = 2529638912
_NO_TICKET = (
    "there is no ticket: run kinit, set KRB5CCNAME to the ticket cache, or use sasl_kerberos_keytab with"
    " sasl_kerberos_principal"
)
_NO_KEY = "the keytab does not have a key of the principal: klist -k shows what it has"
_WRONG_KEY = "the keytab does not have the current key of the principal: export it again"
_TICKET_EXPIRED: Final = 32
_ADVICE: Final = {
    6: "the realm does not have the client's principal: check sasl_kerberos_principal",
    7: "the realm does not have the broker's principal SERVICE/HOST: check sasl_kerberos_service_name, and"
    " that the brokers advertise the host names of their principals (or set sasl_kerberos_domain_name)",
    14: "the KDC and this client have no encryption type in common: check permitted_enctypes in krb5.conf,"
    " and the keytab",
    24: _WRONG_KEY,
    31: _WRONG_KEY,
    _TICKET_EXPIRED: "the ticket has expired: run kinit, or use sasl_kerberos_keytab",
    37: "the clocks of this machine and of the KDC or broker differ by more than five minutes",
    141: _NO_TICKET,
    154: "krb5.conf has no KDC for the realm: add it to [realms], or set KRB5_CONFIG to the right file",
    156: "no KDC answers: check the realm in krb5.conf, and whether this machine may connect to port 88",
    181: _NO_KEY,
    195: _NO_TICKET,
    224: "krb5.conf has no default_realm: add it, or write the principal with its realm",
}


def _explained(error: gssapi.exceptions.GSSError, advice: dict[int, str] = _ADVICE) -> AuthenticationError:
    """The error in words. Called on the thread that raised it: the library keeps its texts per thread."""
    offset = error.min_code - _FIRST_CODE
    texts = error.get_all_statuses(error.min_code, False)
    if not 0 <= offset < 256:  # a code of the library, often without a useful text
        texts = [*error.get_all_statuses(error.maj_code, True), *texts]
        if isinstance(error, gssapi.exceptions.ExpiredCredentialsError):
            offset = _TICKET_EXPIRED
    what_to_do = f"; {advice[offset]}" if offset in advice else ""
    return AuthenticationError(f"Kerberos: {shown_text(', '.join(texts))}{what_to_do}")


class _Expected(enum.Enum):
    CONTEXT = "context"
    LAYER = "layer"
    END = "end"


@attrs.define
class GssapiConversation:
    """The client's side of a conversation: both prove who they are, and agree on no security layer."""

    _context: Any
    _first_message: bytes = attrs.field(repr=False)
    _expected: _Expected = attrs.field(default=_Expected.CONTEXT, init=False)

    def first_message(self) -> bytes:
        return self._first_message

    def answer(self, challenge: bytes) -> bytes | None:
        if self._expected is _Expected.END:
            return None
        try:
            return (
                self._continued(challenge) if self._expected is _Expected.CONTEXT else self._layer(challenge)
            )
        except gssapi.exceptions.GSSError as error:
            raise _explained(error) from None

    def _continued(self, challenge: bytes) -> bytes:
        if self._context.complete:
            raise AuthenticationError("Kerberos: the broker continues, but the authentication has ended")
        token: bytes | None = self._context.step(challenge)
        if self._context.complete:
            self._expected = _Expected.LAYER
        return token or b""

    def _layer(self, challenge: bytes) -> bytes:
        offered: bytes = self._context.unwrap(challenge).message
        if len(offered) != 4 or not offered[0] & _NO_LAYER:
            raise AuthenticationError(
                "Kerberos: the broker requires a security layer of SASL, which Kafka does not use; is this a"
                " Kafka broker?"
            )
        self._expected = _Expected.END
        reply: bytes = self._context.wrap(_LAYER_REPLY, False).message
        return reply


@attrs.frozen
class _Beginning:
    """The result of a first step."""

    result: GssapiConversation | AuthenticationError
    at_s: float


class GssapiMechanism(SaslMechanism):
    """GSSAPI. Thread-safe. ``close`` does nothing: a thread that still waits for a KDC ends by itself.

    Args:
        login: begins conversations; called on other threads, also on several at once.
        wakeup: called on another thread when ``begin`` has a result.
        monotonic_s: seconds.
    """

    name: Final = "GSSAPI"

    def __init__(
        self,
        login: KerberosLogin,
        wakeup: Callable[[], object],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._login = login
        self._wakeup = wakeup
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        # The threads that ask for tickets, by host. Guarded by _lock.
        self._begun: dict[str, _Beginning | None] = {}

    @property
    def identity(self) -> str:
        return self._login.identity

    def begin(self, host: str) -> GssapiConversation | None:
        """A conversation with ``host``; ``None`` while its first message is being made.

        Raises AuthenticationError if Kerberos refuses, with what it is missing; NetworkError if no thread can
        be started, which the next use tries again.
        """
        with self._lock:
            if host in self._begun:
                beginning = self._begun[host]
                if beginning is None:
                    return None
                del self._begun[host]
                if self._monotonic_s() - beginning.at_s < _FRESH_S:
                    if isinstance(beginning.result, AuthenticationError):
                        raise beginning.result
                    return beginning.result
            self._begun[host] = None
        thread = threading.Thread(target=self._begin, args=(host,), name="kproducer-gssapi", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the process has too many threads, or is ending
            with self._lock:
                del self._begun[host]
            raise NetworkError(f"no Kerberos ticket can be requested: {error}") from None
        return None

    def waits_for(self, host: str) -> str:
        """The KDC, while the first message to ``host`` is being made."""
        with self._lock:
            is_beginning = host in self._begun and self._begun[host] is None
        return "the KDC has not answered" if is_beginning else ""

    def _begin(self, host: str) -> None:
        try:
            result: GssapiConversation | AuthenticationError = self._login.begin(host)
        except AuthenticationError as error:
            result = error
        except Exception as error:
            result = AuthenticationError(f"Kerberos failed with {type(error).__name__}")
            result.__cause__ = error
        with self._lock:
            self._begun[host] = _Beginning(result, self._monotonic_s())
        self._wakeup()


class KerberosLogin:
    """Where tickets come from, and for whom they are. Thread-safe.

    Args:
        service_name, domain_name: of the brokers' principals; no domain name: the host of each broker.
        principal: of the client; empty: the one in the ticket cache, or the first one in the keytab.
        keytab: path; empty: a ticket cache is used.
        ticket_cache: name; empty: ``KRB5CCNAME``, or the system's default.

    Attributes:
        identity: who authenticates, in words, for messages.
    """

    _numbers = itertools.count(1)

    def __init__(
        self, service_name: str, domain_name: str, principal: str, keytab: str, ticket_cache: str
    ) -> None:
        self._service_name = service_name
        self._domain_name = domain_name
        self._principal = principal
        self._store: dict[str, str] | None = None
        self._advice = _ADVICE
        if keytab:
            # Tickets stay in this process; the library renews them from the keytab.
            self._store = {"client_keytab": keytab, "ccache": f"MEMORY:kproducer-{next(self._numbers)}"}
            self._advice = {**_ADVICE, 141: _NO_KEY, 195: _NO_KEY}
        elif ticket_cache:
            self._store = {"ccache": ticket_cache}
        # One thread asks the KDC for the client's ticket, the others find it in the cache.
        self._lock = threading.Lock()
        self.identity = f"principal {printable(principal)!r}" if principal else "the Kerberos ticket"

    def begin(self, host: str) -> GssapiConversation:
        """Get tickets and make the first message for ``host``. Blocks. Raises AuthenticationError."""
        host = self._domain_name or host.rstrip(".")
        target = f"{self._service_name}@{host}"
        try:
            with self._lock:
                credentials = self._credentials()
                self.identity = f"principal {printable(str(credentials.name))!r}"
            context = gssapi.SecurityContext(
                name=gssapi.Name(target, gssapi.NameType.hostbased_service),
                creds=credentials,
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity,
            )
            return GssapiConversation(context, context.step() or b"")
        except gssapi.exceptions.GSSError as error:
            raise _explained(error, self._advice) from None

    def _credentials(self) -> Any:
        name = None
        if self._principal:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(
            name=name, mechs=[gssapi.MechType.kerberos], usage="initiate", store=self._store
        )
