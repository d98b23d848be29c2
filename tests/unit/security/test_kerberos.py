"""GSSAPI with a real KDC, and the library's other side as the broker: what is agreed, what is missing."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from kproducer.errors import AuthenticationError, NetworkError
from tests.support.kerberos import REALM, Kdc

pytestmark = pytest.mark.kerberos

HOST = "127.0.0.1"
BROKER = f"kafka/{HOST}"
_WAIT_S = 30.0


@pytest.fixture(scope="module")
def realm():
    with Kdc() as kdc:
        kdc.add_principal(BROKER)
        kdc.add_principal("alice", "wonderland")
        yield kdc


@pytest.fixture(scope="module")
def broker_keytab(realm):
    return realm.keytab(BROKER)


@pytest.fixture(autouse=True)
def kdc(realm, monkeypatch):
    realm.set_environment(monkeypatch)
    yield realm
    realm.remove_tickets()


def login(keytab="", principal="", service="kafka", domain="", cache=""):
    from kproducer._core.security.kerberos import KerberosLogin

    return KerberosLogin(service, domain, principal, keytab, cache)


class Broker:
    """The broker's side, as Kafka's: mutual authentication, then the offer of security layers."""

    def __init__(self, keytab, layers=b"\x01\x00\x00\x00"):
        import gssapi

        credentials = gssapi.Credentials(usage="accept", store={"keytab": keytab})
        self.context = gssapi.SecurityContext(creds=credentials, usage="accept")
        self.layers = layers
        self.reply = None

    def answer(self, message):
        if not self.context.complete:
            return self.context.step(message)
        if self.reply is None and message == b"":
            return self.context.wrap(self.layers, False).message
        self.reply = self.context.unwrap(message).message
        return b""

    @property
    def client(self):
        return str(self.context.initiator_name)


def converse(conversation, broker):
    message = conversation.first_message()
    while message is not None:
        message = conversation.answer(broker.answer(message))


def test_a_ticket_authenticates_both_sides_without_a_security_layer(kdc, broker_keytab):
    kdc.kinit("alice", "wonderland")
    broker = Broker(broker_keytab)
    converse(login().begin(HOST), broker)
    assert broker.client == f"alice@{REALM}"
    assert broker.reply == b"\x01\x00\x00\x00"


def test_a_keytab_authenticates_without_a_ticket(kdc, broker_keytab):
    user = login(kdc.keytab("alice"), "alice")
    for host in (HOST, HOST + "."):
        broker = Broker(broker_keytab)
        converse(user.begin(host), broker)
        assert broker.client == f"alice@{REALM}"
    assert user.identity == f"principal 'alice@{REALM}'"
    assert not kdc.ticket_cache.exists()


def test_a_keytab_needs_no_principal(kdc, broker_keytab):
    broker = Broker(broker_keytab)
    converse(login(kdc.keytab("alice"), domain=HOST).begin("a.load.balancer"), broker)
    assert broker.client == f"alice@{REALM}"


def repeat(action):
    """Until it raises."""
    deadline_s = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline_s:
        action()
        time.sleep(0.05)


def test_expired_tickets_are_replaced_with_the_keytab(kdc, broker_keytab):
    import gssapi

    kdc.add_principal("short", "lived")
    kdc.limit_tickets("short", 1)
    user = login(kdc.keytab("short"), "short")
    user.begin(HOST)
    # The cache alone, without the keytab, shows when the first ticket has expired.
    cache = {"ccache": user._store["ccache"]}
    with pytest.raises(gssapi.exceptions.ExpiredCredentialsError):
        repeat(lambda: gssapi.Credentials(usage="initiate", store=cache).inquire())
    broker = Broker(broker_keytab)
    converse(user.begin(HOST), broker)
    assert broker.client == f"short@{REALM}"


def test_a_ticket_cache_can_be_named(kdc, broker_keytab, monkeypatch):
    kdc.kinit("alice", "wonderland")
    monkeypatch.setenv("KRB5CCNAME", "FILE:/none")
    broker = Broker(broker_keytab)
    converse(login(cache=f"FILE:{kdc.ticket_cache}").begin(HOST), broker)
    assert broker.client == f"alice@{REALM}"


@pytest.mark.parametrize("layers", [b"\x06\x00\x10\x00", b"\x04\x00\x10\x00", b"", b"\x01\x00\x00"])
def test_a_broker_that_requires_a_security_layer_is_refused(kdc, broker_keytab, layers):
    conversation = login(kdc.keytab("alice")).begin(HOST)
    with pytest.raises(AuthenticationError, match="requires a security layer"):
        converse(conversation, Broker(broker_keytab, layers))


def test_a_broker_that_cannot_prove_who_it_is_is_refused(kdc):
    conversation = login(kdc.keytab("alice")).begin(HOST)
    conversation.first_message()
    for challenge in (b"", b"junk", conversation.first_message()):
        with pytest.raises(AuthenticationError, match="Kerberos: "):
            login(kdc.keytab("alice")).begin(HOST).answer(challenge)


def test_an_offer_that_somebody_changed_is_refused(kdc, broker_keytab):
    conversation, broker = login(kdc.keytab("alice")).begin(HOST), Broker(broker_keytab)
    assert conversation.answer(broker.answer(conversation.first_message())) == b""
    offer = bytearray(broker.answer(b""))
    offer[-1] ^= 1
    with pytest.raises(AuthenticationError, match="Kerberos: "):
        conversation.answer(bytes(offer))


def refused(user, host=HOST):
    with pytest.raises(AuthenticationError) as caught:
        user.begin(host)
    return str(caught.value)


def test_without_a_ticket_the_error_says_how_to_get_one(kdc):
    assert "there is no ticket: run kinit" in refused(login())
    assert "there is no ticket: run kinit" in refused(login(cache="FILE:/none"))


def test_an_expired_ticket_is_called_so(kdc):
    kdc.kinit("alice", "wonderland", lifetime="1s")
    user = login()
    with pytest.raises(AuthenticationError, match="the ticket has expired: run kinit"):
        repeat(lambda: user.begin(HOST))


def test_an_unknown_service_is_named_with_what_to_check(kdc):
    text = refused(login(kdc.keytab("alice"), service="nobody"))
    assert f"nobody/{HOST}@{REALM} not found" in text
    assert "check sasl_kerberos_service_name" in text
    assert "b9 not found" not in refused(login(kdc.keytab("alice"), domain=HOST, service="x"), "b9")


def test_mistakes_in_the_keytab_are_told_apart(kdc):
    for name in ("bob", "carol"):
        kdc.add_principal(name, "old")
    bob, carol = kdc.keytab("bob"), kdc.keytab("carol")
    kdc.change_key("bob")
    kdc.delete_principal("carol")
    assert "does not have the current key" in refused(login(bob, "bob"))
    assert "the realm does not have the client's principal" in refused(login(carol, "carol"))
    assert "the keytab does not have a key of the principal" in refused(login(bob, "alice"))


def test_a_realm_without_kdc_and_a_kdc_that_does_not_answer(kdc, monkeypatch, tmp_path):
    keytab = kdc.keytab("alice")
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "none"))
    assert "krb5.conf has no KDC for the realm" in refused(login(keytab, f"alice@{REALM}"))
    kdc.set_environment(monkeypatch)
    kdc.stop()
    try:
        assert "no KDC answers" in refused(login(keytab, "alice"))
    finally:
        kdc.start()


@pytest.mark.parametrize(
    ("offset", "advice"),
    [
        (14, "no encryption type in common"),
        (37, "the clocks of this machine and of the KDC or broker differ"),
        (181, "the keytab does not have a key of the principal"),
        (224, "krb5.conf has no default_realm"),
    ],
)
def test_errors_that_this_realm_cannot_cause_are_explained_by_their_code(monkeypatch, offset, advice):
    import gssapi

    user = login()

    def fail():
        raise gssapi.exceptions.GSSError(13 << 16, (-1765328384 + offset) % 2**32)

    monkeypatch.setattr(user, "_credentials", fail)
    assert advice in refused(user)


def test_begin_never_waits_for_the_kdc(kdc, monkeypatch, tmp_path, broker_keytab):
    from kproducer._core.security.kerberos import GssapiMechanism

    silent = socket.create_server(("127.0.0.1", 0))
    slow = tmp_path / "krb5.conf"
    real = kdc.krb5_conf.read_text()
    port = real.partition("kdc = 127.0.0.1:")[2].split()[0]
    slow.write_text(real.replace(port, str(silent.getsockname()[1])))
    monkeypatch.setenv("KRB5_CONFIG", str(slow))
    changed = threading.Event()
    user = GssapiMechanism(login(kdc.keytab("alice")), changed.set)
    assert user.begin(HOST) is None
    connection, _ = silent.accept()  # the library is waiting for an answer now
    assert user.begin(HOST) is None
    assert not changed.is_set()
    assert user.waits_for(HOST) == "the KDC has not answered"
    silent.close()
    connection.close()
    assert changed.wait(_WAIT_S)
    assert user.waits_for(HOST) == ""
    with pytest.raises(AuthenticationError, match="no KDC answers"):
        user.begin(HOST)
    kdc.set_environment(monkeypatch)
    changed.clear()
    assert user.begin(HOST) is None
    assert changed.wait(_WAIT_S)
    broker = Broker(broker_keytab)
    converse(user.begin(HOST), broker)
    assert broker.client == f"alice@{REALM}"


class FakeLogin:
    """Begins conversations that are just texts."""

    identity = "nobody"

    def __init__(self):
        self.hosts = []

    def begin(self, host):
        self.hosts.append(host)
        if host == "broken":
            raise OSError("secret")
        return f"{host} {len(self.hosts)}"


def test_each_conversation_is_used_once_and_only_while_it_is_fresh():
    from kproducer._core.security.kerberos import GssapiMechanism

    now_s = [0.0]
    changed = threading.Event()
    user = GssapiMechanism(FakeLogin(), changed.set, lambda: now_s[0])

    def begun(host):
        assert user.begin(host) is None
        assert changed.wait(_WAIT_S)
        changed.clear()

    begun("a")
    begun("b")
    assert user.begin("a") == "a 1"
    begun("a")
    assert user.begin("a") == "a 3"
    now_s[0] += 3600
    begun("b")
    assert user.begin("b") == "b 4"
    begun("broken")
    with pytest.raises(AuthenticationError, match=r"^Kerberos failed with OSError$"):
        user.begin("broken")


def test_without_a_thread_the_next_use_tries_again(monkeypatch):
    from kproducer._core.security.kerberos import GssapiMechanism

    class Login:
        identity = "somebody"

        def begin(self, host):
            return host

    def refuse(self):
        raise RuntimeError("can't start new thread")

    changed = threading.Event()
    mechanism = GssapiMechanism(Login(), changed.set)
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NetworkError, match="can't start new thread"):
            mechanism.begin(HOST)
    assert mechanism.begin(HOST) is None
    assert changed.wait(_WAIT_S)
    assert mechanism.begin(HOST) == HOST
