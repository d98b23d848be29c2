"""Assertions: signed JWTs with which a client asks for a token (RFC 7523; KIP-1139, KIP-1258).

Each is a callable without arguments that returns an assertion. Files are read for each assertion, so they can
be replaced while the producer runs.
Source: Kafka classes ``DefaultAssertionCreator`` and ``LayeredAssertionJwtTemplate``.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import attrs

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.security import key_stores
from kproducer._core.security.token_endpoint import read_token
from kproducer.errors import ConfigError

KEY_FILE = "sasl_oauthbearer_assertion_private_key_file"
KEY_TEXT = "sasl_oauthbearer_assertion_private_key_pem"
_PASSWORD = "sasl_oauthbearer_assertion_private_key_passphrase"
_TEMPLATE = "sasl_oauthbearer_assertion_template_file"
_ALGORITHM = "sasl_oauthbearer_assertion_algorithm"
#: The claims that have a setting.
_CLAIMS = ("iss", "sub", "aud")


@attrs.frozen
class AssertionFile:
    """A file with an assertion that something else signs and replaces.

    Attributes:
        source: the setting or the environment variable that names it.
    """

    path: str
    source: str = "sasl_oauthbearer_assertion_file"

    def __call__(self) -> str:
        """Read it. Raises AuthenticationError: the file cannot be read."""
        return read_token(self.path, f"the file {self.path!r} ({self.source})")


@attrs.frozen
class SignedAssertion:
    """Signs assertions with a private key; needs the package joserfc.

    Attributes:
        config: with a private key, as a file or as a text. Fields of the template replace claims of the
            settings.
    """

    config: ProducerConfig

    def __call__(self) -> str:
        """Sign an assertion.

        Raises ConfigError: the key or the template cannot be read or used. Names the setting.
        """
        from joserfc import jws, jwt
        from joserfc.errors import JoseError

        config = self.config
        header, payload = self._template()
        now_s = int(time.time())
        given = {name: getattr(config, f"sasl_oauthbearer_assertion_claim_{name}") for name in _CLAIMS}
        claims = {
            **{name: value for name, value in given.items() if value},
            **payload,
            "iat": now_s,
            "exp": now_s + config.sasl_oauthbearer_assertion_claim_exp_seconds,
            "nbf": now_s - config.sasl_oauthbearer_assertion_claim_nbf_seconds,
        }
        if config.sasl_oauthbearer_assertion_claim_jti_include:
            claims["jti"] = str(uuid.uuid4())
        # Identity providers may want fields in the header that no standard knows.
        algorithm = config.sasl_oauthbearer_assertion_algorithm
        registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        fields = {**header, "alg": algorithm, "typ": "JWT"}
        key = self._key()
        try:
            return jwt.encode(fields, claims, key, registry=registry)
        except (JoseError, ValueError, TypeError) as error:
            raise ConfigError(f"{_TEMPLATE}: a field is not valid: {error}") from None

    def _key(self) -> Any:
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey, RSAKey

        config, setting = self.config, KEY_TEXT
        pem = config.sasl_oauthbearer_assertion_private_key_pem.encode()
        if config.sasl_oauthbearer_assertion_private_key_file:
            setting = KEY_FILE
            pem = key_stores.read_file(KEY_FILE, config.sasl_oauthbearer_assertion_private_key_file)
        password = config.sasl_oauthbearer_assertion_private_key_passphrase
        algorithm = config.sasl_oauthbearer_assertion_algorithm
        kind: Callable[..., Any] = RSAKey.import_key if algorithm == "RS256" else ECKey.import_key
        wanted = "an RSA key" if algorithm == "RS256" else "an EC key of curve P-256"
        if b"PRIVATE KEY-----" not in pem:
            raise ConfigError(
                f"{setting}: found no private key in PEM format ('-----BEGIN PRIVATE KEY-----')"
            )
        is_encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in pem or b"Proc-Type: 4,ENCRYPTED" in pem
        if is_encrypted and not password:
            raise ConfigError(f"{_PASSWORD}: the private key in {setting} is encrypted; set its password")
        try:
            key = kind(pem, password=password if is_encrypted else None)
        except (JoseError, ValueError, TypeError) as error:
            if is_encrypted:
                raise ConfigError(
                    f"{_PASSWORD}: the private key in {setting} cannot be decrypted; the password may be"
                    " wrong"
                ) from None
            raise ConfigError(
                f"{setting}: expected {wanted} with {_ALGORITHM}={algorithm}, got another key or one"
                f" that is not valid ({type(error).__name__})"
            ) from None
        if algorithm == "ES256" and key.curve_name != "P-256":
            raise ConfigError(f"{setting}: expected {wanted}, got one of curve {key.curve_name}")
        return key

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        path = self.config.sasl_oauthbearer_assertion_template_file
        if not path:
            return {}, {}
        try:
            template = json.loads(key_stores.read_file(_TEMPLATE, path))
        except (ValueError, RecursionError):
            template = None
        if not isinstance(template, dict):
            raise ConfigError(f"{_TEMPLATE}: {path!r} is not a JSON object")
        parts = [template.get("header", {}), template.get("payload", {})]
        if not all(isinstance(part, dict) for part in parts) or template.keys() - {"header", "payload"}:
            form = '{"header": {...}, "payload": {...}}'
            raise ConfigError(f"{_TEMPLATE}: {path!r} must have the form {form}")
        return parts[0], parts[1]
