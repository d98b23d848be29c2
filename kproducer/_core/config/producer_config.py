"""ProducerConfig: every setting of the producer, with type, default, range, source and description.

Attribute names are Kafka's dotted names with ``_`` for ``.``; defaults are those of Kafka 4's Java producer.
A docstring says what each setting does; it is not there at run time (``setting_meanings``).
``kproducer._core.config.setting`` checks and converts each value; this module checks settings against each
other.
``make generate`` writes ``ProducerSettings``, the types of these settings as keyword arguments, and
docs/reference/configuration.md. Source: Kafka's ``ProducerConfig``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from kproducer._core.config.setting import (
    SECURITY_PROTOCOLS,
    Setting,
    boolean,
    choice,
    document,
    from_text,
    integer,
    java_class,
    milliseconds,
    names,
    number,
    parse_acks,
    parse_callable,
    parse_interceptors,
    parse_partitioner,
    parse_servers,
    parse_ssl_context,
    path,
    refused,
    seconds,
    secret,
    serializer,
    shown,
    special,
    text,
    url,
)
from kproducer._core.runtime.public_names import public
from kproducer.errors import ConfigError
from kproducer.errors.hidden_variables import hides_arguments
from kproducer.errors.suggestions import instead_of
from kproducer.types import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from attrs import frozen
    from typing_extensions import Unpack

    from kproducer._core.config.producer_settings import ProducerSettings
else:
    # Only type checkers need attrs here: it tells them that settings cannot be assigned. Importing it would
    # take half as long as all other imports of a producer.
    frozen = lambda **_: lambda cls: cls  # noqa: E731

_log = logging.getLogger("kproducer.config")

_MISSING: Any = object()
_SSL = "Kafka SslConfigs"
_LIBRDKAFKA = "librdkafka"


# A setting comes after those that its default depends on.
@public
@frozen(kw_only=True, init=False, slots=False)
class ProducerConfig:
    """The settings of one producer. Immutable; safe to share between threads.

    Raises:
        ConfigError: a value has the wrong type, is out of range or contradicts another setting.
    """

    bootstrap_servers: tuple[str, ...] = special("list of host:port", parse_servers)
    """Brokers for the first connection; the producer discovers the others from them."""
    client_id: str = text()
    """Name of the producer in broker logs and quotas. Empty: the producer chooses one."""
    client_rack: str = text(source="KIP-1123")
    """The rack that the producer is in, as in the brokers' broker.rack, for partitioner_rack_aware."""
    acks: int = special("0, 1, -1 or 'all'", parse_acks, -1, source="KIP-679")
    """Replicas that must have a record before it is acknowledged: none (0), the leader (1), or all in-sync
    replicas (-1 or 'all')."""
    transactional_id: str = text(source="KIP-98")
    """Identifies the producer for transactions across restarts; requires enable_idempotence. Empty: no
    transactions."""
    transaction_timeout_ms: int = milliseconds(60000, 1, INT32_MAX)
    """Time after which the cluster aborts a transaction that is still open."""
    transaction_two_phase_commit_enable: bool = boolean(False, source="KIP-939")
    """Whether transactions never time out, so that a prepared one can be committed at any time. Brokers need
    transaction.two.phase.commit.enable=true and the API version for it, which 4.4 has only with
    unstable.api.versions.enable=true. Otherwise transactions time out after 60 s, with a warning."""
    linger_ms: int = milliseconds(5, source="KIP-1030")
    """How long a batch waits for more records."""
    buffer_memory: int = integer(33554432, 1, INT64_MAX, unit="bytes")
    """Memory for records that are not acknowledged yet."""
    buffer_memory_allocation_strategy: str = choice("full", "incremental", source="KIP-1332")
    """Accepted because Java clients have it; without effect, because batches always take memory as they
    grow."""
    max_block_ms: int = milliseconds(60000)
    """How long send() and partitions_for() wait, for metadata and buffer memory together."""
    max_request_size: int = integer(1048576, unit="bytes")
    """Largest request, and therefore largest record before compression."""
    batch_size: int = integer(
        524288,
        adjust=lambda config: min(524288, config.buffer_memory, config.max_request_size),
        unit="bytes",
        source="Java: 16384",
    )
    """A batch is sent once it has this size. 0: one record per batch."""
    request_timeout_ms: int = milliseconds(30000, maximum=INT32_MAX)
    """How long the producer waits for a broker's response."""
    delivery_timeout_ms: int = milliseconds(
        120000,
        maximum=INT32_MAX,
        adjust=lambda config: max(120000, min(INT32_MAX, config.linger_ms + config.request_timeout_ms)),
        source="KIP-91",
    )
    """Time from send() after which a record fails that is not acknowledged. All records of a batch fail at
    the time of the last one: the first one fails late by up to a tenth, or by up to linger_ms if that is
    more. At least linger_ms + request_timeout_ms; the default rises to that sum."""
    retries: int = integer(INT32_MAX)
    """How often a batch is retried; delivery_timeout_ms also ends the retries."""
    retry_backoff_ms: int = milliseconds(100, source="KIP-580")
    """Wait before the first retry; doubles with each retry."""
    retry_backoff_max_ms: int = milliseconds(
        1000, adjust=lambda config: max(1000, config.retry_backoff_ms), source="KIP-580"
    )
    """Longest wait between retries."""
    reconnect_backoff_ms: int = milliseconds(50)
    """Wait before the first reconnection attempt; doubles with each attempt."""
    reconnect_backoff_max_ms: int = milliseconds(
        1000, adjust=lambda config: max(1000, config.reconnect_backoff_ms), source="KIP-144"
    )
    """Longest wait between reconnection attempts."""
    socket_connection_setup_timeout_ms: int = milliseconds(10000, 1, source="KIP-601")
    """Timeout for opening a connection; doubles with each failure."""
    socket_connection_setup_timeout_max_ms: int = milliseconds(
        30000,
        1,
        adjust=lambda config: max(30000, config.socket_connection_setup_timeout_ms),
        source="KIP-601",
    )
    """Longest timeout for opening a connection."""
    connections_max_idle_ms: int = milliseconds(540000, -1)
    """Time after which an unused connection is closed; -1: never."""
    send_buffer_bytes: int = integer(131072, -1, unit="bytes")
    """Socket option SO_SNDBUF; -1: the operating system's default."""
    receive_buffer_bytes: int = integer(32768, -1, unit="bytes")
    """Socket option SO_RCVBUF; -1: the operating system's default."""
    max_in_flight_requests_per_connection: int = integer(5, 1)
    """Largest number of unanswered requests per broker."""
    enable_idempotence: bool = boolean(
        True,
        adjust=lambda config: bool(config.transactional_id) or not _obstacles(config),
        source="KIP-98, KIP-679",
    )
    """Write each record exactly once and in order, also after retries. Requires acks=-1, retries of at least
    1 and max_in_flight_requests_per_connection of at most 5; the default is False if one of these is set
    differently."""
    metadata_max_age_ms: int = milliseconds(300000)
    """Time after which metadata is refreshed without another reason."""
    metadata_max_idle_ms: int = milliseconds(300000, 5000, source="KIP-526")
    """Time after which metadata of an unused topic is dropped."""
    metadata_recovery_strategy: str = choice("rebootstrap", "none", source="KIP-899")
    """Whether to use bootstrap_servers again if no known broker is reachable."""
    metadata_recovery_rebootstrap_trigger_ms: int = milliseconds(300000, maximum=INT32_MAX, source="KIP-1102")
    """How long metadata requests may fail before the producer uses bootstrap_servers again."""
    metadata_cluster_check_enable: bool = boolean(True, source="KIP-1242")
    """Whether brokers check on each connection that they are the broker and the cluster that the producer
    means; if not, it uses bootstrap_servers again. Brokers before 4.4 do not check, and
    metadata_recovery_strategy=none turns it off."""
    compression_type: str = choice("none", "gzip", "snappy", "lz4", "zstd", source="KIP-110")
    """Compression codec of record batches."""
    compression_gzip_level: int = integer(-1, -1, 9, source="KIP-390")
    """1 (fastest) to 9 (smallest); -1: zlib's default."""
    compression_lz4_level: int = integer(9, 1, 17, source="KIP-390")
    """1 (fastest) to 17 (smallest)."""
    compression_zstd_level: int = integer(3, -131072, 22, source="KIP-390")
    """-131072 (fastest) to 22 (smallest)."""
    partitioner: str | Callable[..., int] | None = special(
        "name or callable", parse_partitioner, None, dotted="partitioner.class", source="KIP-480, KIP-794"
    )
    """None: hash of the key; sticky and adaptive for records without a key."""
    partitioner_ignore_keys: bool = boolean(False, source="KIP-794")
    """Whether the built-in partitioner ignores keys."""
    partitioner_adaptive_partitioning_enable: bool = boolean(True, source="KIP-794")
    """Whether slow brokers receive fewer records without a key."""
    partitioner_availability_timeout_ms: int = milliseconds(0, source="KIP-794")
    """Records without a key avoid partitions whose broker has accepted no request for this time; 0:
    disabled."""
    partitioner_rack_aware: bool = boolean(False, source="KIP-1123")
    """Whether records without a key go to partitions whose leader is in client_rack, as long as there is one;
    saves traffic between racks."""
    key_serializer: Any = serializer()
    """Serializer of keys. None: bytes-like objects, and str as UTF-8."""
    value_serializer: Any = serializer()
    """Serializer of values. None: bytes-like objects, and str as UTF-8."""
    interceptors: tuple[Any, ...] = special(
        "list of objects", parse_interceptors, (), dotted="interceptor.classes", source="KIP-42"
    )
    """Objects with on_send, on_acknowledgement or both; called in this order."""
    enable_metrics_push: bool = boolean(True, source="KIP-714")
    """Whether the producer pushes its metrics to brokers that ask for them (docs/metrics.md)."""
    metrics_num_samples: int = integer(2, 1, 1000)
    """How many windows means, maxima and rates of metrics() are computed of, the present one included."""
    metrics_sample_window_ms: int = milliseconds(30_000, 1)
    """Length of a window of the metrics."""
    metrics_recording_level: str = choice("INFO", "DEBUG", "TRACE")
    """Accepted: every level has all metrics of the producer."""
    client_dns_lookup: str = choice(
        "use_all_dns_ips", "resolve_canonical_bootstrap_servers_only", source="KIP-302"
    )
    """Whether bootstrap host names are first resolved to canonical names."""
    bootstrap_resolve_timeout_ms: int = milliseconds(0, source="KIP-909")
    """How long the names in bootstrap_servers may fail to resolve; then the producer has failed, and calls
    raise BootstrapResolutionError. 0: no limit; calls wait for max_block_ms."""
    proxy_url: str = secret(source="kafka-python")
    """The proxy that all connections go through: socks5://HOST:PORT, socks5h:// (the proxy looks up the names
    of brokers) or http:// (CONNECT); USER:PASSWORD@ before HOST if it requires them."""
    security_protocol: str = choice(*SECURITY_PROTOCOLS, source="Kafka CommonClientConfigs")
    """How to connect to brokers: SSL and SASL_SSL encrypt; SASL_PLAINTEXT and SASL_SSL log in."""

    ssl_context: Any = special("ssl.SSLContext", parse_ssl_context, None, source="kafka-python")
    """A finished context for SSL and SASL_SSL, instead of all other ssl_ settings."""
    ssl_cafile: str = path(source="kafka-python")
    """PEM file with the certificates to trust. Without this setting and ssl_truststore_*: the system's, or
    else those of the package certifi."""
    ssl_certfile: str = path(source="kafka-python")
    """PEM file with this client's certificate and its chain."""
    ssl_keyfile: str = path(source="kafka-python")
    """PEM file with the private key, unless ssl_certfile contains it."""
    ssl_password: str = secret(source="kafka-python")
    """Password of the private key."""
    ssl_crlfile: str = path(source="kafka-python")
    """PEM file with the revocation list of the authority that issues the brokers' certificates."""
    ssl_check_hostname: bool = boolean(True, source="kafka-python")
    """Whether the broker's certificate must be valid for the host that the producer connects to."""
    ssl_keystore_location: str = path(source=_SSL)
    """PEM, PKCS #12 or JKS file with this client's private key and certificates."""
    ssl_keystore_type: str = choice("auto", "PEM", "PKCS12", "JKS", source=_SSL)
    """auto: the content of the file decides."""
    ssl_keystore_password: str = secret(source=_SSL)
    """Password of a PKCS #12 or JKS key store."""
    ssl_keystore_key: str = secret(source=_SSL)
    """This client's private key as PEM text."""
    ssl_keystore_certificate_chain: str = document(source=_SSL)
    """This client's certificate and its chain as PEM text, with ssl_keystore_key."""
    ssl_key_password: str = secret(source=_SSL)
    """Password of the private key in ssl_keystore_key or in a PEM key store."""
    ssl_truststore_location: str = path(source=_SSL)
    """PEM, PKCS #12 or JKS file with the certificates to trust."""
    ssl_truststore_type: str = choice("auto", "PEM", "PKCS12", "JKS", source=_SSL)
    """auto: the content of the file decides."""
    ssl_truststore_password: str = secret(source=_SSL)
    """Password of a PKCS #12 or JKS trust store."""
    ssl_truststore_certificates: str = document(source=_SSL)
    """The certificates to trust as PEM text."""
    ssl_endpoint_identification_algorithm: str = choice("https", "", source="KIP-294")
    """Empty: the same as ssl_check_hostname=False."""
    ssl_enabled_protocols: tuple[str, ...] = names(("TLSv1.2", "TLSv1.3"), source=_SSL)
    """The TLS versions that may be used."""
    ssl_cipher_suites: tuple[str, ...] = names((), source=_SSL)
    """Cipher suites by their Java or OpenSSL names. Empty: OpenSSL's choice."""
    sasl_mechanism: str = choice(
        "none",
        "PLAIN",
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
        "OAUTHBEARER",
        "GSSAPI",
        "AWS_MSK_IAM",
        aliases=("sasl.mechanisms",),
        source="Kafka SaslConfigs",
    )
    """How the producer authenticates with SASL_SSL and SASL_PLAINTEXT."""
    sasl_plain_username: str = text(dotted="sasl.username", source="kafka-python, librdkafka")
    """User name for PLAIN and SCRAM."""
    sasl_plain_password: str = secret(dotted="sasl.password", source="kafka-python, librdkafka")
    """Password for PLAIN and SCRAM."""
    sasl_jaas_config: str = secret(source="KIP-85")
    """Credentials as Java clients write them: a login module with its options."""
    sasl_oauth_token_provider: Callable[[], Any] | None = special(
        "callable", parse_callable, None, source="KIP-255"
    )
    """For OAUTHBEARER: function, also async, that returns (token, expiry in seconds since 1970) or (token,
    expiry, SASL extensions)."""
    sasl_oauthbearer_token_endpoint_url: str = url(source="KIP-768")
    """For OAUTHBEARER: where tokens are requested (http or https), or the file that has the token
    (file:///path), which is read again for each refresh."""
    sasl_oauthbearer_method: str = choice("default", "oidc", source=_LIBRDKAFKA)
    """oidc: a token endpoint or a metadata_authentication_type is required; otherwise without effect."""
    sasl_oauthbearer_metadata_authentication_type: str = choice(
        "none", "azure_imds", "aws_iam", "azure_workload_identity", source=_LIBRDKAFKA
    )
    """How to get tokens without a secret. azure_imds: for the managed identity of the machine. aws_iam: from
    AWS STS (GetWebIdentityToken), for the AWS credentials of the process. azure_workload_identity (only in
    kproducer): from Microsoft Entra, for the token in AZURE_FEDERATED_TOKEN_FILE."""
    sasl_oauthbearer_config: str = secret(source=_LIBRDKAFKA)
    """Parameters of the metadata_authentication_type: name=value,name=value. azure_imds: query. aws_iam:
    region and audience; optional: duration_seconds, signing_algorithm, sts_endpoint, tag_NAME."""
    sasl_oauthbearer_jwt_retriever_class: str = java_class(
        "DefaultJwtRetriever",
        "ClientCredentialsJwtRetriever",
        "JwtBearerJwtRetriever",
        "FileJwtRetriever",
        aliases=("sasl.oauthbearer.grant.type",),
        source="KIP-1139",
    )
    """How to get a token. DefaultJwtRetriever: with client credentials, or from a file if the URL is one.
    JwtBearerJwtRetriever: with an assertion as grant (RFC 7523). OAuth's grant types are accepted as well."""
    sasl_oauthbearer_client_credentials_client_id: str = text(
        aliases=("sasl.oauthbearer.client.id",), source="KIP-1139"
    )
    """The client that requests tokens."""
    sasl_oauthbearer_client_credentials_client_secret: str = secret(
        aliases=("sasl.oauthbearer.client.secret",), source="KIP-1139"
    )
    """Secret of the client, unless it authenticates with an assertion."""
    sasl_oauthbearer_scope: str = text(source="KIP-1139")
    """Scope of the requested tokens."""
    sasl_oauthbearer_extensions: str = text(source=_LIBRDKAFKA)
    """SASL extensions to send with each token: name=value,name=value. A backslash escapes the next
    character, such as a comma of a value."""
    sasl_oauthbearer_header_urlencode: bool = boolean(False, source="KIP-1025")
    """Whether to encode client id and secret as RFC 6749 requires before they are sent. Few providers expect
    that."""
    sasl_oauthbearer_assertion_file: str = path(source="KIP-1139")
    """File with a finished assertion (a signed JWT), which is read for each token request."""
    sasl_oauthbearer_assertion_private_key_file: str = path(source="KIP-1139")
    """PEM file with the private key that signs assertions, which is read for each token request."""
    sasl_oauthbearer_assertion_private_key_pem: str = secret(source=_LIBRDKAFKA)
    """The private key that signs assertions as PEM text."""
    sasl_oauthbearer_assertion_private_key_passphrase: str = secret(source="KIP-1139")
    """Password of the private key that signs assertions."""
    sasl_oauthbearer_assertion_algorithm: str = choice("RS256", "ES256", source="KIP-1139")
    """How assertions are signed."""
    sasl_oauthbearer_assertion_template_file: str = path(
        aliases=("sasl.oauthbearer.assertion.jwt.template.file",), source="KIP-1139"
    )
    """JSON file with fields of the assertion: {"header": {...}, "payload": {...}}, which is read for each
    token request."""
    sasl_oauthbearer_assertion_claim_aud: str = url(source="KIP-1139")
    """Audience of the assertion, usually the URL of the token endpoint."""
    sasl_oauthbearer_assertion_claim_iss: str = text(source="KIP-1139")
    """Issuer of the assertion, usually the client id."""
    sasl_oauthbearer_assertion_claim_sub: str = text(source="KIP-1139")
    """Subject of the assertion, for a client's own tokens the client id."""
    sasl_oauthbearer_assertion_claim_exp_seconds: int = seconds(300, 1, 86400, source="KIP-1139")
    """How long an assertion is valid."""
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = seconds(60, 0, 3600, source="KIP-1139")
    """How long before its creation the assertion is already valid."""
    sasl_oauthbearer_assertion_claim_jti_include: bool = boolean(False, source="KIP-1139")
    """Whether each assertion has an id of its own."""
    sasl_oauthbearer_sub_claim_name: str = text("sub", source="KIP-768")
    """Accepted because Java clients check tokens with it; without effect, because brokers do."""
    sasl_oauthbearer_scope_claim_name: str = text("scope", source="KIP-768")
    """Accepted because Java clients check tokens with it; without effect, because brokers do."""
    sasl_oauthbearer_jwt_validator_class: str = java_class(
        "DefaultJwtValidator", "ClientJwtValidator", source="KIP-1139"
    )
    """Accepted because Java clients check tokens with it; without effect, because brokers do."""
    https_ca_location: str = path(source=_LIBRDKAFKA)
    """PEM file with the certificates to trust at the token endpoint. Empty or 'probe': the system's, or else
    those of the package certifi."""
    https_ca_pem: str = document(source=_LIBRDKAFKA)
    """The certificates to trust at the token endpoint as PEM text."""
    sasl_login_callback_handler_class: str = java_class(
        "none", "OAuthBearerLoginCallbackHandler", source="KIP-768"
    )
    """Accepted because Java clients need it for OAUTHBEARER; without effect."""
    sasl_login_connect_timeout_ms: int = milliseconds(10000, 1, source="KIP-768; Java: none")
    """Timeout for a connection to the token endpoint."""
    sasl_login_read_timeout_ms: int = milliseconds(10000, 1, source="KIP-768; Java: none")
    """How long to wait for the token endpoint's response."""
    sasl_login_retry_backoff_ms: int = milliseconds(100, source="KIP-768")
    """Wait before a failed token request is repeated; doubles with each attempt."""
    sasl_login_retry_backoff_max_ms: int = milliseconds(10000, source="KIP-768")
    """How long a failed token request is repeated before connections fail."""
    sasl_login_refresh_window_factor: float = number(0.8, 0.5, 1.0, source="KIP-255")
    """Part of a token's life after which it is replaced."""
    sasl_login_refresh_window_jitter: float = number(0.05, 0.0, 0.25, source="KIP-255")
    """Largest random part that is added to the factor."""
    sasl_login_refresh_min_period_seconds: int = seconds(60, 0, 900, source="KIP-255")
    """A token is used at least this long, unless it lives shorter than this and the buffer."""
    sasl_login_refresh_buffer_seconds: int = seconds(300, 0, 3600, source="KIP-255")
    """A token is replaced at least this long before its end, unless it lives shorter than this and the
    minimum period."""

    sasl_kerberos_service_name: str = text("kafka", source="Kafka SaslConfigs, librdkafka")
    """For GSSAPI: the first part of the brokers' principals, as in kafka/host@REALM."""
    sasl_kerberos_domain_name: str = text(source="kafka-python")
    """For GSSAPI: the host in the brokers' principals, if the client connects to another."""
    sasl_kerberos_principal: str = text(source="librdkafka")
    """For GSSAPI: the client's principal. Empty: the one of the ticket cache or keytab."""
    sasl_kerberos_keytab: str = path(source="librdkafka")
    """For GSSAPI: file with the client's key. Empty: the ticket cache of kinit is used."""
    sasl_aws_region: str = text(source="kproducer")
    """For AWS_MSK_IAM: the region of the cluster, if the brokers' names do not contain it."""
    sasl_client_callback_handler_class: str = text(source="KIP-86")
    """For AWS_MSK_IAM: the class that Java clients need. Without effect."""

    @hides_arguments
    def __init__(
        self, *, bootstrap_servers: str | Iterable[str] = _MISSING, **settings: Unpack[ProducerSettings]
    ) -> None:
        servers = {} if bootstrap_servers is _MISSING else {"bootstrap_servers": bootstrap_servers}
        given: dict[str, Any] = {**servers, **settings}
        _check_names(given, {name: name for name in SETTINGS})
        values = self.__dict__
        for name, setting in SETTINGS.items():
            if name in given:
                value = given[name]
            else:
                value = setting.default if setting.adjust is None else setting.adjust(self)
            values[name] = setting.parse(setting, name, value)
        _check_contradictions(self)

    def __repr__(self) -> str:
        # Works on a half-made object as well: if the constructor fails, tools that report errors show it.
        settings = (
            f"{name}={setting.show(getattr(self, name))}"
            for name, setting in SETTINGS.items()
            if not setting.is_secret and hasattr(self, name)
        )
        return f"ProducerConfig({', '.join(settings)})"

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object = None) -> None:
            raise AttributeError(f"{name}: a ProducerConfig is immutable; evolve() makes a copy with changes")

        __delattr__ = __setattr__

    def evolve(self, **changes: Any) -> ProducerConfig:
        """A copy with other values of some settings."""
        return type(self)(**{**self.__dict__, **changes})

    __replace__ = evolve

    def is_set(self, name: str) -> bool:
        """Whether a setting differs from its default."""
        return bool(getattr(self, name) != SETTINGS[name].default)

    @property
    def uses_sasl(self) -> bool:
        """Whether connections are authenticated with SASL. Without it no setting of SASL is set."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted with TLS."""
        return self.security_protocol.endswith("SSL")

    @classmethod
    @hides_arguments
    def from_keywords(cls, settings: Mapping[str, Any]) -> ProducerConfig:
        """Create a configuration from keyword arguments with Python values.

        Raises:
            ConfigError: as by the class itself.
        """
        config = cls(**settings)
        if not config.enable_idempotence and "enable_idempotence" not in settings:
            causes = ", ".join(f"{name}={getattr(config, name)}" for name, _ in _obstacles(config))
            _log.info(
                "Idempotence is disabled because of %s: retries may write a record twice or out of order. "
                "Set enable_idempotence=False to accept this without this message",
                causes,
            )
        unused = [name for name in settings if name.startswith("ssl_") and config.is_set(name)]
        if unused and not config.uses_tls:
            # Not an error: Java's clients ignore such settings, too, and their files must work unchanged.
            _log.warning(
                "%s without effect: security_protocol=%s does not encrypt. Set it to %s, or remove these "
                "settings",
                ", ".join(unused),
                config.security_protocol,
                "SASL_SSL" if config.uses_sasl else "SSL",
            )
        return config

    @classmethod
    @hides_arguments
    def from_dotted(cls, settings: Mapping[str, Any]) -> ProducerConfig:
        """Create a configuration from Kafka's dotted names. Numbers and booleans may be text.

        Raises:
            ConfigError: as by ``from_keywords``.
        """
        if not isinstance(settings, Mapping):
            raise ConfigError(
                "settings: expected a mapping of Kafka's dotted names to values, for example "
                f"{{'bootstrap.servers': 'host:9092'}}, got {type(settings).__name__}"
            )
        own_names = {_DOTTED_ALIASES.get(name, name): name for name in settings}
        for name in settings:
            if (other := own_names[_DOTTED_ALIASES.get(name, name)]) != name:
                raise ConfigError(f"{name}: the same setting as {other}; remove one of them")
        _check_names(own_names, DOTTED_NAMES)
        return cls.from_keywords(
            {
                name: from_text(SETTINGS[name], own_names[dotted], settings[own_names[dotted]])
                for name, dotted in DOTTED_NAMES.items()
                if dotted in own_names
            }
        )


