"""Certificates for tests, by trustme: an authority, what it issues, and Kafka's settings for it.

Everything is made anew in each run. Kafka reads PEM texts directly, but only keys in PKCS #8.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


class Certificate:
    """A certificate with its private key and the chain up to the authority."""

    def __init__(self, leaf: trustme.LeafCert) -> None:
        self.leaf = leaf
        self.chain_pem = "".join(blob.bytes().decode() for blob in leaf.cert_chain_pems)

    def key_pem(self, password: str | None = None) -> str:
        """The private key as PKCS #8, encrypted if there is a password."""
        key = serialization.load_pem_private_key(self.leaf.private_key_pem.bytes(), None)
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()

    def write(self, folder: Path, name: str, password: str | None = None) -> tuple[str, str]:
        """Write NAME.pem and NAME.key; returns their paths."""
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        certificate.write_text(self.chain_pem)
        key.write_text(self.key_pem(password))
        return str(certificate), str(key)


class Authority:
    """A certificate authority."""

    def __init__(self) -> None:
        self.ca = trustme.CA()
        self.pem = self.ca.cert_pem.bytes().decode()

    def issue(
        self,
        *names: str,
        not_before: datetime.datetime | None = None,
        not_after: datetime.datetime | None = None,
    ) -> Certificate:
        """A certificate for these host names and IP addresses; without names for localhost and 127.0.0.1."""
        return Certificate(
            self.ca.issue_cert(
                *(names or ("localhost", "127.0.0.1")),
                not_before=not_before,
                not_after=not_after,
            )
        )

    def write(self, folder: Path, name: str = "ca.pem") -> str:
        """Write the authority's certificate; returns the path."""
        path = folder / name
        path.write_text(self.pem)
        return str(path)

    def broker_properties(self, certificate: Certificate | None = None) -> dict[str, str]:
        """Kafka's settings for every SSL and SASL_SSL listener: its certificate, and whom it trusts."""
        certificate = certificate or self.issue()
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificate.chain_pem,
            "ssl.keystore.key": certificate.key_pem(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.pem,
        }
