"""The check on the driver before tasks start: does a broker respond, and do the topics exist?

Without it, a wrong address or topic costs each attempt of each task ``max.block.ms``. The check uses its own
sockets, not the client: importing the client would dominate the planning time, and a streaming query plans
each micro-batch. A cluster with TLS or SASL is checked by the client.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import BufferedReader

from kproducer_messages import MetadataRequest
from kproducer_messages.metadata_request import MetadataRequestTopic

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.responses import parse_response
from kproducer._core.client.send_builder import build_request
from kproducer._core.network.framing import SIZE_PREFIX_BYTES, parse_size_prefix
from kproducer.errors import AuthorizationError, ConfigError, KafkaError, KafkaTimeoutError
from kproducer.spark.errors import SparkOptionError, SparkWriteError
from kproducer.spark.option_names import config_mistake, explained, in_options
from kproducer.spark.write_options import WriteOptions

#: Kafka 0.11 and later; the first version that says whether topics may be created.
_METADATA_VERSION = 4
_PAUSE_S = 0.2
#: How long to wait for one server, at most, before another one is asked as well.
_NEXT_SERVER_S = 0.2
#: How long a check that found nothing wrong counts: small writes and micro-batches may follow each other
#: within milliseconds, and Spark plans them in the same process.
_VALID_S = 1.0

#: UNKNOWN_TOPIC_OR_PARTITION
_UNKNOWN_TOPIC = 3
#: NONE, and LEADER_NOT_AVAILABLE: the topic is being created, and tasks will wait for its leaders.
_EXISTS = (0, 5)
#: TOPIC_AUTHORIZATION_FAILED
_NOT_ALLOWED = 29
#: This, and INVALID_TOPIC_EXCEPTION: to ask again does not help.
_FINAL = (17, _NOT_ALLOWED)

_TO_WAIT = (
    "To wait longer, raise the option 'checkTimeoutMs'; if only executors can reach the brokers, set it to 0"
)

_GRANT = "Grant Write on it, and Create if brokers should create it"

#: A server's answer: error codes by topic, or the reason why there is none.
_Answer = dict[str, int] | Exception

#: By the options of a write: until when its last check counts.
_passed_until: dict[WriteOptions, float] = {}


def check(options: WriteOptions) -> None:
    """Check the cluster and the topics of a write, unless that was done within the last second.

    Raises:
        SparkOptionError: certificates or keys cannot be read.
        SparkWriteError: no broker has responded or accepted the credentials, or a topic cannot be written to.
    """
    now_s = time.monotonic()
    if now_s < _passed_until.get(options, 0.0):
        return
    config = options.producer_config()
    if config.security_protocol == "PLAINTEXT" and not config.proxy_url:
        check_cluster(config.bootstrap_servers, options.topics, options.check_timeout_ms / 1000)
    else:
        check_secured_cluster(options)
    for expired in [each for each, until_s in _passed_until.items() if until_s <= now_s]:
        del _passed_until[expired]
    _passed_until[options] = time.monotonic() + _VALID_S


def check_cluster(servers: Sequence[str], topics: Mapping[str, str], timeout_s: float) -> None:
    """Return as soon as one broker knows all topics; brokers that create topics have until the timeout.

    Args:
        servers: ``host:port`` of each.
        topics: names, and the option that each comes from. If empty, one broker must respond.
        timeout_s: in seconds.

    Raises:
        SparkWriteError: no broker responded, or a topic does not exist or cannot be written to.
    """
    answers: queue.SimpleQueue[tuple[str, _Answer]] = queue.SimpleQueue()
    has_ended = threading.Event()

    def ask(server: str) -> None:
        for answer in _answers(server, list(topics), timeout_s):
            answers.put((server, answer))
            if has_ended.wait(_PAUSE_S):
                return

    not_asked = list(servers)
    next_server_s = min(_NEXT_SERVER_S, timeout_s / 2 / len(servers))
    unusable: dict[str, int] = {}
    failures: dict[str, str] = dict.fromkeys(servers, "no response")
    deadline = time.monotonic() + timeout_s
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            if not_asked:
                # In parallel: connecting to a host that is down, or looking up its name, may take the whole
                # timeout. But usually the first one answers, and the others need no connection.
                server = not_asked.pop(0)
                name = f"kproducer-check-{server}"
                threading.Thread(target=ask, args=[server], name=name, daemon=True).start()
            with suppress(queue.Empty):
                server, answer = answers.get(timeout=min(left_s, next_server_s) if not_asked else left_s)
                if isinstance(answer, Exception):
                    failures[server] = in_options(str(answer)) or type(answer).__name__
                    continue
                unusable = {topic: code for topic, code in answer.items() if code not in _EXISTS}
                if not unusable:
                    return
                if any(code in _FINAL for code in unusable.values()):
                    break
    finally:
        has_ended.set()
    for topic, code in unusable.items():
        raise _unusable(topic, topics[topic], code, timeout_s)
    listed = "; ".join(f"{server}: {failure}" for server, failure in failures.items())
    raise SparkWriteError(
        f"no broker of the option 'kafka.bootstrap.servers' responded to the driver within {timeout_s:g} s "
        f"({listed}). Nothing was written. Check the addresses, and that the brokers are running. {_TO_WAIT}"
    )


def check_secured_cluster(options: WriteOptions) -> None:
    """``check_cluster`` for a cluster with TLS, SASL or a proxy. Without topics there is no check.

    Raises:
        SparkOptionError: certificates or keys cannot be read.
        SparkWriteError: no broker has responded or accepted the credentials, or a topic cannot be written to.
    """
    if not options.topics:
        return
    # Imported here: see above.
    from kproducer.kafka_producer import KafkaProducer

    config = options.producer_config().evolve(
        transactional_id="", enable_idempotence=False, max_block_ms=options.check_timeout_ms
    )
    try:
        producer = KafkaProducer.from_config(config)
    except ConfigError as error:
        raise SparkOptionError(config_mistake(error)) from None
    with producer:
        for topic, option in options.topics.items():
            try:
                producer.partitions_for(topic)
            except KafkaError as error:
                reason = explained(error, options.producer_settings, {"max_block_ms": "checkTimeoutMs"})
                if isinstance(error, KafkaTimeoutError):
                    reason += f". {_TO_WAIT}"
                elif isinstance(error, AuthorizationError):
                    reason += f" {_GRANT}"
                raise _not_writable(topic, option, reason) from None


def _unusable(topic: str, option: str, code: int, timeout_s: float) -> SparkWriteError:
    from kproducer.errors.broker_errors import error_for_code

    if code == _UNKNOWN_TOPIC:
        return SparkWriteError(
            f"topic '{topic}' does not exist, and the brokers did not create it within {timeout_s:g} s. "
            f"Nothing was written. Create the topic, or correct the option '{option}'"
        )
    remedy = f" {_GRANT}" if code == _NOT_ALLOWED else ""
    return _not_writable(topic, option, f"{error_for_code(code)}{remedy}")


def _not_writable(topic: str, option: str, reason: str) -> SparkWriteError:
    return SparkWriteError(
        f"topic '{topic}' (option '{option}') cannot be written to. Nothing was written: {reason}"
    )


def _answers(server: str, topics: Sequence[str], timeout_s: float) -> Iterator[_Answer]:
    """Ask a broker about the topics again and again; after an error, on a new connection."""
    host, _, port = server.rpartition(":")
    address = (host.removeprefix("[").removesuffix("]"), int(port))
    message = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])
    (request,) = build_request(ApiKey.METADATA, _METADATA_VERSION, 0, "kproducer-spark", message)
    while True:
        try:
            with socket.create_connection(address, timeout_s) as peer, peer.makefile("rb") as stream:
                while True:
                    peer.sendall(request)
                    frame = _read(stream, parse_size_prefix(_read(stream, SIZE_PREFIX_BYTES)))
                    response = parse_response(ApiKey.METADATA, _METADATA_VERSION, 0, frame)
                    yield {topic.name: topic.error_code for topic in response.topics}
        except (OSError, UnicodeError, KafkaError) as error:
            # UnicodeError: not a valid host name.
            yield error


def _read(stream: BufferedReader, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise ConnectionError(
            "the broker closed the connection without a response; is this a TLS listener, or one with SASL?"
            " If it is, set the option kafka.security.protocol"
        )
    return data