#: Every setting by attribute name, in the order of the documentation. Read-only.
SETTINGS: dict[str, Setting] = {
    name: value for name, value in vars(ProducerConfig).items() if isinstance(value, Setting)
}
for _name in SETTINGS:
    delattr(ProducerConfig, _name)
if not TYPE_CHECKING:
    # Their types are in producer_settings.pyi, which ``make generate`` writes.
    _given = dict.fromkeys(SETTINGS.keys() - {"bootstrap_servers"}, Any)
    ProducerSettings = public(TypedDict("ProducerSettings", _given, total=False))
    ProducerSettings.__doc__ = "The keyword arguments of ``KafkaProducer``, except ``bootstrap_servers``."
#: Kafka's dotted name of every setting, by attribute name. Read-only.
DOTTED_NAMES = {name: setting.dotted or name.replace("_", ".") for name, setting in SETTINGS.items()}
#: librdkafka's dotted name of a setting to Kafka's.
_DOTTED_ALIASES = {
    alias: DOTTED_NAMES[name] for name, setting in SETTINGS.items() for alias in setting.aliases
}


def _check_names(settings: Mapping[str, Any], spelling: Mapping[str, str]) -> None:
    known = set(spelling.values())
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise ConfigError(
            "; ".join(f"unknown setting {name!r}: {instead_of(name, spelling)}" for name in unknown)
        )
    servers = spelling["bootstrap_servers"]
    if servers not in settings:
        raise ConfigError(f"{servers} is missing; set it to at least one 'host:port'")


