"""The settings of Kafka's Java producer, and what this producer does with each.

``codegen.from_tables`` writes docs/reference/java-settings.md with it. Names and defaults are facts of one
version of Kafka, and a test compares them with its ``ProducerConfig``. What is supported follows from
``SETTINGS``, so a setting that is added there changes its row by itself. What to do instead of the others is
what errors and ``kproducer config translate`` say, too. Knows nothing of message specs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kproducer._core.config.producer_config import DOTTED_NAMES, SETTINGS
from kproducer.errors.suggestions import instead_of

#: The version that the names and defaults are from.
JAVA_VERSION: Final = "4.4.0"
#: How Java's ConfigDef writes that there is no default, or that a setting is not set.
REQUIRED: Final = "(required)"
NOT_SET: Final = "null"

_OAUTH_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
#: Java's name to Java's default.
JAVA_DEFAULTS: Final = {
    "acks": "all",
    "batch.size": "16384",
    "bootstrap.resolve.timeout.ms": "0",
    "bootstrap.servers": "(required)",
    "buffer.memory": "33554432",
    "buffer.memory.allocation.strategy": "full",
    "client.dns.lookup": "use_all_dns_ips",
    "client.id": "",
    "client.rack": "",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "none",
    "compression.zstd.level": "3",
    "config.providers": "",
    "connections.max.idle.ms": "540000",
    "delivery.timeout.ms": "120000",
    "enable.idempotence": "true",
    "enable.metrics.push": "true",
    "interceptor.classes": "",
    "key.serializer": "(required)",
    "linger.ms": "5",
    "max.block.ms": "60000",
    "max.in.flight.requests.per.connection": "5",
    "max.request.size": "1048576",
    "metadata.cluster.check.enable": "true",
    "metadata.max.age.ms": "300000",
    "metadata.max.idle.ms": "300000",
    "metadata.recovery.rebootstrap.trigger.ms": "300000",
    "metadata.recovery.strategy": "rebootstrap",
    "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
    "metrics.num.samples": "2",
    "metrics.recording.level": "INFO",
    "metrics.sample.window.ms": "30000",
    "partitioner.adaptive.partitioning.enable": "true",
    "partitioner.availability.timeout.ms": "0",
    "partitioner.class": "null",
    "partitioner.ignore.keys": "false",
    "partitioner.rack.aware": "false",
    "receive.buffer.bytes": "32768",
    "reconnect.backoff.max.ms": "1000",
    "reconnect.backoff.ms": "50",
    "request.timeout.ms": "30000",
    "retries": "2147483647",
    "retry.backoff.max.ms": "1000",
    "retry.backoff.ms": "100",
    "sasl.client.callback.handler.class": "null",
    "sasl.jaas.config": "null",
    "sasl.kerberos.kinit.cmd": "/usr/bin/kinit",
    "sasl.kerberos.min.time.before.relogin": "60000",
    "sasl.kerberos.service.name": "null",
    "sasl.kerberos.ticket.renew.jitter": "0.05",
    "sasl.kerberos.ticket.renew.window.factor": "0.8",
    "sasl.login.callback.handler.class": "null",
    "sasl.login.class": "null",
    "sasl.login.connect.timeout.ms": "null",
    "sasl.login.read.timeout.ms": "null",
    "sasl.login.refresh.buffer.seconds": "300",
    "sasl.login.refresh.min.period.seconds": "60",
    "sasl.login.refresh.window.factor": "0.8",
    "sasl.login.refresh.window.jitter": "0.05",
    "sasl.login.retry.backoff.max.ms": "10000",
    "sasl.login.retry.backoff.ms": "100",
    "sasl.mechanism": "GSSAPI",
    "sasl.oauthbearer.allow.unverified.audience": "false",
    "sasl.oauthbearer.allow.unverified.issuer": "false",
    "sasl.oauthbearer.assertion.algorithm": "RS256",
    "sasl.oauthbearer.assertion.claim.aud": "null",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "300",
    "sasl.oauthbearer.assertion.claim.iss": "null",
    "sasl.oauthbearer.assertion.claim.jti.include": "false",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "60",
    "sasl.oauthbearer.assertion.claim.sub": "null",
    "sasl.oauthbearer.assertion.file": "null",
    "sasl.oauthbearer.assertion.private.key.file": "null",
    "sasl.oauthbearer.assertion.private.key.passphrase": "null",
    "sasl.oauthbearer.assertion.template.file": "null",
    "sasl.oauthbearer.client.credentials.client.id": "null",
    "sasl.oauthbearer.client.credentials.client.secret": "null",
    "sasl.oauthbearer.clock.skew.seconds": "30",
    "sasl.oauthbearer.expected.audience": "",
    "sasl.oauthbearer.expected.issuer": "null",
    "sasl.oauthbearer.header.urlencode": "false",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "3600000",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "10000",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "100",
    "sasl.oauthbearer.jwks.endpoint.url": "null",
    "sasl.oauthbearer.jwt.retriever.class": f"{_OAUTH_PACKAGE}.DefaultJwtRetriever",
    "sasl.oauthbearer.jwt.validator.class": f"{_OAUTH_PACKAGE}.DefaultJwtValidator",
    "sasl.oauthbearer.scope": "null",
    "sasl.oauthbearer.scope.claim.name": "scope",
    "sasl.oauthbearer.sub.claim.name": "sub",
    "sasl.oauthbearer.token.endpoint.url": "null",
    "security.protocol": "PLAINTEXT",
    "security.providers": "null",
    "send.buffer.bytes": "131072",
    "socket.connection.setup.timeout.max.ms": "30000",
    "socket.connection.setup.timeout.ms": "10000",
    "ssl.cipher.suites": "",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.engine.factory.class": "null",
    "ssl.key.password": "null",
    "ssl.keymanager.algorithm": "SunX509",
    "ssl.keystore.certificate.chain": "null",
    "ssl.keystore.key": "null",
    "ssl.keystore.location": "null",
    "ssl.keystore.password": "null",
    "ssl.keystore.type": "JKS",
    "ssl.protocol": "TLSv1.3",
    "ssl.provider": "null",
    "ssl.secure.random.implementation": "null",
    "ssl.trustmanager.algorithm": "PKIX",
    "ssl.truststore.certificates": "null",
    "ssl.truststore.location": "null",
    "ssl.truststore.password": "null",
    "ssl.truststore.type": "JKS",
    "transaction.timeout.ms": "60000",
    "transaction.two.phase.commit.enable": "false",
    "transactional.id": "null",
    "value.serializer": "(required)",
}

#: Settings whose default differs, and why.
OTHER_DEFAULTS: Final = {
    "batch.size": "larger batches are faster, and buffers grow with their content",
    "key.serializer": "bytes and texts need no serializer",
    "sasl.kerberos.service.name": "the usual name of brokers",
    "sasl.login.connect.timeout.ms": "a token endpoint that does not answer must not block connections",
    "sasl.login.read.timeout.ms": "as above",
    "sasl.mechanism": "no mechanism is used without being named",
    "ssl.keystore.type": "the content of the file decides, also for JKS",
    "ssl.truststore.type": "the content of the file decides, also for JKS",
    "value.serializer": "bytes and texts need no serializer",
}

#: Supported settings that do something else than in Java.
_OTHER_MEANING: Final = {
    "bootstrap.resolve.timeout.ms": "0: Java looks names up in the constructor, which fails if none is "
    "found; here the constructor does not wait, except with client.dns.lookup="
    "resolve_canonical_bootstrap_servers_only, and names are looked up again until one is found",
    "buffer.memory.allocation.strategy": "both values: batches take memory as they grow, like Java with "
    "incremental, and with compression, too",
    "client.dns.lookup": "connections use all addresses of a name, IPv4 and IPv6; with "
    "resolve_canonical_bootstrap_servers_only the constructor asks the name service, as in Java",
    "enable.idempotence": "more than five requests in flight turn idempotence off; Java raises an error",
    "interceptor.classes": "objects instead of names of classes",
    "metadata.recovery.strategy": "rebootstraps only after an attempt to connect to each known broker failed",
    "metrics.recording.level": "every level has all metrics",
    "partitioner.class": "a function, or the name of a partitioner of Java or librdkafka",
    "transaction.two.phase.commit.enable": "Java's producer accepts it and does not send it yet; here it is "
    "sent to coordinators that support it",
}

#: Settings of properties files, and what they can be there.
_OF_FILES: Final = {
    "config.providers": "`EnvVarConfigProvider`, `FileConfigProvider`, `DirectoryConfigProvider`",
}

_OUR_NAMES: Final = {dotted: name for name, dotted in DOTTED_NAMES.items()}


class JavaSetting(NamedTuple):
    """One row of the page.

    Attributes:
        name, default: as in Java.
        status: ``supported``, ``only in properties files`` or ``not needed``.
        our_name, our_default: of the supported setting; empty otherwise.
        note: why the default differs, what else differs, or what to do instead.
    """

    name: str
    default: str
    status: str
    our_name: str
    our_default: str
    note: str


def java_settings() -> list[JavaSetting]:
    """The rows of all settings of Java's producer, by name."""
    return [_row(name, default) for name, default in JAVA_DEFAULTS.items()]


