"""RegistryTokens: OAuth tokens for the requests to a registry, kept fresh ahead of their expiry.

They come from where those for brokers come from (``kproducer._core.security``), with the names that
confluent-kafka has for a registry's settings.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kproducer._core.config.producer_config import ProducerConfig
from kproducer.errors import ConfigError, KafkaError, SchemaRegistryError
from kproducer.schema_registry import deadlines

if TYPE_CHECKING:
    from kproducer._core.security.oauth_tokens import TokenSource

_URL, _QUERY = "bearer.auth.issuer.endpoint.url", "bearer.auth.issuer.endpoint.query"
_AWS = "bearer.auth.aws.config"
_CLIENT_ID, _SECRET, _SCOPE = "bearer.auth.client.id", "bearer.auth.client.secret", "bearer.auth.scope"
AUTHORITIES = "https.ca.location"
#: By ``bearer.auth.credentials.source``: the ``sasl_oauthbearer_metadata_authentication_type`` of a producer
#: that means the same, and the settings that have an effect.
SOURCES = {
    "OAUTHBEARER": ("none", (_URL, _CLIENT_ID, _SECRET, _SCOPE, AUTHORITIES)),
    "OAUTHBEARER_AZURE_IMDS": ("azure_imds", (_URL, _QUERY, AUTHORITIES)),
    "OAUTHBEARER_AZURE_WORKLOAD_IDENTITY": (
        "azure_workload_identity",
        (_URL, _CLIENT_ID, _SCOPE, AUTHORITIES),
    ),
    "OAUTHBEARER_AWS_IAM": ("aws_iam", (_AWS,)),
}
#: The producer's settings, by the registry's.
_OWN_NAMES = {
    _URL: "sasl_oauthbearer_token_endpoint_url",
    _QUERY: "sasl_oauthbearer_config",
    _AWS: "sasl_oauthbearer_config",
    _CLIENT_ID: "sasl_oauthbearer_client_credentials_client_id",
    _SECRET: "sasl_oauthbearer_client_credentials_client_secret",
    _SCOPE: "sasl_oauthbearer_scope",
    AUTHORITIES: "https_ca_location",
}
SETTING_NAMES = tuple(_OWN_NAMES)


class RegistryTokens:
    """The current token of a registry's client. Thread-safe; usable in a forked child.

    A thread, which begins with the first use, requests tokens (``TokenSource``).

    Args:
        source: ``bearer.auth.credentials.source``.
        given: the settings in ``SETTING_NAMES`` that were set.
        timeout_s: for connecting to the server that issues tokens, and again for its answer.

    Raises:
        ConfigError: a setting is missing or wrong, or has no effect.
    """

    def __init__(self, source: str, given: Mapping[str, str], timeout_s: float) -> None:
        # Imported here, because most clients have no tokens.
        from kproducer._core.security.oauth_settings import token_provider

        kind, used = SOURCES[source]
        if unused := [name for name in given if name not in used]:
            raise ConfigError(f"{unused[0]}: has no effect with bearer.auth.credentials.source={source}")
        is_file = given.get(_URL, "").startswith("file:")
        if source == "OAUTHBEARER" and not is_file:
            for name in (_URL, _CLIENT_ID, _SECRET):
                if not given.get(name):
                    raise ConfigError(f"{name} is missing: bearer.auth.credentials.source={source} needs it")
        settings = {_OWN_NAMES[name]: value for name, value in given.items()}
        if _QUERY in given:
            if _URL in given:
                settings[_OWN_NAMES[_URL]] = given[_URL].partition("?")[0]
            escaped = given[_QUERY].replace("\\", "\\\\").replace(",", "\\,")
            settings["sasl_oauthbearer_config"] = f"query={escaped}"
        timeout_ms = max(1, int(timeout_s * 1000))
        #: What to write in place of the producer's names; the longest first.
        self._new_names = {
            "sasl_oauthbearer_metadata_authentication_type": "bearer.auth.credentials.source",
            f"={kind}": f"={source}",
            "such as query=": "such as ",
            ", or sasl_oauthbearer_assertion_file": "",
            "https_ca_location or ssl.truststore.location in sasl_jaas_config": AUTHORITIES,
            "sasl_login_connect_timeout_ms, sasl_login_read_timeout_ms": "timeout",
            "sasl_oauthbearer_config: query: ": f"{_QUERY}: ",
            "sasl_oauthbearer_config": _AWS if kind == "aws_iam" else _QUERY,
            **{own: name for name, own in _OWN_NAMES.items() if name not in (_AWS, _QUERY)},
        }
        try:
            provider: Any = token_provider(
                ProducerConfig.from_keywords(
                    {
                        "bootstrap_servers": "unused:1",
                        "security_protocol": "SASL_SSL",
                        "sasl_mechanism": "OAUTHBEARER",
                        "sasl_oauthbearer_metadata_authentication_type": kind,
                        "sasl_login_connect_timeout_ms": timeout_ms,
                        "sasl_login_read_timeout_ms": timeout_ms,
                        **settings,
                    }
                ),
                {},
            )
        except ConfigError as error:
            raise ConfigError(self._in_own_names(str(error))) from error.__cause__
        self._provider = provider.renamed(self._in_own_names)
        self._is_closed = False
        self._tokens = self._new_source()

    def current(self) -> str:
        """The token. Blocks until there is a first one, at most until the deadline of the call.

        Raises:
            SchemaRegistryError: there is no token; says why. Temporary unless the request was refused or the
                client is closed.
        """
        try:
            remaining_s = max(0.0, deadlines.remaining_s())
            token = self._tokens.wait_for_current(min(remaining_s, threading.TIMEOUT_MAX))
        except KafkaError as error:
            text, is_temporary = str(error), error.retriable or self._tokens.is_retriable
        else:
            if token is not None:
                return token.value
            text, is_temporary = self._tokens.waits_for(), True
        if self._is_closed:
            raise SchemaRegistryError("the SchemaRegistryClient was closed")
        raise SchemaRegistryError(
            f"there is no token for the schema registry: {text}", is_temporary=is_temporary
        )

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._is_closed = True
        self._tokens.close()

    def after_fork_in_child(self) -> None:
        """The lock and the thread belong to the parent: use new ones. Must not lock."""
        self._tokens = self._new_source()
        if self._is_closed:
            self._tokens.close()

    def _new_source(self) -> TokenSource:
        from kproducer._core.security.oauth_tokens import TokenSource

        where = self._provider.where
        tokens = TokenSource(self._provider, lambda: None, unanswered=f"{where} has not answered")
        # A client need not be closed.
        weakref.finalize(self, _close_in_process, tokens, os.getpid())
        return tokens

    def _in_own_names(self, text: str) -> str:
        for own, name in self._new_names.items():
            text = text.replace(own, name)
        return text


def _close_in_process(tokens: TokenSource, pid: int) -> None:
    if pid == os.getpid():  # in a forked child another thread may have held the lock
        tokens.close()
