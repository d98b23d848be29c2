"""TokenEndpoint and TokenFile: slow, failing and malformed answers, trust, proxies; no secret is shown."""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
import time
import traceback
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.security.oauth_tokens import RetriableTokenError
from kproducer._core.security.sasl_settings import sasl_mechanism_of
from kproducer._core.security.token_endpoint import ClientSecretGrant, TokenEndpoint, TokenFile
from kproducer.errors import AuthenticationError
from tests.support.certificates import Authority
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, json_answer
from tests.support.loopback import Listener, closed_port

TOKEN = "opaque-token-7"


@pytest.fixture(scope="module")
def idp():
    with IdentityProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def encrypted(authority, tmp_path_factory):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("127.0.0.1").write(tmp_path_factory.mktemp("tls"), "idp"))
    with IdentityProvider(context) as provider:
        yield provider


def endpoint(url, *, timeout_ms=20_000, read_timeout_ms=20_000, secret=CLIENT_SECRET):
    return TokenEndpoint(
        url, ClientSecretGrant(CLIENT_ID, secret, "", False), None, timeout_ms, read_timeout_ms
    )


def provider_of(url, **others):
    chosen = {
        "bootstrap_servers": "localhost:1",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": url,
        "sasl_oauthbearer_client_credentials_client_id": CLIENT_ID,
        "sasl_oauthbearer_client_credentials_client_secret": CLIENT_SECRET,
    }
    return sasl_mechanism_of(ProducerConfig(**chosen, **others))._tokens._provider


def failure(request, kind=AuthenticationError) -> str:
    with pytest.raises(kind) as caught:
        request()
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
    for secret in (CLIENT_SECRET, basic, TOKEN):
        assert secret not in shown
    return str(caught.value)


def test_opaque_tokens_expire_as_the_answer_says(idp):
    for fields in (
        {"access_token": TOKEN, "expires_in": 60},
        {"access_token": f" {TOKEN}\n", "expires_in": "60"},
        {"id_token": TOKEN, "expires_in": 60.0},
    ):
        idp.answer_next(json_answer(200, **fields))
        before_s = time.time()
        token = endpoint(idp.token_url)()
        assert token.value == TOKEN
        assert before_s + 60 <= token.expires_at <= time.time() + 60


def test_the_claim_of_a_jwt_goes_before_the_answer(idp):
    expires_at = int(time.time()) + 1000
    idp.answer_next(json_answer(200, access_token=idp.new_token(exp=expires_at), expires_in=7200))
    assert endpoint(idp.token_url)().expires_at == expires_at


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_an_overloaded_endpoint_may_be_asked_again(idp, status):
    idp.answer_next(json_answer(status, error="temporarily_unavailable"))
    text = failure(endpoint(idp.token_url), RetriableTokenError)
    assert f"answered with HTTP status {status}: temporarily_unavailable" in text


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (json_answer(400, error="invalid_scope", error_description="no\nscope"), r"invalid_scope: no\nscope"),
        (json_answer(401, errorCode="E01", errorSummary="Bad client"), "status 401: E01: Bad client"),
        (json_answer(403, error=["list"]), "403: no reason in its answer (application/json)"),
        ((404, "text/html", b"<html>"), "404: no reason in its answer (text/html)"),
        (json_answer(400, error=f"bad secret {CLIENT_SECRET}!"), "bad secret (not shown)!"),
        ((302, "text/plain", b""), "HTTP status 302"),
        ((204, "text/plain", b""), "HTTP status 204"),
        ((200, "text/html", b"<html>Log in</html>"), "answered with text/html, 19 bytes, instead of a JSON"),
        ((200, "application/json", b""), "0 bytes, instead of a JSON object"),
        ((200, "application/json", b'"token"'), "instead of a JSON object"),
        ((200, "application/json", b"[" * 100_000), "instead of a JSON object"),
        ((200, "application/json", b" " * (2 << 20)), "1048576 bytes, instead of a JSON object"),
        (json_answer(200, error="x"), "has no access_token"),
        (json_answer(200, access_token=""), "has no access_token"),
        (json_answer(200, access_token=7), "has no access_token"),
        (json_answer(200, access_token=TOKEN), "does not say when its token expires"),
        (json_answer(200, access_token=TOKEN, expires_in=True), "does not say when its token expires"),
        (json_answer(200, access_token=TOKEN, expires_in=10**400), "does not say when its token expires"),
        (
            json_answer(200, access_token=TOKEN, expires_in="9" * 5000),
            "does not say when its token expires",
        ),
        (
            json_answer(200, access_token=TOKEN, expires_in=float("inf")),
            "does not say when its token expires",
        ),
        (json_answer(200, access_token="a.!!.b", expires_in=None), "does not say when its token expires"),
        (
            json_answer(200, access_token=TOKEN, expires_in=0),
            "expired 0 s ago; if it is new, check the clock",
        ),
    ],
)
def test_answers_without_a_token_are_final(idp, answer, complaint):
    idp.answer_next(answer)
    assert complaint in failure(endpoint(idp.token_url))