def _row(name: str, default: str) -> JavaSetting:
    ours = _OUR_NAMES.get(name)
    if ours is None:
        if name in _OF_FILES:
            return JavaSetting(name, default, "only in properties files", "", "", _OF_FILES[name])
        advice = instead_of(name, {each: each for each in SETTINGS})
        return JavaSetting(name, default, "not needed", "", "", advice)
    notes = []
    if not has_same_default(name):
        notes.append(OTHER_DEFAULTS.get(name, ""))
    if name in _OTHER_MEANING:
        notes.append(_OTHER_MEANING[name])
    return JavaSetting(name, default, "supported", ours, SETTINGS[ours].default_text, "; ".join(notes))


def has_same_default(name: str) -> bool:
    """Whether the default of a supported setting means the same as Java's."""
    java, own_name = JAVA_DEFAULTS[name], _OUR_NAMES[name]
    ours = SETTINGS[own_name].default
    if java == NOT_SET:
        return ours in (None, "", "none")
    if name == "acks":
        return (java, ours) == ("all", -1)
    if java == REQUIRED:
        return own_name == "bootstrap_servers"
    if isinstance(ours, bool):
        return java == str(ours).lower()
    if isinstance(ours, tuple):
        return java == ",".join(ours)
    # Classes are named without their packages here.
    return java in (str(ours), f"{_OAUTH_PACKAGE}.{ours}")


