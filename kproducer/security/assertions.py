"""Assertions: signed JWTs with which a client asks for a token (RFC 7523; KIP-1139, KIP-1258).

Each is a callable without arguments that returns an assertion. Files are read for each assertion, so they can
be replaced while the producer runs.
Source: Kafka classes ``DefaultAssertionCreator`` and ``LayeredAssertionJwtTemplate``.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kproducer.errors import ConfigError
from kproducer.security import key_stores
from kproducer.security.token_endpoint import read_token

_KEY_FILE = "sasl_oauthbearer_assertion_private_key_file"
_KEY_TEXT = "sasl_oauthbearer_assertion_private_key_pem"
_PASSWORD = "sasl_oauthbearer_assertion_private_key_passphrase"
_TEMPLATE = "sasl_oauthbearer_assertion_template_file"
_ALGORITHM = "sasl_oauthbearer_assertion_algorithm"


@attrs.frozen
class AssertionFile:
    """A file with an assertion that something else signs and replaces."""

    path: str

    def __call__(self) -> str:
        """Read it. Raises AuthenticationError: the file cannot be read."""
        return read_token(self.path, f"the file {self.path!r} (sasl_oauthbearer_assertion_file)")


@attrs.frozen
class SignedAssertion:
    """Signs assertions with a private key; needs the package joserfc.

    Attributes:
        key_file, key_pem: the private key, one of the two.
        password: of the key; empty: none.
        algorithm: RS256 or ES256.
        claims: those that are always the same, such as ``iss``.
        template_file: JSON with fields of header and payload, which replace ``claims``; empty: none.
        lifetime_s, valid_before_s: seconds from now to ``exp``, and from ``nbf`` to now.
        has_id: whether to add ``jti``.
    """

    key_file: str
    key_pem: str = attrs.field(repr=False)
    password: str = attrs.field(repr=False)
    algorithm: str
    claims: Mapping[str, str]
    template_file: str
    lifetime_s: int
    valid_before_s: int
    has_id: bool

    def __call__(self) -> str:
        """Sign an assertion.

        Raises ConfigError: the key or the template cannot be read or used. Names the setting.
        """
        from joserfc import jws, jwt
        from joserfc.errors import JoseError

        header, payload = self._template()
        now_s = int(time.time())
        claims = {
            **self.claims,
            **payload,
            "iat": now_s,
            "exp": now_s + self.lifetime_s,
            "nbf": now_s - self.valid_before_s,
        }
        if self.has_id:
            claims["jti"] = str(uuid.uuid4())
        # Identity providers may want fields in the header that no standard knows.
        registry = jws.JWSRegistry(algorithms=[self.algorithm], strict_check_header=False)
        fields = {**header, "alg": self.algorithm, "typ": "JWT"}
        key = self._key()
        try:
            return jwt.encode(fields, claims, key, registry=registry)
        except (JoseError, ValueError, TypeError) as error:
            raise ConfigError(f"{_TEMPLATE}: a field is not valid: {error}") from None

    def _key(self) -> Any:
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey, RSAKey

        setting = _KEY_FILE if self.key_file else _KEY_TEXT
        pem = key_stores.read_file(_KEY_FILE, self.key_file) if self.key_file else self.key_pem.encode()
        kind: Callable[..., Any] = RSAKey.import_key if self.algorithm == "RS256" else ECKey.import_key
        wanted = "an RSA key" if self.algorithm == "RS256" else "an EC key of curve P-256"
        if b"PRIVATE KEY-----" not in pem:
            raise ConfigError(
                f"{setting}: found no private key in PEM format ('-----BEGIN PRIVATE KEY-----')"
            )
        is_encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in pem or b"Proc-Type: 4,ENCRYPTED" in pem
        if is_encrypted and not self.password:
            raise ConfigError(f"{_PASSWORD}: the private key in {setting} is encrypted; set its password")
        try:
            key = kind(pem, password=self.password if is_encrypted else None)
        except (JoseError, ValueError, TypeError) as error:
            if is_encrypted:
                raise ConfigError(
                    f"{_PASSWORD}: the private key in {setting} cannot be decrypted; the password may be"
                    " wrong"
                ) from None
            raise ConfigError(
                f"{setting}: expected {wanted} with {_ALGORITHM}={self.algorithm}, got another key or one"
                f" that is not valid ({type(error).__name__})"
            ) from None
        if self.algorithm == "ES256" and key.curve_name != "P-256":
            raise ConfigError(f"{setting}: expected {wanted}, got one of curve {key.curve_name}")
        return key

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if not self.template_file:
            return {}, {}
        try:
            template = json.loads(key_stores.read_file(_TEMPLATE, self.template_file))
        except (ValueError, RecursionError):
            template = None
        if not isinstance(template, dict):
            raise ConfigError(f"{_TEMPLATE}: {self.template_file!r} is not a JSON object")
        parts = [template.get("header", {}), template.get("payload", {})]
        if not all(isinstance(part, dict) for part in parts) or template.keys() - {"header", "payload"}:
            raise ConfigError(
                f"{_TEMPLATE}: {self.template_file!r} must have the form"
                ' {"header": {...}, "payload": {...}}'
            )
        return parts[0], parts[1]
