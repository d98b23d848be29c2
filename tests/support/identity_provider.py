"""An identity provider on loopback: a token endpoint and the public keys (JWKS) that verify its tokens.

Accepts client credentials with a secret or an assertion, and assertions as grants; and answers as Azure's
metadata service does (IMDS). Tests replace the next answers (``answer_next``), and read the requests that
arrived.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.parse
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

ISSUER, AUDIENCE = "https://issuer.test", "kafka"
CLIENT_ID, CLIENT_SECRET = "client one", "s3cr3t/+&= \u00e4"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

#: Header fields with which clients ask for tokens; others, such as ``Host``, have no meaning for the answer.
_RELEVANT = ("Accept", "Authorization", "Content-Type", "Metadata")
_IMDS_PATH = "/metadata/identity/oauth2/token"

#: Status, content type and body of an answer.
Answer = tuple[int, str, bytes]


def json_answer(status: int, **fields: object) -> Answer:
    return status, "application/json", json.dumps(fields).encode()


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Clients that give up are a part of the tests."""


class IdentityProvider:
    """Use as a context manager.

    Attributes:
        claims: of issued tokens, beside ``iat`` and ``exp``.
        lifetime_s: of issued tokens.
        client_keys: verify assertions, by algorithm.
        requests: the forms that arrived, each with the header ``Authorization``.
        exchanges: method, path with query, relevant header fields and form of each request for a token.
        issued: the tokens, in order.
        signing_key: of the tokens; brokers that know one provider accept another with the same key.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, signing_key: RSAKey | None = None) -> None:
        self.claims: dict[str, Any] = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice"}
        self.lifetime_s = 3600.0
        self.client_keys: dict[str, RSAKey | ECKey] = {
            "RS256": RSAKey.generate_key(2048),
            "ES256": ECKey.generate_key("P-256"),
        }
        self.requests: list[dict[str, str]] = []
        self.exchanges: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
        self.issued: list[str] = []
        self._answers: deque[Callable[[BaseHTTPRequestHandler], Answer | None]] = deque()
        self.signing_key = signing_key or RSAKey.generate_key(
            2048, {"kid": "1", "use": "sig", "alg": "RS256"}
        )
        self._server = _QuietServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._scheme = "http" if tls is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> IdentityProvider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def token_url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/token"

    @property
    def imds_url(self) -> str:
        return self.token_url.replace("/token", _IMDS_PATH)

    @property
    def jwks_url(self) -> str:
        return self.token_url.replace("/token", "/jwks")

    def write_client_key(self, folder: Path, algorithm: str = "RS256", password: str | None = None) -> str:
        """Write the private key that signs the client's assertions; returns its path."""
        path = folder / f"client-{algorithm}.pem"
        path.write_bytes(self.client_keys[algorithm].as_pem(private=True, password=password))
        return str(path)

    def answer_next(self, *answers: Answer | Callable[[BaseHTTPRequestHandler], Answer | None]) -> None:
        """Answer the next token requests like this; a function may write by itself and return ``None``."""
        for answer in answers:
            self._answers.append(answer if callable(answer) else lambda _, answer=answer: answer)

    def answer_as_usual(self) -> None:
        """Forget the answers that are left."""
        self._answers.clear()

    def new_token(self, **claims: object) -> str:
        """A signed token."""
        now_s = time.time()
        payload = {"iat": int(now_s), "exp": int(now_s + self.lifetime_s), **self.claims, **claims}
        token = jwt.encode({"alg": "RS256", "kid": "1"}, payload, self.signing_key)
        self.issued.append(token)
        return token

    def _answer_to(self, form: dict[str, str]) -> Answer:
        if (form.get("grant_type"), form.get("client_assertion_type")) in (
            (JWT_BEARER, None),
            ("client_credentials", CLIENT_ASSERTION),
        ):
            if mistake := self._assertion_mistake(form.get("assertion") or form.get("client_assertion", "")):
                return json_answer(400, error="invalid_grant", error_description=mistake)
        elif form.get("grant_type") == "client_credentials":
            pair = f"{CLIENT_ID}:{CLIENT_SECRET}"
            encoded = ":".join(map(urllib.parse.quote_plus, (CLIENT_ID, CLIENT_SECRET)))
            if form["authorization"] not in (_basic(pair), _basic(encoded)):
                return json_answer(401, error="invalid_client", error_description="Unknown client or secret")
        else:
            return json_answer(400, error="unsupported_grant_type")
        return json_answer(
            200, access_token=self.new_token(), token_type="Bearer", expires_in=int(self.lifetime_s)
        )

    def _answer_of_imds(self, target: str, headers: dict[str, str]) -> Answer:
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(target).query))
        if headers.get("Metadata") != "true" or not {"api-version", "resource"} <= query.keys():
            return json_answer(
                400, error="invalid_request", error_description="Required metadata header or query"
            )
        life_s = int(self.lifetime_s)
        expires_on = str(int(time.time()) + life_s)
        token = self.new_token()
        return json_answer(200, access_token=token, expires_in=str(life_s), expires_on=expires_on)

    def _assertion_mistake(self, assertion: str) -> str | None:
        try:
            token = jwt.decode(
                assertion,
                lambda unverified: self.client_keys[unverified.headers()["alg"]],
                ["RS256", "ES256"],
            )
            rules = {"essential": True, "value": CLIENT_ID}
            jwt.JWTClaimsRegistry(
                iss=rules,
                sub=rules,
                aud={"essential": True, "value": self.token_url},
                exp={"essential": True},
            ).validate(token.claims)
        except (JoseError, ValueError) as error:
            return f"{type(error).__name__} {error}"
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 30

            def do_GET(self) -> None:
                if self.path.startswith(_IMDS_PATH):
                    headers = self._note_exchange({})
                    self._answer(lambda: provider._answer_of_imds(self.path, headers))
                    return
                keys = {"keys": [provider.signing_key.as_dict(private=False)]}
                self._write(*json_answer(200, **keys))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = dict(urllib.parse.parse_qsl(body, strict_parsing=True))
                form["authorization"] = self.headers.get("Authorization", "")
                self._note_exchange({name: text for name, text in form.items() if name != "authorization"})
                provider.requests.append(form)
                self._answer(lambda: provider._answer_to(form))

            def _note_exchange(self, form: dict[str, str]) -> dict[str, str]:
                headers = {name: text for name in _RELEVANT if (text := self.headers.get(name)) is not None}
                provider.exchanges.append((self.command, self.path, headers, form))
                return headers

            def _answer(self, usual: Callable[[], Answer]) -> None:
                answer = provider._answers.popleft()(self) if provider._answers else usual()
                if answer is not None:
                    self._write(*answer)

            def _write(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        return Handler


def _basic(pair: str) -> str:
    return "Basic " + base64.b64encode(pair.encode()).decode()