def java_settings_page() -> str:
    """The page of the documentation, without the line that says that it is generated."""
    rows = java_settings()
    lines = ["| Java | Java's default | kproducer | default | notes |", "| --- | --- | --- | --- | --- |"]
    absent = ["| Java | Java's default | status | instead |", "| --- | --- | --- | --- |"]
    for row in rows:
        default = f"`{row.default}`" if row.default else "empty"
        if row.status == "supported":
            same = has_same_default(row.name)
            ours = "the same" if same else f"`{row.our_default}`"
            lines.append(f"| `{row.name}` | {default} | `{row.our_name}` | {ours} | {row.note} |")
        else:
            absent.append(f"| `{row.name}` | {default} | {row.status} | {row.note} |")
    counts = ", ".join(
        f"{sum(row.status == status for row in rows)} {status}"
        for status in ("supported", "only in properties files", "not needed")
    )
    return _PAGE.format(
        version=JAVA_VERSION,
        total=len(rows),
        counts=counts,
        supported="\n".join(lines),
        absent="\n".join(absent),
    )


_PAGE = """\
# Settings of Java's producer

All {total} settings of the producer of Apache Kafka {version}, and what kproducer does with each:
{counts}. Tests compare names and defaults with Java's
`ProducerConfig`. [Configuration](configuration.md) has the allowed values; `kproducer config translate FILE`
([command line](../cli.md#kproducer-config)) says the same of the settings in a file.

`KafkaProducer.from_config` takes the names on the left, the constructor those of kproducer.

## Supported

{supported}

## Not supported

Not needed: there is nothing to configure, or another way. `from_config` refuses these settings, and the error
has the text on the right. [Config providers](../security.md#config-providers) work in properties files.

{absent}
"""
