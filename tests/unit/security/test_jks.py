"""Java key stores that keytool wrote: what is in them, wrong passwords, and damaged files."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.security import jks
from kproducer._core.security.tls_settings import TlsSettings
from kproducer.errors import ConfigError
from tests.support.certificates import Authority, Certificate
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.skipif(shutil.which("keytool") is None, reason="needs keytool, a part of Java")

PASSWORD, KEY_PASSWORD = "store-päss", "key-pass"


class Stores(NamedTuple):
    authority: Authority
    client: Certificate
    trust: Path
    keys: Path
    both: Path
    locked: Path


def keytool(*arguments: str) -> None:
    done = subprocess.run(
        [
            "keytool",
            "-J-XX:TieredStopAtLevel=1",
            "-J-Dfile.encoding=UTF-8",
            "-J-Dsun.jnu.encoding=UTF-8",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    folder = tmp_path_factory.mktemp("jks")
    authority = Authority()
    client = authority.issue("client")
    source = folder / "client.p12"
    key = serialization.load_pem_private_key(client.key_pem().encode(), None)
    leaf, *others = [each.bytes() for each in client.leaf.cert_chain_pems]
    from cryptography.x509 import load_pem_x509_certificate

    source.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"client",
            key,  # type: ignore[arg-type]
            load_pem_x509_certificate(leaf),
            [load_pem_x509_certificate(each) for each in [*others, authority.pem.encode()]],
            serialization.BestAvailableEncryption(b"source"),
        )
    )
    found = Stores(
        authority, client, *(folder / f"{name}.jks" for name in ("trust", "keys", "both", "locked"))
    )
    authority_path = authority.write(folder)
    for path in (found.keys, found.both, found.locked):
        own = KEY_PASSWORD if path == found.locked else PASSWORD
        keytool(
            *("-importkeystore", "-noprompt", "-srckeystore", str(source), "-srcstoretype", "PKCS12"),
            *("-srcstorepass", "source", "-srcalias", "client", "-destalias", "schlüssel"),
            *("-destkeystore", str(path), "-deststoretype", "JKS", "-deststorepass", PASSWORD),
            *("-destkeypass", own),
        )
    for path in (found.trust, found.both):
        keytool(
            *("-importcert", "-noprompt", "-trustcacerts", "-alias", "ca", "-file", authority_path),
            *("-keystore", str(path), "-storetype", "JKS", "-storepass", PASSWORD),
        )
    return found


def test_certificates_and_keys_are_those_that_were_stored(stores: Stores) -> None:
    ca = ssl.PEM_cert_to_DER_cert(stores.authority.pem)
    assert jks.read_store(stores.trust.read_bytes(), PASSWORD) == jks.JavaKeyStore((), (ca,))
    found = jks.read_store(stores.both.read_bytes(), PASSWORD)
    assert found.certificates == (ca,)
    assert found.keys[0].chain[0] == ssl.PEM_cert_to_DER_cert(stores.client.chain_pem)
    key = serialization.load_der_private_key(found.keys[0].decrypt(PASSWORD), None)
    expected = serialization.load_pem_private_key(stores.client.key_pem().encode(), None)
    assert key.private_numbers() == expected.private_numbers()  # type: ignore[union-attr]
    assert str(found.keys[0].protected) not in repr(found)


def settings_of(stores: Stores, keys: str, **others: Any) -> dict[str, Any]:
    return {
        "ssl_truststore_location": str(stores.trust),
        "ssl_truststore_password": PASSWORD,
        "ssl_keystore_location": str(getattr(stores, keys)),
        "ssl_keystore_password": PASSWORD,
        "ssl_keystore_type": "JKS",
        **others,
    }


def tls(given: dict[str, Any]) -> TlsSettings:
    config = ProducerConfig(bootstrap_servers="host:1", security_protocol="SSL", **given)
    return TlsSettings(config, ManualClock())


@pytest.mark.parametrize(
    ("keys", "others"),
    [
        ("keys", {}),
        ("both", {}),
        ("locked", {"ssl_key_password": KEY_PASSWORD}),
        ("keys", {"ssl_truststore_password": None}),  # as Java: the digest is not checked
        ("keys", {"ssl_keystore_type": "PKCS12"}),
        ("keys", {"ssl_keystore_type": "auto"}),
    ],
)
def test_a_broker_accepts_the_client_and_the_other_way_around(
    stores: Stores, keys: str, others: dict[str, Any]
) -> None:
    context = tls(settings_of(stores, keys, **others)).context()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    stores.authority.issue("broker").leaf.configure_cert(server)
    server.load_verify_locations(cadata=stores.authority.pem)
    server.verify_mode = ssl.CERT_REQUIRED
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(to_client, to_server, server_hostname="broker")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert theirs.getpeercert(True) == ssl.PEM_cert_to_DER_cert(stores.client.chain_pem)


@pytest.mark.parametrize(
    ("keys", "others", "words"),
    [
        ("keys", {"ssl_keystore_password": "wrong"}, "ssl_keystore_password: cannot open"),
        ("keys", {"ssl_keystore_password": None}, "ssl_keystore_password: .* its password is missing"),
        ("keys", {"ssl_truststore_password": "wrong"}, "ssl_truststore_password: cannot open"),
        ("keys", {"ssl_key_password": "wrong"}, "ssl_key_password: .* its password is wrong"),
        ("locked", {}, "ssl_keystore_password: .* needs ssl_key_password"),
        ("trust", {}, "contains no private key"),
        ("keys", {"ssl_keystore_type": "PEM"}, "ssl_keystore_type: expected JKS"),
    ],
)
def test_mistakes_name_the_setting(stores: Stores, keys: str, others: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        tls(settings_of(stores, keys, **others))
    assert PASSWORD not in str(caught.value)
    assert KEY_PASSWORD not in str(caught.value)


def test_a_trust_store_without_certificates(stores: Stores) -> None:
    given = {"ssl_truststore_location": str(stores.keys), "ssl_truststore_password": PASSWORD}
    with pytest.raises(ConfigError, match="contains no trusted certificate"):
        tls(given)


@given(st.data())
def test_damaged_stores_are_refused_and_never_crash(stores: Stores, data: st.DataObject) -> None:
    content = bytearray(stores.both.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError):  # noqa: PT011 - any of them
        jks.read_store(bytes(content), PASSWORD)
    with contextlib.suppress(ValueError):
        for key in jks.read_store(bytes(content), "").keys:
            key.decrypt(PASSWORD)