def test_an_expired_token(idp):
    idp.answer_next(json_answer(200, access_token=idp.new_token(exp=1)))
    assert re.search(r"expired \d{10} s ago", failure(endpoint(idp.token_url)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
answers = st.fixed_dictionaries(
    {},
    optional={
        "access_token": json_values | st.text("abc.=-_", max_size=30),
        "expires_in": json_values,
        "error": json_values,
        "error_description": json_values,
    },
)


@given(
    body=st.binary(max_size=50) | answers.map(lambda it: json.dumps(it).encode()),
    status=st.integers(200, 599),
)
def test_every_answer_is_a_token_or_one_of_two_errors(idp, body, status):
    asked = endpoint(idp.token_url)
    asked._exchange = lambda _: (status, "application/json", body)
    text = ""
    before_s = time.time()
    try:
        assert asked().expires_at > before_s
    except (AuthenticationError, RetriableTokenError) as error:
        text = str(error)
    assert text.isprintable()


@given(claims=answers, name=st.sampled_from(["exp", "sub"]))
def test_every_payload_of_a_token_is_accepted_or_refused(idp, claims, name):
    payload = json.dumps({name: claims.get("expires_in"), **claims}).encode()
    token = f"h.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.s"
    asked = endpoint(idp.token_url)
    asked._exchange = lambda _: (200, "application/json", json.dumps({"access_token": token}).encode())
    text = ""
    try:
        assert asked().value == token
    except AuthenticationError as error:
        text = str(error)
    assert token not in text


def test_an_endpoint_that_is_not_there():
    with closed_port() as port:
        text = failure(endpoint(f"http://127.0.0.1:{port}/token?key=abc"), RetriableTokenError)
    assert text == (
        f"the token endpoint http://127.0.0.1:{port}/token (sasl_oauthbearer_token_endpoint_url) cannot be"
        " reached: Connection refused"
    )
    text = failure(endpoint("http://no-such-host.invalid/token"), RetriableTokenError)
    assert "no-such-host.invalid/token (sasl_oauthbearer_token_endpoint_url) cannot be reached" in text


def test_an_endpoint_that_does_not_answer_in_time():
    with Listener() as listener:
        asked = endpoint(f"http://127.0.0.1:{listener.address[1]}/", read_timeout_ms=50)
        assert "timeout (sasl_login_connect_timeout_ms" in failure(asked, RetriableTokenError)


@pytest.mark.parametrize(
    ("begin", "repeated"),
    [
        (b"HTTP/1.1 200", b" "),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    ],
    ids=["status", "header", "interim", "body", "chunk"],
)
def test_an_endpoint_that_answers_byte_by_byte(idp, begin, repeated):
    idp.answer_next(lambda handler: drip(handler.wfile.write, begin, repeated))
    assert "timeout" in failure(endpoint(idp.token_url, read_timeout_ms=100), RetriableTokenError)


@pytest.mark.parametrize("scheme", ["https", "http"], ids=["handshake", "tunnel"])
def test_a_connection_that_comes_up_byte_by_byte(scheme, monkeypatch):
    begin, repeated = b"\x16\x03\x03\x40\x00", b"\0"  # a handshake record of 16 KiB
    with Listener() as listener:
        address = f"127.0.0.1:{listener.address[1]}"
        url = f"https://{address}/"
        if scheme == "http":
            monkeypatch.setenv("no_proxy", "")
            monkeypatch.setenv("https_proxy", f"http://{address}")
            url, begin, repeated = "https://behind-the-proxy.invalid/", b"HTTP/1.1 200", b" "

        def answer():
            with listener.accept() as peer:
                drip(peer.sendall, begin, repeated)

        server = threading.Thread(target=answer)
        server.start()
        request = ClientSecretGrant(CLIENT_ID, CLIENT_SECRET, "", False)
        asked = TokenEndpoint(url, request, ssl.create_default_context, 100, 20_000)
        assert "timeout" in failure(asked, RetriableTokenError)
        server.join()


def drip(write, begin, repeated):
    """Send without end; a client that has no deadline gets the end of the stream after a while."""
    end_s = time.monotonic() + 20
    try:
        write(begin)
        while time.monotonic() < end_s:
            time.sleep(0.01)
            write(repeated)
    except OSError:
        pass  # the client has given up


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"garbage\r\n\r\n",
    ],
)
def test_a_connection_that_ends_early(idp, text):
    idp.answer_next(lambda handler: handler.wfile.write(text) and None)
    assert "cannot be reached" in failure(endpoint(idp.token_url), RetriableTokenError)


