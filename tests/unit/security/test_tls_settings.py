"""From settings to contexts: each family of settings, each contradiction, and no secret in any of it."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from kproducer import ConfigError, ProducerConfig
from kproducer._core.security import jks, key_stores, tls_settings
from kproducer._core.security.tls_settings import TlsSettings
from tests.support.certificates import Authority, Certificate
from tests.support.manual_clock import ManualClock

PASSWORD = "hush-hush-4711"


@cache
def authority() -> Authority:
    return Authority()


@cache
def client() -> Certificate:
    return authority().issue("client.example.com")


def tls(**settings: Any) -> TlsSettings:
    return TlsSettings(config(**settings), ManualClock())


def config(**settings: Any) -> ProducerConfig:
    return ProducerConfig.from_keywords({"bootstrap_servers": "a:1", "security_protocol": "SSL", **settings})


def refusal(**settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        tls(**settings)
    shown = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in shown
    assert "PRIVATE KEY-----\nM" not in shown
    return str(caught.value)


def presents(context: ssl.SSLContext) -> bool:
    """Whether the context has a client certificate: a handshake with a server that requires one."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue("h").leaf.configure_cert(server)
    server.load_verify_locations(cadata=authority().pem)
    server.verify_mode = ssl.CERT_REQUIRED
    one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(one, two, server_hostname="h")
    theirs = server.wrap_bio(two, one, server_side=True)
    for side in (ours, theirs) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError:
            return False
    return bool(theirs.getpeercert())


def store(folder: Path, *, key: bool = True, name: str = "store.p12") -> str:
    certificates = x509.load_pem_x509_certificates(client().chain_pem.encode())
    root = x509.load_pem_x509_certificate(authority().pem.encode())
    loaded: Any = serialization.load_pem_private_key(client().key_pem().encode(), None)
    path = folder / name
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"client",
            loaded if key else None,
            certificates[0] if key else None,
            [*certificates[1:], root],
            serialization.BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    return str(path)


def pem_store(folder: Path, password: str | None = None) -> str:
    path = folder / "store.pem"
    path.write_text(f"Bag Attributes\n  friendlyName: x\n{client().key_pem(password)}\n{client().chain_pem}")
    return str(path)


def families(folder: Path) -> dict[str, dict[str, Any]]:
    trust = {"ssl_cafile": authority().write(folder)}
    certificate, key = client().write(folder, "plain")
    _, locked = client().write(folder, "locked", PASSWORD)
    one_line = " ".join(client().key_pem().split("\n"))
    return {
        "files": {**trust, "ssl_certfile": certificate, "ssl_keyfile": key},
        "one file": {**trust, "ssl_certfile": pem_store(folder)},
        "password": {**trust, "ssl_certfile": certificate, "ssl_keyfile": locked, "ssl_password": PASSWORD},
        "texts": {
            "ssl_truststore_certificates": f"some words\r\n{authority().pem}",
            "ssl_keystore_certificate_chain": client().chain_pem.replace("\n", "\r\n"),
            "ssl_keystore_key": one_line,
            "ssl_keystore_type": "PEM",
        },
        "locked text": {
            **trust,
            "ssl_keystore_certificate_chain": client().chain_pem,
            "ssl_keystore_key": client().key_pem(PASSWORD),
            "ssl_key_password": PASSWORD,
        },
        "PEM store": {
            "ssl_truststore_location": trust["ssl_cafile"],
            "ssl_keystore_location": pem_store(folder),
        },
        "PKCS 12": {
            "ssl_truststore_location": store(folder, key=False, name="trust.p12"),
            "ssl_truststore_password": PASSWORD,
            "ssl_truststore_type": "JKS",
            "ssl_keystore_location": store(folder),
            "ssl_keystore_password": PASSWORD,
        },
    }


@pytest.mark.parametrize(
    "family", ["files", "one file", "password", "texts", "locked text", "PEM store", "PKCS 12"]
)
def test_each_family_of_settings_gives_a_context(tmp_path: Path, family: str) -> None:
    given = families(tmp_path)[family]
    found = tls(**given)
    assert presents(found.context())
    assert PASSWORD not in repr(config(**given))
    assert "PRIVATE KEY" not in repr(config(**given))
    assert PASSWORD not in repr(vars(found).get("trust"))


def test_java_properties(tmp_path: Path) -> None:
    certificate, key = client().write(tmp_path, "client")
    found = ProducerConfig.from_dotted(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "SSL",
            "ssl.truststore.location": authority().write(tmp_path),
            "ssl.truststore.type": "PEM",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": Path(certificate).read_text(),
            "ssl.keystore.key": Path(key).read_text(),
            "ssl.endpoint.identification.algorithm": "",
            "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        }
    )
    context = TlsSettings(found, ManualClock()).context()
    assert presents(context)
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_a_context_of_the_user_is_used_as_it_is() -> None:
    given = ssl.create_default_context()
    assert tls(ssl_context=given).context() is given
    assert "ssl_cafile" in refusal(ssl_context=given, ssl_cafile="ca.pem")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert "PROTOCOL_TLS_SERVER" in refusal(ssl_context=server)
    assert "SSLContext" in refusal(ssl_context="default")


