"""SignedAssertion: claims, templates, keys of all kinds, and files that change."""

from __future__ import annotations

import json
import time

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, RSAKey

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.security.assertions import AssertionFile, SignedAssertion
from kproducer.errors import AuthenticationError, ConfigError

PASSWORD = "hunter2"


@pytest.fixture(scope="module")
def rsa():
    return RSAKey.generate_key(2048)


@pytest.fixture(scope="module")
def ec():
    return ECKey.generate_key("P-256")


def assertion(**changes) -> SignedAssertion:
    """``changes``: settings without ``sasl_oauthbearer_assertion_``."""
    settings = {"claim_iss": "client", "claim_aud": "https://issuer.test/token", **changes}
    return SignedAssertion(
        ProducerConfig(
            bootstrap_servers="unused:1",
            security_protocol="SASL_SSL",
            **{f"sasl_oauthbearer_assertion_{name}": value for name, value in settings.items()},
        )
    )


def pem(key, password=None) -> str:
    return key.as_pem(private=True, password=password).decode()


def verified(text: str, key):
    registry = jws.JWSRegistry(algorithms=["RS256", "ES256"], strict_check_header=False)
    return jwt.decode(text, key, registry=registry)


def test_header_and_claims(rsa):
    before_s = int(time.time())
    token = verified(assertion(private_key_pem=pem(rsa))(), rsa)
    assert token.header == {"alg": "RS256", "typ": "JWT"}
    claims = token.claims
    created_s = claims.pop("iat")
    assert before_s <= created_s <= time.time()
    assert claims.pop("exp") == created_s + 300
    assert claims.pop("nbf") == created_s - 60
    assert claims == {"iss": "client", "aud": "https://issuer.test/token"}


def test_each_assertion_has_its_own_id(rsa):
    signed = assertion(private_key_pem=pem(rsa), claim_jti_include=True)
    assert len({verified(signed(), rsa).claims["jti"] for _ in range(3)}) == 3


def test_a_template_adds_fields_and_replaces_claims_but_not_times(rsa, tmp_path):
    path = tmp_path / "template.json"
    path.write_text(
        json.dumps(
            {
                "header": {"kid": "7", "alg": "none", "tenant": [1]},
                "payload": {"iss": "other", "exp": 1, "roles": [1]},
            }
        )
    )
    signed = assertion(private_key_pem=pem(rsa), template_file=str(path))
    token = verified(signed(), rsa)
    assert token.header == {"alg": "RS256", "typ": "JWT", "kid": "7", "tenant": [1]}
    assert token.claims["iss"] == "other"
    assert token.claims["roles"] == [1]
    assert token.claims["exp"] > time.time()
    path.write_text("{}")
    assert verified(signed(), rsa).claims["iss"] == "client"


def test_a_template_with_a_field_that_no_jwt_can_have(rsa, tmp_path):
    path = tmp_path / "template.json"
    path.write_text('{"header": {"kid": 7}}')
    with pytest.raises(ConfigError, match=r"template_file: a field is not valid: .*kid"):
        assertion(private_key_pem=pem(rsa), template_file=str(path))()


def test_an_ec_key(ec):
    token = verified(assertion(private_key_pem=pem(ec), algorithm="ES256")(), ec)
    assert token.header["alg"] == "ES256"


def test_an_encrypted_key(rsa, tmp_path):
    path = tmp_path / "key.pem"
    path.write_text(pem(rsa, PASSWORD))
    verified(assertion(private_key_file=str(path), private_key_passphrase=PASSWORD)(), rsa)
    # A password that is not needed does no harm.
    verified(assertion(private_key_pem=pem(rsa), private_key_passphrase=PASSWORD)(), rsa)
    with pytest.raises(
        ConfigError, match=r"passphrase: the private key in .* is encrypted; set its password"
    ):
        assertion(private_key_file=str(path))()
    with pytest.raises(ConfigError, match="the password may be wrong") as caught:
        assertion(private_key_file=str(path), private_key_passphrase="Wrong7")()
    assert "Wrong7" not in str(caught.value)


def test_a_key_that_is_replaced(rsa, tmp_path):
    path = tmp_path / "key.pem"
    signed = assertion(private_key_file=str(path))
    for key in (rsa, RSAKey.generate_key(2048)):
        path.write_text(pem(key))
        verified(signed(), key)
    path.unlink()
    with pytest.raises(ConfigError, match="private_key_file: cannot read"):
        signed()


def test_keys_of_the_wrong_kind(ec, rsa):
    with pytest.raises(ConfigError, match="expected an EC key of curve P-256, got one of curve P-384"):
        assertion(private_key_pem=pem(ECKey.generate_key("P-384")), algorithm="ES256")()
    with pytest.raises(
        ConfigError, match="expected an RSA key with sasl_oauthbearer_assertion_algorithm=RS256"
    ):
        assertion(private_key_pem=pem(ec))()
    broken = pem(rsa).replace("M", "N")
    with pytest.raises(ConfigError, match="got another key or one that is not valid"):
        assertion(private_key_pem=broken)()
    public = rsa.as_pem(private=False).decode()
    with pytest.raises(ConfigError, match="found no private key in PEM format"):
        assertion(private_key_pem=public)()


def test_nothing_shows_the_key(rsa):
    signed = assertion(private_key_pem=pem(rsa), private_key_passphrase=PASSWORD)
    assert PASSWORD not in repr(signed)
    assert pem(rsa).splitlines()[1] not in repr(signed)


def test_a_finished_assertion_is_read_each_time(rsa, tmp_path):
    path = tmp_path / "assertion"
    finished = AssertionFile(str(path))
    for payload in (b"1", b"2"):
        text = jws.serialize_compact({"alg": "RS256"}, payload, rsa)
        path.write_text(text + "\n")
        assert finished() == text
    path.unlink()
    with pytest.raises(AuthenticationError, match=r"\(sasl_oauthbearer_assertion_file\) cannot be read"):
        finished()
