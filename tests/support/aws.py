"""AWS on loopback: hands out temporary credentials as EC2 and STS do, and counts how often it is asked."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlsplit

import attrs
import pytest

from tests.support.sigv4 import expected_signature

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ROLE = "arn:aws:iam::123456789012:role/producer"
_ROLE_XML = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
<Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>role-secret</SecretAccessKey>
<SessionToken>role-token</SessionToken><Expiration>{expiration}</Expiration></Credentials>
<AssumedRoleUser><Arn>{arn}</Arn><AssumedRoleId>A:b</AssumedRoleId></AssumedRoleUser>
</AssumeRoleResult></AssumeRoleResponse>"""
_WEB_TOKEN_XML = """<GetWebIdentityTokenResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<GetWebIdentityTokenResult><WebIdentityToken>{token}</WebIdentityToken><Expiration>{expiration}</Expiration>
</GetWebIdentityTokenResult></GetWebIdentityTokenResponse>"""
_IDENTITY_XML = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/alice</Arn><UserId>A</UserId>
<Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"""
_DENIED_XML = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>not authorized to: sts:AssumeRole</Message></Error></ErrorResponse>"""


def remove_identity(environment: pytest.MonkeyPatch, folder: Path) -> None:
    """Hide the AWS credentials and the region of this machine."""
    for name in ("PROFILE", "REGION", "DEFAULT_REGION", "ACCESS_KEY_ID", "SESSION_TOKEN", "ROLE_ARN"):
        environment.delenv(f"AWS_{name}", raising=False)
    environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
    environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
    environment.setenv("AWS_CONFIG_FILE", str(folder / "config"))


@attrs.define
class FakeAws:
    """Attributes:
    url: of EC2's metadata service and of STS.
    requests: method and path, or the parameters of a request to STS.
    lifetime_s: of the credentials.
    is_denied: whether STS refuses.
    web_token: what STS issues (``GetWebIdentityToken``).
    sts_body: with which STS answers instead.
    sts_status: of that answer.
    """

    url: str = ""
    requests: list[object] = attrs.field(factory=list)
    lifetime_s: float = 3600
    is_denied: bool = False
    web_token: str = "header.payload.signature"
    sts_body: str = ""
    sts_status: int = 200

    def answer(self, method: str, path: str, body: str) -> tuple[int, str]:
        """Status and body."""
        self.requests.append(dict(parse_qsl(body)) if body else f"{method} {path}")
        now = datetime.datetime.now(datetime.timezone.utc)
        expiration = (now + datetime.timedelta(seconds=self.lifetime_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
        if self.is_denied:
            return 403, _DENIED_XML
        if body and self.sts_body:
            return self.sts_status, self.sts_body
        if "GetCallerIdentity" in body:
            return 200, _IDENTITY_XML
        if "GetWebIdentityToken" in body:
            return 200, _WEB_TOKEN_XML.format(expiration=expiration, token=self.web_token)
        if body:
            action = self.requests[-1]["Action"]
            text = _ROLE_XML.format(expiration=expiration, arn=ROLE)
            return 200, text.replace("<AssumeRoleRe", f"<{action}Re").replace(
                "</AssumeRoleRe", f"</{action}Re"
            )
        if path.endswith("/token"):
            return 200, "metadata-token"
        if path.endswith("/security-credentials/"):
            return 200, "instance-role"
        document = {"Code": "Success", "LastUpdated": expiration, "Type": "HMAC", "Expiration": expiration}
        document |= {"AccessKeyId": "ASIAINSTANCE", "SecretAccessKey": "instance-secret", "Token": "i-token"}
        return 200, json.dumps(document)


@contextlib.contextmanager
def running_aws() -> Iterator[FakeAws]:
    """A FakeAws on a free port."""
    aws = FakeAws()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            status, text = aws.answer(self.command, self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            if self.path.endswith("/token"):
                self.send_header("x-aws-ec2-metadata-token-ttl-seconds", "21600")
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = do_POST = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    aws.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield aws
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def url_of(token: str) -> str:
    """The signed URL in a token."""
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def query_of(token: str) -> dict[str, str]:
    """The parameters of the signed URL."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url_of(token)).query).items()}


def is_signed_by(token: str, key: str, secret: str) -> bool:
    """Whether a token has this key's signature, checked as MSK checks it."""
    query = query_of(token)
    return query["X-Amz-Credential"].startswith(f"{key}/") and query["X-Amz-Signature"] == expected_signature(
        url_of(token), secret
    )