def test_versions_and_cipher_suites(tmp_path: Path) -> None:
    trust = {"ssl_cafile": authority().write(tmp_path)}
    context = tls(**trust).context()
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    context = tls(
        **trust, ssl_cipher_suites="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,ECDHE-RSA-AES256-GCM-SHA384"
    ).context()
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    names = {each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"}
    assert names == {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"}
    assert "TLS_NONSENSE" in refusal(**trust, ssl_cipher_suites=["TLS_NONSENSE"])
    assert "TLSv1.2" in refusal(**trust, ssl_enabled_protocols="TLSv1.1,TLSv1.3")
    assert "SSLv3" in refusal(**trust, ssl_enabled_protocols="SSLv3")


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_names_of_cipher_suites(java: str, openssl: str) -> None:
    assert tls_settings._openssl_name(java) == openssl


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_a_renegotiation_of_the_broker_is_refused(tmp_path: Path) -> None:
    path, key = authority().issue("localhost").write(tmp_path, "server")
    command = ["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", path, "-key", key, "-tls1_2"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            while not (line := server.stdout.readline()).startswith("ACCEPT"):
                assert line
            with socket.create_connection(("127.0.0.1", int(line.rpartition(":")[2])), 10) as sock:
                trusting = tls(ssl_truststore_certificates=authority().pem)
                transport = trusting.new_transport(sock, "localhost")
                transport.handshake()
                assert transport.is_ready
                buffer = memoryview(bytearray(100))
                server.stdin.write("data\n")
                server.stdin.flush()
                assert buffer[: transport.receive_into(buffer)] == b"data\n"
                server.stdin.write("r\n")
                server.stdin.flush()
                with pytest.raises(OSError, match="TLS failed"):
                    transport.receive_into(buffer)
        finally:
            server.kill()


def test_contradictions_name_the_setting(tmp_path: Path) -> None:
    ca = authority().write(tmp_path)
    trust = {"ssl_cafile": ca}
    certificate, key = client().write(tmp_path, "client")
    _, other_key = authority().issue("other").write(tmp_path, "other")
    _, locked = client().write(tmp_path, "locked", PASSWORD)
    jks, jceks = tmp_path / "broken.jks", tmp_path / "old.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02" + bytes(20))
    jceks.write_bytes(b"\xce\xce\xce\xce\x00\x00\x00\x02")
    for settings, *words in (
        ({**trust, "ssl_truststore_location": ca}, "ssl_truststore_location", "ssl_cafile"),
        ({**trust, "ssl_keyfile": key}, "ssl_keyfile", "ssl_certfile"),
        ({**trust, "ssl_keystore_key": "x"}, "ssl_keystore_key", "ssl_keystore_certificate_chain"),
        ({**trust, "ssl_certfile": certificate}, "ssl_certfile", "no private key", "ssl_keyfile"),
        ({**trust, "ssl_certfile": certificate, "ssl_keyfile": other_key}, "ssl_keyfile", "does not belong"),
        ({**trust, "ssl_certfile": certificate, "ssl_keyfile": locked}, "ssl_password", "encrypted"),
        (
            {**trust, "ssl_certfile": certificate, "ssl_keyfile": locked, "ssl_password": PASSWORD + "x"},
            "ssl_password",
            "may be wrong",
        ),
        ({"ssl_cafile": pem_store(tmp_path)}, "ssl_cafile", "private key"),
        ({"ssl_cafile": key}, "ssl_cafile", "private key"),
        ({"ssl_cafile": str(tmp_path / "missing")}, "ssl_cafile", "No such file"),
        ({"ssl_cafile": store(tmp_path)}, "ssl_cafile", "binary", "set ssl_truststore_location"),
        ({"ssl_cafile": os.devnull}, f"in {os.devnull!r}; it is empty"),
        (
            {**trust, "ssl_certfile": key, "ssl_keyfile": certificate},
            f"{key!r}; it contains something else",
        ),
        ({"ssl_truststore_location": str(jceks)}, "JCEKS", "keytool -importkeystore", "old.p12"),
        ({"ssl_truststore_location": str(jks)}, "not a valid Java key store", "truncated"),
        ({"ssl_truststore_location": ca, "ssl_truststore_type": "PKCS12"}, "ssl_truststore_type", "PEM"),
        (
            {**trust, "ssl_keystore_location": store(tmp_path), "ssl_keystore_password": "x" + PASSWORD},
            "ssl_keystore_password",
            "wrong",
        ),
        ({**trust, "ssl_keystore_location": store(tmp_path)}, "ssl_keystore_password", "missing"),
        ({**trust, "ssl_crlfile": ca}, "ssl_crlfile", "no revocation list"),
    ):
        text = refusal(**settings)
        assert [word for word in words if word not in text] == [], text


def test_secrets_of_the_wrong_type_are_not_shown() -> None:
    assert PASSWORD not in refusal(ssl_password=PASSWORD.encode())
    assert PASSWORD not in refusal(ssl_keystore_key=[PASSWORD])


def test_pkcs12_without_cryptography(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store(tmp_path)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    text = refusal(ssl_keystore_location=path, ssl_cafile=authority().write(tmp_path))
    assert "kproducer[pkcs12]" in text


def test_changed_files_are_used_and_broken_ones_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trust = authority().write(tmp_path)
    certificate, key = client().write(tmp_path, "client")
    found = tls(ssl_cafile=trust, ssl_certfile=certificate, ssl_keyfile=key)
    first = found.context()
    assert found.context() is first
    authority().issue("renewed").write(tmp_path, "client")
    second = found.context()
    assert second is not first
    assert presents(second)
    Path(key).write_text("half a fil")
    with caplog.at_level(logging.ERROR):
        assert found.context() is second
        assert found.context() is second
    assert len(caplog.records) == 1
    assert "ssl_keyfile" in caplog.text
    authority().issue("renewed-again").write(tmp_path, "client")
    assert found.context() not in (first, second)


def test_without_any_certificates_to_trust(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nothing")
    monkeypatch.setattr(tls_settings, "_SYSTEM_BUNDLES", (nowhere,))
    monkeypatch.setenv("SSL_CERT_FILE", nowhere)
    monkeypatch.setenv("SSL_CERT_DIR", nowhere)
    found = tls()
    assert "certifi" in found.trust
    assert found.context().cert_store_stats()["x509_ca"] > 10
    monkeypatch.setitem(sys.modules, "certifi", None)
    text = refusal()
    assert nowhere in text
    assert "install certifi" in text


@pytest.mark.filterwarnings("error")
def test_a_folder_of_certificates_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "1234abcd.0").write_text("a certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nothing"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert str(tmp_path) in tls().trust

    def refuse(_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.scandir", refuse)
    monkeypatch.setattr("os.listdir", refuse)
    monkeypatch.setattr(tls_settings, "_SYSTEM_BUNDLES", ())
    assert "certifi" in tls().trust


def test_the_system_store_is_the_default() -> None:
    assert "system" in tls().trust or "certifi" in tls().trust


def test_a_revoked_certificate(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    server = authority().issue("h")
    found = x509.load_pem_x509_certificates(server.chain_pem.encode())[0]
    root = x509.load_pem_x509_certificate(authority().pem.encode())
    root_key: Any = serialization.load_pem_private_key(authority().ca.private_key_pem.bytes(), None)
    for revoked in (False, True):
        builder = x509.CertificateRevocationListBuilder(root.subject, now, now + datetime.timedelta(days=1))
        if revoked:
            entry = x509.RevokedCertificateBuilder(found.serial_number, now).build()
            builder = builder.add_revoked_certificate(entry)
        path = tmp_path / "revoked.pem"
        path.write_bytes(builder.sign(root_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        context = tls(ssl_cafile=authority().write(tmp_path), ssl_crlfile=path).context()
        one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
        theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.leaf.configure_cert(theirs)
        ours = context.wrap_bio(one, two, server_hostname="h")
        peer = theirs.wrap_bio(two, one, server_side=True)
        with pytest.raises(ssl.SSLWantReadError):
            ours.do_handshake()
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.do_handshake()
        if revoked:
            with pytest.raises(ssl.SSLCertVerificationError, match="certificate revoked"):
                ours.do_handshake()
        else:
            ours.do_handshake()


_NOT_ASCII = "-----BEGIN {0}-----\nM\xe9I=\n-----END {0}-----\n"


@pytest.mark.parametrize("setting", ["ssl_cafile", "ssl_certfile", "ssl_keyfile"])
def test_a_broken_file_with_other_characters_than_ascii(
    setting: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = client().write(tmp_path, "client")
    files = {"ssl_cafile": authority().write(tmp_path), "ssl_certfile": certificate, "ssl_keyfile": key}
    found = tls(**files)
    context = found.context()
    kind = "PRIVATE KEY" if setting == "ssl_keyfile" else "CERTIFICATE"
    Path(files[setting]).write_text(_NOT_ASCII.format(kind), encoding="latin-1")
    assert found.context() is context
    assert setting in caplog.text
    assert setting in refusal(**files)


def test_a_revocation_list_that_disappears_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "list.pem"
    path.write_text("-----BEGIN X509 CRL-----")
    read_file = key_stores.read_file

    def read_and_remove(setting: str, path: str) -> bytes:
        content = read_file(setting, path)
        Path(path).unlink()
        return content

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    monkeypatch.setattr(key_stores, "read_file", read_and_remove)
    with pytest.raises(ConfigError, match="ssl_crlfile"):
        tls_settings._load_revoked(context, str(path))


def test_a_store_with_an_algorithm_that_is_not_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.p12"
    path.write_bytes(b"\x30\x82")

    def refuse(*_: object) -> None:
        raise UnsupportedAlgorithm("curve")

    monkeypatch.setattr(pkcs12, "load_pkcs12", refuse)
    assert "not supported: curve" in refusal(ssl_truststore_location=str(path))


def named(folder: Path, common_name: str, *alternatives: str) -> ssl.SSLContext:
    """A broker's context, whose certificate has this common name and these alternative DNS names."""
    issuer = x509.load_pem_x509_certificate(authority().pem.encode())
    issuer_key: Any = serialization.load_pem_private_key(authority().ca.private_key_pem.bytes(), None)
    now = datetime.datetime.now(datetime.timezone.utc)
    key_pem = client().key_pem()
    key: Any = serialization.load_pem_private_key(key_pem.encode(), None)
    builder = x509.CertificateBuilder(
        issuer.subject,
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)]),
        key.public_key(),
        x509.random_serial_number(),
        now - datetime.timedelta(days=1),
        now + datetime.timedelta(days=1),
    )
    if alternatives:
        names = x509.SubjectAlternativeName(map(x509.DNSName, alternatives))
        builder = builder.add_extension(names, critical=False)
    certificate = builder.sign(issuer_key, hashes.SHA256())
    path = folder / "named.pem"
    path.write_text(certificate.public_bytes(serialization.Encoding.PEM).decode() + key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.mark.parametrize(
    ("common_name", "alternatives", "host", "is_accepted"),
    [
        ("broker.example.com", (), "broker.example.com", True),
        ("broker.example.com", (), "other.example.com", False),
        ("broker.example.com", ("other.example.com",), "broker.example.com", False),
        ("10.1.2.3", (), "10.1.2.3", False),
    ],
)
def test_a_common_name_counts_only_as_a_host_name_without_alternative_names(
    tmp_path: Path, common_name: str, alternatives: tuple[str, ...], host: str, is_accepted: bool
) -> None:
    one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = tls(ssl_truststore_certificates=authority().pem).context()
    ours = context.wrap_bio(one, two, server_hostname=host)
    theirs = named(tmp_path, common_name, *alternatives).wrap_bio(two, one, server_side=True)
    with contextlib.suppress(ssl.SSLWantReadError):
        ours.do_handshake()
    with contextlib.suppress(ssl.SSLWantReadError):
        theirs.do_handshake()
    with contextlib.ExitStack() as stack:
        if not is_accepted:
            stack.enter_context(pytest.raises(ssl.SSLCertVerificationError, match=r"mismatch|not valid"))
        ours.do_handshake()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN CERTIFICATE-----\n" * 300_000,
        "".join(f"-----BEGIN A{number}-----" for number in range(100_000)),
        "-----BEGIN A-----" * 100_000 + "-----END B-----" * 100_000,
    ],
    ids=["one label", "many labels", "ends of another label"],
)
def test_a_text_of_many_markers_takes_time_by_its_length_only(text: str) -> None:
    assert "found no PEM certificate" in refusal(ssl_truststore_certificates=text)


def test_markers_around_a_certificate_do_not_matter() -> None:
    pem = authority().pem
    noise = "-----END CERTIFICATE-----\n-----BEGIN X-----\n-----END Y-----\n-----BEGIN Z"
    found = key_stores.certificates_in("s", f"{noise}{pem}{noise}{pem}-----BEGIN CERTIFICATE-----")
    assert found == key_stores.certificates_in("s", pem) * 2


@pytest.mark.timeout(60)
def test_a_java_key_store_with_a_huge_certificate(tmp_path: Path) -> None:
    der = bytes(25_000_000)
    entry = struct.pack(">IHQHI", 2, 0, 0, 0, len(der)) + der
    path = tmp_path / "trust.jks"
    path.write_bytes(jks.MAGIC + struct.pack(">II", 2, 1) + entry + bytes(20))
    assert "a certificate is not valid" in refusal(ssl_truststore_location=str(path))


def test_a_path_with_a_nul_character() -> None:
    assert "ssl_cafile: expected the path of a file" in refusal(ssl_cafile="a\0b")
