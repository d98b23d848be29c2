"""Reads Java key stores (JKS): certificates, and private keys with their chains.

A reader of our own, because the package pyjks has had no release since 2020 and needs five others, one of
which has to be compiled. Sources: ``sun.security.provider.JavaKeyStore`` and ``KeyProtector`` of OpenJDK, the
only description of the format. JCEKS, another format, is not read.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools

import attrs

MAGIC = b"\xfe\xed\xfe\xed"

_VERSIONS = (1, 2)
_PRIVATE_KEY, _CERTIFICATE = 1, 2
_DIGEST_BYTES = 20
#: What Java adds to a password before it computes the digest of a store.
_WHITENER = b"Mighty Aphrodite"
#: 1.3.6.1.4.1.42.2.17.1.1, in DER: the only protection of keys in these stores.
_KEY_PROTECTOR = b"\x06\x0a\x2b\x06\x01\x04\x01\x2a\x02\x11\x01\x01"


class WrongPasswordError(ValueError):
    """The password is wrong, or the content was changed."""


@attrs.frozen
class ProtectedKey:
    """A private key of a store.

    Attributes:
        protected: encrypted, as in the store.
        chain: its certificates in DER, the key's own first.
    """

    protected: bytes = attrs.field(repr=False)
    chain: tuple[bytes, ...] = attrs.field(repr=False)

    def decrypt(self, password: str) -> bytes:
        """The key in PKCS #8, DER. Raises WrongPasswordError, or ValueError for another protection."""
        outer = _Reader(_Reader(self.protected).der(0x30))
        if _KEY_PROTECTOR not in outer.der(0x30):
            raise ValueError("the private key is protected by an unknown algorithm")
        data = outer.der(0x04)
        salt, rest = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        encrypted, check = rest[:-_DIGEST_BYTES], rest[-_DIGEST_BYTES:]
        secret = password.encode("utf-16-be")
        stream, last = bytearray(), salt
        while len(stream) < len(encrypted):
            last = _sha1(secret + last)
            stream += last
        key = bytes(map(int.__xor__, encrypted, itertools.islice(stream, len(encrypted))))
        if not hmac.compare_digest(_sha1(secret + key), check):
            raise WrongPasswordError("the password of the private key is wrong")
        return key


@attrs.frozen
class JavaKeyStore:
    """The content of a store, in the order of the file.

    Attributes:
        keys: the private keys.
        certificates: the trusted certificates, in DER.
    """

    keys: tuple[ProtectedKey, ...]
    certificates: tuple[bytes, ...]


def read_store(content: bytes, password: str) -> JavaKeyStore:
    """Read a store. Without a password its digest is not checked, as in Java.

    Raises WrongPasswordError, or ValueError if the content is no such store.
    """
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if password:
        found = _sha1(password.encode("utf-16-be") + _WHITENER + body)
        if not hmac.compare_digest(found, digest):
            raise WrongPasswordError("the password of the store is wrong, or the store was changed")
    reader = _Reader(body)
    version = reader.number(8) & 0xFFFFFFFF
    if content[:4] != MAGIC or version not in _VERSIONS:
        raise ValueError("not a Java key store")
    keys, certificates = [], []
    for _ in range(reader.number(4)):
        kind = reader.number(4)
        reader.take(reader.number(2))  # the alias
        reader.take(8)  # the time of creation
        if kind == _PRIVATE_KEY:
            protected = reader.take(reader.number(4))
            chain = tuple(_certificate(reader, version) for _ in range(reader.number(4)))
            keys.append(ProtectedKey(protected, chain))
        elif kind == _CERTIFICATE:
            certificates.append(_certificate(reader, version))
        else:
            raise ValueError(f"an entry has the unknown kind {kind}")
    return JavaKeyStore(tuple(keys), tuple(certificates))


def _certificate(reader: _Reader, version: int) -> bytes:
    if version > 1:
        reader.take(reader.number(2))  # its type, always X.509
    return reader.take(reader.number(4))


def _sha1(data: bytes) -> bytes:
    # The format allows no other digest. Python refuses this one in FIPS mode unless it is told so.
    return hashlib.sha1(data, usedforsecurity=False).digest()


class _Reader:
    """Takes bytes from the front. Raises ValueError at the end of the data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ValueError("the store is truncated")
        found = self._data[self._position : end]
        self._position = end
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def der(self, tag: int) -> bytes:
        """The content of the next DER element, which must have this tag."""
        if self.number(1) != tag:
            raise ValueError("the private key is not encoded as expected")
        size = self.number(1)
        if size & 0x80:
            size = self.number(size & 0x7F)
        return self.take(size)
