"""Checks URLs that are signed with AWS's Signature Version 4, as a service does. Uses no code of AWS.

Source: "Signature Version 4 signing process" in the AWS General Reference.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlsplit

_EMPTY_BODY = hashlib.sha256(b"").hexdigest()


def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    """The key for one day, region and service."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def expected_signature(url: str, secret: str, headers: Mapping[str, str] | None = None) -> str:
    """The signature that a signed GET of ``url`` should have. ``host`` need not be in ``headers``."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    sent = {"host": parts.netloc, **(headers or {})}
    signed = query["X-Amz-SignedHeaders"].split(";")
    _, day, region, service, _ = query["X-Amz-Credential"].split("/")
    pairs = sorted(
        f"{quote(name, safe='')}={quote(value, safe='')}"
        for name, value in query.items()
        if name not in ("X-Amz-Signature", "User-Agent")  # MSK's signer adds the latter afterwards
    )
    canonical = "\n".join(
        ["GET", parts.path or "/", "&".join(pairs)]
        + [f"{name}:{sent[name]}" for name in signed]
        + ["", ";".join(signed), _EMPTY_BODY]
    )
    text = "\n".join(
        [
            query["X-Amz-Algorithm"],
            query["X-Amz-Date"],
            f"{day}/{region}/{service}/aws4_request",
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    return hmac.digest(signing_key(secret, day, region, service), text.encode(), "sha256").hex()
