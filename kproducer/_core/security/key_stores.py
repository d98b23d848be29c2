"""Reads certificates and private keys: PEM texts and files, and PKCS #12 and JKS stores.

Every error is a ConfigError that names the setting and shows neither a key nor a password. Knows no TLS.
Source: Kafka class ``DefaultSslEngineFactory``; KIP-651 (PEM).
"""

from __future__ import annotations

import base64
import re
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kproducer._core.security import jks
from kproducer.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

#: The markers around a PEM object, with its label. Text around the object does not matter, nor do its line
#: breaks. One expression for both markers would search the rest of the text for each BEGIN that has no END.
_PEM_BEGIN = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----")
_PEM_END = re.compile(r"-----END ([A-Z0-9 ]+)(?=-----)")
_DASHES = 5
_CERTIFICATE_LABELS = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")

_JCEKS_MAGIC = b"\xce\xce\xce\xce"


@attrs.frozen
class Identity:
    """A private key with its certificate chain, in PEM. The key may be encrypted.

    Attributes:
        source: the settings that it comes from, for error messages.
        password: of the key; empty: none was given.
        password_setting: where a missing or wrong password has to be corrected.
    """

    source: str
    chain: str
    key: str = attrs.field(repr=False)
    password: str = attrs.field(repr=False)
    password_setting: str


