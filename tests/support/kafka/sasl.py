"""SASL for test clusters: broker properties, users, and OAuth tokens that Kafka's test validator accepts.

``SHORT`` is a listener on which every session lives for five seconds; ``SECURE`` also needs a certificate.
"""

from __future__ import annotations

import base64
import json
import time

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

SESSION_MS = 5000
USERS = {"alice": "wonderland", "bob": 'q"u o;t=e\\'}
LISTENERS = {"SASL": "SASL_PLAINTEXT", "SHORT": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"}
_PACKAGE = "org.apache.kafka.common.security"
_SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


def quoted(value: str) -> str:
    """A value as JAAS configurations write it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def broker_properties(listeners: tuple[str, ...] = tuple(LISTENERS)) -> dict[str, str]:
    """PLAIN with ``USERS``, SCRAM with the users of ``add_scram_user``, OAUTHBEARER with unsigned tokens."""
    plain_users = " ".join(f"user_{name}={quoted(password)}" for name, password in USERS.items())
    jaas = {
        "plain": f"{_PACKAGE}.plain.PlainLoginModule required {plain_users};",
        "scram-sha-256": f"{_PACKAGE}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_PACKAGE}.scram.ScramLoginModule required;",
        "oauthbearer": (
            f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;"
        ),
    }
    properties = {"sasl.enabled.mechanisms": ",".join(name.upper() for name in jaas)}
    for listener in listeners:
        for mechanism, text in jaas.items():
            properties[f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config"] = text
    for mechanism in jaas:
        properties[f"listener.name.short.{mechanism}.connections.max.reauth.ms"] = str(SESSION_MS)
    return properties


def add_scram_user(bootstrap_servers: str, user: str, password: str) -> None:
    """Give a user a password for both SCRAM mechanisms, through a plaintext listener."""
    changes = [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
        for mechanism in _SCRAM.values()
    ]
    _alter(bootstrap_servers, changes)


def delete_scram_user(bootstrap_servers: str, user: str) -> None:
    """Take both passwords away."""
    _alter(bootstrap_servers, [UserScramCredentialDeletion(user, mechanism) for mechanism in _SCRAM.values()])


def _alter(bootstrap_servers: str, changes: list) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for change in changes:
        # One at a time: librdkafka sends a request with two changes of one user, which brokers refuse.
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(30)


def unsigned_token(subject: str = "alice", lifetime_s: float = 3600, **claims: object) -> tuple[str, float]:
    """A token that Kafka's validator for tests accepts, and its expiry."""
    now_s = time.time()
    claims = {"sub": subject, "iat": now_s, "exp": now_s + lifetime_s, **claims}
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()) for each in ({"alg": "none"}, claims)]
    return ".".join(part.decode().rstrip("=") for part in parts) + ".", now_s + lifetime_s