def _obstacles(config: ProducerConfig) -> list[tuple[str, str]]:
    """Settings that rule out idempotence, each with the value that it requires.

    Brokers detect duplicates only among the last five batches of a producer, and only if all in-sync replicas
    have them. A default gives way to these: docs/decisions/0009-defaults-give-way.md
    """
    in_flight = config.max_in_flight_requests_per_connection
    requirements = (
        ("acks", config.acks == -1, "-1 ('all')"),
        ("retries", config.retries > 0, "at least 1"),
        ("max_in_flight_requests_per_connection", in_flight <= 5, "at most 5"),
    )
    return [(name, required) for name, is_met, required in requirements if not is_met]


def _check_contradictions(config: ProducerConfig) -> None:
    least = min(INT32_MAX, config.linger_ms + config.request_timeout_ms)
    if config.delivery_timeout_ms < least:
        terms = f"linger_ms ({config.linger_ms}) + request_timeout_ms ({config.request_timeout_ms})"
        raise refused("delivery_timeout_ms", f"at least {terms} = {least}", config.delivery_timeout_ms)
    if config.batch_size > config.buffer_memory:
        raise refused("batch_size", f"at most buffer_memory ({config.buffer_memory})", config.batch_size)
    for first, longest in (
        ("retry_backoff_ms", "retry_backoff_max_ms"),
        ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
        ("sasl_login_retry_backoff_ms", "sasl_login_retry_backoff_max_ms"),
    ):
        if getattr(config, longest) < getattr(config, first):
            right = f"at least {first} ({getattr(config, first)})"
            raise refused(longest, right, getattr(config, longest))
    _check_proxy(config)
    if config.partitioner_rack_aware and not config.client_rack.strip():
        wanted = (
            "the rack that the producer is in, as in the brokers' broker.rack, with partitioner_rack_aware"
        )
        raise refused("client_rack", wanted, shown(config.client_rack), "or remove partitioner_rack_aware")
    if config.transaction_two_phase_commit_enable and config.is_set("transaction_timeout_ms"):
        wanted = "no value with transaction_two_phase_commit_enable, whose transactions do not time out"
        raise refused("transaction_timeout_ms", wanted, config.transaction_timeout_ms, "remove one of them")
    if config.compression_gzip_level == 0:
        raise refused("compression_gzip_level", "-1 or 1 to 9", 0, "level 0 does not compress")
    sasl_settings = (name for name in SETTINGS if name.startswith(("sasl_", "https_")))
    if not config.uses_sasl and (name := next((it for it in sasl_settings if config.is_set(it)), None)):
        wanted = f"SASL_SSL or SASL_PLAINTEXT with {name}"
        raise refused("security_protocol", wanted, config.security_protocol, f"set it, or remove {name}")
    if not config.enable_idempotence and config.transactional_id:
        wanted = f"True with transactional_id={config.transactional_id!r}"
        raise refused("enable_idempotence", wanted, False, "or remove transactional_id")
    if config.enable_idempotence:
        for name, required in _obstacles(config):
            cause, instead = "enable_idempotence=True", "or set enable_idempotence=False"
            if config.transactional_id:
                cause, instead = f"transactional_id={config.transactional_id!r}", "or remove transactional_id"
            raise refused(name, f"{required} with {cause}", getattr(config, name), instead)


def _check_proxy(config: ProducerConfig) -> None:
    if not config.proxy_url:
        return
    canonical = "resolve_canonical_bootstrap_servers_only"
    # Imported here, because most producers have no proxy.
    from kproducer._core.config.proxy_url import parse_proxy_url

    if parse_proxy_url(config.proxy_url).resolves_names and config.client_dns_lookup == canonical:
        wanted = "use_all_dns_ips with a proxy that looks up names"
        raise refused("client_dns_lookup", wanted, canonical, "or use a proxy_url with socks5://")