def test_redirections_are_not_followed(idp):
    def redirect(handler):
        handler.send_response(307)
        handler.send_header("Location", idp.token_url)
        handler.end_headers()

    count = len(idp.requests)
    idp.answer_next(redirect)
    assert "HTTP status 307" in failure(endpoint(idp.token_url))
    assert len(idp.requests) == count + 1


def test_a_proxy_of_the_environment(idp, monkeypatch):
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", idp.token_url.removesuffix("/token"))
    assert endpoint("http://behind-the-proxy.invalid/token")().value == idp.issued[-1]


def test_trusted_authorities(encrypted, authority, tmp_path):
    jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    path = authority.write(tmp_path)
    for trust in (
        {"https_ca_location": path},
        {"https_ca_pem": authority.pem},
        {"sasl_jaas_config": f'{jaas} ssl.truststore.location="{path}" ssl.truststore.type="PEM";'},
    ):
        assert provider_of(encrypted.token_url, **trust)().value == encrypted.issued[-1]
    text = failure(provider_of(encrypted.token_url, https_ca_pem=Authority().pem))
    assert "set https_ca_location" in text
    text = failure(provider_of(encrypted.token_url, https_ca_location="probe"))
    assert "set https_ca_location" in text
    other_host = encrypted.token_url.replace("127.0.0.1", "localhost")
    assert "ostname mismatch" in failure(provider_of(other_host, https_ca_location=path))


def test_trust_for_brokers_does_not_apply_to_the_endpoint(encrypted, authority, tmp_path):
    others = {"ssl_cafile": authority.write(tmp_path)}
    chosen = provider_of(encrypted.token_url, **others)
    assert "set https_ca_location" in failure(chosen)


def test_an_endpoint_without_tls(idp):
    url = idp.token_url.replace("http:", "https:")
    failure(
        provider_of(url, https_ca_pem=Authority().pem, sasl_login_read_timeout_ms=500), RetriableTokenError
    )


def test_a_secret_that_the_endpoint_repeats_encoded(idp):
    encoded = urllib.parse.quote_plus(CLIENT_SECRET)
    idp.answer_next(json_answer(400, error=encoded))
    asked = provider_of(idp.token_url, sasl_oauthbearer_header_urlencode=True)
    assert encoded not in failure(asked)


def test_a_file_is_read_again_for_each_token(idp, tmp_path):
    path = tmp_path / "token"
    source = TokenFile(str(path))
    assert "cannot be read: No such file" in failure(source)
    for token in (idp.new_token(sub="a"), idp.new_token(sub="b")):
        path.write_text(f"{token}\r\n")
        assert source().value == token
    for content, complaint in (
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "has characters that a token cannot"),
        (TOKEN.encode(), "does not say when"),
        (idp.new_token(exp=1).encode(), "expired"),
    ):
        path.write_bytes(content)
        assert complaint in failure(source)


@pytest.mark.parametrize("secret", ["long" * 200 + "end", 'back\\slash"\u00e9'])
def test_no_part_of_a_secret_that_the_endpoint_repeats_is_shown(idp, secret):
    idp.answer_next(json_answer(400, error="bad", error_description=f"rejected {secret}, sorry"))
    text = failure(endpoint(idp.token_url, secret=secret))
    assert "bad: rejected (not shown), sorry" in text
