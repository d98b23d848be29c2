"""TlsSettings: the ``ssl_`` settings of a producer as an ``ssl.SSLContext``.

Contexts come from ``ssl``; this module decides what they trust and present. New connections use the files'
present contents: certificates can be replaced while the producer runs. Contents are compared, not times,
because Kubernetes replaces files by moving a symbolic link.
Source: Kafka class ``DefaultSslEngineFactory``; the names of kafka-python.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import tempfile
from collections.abc import Iterator
from typing import Any, Final

from kproducer._core.config.producer_config import SETTINGS, ProducerConfig
from kproducer._core.network.channel_io import ChannelIo
from kproducer._core.network.native_tls import channel_io_for
from kproducer._core.network.tls_transport import TlsTransport
from kproducer._core.runtime.clock import Clock
from kproducer._core.runtime.guarded_logger import GuardedLogger, LogRepeats
from kproducer._core.security import key_stores
from kproducer._core.security.key_stores import Identity
from kproducer.errors import ConfigError

_log = GuardedLogger(__name__)

#: Each says what to trust; at most one is set.
_TRUST_SETTINGS: Final = ("ssl_cafile", "ssl_truststore_location", "ssl_truststore_certificates")

_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}

#: Where Linux distributions and other systems keep their certificates. A Python that was built elsewhere may
#: look in other places.
_SYSTEM_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)

_TLS_13_SUITES: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)

#: How long an equal failure of a reload is not logged again.
_QUIET_MS: Final = 60_000


class TlsSettings:
    """What a producer trusts and presents. I/O thread only, after construction.

    Args:
        config: with ``security_protocol`` SSL or SASL_SSL.
        clock: for repeated log entries.

    Attributes:
        trust: the trusted certificates, in words, for error messages.

    Raises:
        ConfigError: a file cannot be read, or settings contradict each other.
    """

    def __init__(self, config: ProducerConfig, clock: Clock) -> None:
        self._settings = {name: getattr(config, name) for name in SETTINGS if name.startswith("ssl_")}
        self._clock = clock
        self._repeats = LogRepeats(_QUIET_MS)
        self.trust = "the certificates of ssl_context"
        # It is not known whether the application's own context has a certificate.
        self._lacks_certificate = False
        self._contents: tuple[bytes, ...] = ()
        if config.ssl_context is not None:
            _check_only_context(self._settings)
            self._context: ssl.SSLContext = config.ssl_context
            return
        _check_contradictions(self._settings)
        self._contents = self._read_files()
        self._context = self._new_context()

    def new_transport(self, sock: socket.socket, host: str) -> TlsTransport:
        """A TLS connection to ``host`` over a connecting socket: a ``TransportFactory``."""
        context = self.context()
        return TlsTransport(sock, context, host, self.trust, lacks_certificate=self._lacks_certificate)

    def channel_io(self) -> type[ChannelIo]:
        """What moves the bytes of these transports."""
        return channel_io_for(self._context)

    def context(self) -> ssl.SSLContext:
        """The context for a new connection. If changed files cannot be used, the one before."""
        try:
            contents = self._read_files()
            if contents != self._contents:
                self._context = self._new_context()
                self._contents = contents
                _log.info("New connections use the changed files of %s", ", ".join(self._file_settings()))
        except ConfigError as error:
            suffix = self._repeats.suffix(str(error), self._clock.monotonic_ms())
            if suffix is not None:
                _log.error("New connections still use the certificates read before: %s%s", error, suffix)
        return self._context

    def _file_settings(self) -> list[str]:
        """The settings that name files, whose contents are compared for each new connection."""
        return [name for name, value in self._settings.items() if value and SETTINGS[name].kind == "path"]

    def _read_files(self) -> tuple[bytes, ...]:
        return tuple(key_stores.read_file(name, self._settings[name]) for name in self._file_settings())

    def _new_context(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = (
            settings["ssl_check_hostname"] and settings["ssl_endpoint_identification_algorithm"] != ""
        )
        # Common names count, as in Java and librdkafka: certificates that were made for Kafka often have no
        # alternative names. docs/decisions/0051-limits-for-peers.md
        context.hostname_checks_common_name = True
        # Java's clients refuse renegotiation, too.
        context.options |= ssl.OP_NO_RENEGOTIATION
        _set_versions(context, settings["ssl_enabled_protocols"])
        _set_cipher_suites(context, settings["ssl_cipher_suites"])
        self.trust = _load_trusted(context, settings)
        if settings["ssl_crlfile"]:
            _load_revoked(context, settings["ssl_crlfile"])
        identity = _identity(settings)
        self._lacks_certificate = identity is None
        if identity is not None:
            _load_identity(context, identity)
        return context


# -- contradictions ------------------------------------------------------------------------------------


def _check_only_context(settings: dict[str, Any]) -> None:
    others = [
        name for name, value in settings.items() if name != "ssl_context" and value != SETTINGS[name].default
    ]
    if others:
        raise ConfigError(
            f"ssl_context: expected no other ssl_ setting beside it, got {', '.join(others)}; configure the"
            " context itself, for example with load_verify_locations() and load_cert_chain()"
        )


def _check_contradictions(settings: dict[str, Any]) -> None:
    def check_one_of(*choices: str) -> None:
        given = [name for name in choices if settings[name]]
        if len(given) > 1:
            raise ConfigError(f"{given[1]}: contradicts {given[0]}; set only one of them")

    def check_needs(name: str, *needed: str) -> None:
        if settings[name] and not any(settings[each] for each in needed):
            raise ConfigError(f"{name}: has no effect without {' or '.join(needed)}; set that as well")

    check_one_of(*_TRUST_SETTINGS)
    check_one_of("ssl_certfile", "ssl_keystore_location", "ssl_keystore_certificate_chain")
    check_needs("ssl_keyfile", "ssl_certfile")
    check_needs("ssl_password", "ssl_certfile")
    check_needs("ssl_keystore_key", "ssl_keystore_certificate_chain")
    check_needs("ssl_keystore_certificate_chain", "ssl_keystore_key")
    check_needs("ssl_key_password", "ssl_keystore_key", "ssl_keystore_location")
    check_needs("ssl_keystore_password", "ssl_keystore_location")
    check_needs("ssl_truststore_password", "ssl_truststore_location")
    for kind, text in (("keystore", "ssl_keystore_key"), ("truststore", "ssl_truststore_certificates")):
        if settings[text] and settings[f"ssl_{kind}_type"] not in ("auto", "PEM"):
            given = settings[f"ssl_{kind}_type"]
            raise ConfigError(f"ssl_{kind}_type: expected PEM because {text} is set, got {given}")


# -- the parts of a context ----------------------------------------------------------------------------


def _set_versions(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        known, found = ", ".join(_VERSIONS), ", ".join(unknown) or "none"
        raise ConfigError(f"ssl_enabled_protocols: expected one or more of {known}, got {found}")
    versions = sorted(_VERSIONS[name] for name in names)
    between = [name for name, each in _VERSIONS.items() if versions[0] < each < versions[-1]]
    left_out = [name for name in between if name not in names]
    if left_out:
        raise ConfigError(
            f"ssl_enabled_protocols: expected versions without a gap, got {', '.join(names)}; add"
            f" {', '.join(left_out)}"
        )
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _set_cipher_suites(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    if not names:
        return
    for_13 = _TLS_13_SUITES.intersection(names)
    others = [name for name in names if name not in for_13]
    if for_13 and context.maximum_version >= ssl.TLSVersion.TLSv1_3 and for_13 != _TLS_13_SUITES:
        set_suites = getattr(context, "set_ciphersuites", None)  # from Python 3.15 on
        if set_suites is None:
            missing = ", ".join(sorted(_TLS_13_SUITES - for_13))
            raise ConfigError(
                f"ssl_cipher_suites: this Python cannot restrict the suites of TLS 1.3; add {missing}, or use"
                " only TLSv1.2 in ssl_enabled_protocols"
            )
        set_suites(":".join(name for name in names if name in for_13))
    if not for_13:
        context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2)
    elif not others:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if context.minimum_version > context.maximum_version:
        raise ConfigError("ssl_cipher_suites: contains no suite of the versions in ssl_enabled_protocols")
    for name in others:
        try:
            context.set_ciphers(_openssl_name(name))
        except ssl.SSLError as error:
            raise ConfigError(f"ssl_cipher_suites: OpenSSL does not know or support {name!r}") from error
    if others:
        context.set_ciphers(":".join(map(_openssl_name, others)))


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2 or older, from Java's (IANA's); other names are returned."""
    found = re.fullmatch(r"(?:TLS|SSL)_(\w+)_WITH_(\w+)_(SHA\d*|MD5)", suite)
    if found is None:
        chacha = re.fullmatch(r"TLS_(\w+)_WITH_CHACHA20_POLY1305(?:_SHA256)?", suite)
        return f"{chacha[1].replace('_', '-')}-CHACHA20-POLY1305" if chacha else suite
    exchange, cipher, digest = found.groups()
    if cipher == "CHACHA20_POLY1305":
        return f"{exchange.replace('_', '-')}-CHACHA20-POLY1305"
    cipher = re.sub(r"^(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher).removesuffix("_CBC")
    exchange = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    return f"{exchange}{cipher.replace('_', '-')}-{digest}"


def _load_trusted(context: ssl.SSLContext, settings: dict[str, Any]) -> str:
    """Load what brokers' certificates are verified with; returns it in words."""
    setting = next((name for name in _TRUST_SETTINGS if settings[name]), None)
    if setting is None:
        return _load_system_store(context)
    where = f"the certificates in {settings[setting]!r} ({setting})"
    if setting == "ssl_cafile":
        content = key_stores.read_file(setting, settings[setting])
        text = key_stores.certificates_in(setting, content, settings[setting])
    elif setting == "ssl_truststore_location":
        text = key_stores.trusted_certificates(settings)
    else:
        where = f"the certificates in {setting}"
        text = key_stores.certificates_in(setting, settings[setting])
    _check_ascii(setting, text)
    try:
        context.load_verify_locations(cadata=text)
    except ssl.SSLError as error:
        raise ConfigError(f"{setting}: a certificate is not valid: {_reason(error)}") from error
    return where


def _load_system_store(context: ssl.SSLContext) -> str:
    """Load the certificates that the operating system trusts, or else certifi's."""
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    paths = ssl.get_default_verify_paths()
    tried = [path for path in (paths.cafile, paths.capath) if path]
    has_folder = False
    if paths.capath:
        with contextlib.suppress(OSError):
            has_folder = bool(os.listdir(paths.capath))
    # Files in a folder are read only during a handshake.
    if context.cert_store_stats()["x509_ca"] or has_folder:
        return f"the system's certificates ({', '.join(tried)})"
    for path in _SYSTEM_BUNDLES:
        tried.append(path)
        with contextlib.suppress(OSError):
            context.load_verify_locations(path)
            return f"the system's certificates ({path})"
    try:
        import certifi
    except ImportError:
        raise ConfigError(
            f"ssl_cafile: expected the certificates to trust, got none, and the system has none in"
            f" {', '.join(tried)}; set ssl_cafile or ssl_truststore_location, or install certifi"
        ) from None
    context.load_verify_locations(certifi.where())
    return f"the certificates of certifi ({certifi.where()})"


def _load_revoked(context: ssl.SSLContext, path: str) -> None:
    content = key_stores.read_file("ssl_crlfile", path)
    if b"-----BEGIN X509 CRL-----" not in content:
        raise ConfigError(f"ssl_crlfile: found no revocation list ('-----BEGIN X509 CRL-----') in {path!r}")
    try:
        context.load_verify_locations(path)
    except OSError as error:  # also SSLError
        raise ConfigError(f"ssl_crlfile: {path!r} is not valid: {_reason(error)}") from error
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _identity(settings: dict[str, Any]) -> Identity | None:
    if settings["ssl_certfile"]:
        return key_stores.identity_of_files(settings)
    if settings["ssl_keystore_location"]:
        return key_stores.identity_of_store(settings)
    if settings["ssl_keystore_key"]:
        return key_stores.identity_of_texts(settings)
    return None


def _load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    def password() -> str:
        # This function is always passed, because without it OpenSSL would ask for the password on the
        # terminal.
        if not identity.password:
            raise ConfigError(f"{identity.password_setting}: the private key is encrypted; set its password")
        return identity.password

    text = identity.chain + identity.key
    _check_ascii(identity.source, text)
    with _temporary_file(text) as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            raise ConfigError(_describe_identity_error(identity, error)) from error


def _check_ascii(source: str, text: str) -> None:
    if not text.isascii():
        raise ConfigError(f"{source}: a certificate or private key has characters other than ASCII")


def _reason(error: Exception) -> str:
    """OpenSSL's reason, or the error's own text."""
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)


def _describe_identity_error(identity: Identity, error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    if "MISMATCH" in reason:
        return f"{identity.source}: the private key does not belong to the certificate"
    if identity.password and ("BAD_DECRYPT" in reason or "DECRYPT" in reason or "PEM" in str(error)):
        return f"{identity.password_setting}: the private key cannot be decrypted; the password may be wrong"
    return f"{identity.source}: the certificate or private key is not valid: {reason}"


@contextlib.contextmanager
def _temporary_file(text: str) -> Iterator[str]:
    """A file with this text: ``ssl`` reads keys only from files. On Linux it exists in memory only."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("kproducer-key")
        with open(descriptor, "w", encoding="ascii") as memory:
            memory.write(text)
            memory.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.TemporaryDirectory() as folder:  # only this user can read it
        path = os.path.join(folder, "key.pem")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        yield path