def read_file(setting: str, path: str) -> bytes:
    """The content of a file that a setting names."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {path!r}: {error.strerror or error}") from error
    except ValueError:  # the path has NUL characters or surrogates
        raise ConfigError(f"{setting}: expected the path of a file, got a text that cannot be one") from None


def certificates_in(setting: str, content: str | bytes, path: str = "") -> str:
    """The certificates in a PEM text, or in the content of a file, that must contain nothing secret."""
    objects = _pem_objects(content)
    if any(label.endswith("PRIVATE KEY") for label, _ in objects):
        where = f" in {path!r}" if path else " as well"
        raise ConfigError(
            f"{setting}: expected only certificates, found a private key{where}; a client's own"
            " certificate and key belong into ssl_certfile and ssl_keyfile, or into ssl_keystore_location"
        )
    found = _join(objects, _CERTIFICATE_LABELS)
    if not found:
        raise _no_certificate(setting, content, path)
    return found


def trusted_certificates(settings: Mapping[str, Any]) -> str:
    """The certificates of ``ssl_truststore_location``, in PEM."""
    setting, path = "ssl_truststore_location", settings["ssl_truststore_location"]
    content = read_file(setting, path)
    store_type = _store_type(setting, path, content, settings["ssl_truststore_type"])
    if store_type == "PEM":
        return certificates_in(setting, content, path)
    if store_type == "JKS":
        trusted = _open_jks(setting, path, content, "ssl_truststore_password", settings).certificates
        if not trusted:
            raise ConfigError(f"{setting}: {path!r} contains no trusted certificate")
        return "".join(_as_pem("CERTIFICATE", each) for each in trusted)
    store = _open_pkcs12(setting, path, content, "ssl_truststore_password", settings)
    found = [*([store.cert] if store.cert else []), *store.additional_certs]
    if not found:
        raise ConfigError(f"{setting}: {path!r} contains no certificate")
    return "".join(_to_pem(each.certificate) for each in found)


def identity_of_files(settings: Mapping[str, Any]) -> Identity:
    """The key and certificates of ``ssl_certfile`` and ``ssl_keyfile``."""
    content = read_file("ssl_certfile", settings["ssl_certfile"])
    key_setting = "ssl_keyfile" if settings["ssl_keyfile"] else "ssl_certfile"
    key_content = read_file(key_setting, settings[key_setting])
    return _identity("ssl_certfile", content, key_setting, key_content, "ssl_password", settings)


def identity_of_texts(settings: Mapping[str, Any]) -> Identity:
    """The key and certificates of ``ssl_keystore_key`` and ``ssl_keystore_certificate_chain``."""
    chain, key = settings["ssl_keystore_certificate_chain"], settings["ssl_keystore_key"]
    setting = "ssl_keystore_certificate_chain"
    return _identity(setting, chain, "ssl_keystore_key", key, "ssl_key_password", settings)


def identity_of_store(settings: Mapping[str, Any]) -> Identity:
    """The key and certificates of ``ssl_keystore_location``."""
    setting, path = "ssl_keystore_location", settings["ssl_keystore_location"]
    content = read_file(setting, path)
    store_type = _store_type(setting, path, content, settings["ssl_keystore_type"])
    if store_type == "PEM":
        return _identity(setting, content, setting, content, "ssl_key_password", settings)
    if store_type == "JKS":
        return _identity_of_jks(setting, path, content, settings)
    store = _open_pkcs12(setting, path, content, "ssl_keystore_password", settings)
    if store.key is None or store.cert is None:
        missing = "private key" if store.key is None else "certificate of its private key"
        raise ConfigError(f"{setting}: {path!r} contains no {missing}")
    from cryptography.hazmat.primitives import serialization

    key = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = "".join(_to_pem(each.certificate) for each in [store.cert, *store.additional_certs])
    return Identity(setting, chain, key.decode(), "", "ssl_keystore_password")


def _identity_of_jks(setting: str, path: str, content: bytes, settings: Mapping[str, Any]) -> Identity:
    store = _open_jks(setting, path, content, "ssl_keystore_password", settings)
    if not store.keys:
        raise ConfigError(f"{setting}: {path!r} contains no private key")
    entry = store.keys[0]
    if not entry.chain:
        raise ConfigError(f"{setting}: {path!r} contains no certificate of its private key")
    given = "ssl_key_password" if settings["ssl_key_password"] else "ssl_keystore_password"
    try:
        key = entry.decrypt(settings[given] or "")
    except jks.WrongPasswordError:
        problem = "is wrong" if settings[given] else "is missing"
        raise ConfigError(
            f"{given}: cannot decrypt the private key in {path!r} ({setting}): its password {problem}; a key"
            " with a password of its own needs ssl_key_password"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{setting}: cannot read {path!r}: {error}") from None
    chain = "".join(_as_pem("CERTIFICATE", each) for each in entry.chain)
    return Identity(setting, chain, _as_pem("PRIVATE KEY", key), "", given)


def _identity(
    chain_setting: str,
    chain: str | bytes,
    key_setting: str,
    key: str | bytes,
    password_setting: str,
    settings: Mapping[str, Any],
) -> Identity:
    certificates = _join(_pem_objects(chain), _CERTIFICATE_LABELS)
    if not certificates:
        raise _no_certificate(
            chain_setting, chain, settings[chain_setting] if isinstance(chain, bytes) else ""
        )
    keys = [text for label, text in _pem_objects(key) if label.endswith("PRIVATE KEY")]
    if not keys:
        advice = "; set ssl_keyfile to the file with the key" if key_setting == "ssl_certfile" else ""
        raise ConfigError(f"{key_setting}: found no private key ('-----BEGIN PRIVATE KEY-----'){advice}")
    source = " and ".join(dict.fromkeys((chain_setting, key_setting)))
    return Identity(source, certificates, keys[0], settings[password_setting], password_setting)


def _pem_objects(content: str | bytes) -> list[tuple[str, str]]:
    """The PEM objects in a text, each with its label, in the line breaks that OpenSSL requires."""
    text = content.decode("latin-1") if isinstance(content, bytes) else content
    ends: dict[str, deque[int]] = {}
    for end in _PEM_END.finditer(text):
        ends.setdefault(end[1], deque()).append(end.start())
    objects = []
    position = 0
    while (begin := _PEM_BEGIN.search(text, position)) is not None:
        label, start = begin[1], begin.end()
        later = ends.get(label, deque())
        while later and later[0] < start:
            later.popleft()
        if not later:
            position = start - _DASHES  # the next marker may begin with these dashes
            continue
        body = text[start : later[0]]
        position = later.popleft() + len(f"-----END {label}-----")
        if ":" in body:  # "Proc-Type: ..." of an encrypted key in the old format: the lines have a meaning
            inner = "\n".join(line.strip() for line in body.strip().splitlines())
            objects.append((label, f"-----BEGIN {label}-----\n{inner}\n-----END {label}-----\n"))
        else:
            objects.append((label, _pem_object(label, "".join(body.split()))))
    return objects


def _pem_object(label: str, data: str) -> str:
    lines = "\n".join(data[i : i + 64] for i in range(0, len(data), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def _join(objects: list[tuple[str, str]], labels: tuple[str, ...]) -> str:
    return "".join(text for label, text in objects if label in labels)


def _detect(content: str | bytes) -> str:
    """PEM, PKCS12, JKS, JCEKS, or empty if the content looks like none of them."""
    data = content.encode("latin-1", "replace") if isinstance(content, str) else content
    if data[:4] in (jks.MAGIC, _JCEKS_MAGIC):
        return "JKS" if data[:4] == jks.MAGIC else "JCEKS"
    if b"-----BEGIN " in data:
        return "PEM"
    return "PKCS12" if data[:1] == b"\x30" else ""


def _no_certificate(setting: str, content: str | bytes, path: str = "") -> ConfigError:
    store = setting.replace("cafile", "truststore_location").replace("certfile", "keystore_location")
    other = {
        "PKCS12": f"; the content is binary (DER or PKCS #12); for PKCS #12 set {store}",
        "JKS": f"; this is a Java key store (JKS); set {store}",
        "PEM": "; it contains something else",
    }
    found = other.get(_detect(content), "" if content else "; it is empty")
    where = f" in {path!r}" if path else ""
    return ConfigError(f"{setting}: found no PEM certificate ('-----BEGIN CERTIFICATE-----'){where}{found}")


def _store_type(setting: str, path: str, content: bytes, given: str) -> str:
    found = _detect(content)
    if found == "JCEKS":
        target = f"{Path(path).stem}.p12"
        raise ConfigError(
            f"{setting}: {path!r} is a Java key store of type JCEKS, which kproducer cannot read; convert it"
            f" to PKCS #12: keytool -importkeystore -srckeystore {Path(path).name} -destkeystore {target}"
            " -deststoretype PKCS12"
        )
    if not found:
        raise ConfigError(f"{setting}: {path!r} is neither PEM nor PKCS #12 nor JKS")
    type_setting = setting.replace("location", "type")
    # Java, too, reads either of PKCS #12 and JKS if the other one is configured.
    if given != "auto" and (given == "PEM") != (found == "PEM"):
        raise ConfigError(f"{type_setting}: expected {found}, which {path!r} contains, got {given}")
    return found


def _open_jks(
    setting: str, path: str, content: bytes, password_setting: str, settings: Mapping[str, Any]
) -> jks.JavaKeyStore:
    try:
        return jks.read_store(content, settings[password_setting] or "")
    except jks.WrongPasswordError:
        raise ConfigError(
            f"{password_setting}: cannot open {path!r} ({setting}): the password is wrong, or the file"
            " was changed"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{setting}: {path!r} is not a valid Java key store: {error}") from None


def _open_pkcs12(
    setting: str, path: str, content: bytes, password_setting: str, settings: Mapping[str, Any]
) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise ConfigError(
            f"{setting}: PKCS #12 stores need the package cryptography: pip install 'kproducer[pkcs12]', or"
            f" convert the store to PEM: openssl pkcs12 -in {Path(path).name} -out store.pem"
        ) from error
    password = settings[password_setting]
    try:
        return pkcs12.load_pkcs12(content, password.encode() if password else None)
    except ValueError:
        raise ConfigError(
            f"{password_setting}: cannot open {path!r} ({setting}): the password"
            f" {'is wrong' if password else 'is missing'}, or the file is not a valid PKCS #12 store"
        ) from None
    except UnsupportedAlgorithm as error:
        raise ConfigError(f"{setting}: {path!r} uses an algorithm that is not supported: {error}") from None


def _as_pem(label: str, der: bytes) -> str:
    return _pem_object(label, base64.b64encode(der).decode())


def _to_pem(certificate: Any) -> str:
    from cryptography.hazmat.primitives import serialization

    text: bytes = certificate.public_bytes(serialization.Encoding.PEM)
    return text.decode()
