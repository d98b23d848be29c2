"""FakeSchemaRegistry: the HTTP side of the fake registry, with faults that a test asks for."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from kproducer.errors.suggestions import keyword_hints
from kproducer.testing.schema_registry.store import RefusedError, SchemaStore

if TYPE_CHECKING:
    from typing_extensions import Self

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_LONGEST_BODY_BYTES = 10 << 20


class FakeSchemaRegistry:
    """A schema registry on a free port of loopback. Thread-safe.

    Args:
        compatibility: level of subjects without one of their own; checked for Avro.
        user, password: required of each request, unless they are empty.
        bearer_token: required of each request, unless it is empty.
        ssl_context: for https; it may ask for client certificates.

    Raises:
        ValueError: there is no such level of compatibility.

    Attributes:
        requests: method and path of each request, with the query, in order.
    """

    @keyword_hints
    def __init__(
        self,
        compatibility: str = "BACKWARD",
        *,
        user: str = "",
        password: str = "",
        bearer_token: str = "",
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        # Fixed after construction.
        self._ssl_context = ssl_context
        self._store = SchemaStore(compatibility)
        self._authorizations: list[str] = []
        if user:
            self._authorizations.append(f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}")
        if bearer_token:
            self._authorizations.append(f"Bearer {bearer_token}")
        #: Appended by the server's threads; read by the test.
        self.requests: list[str] = []
        # Guards all that follows, and the store.
        self._lock = threading.Lock()
        self._faults: list[tuple[int, int, str]] = []
        self._delay_s = 0.0
        self._server: _Server | None = None
        self._port = 0
        # Ends delays.
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The base URL.

        Raises:
            RuntimeError: the registry was never started, so that it has no port yet.
        """
        if not self._port:
            raise RuntimeError(
                "FakeSchemaRegistry was not started: use it in a with statement, or call start() first"
            )
        return f"http{'s' if self._ssl_context else ''}://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen; after ``stop`` on the same port, with the same schemas."""
        with self._lock:
            if self._server is None:
                self._stopping.clear()
                self._server = _Server(self._port, self._ssl_context, self)
                self._port = self._server.server_address[1]
                threading.Thread(
                    target=self._server.serve_forever, args=(0.01,), name="fake-schema-registry", daemon=True
                ).start()

    def stop(self) -> None:
        """Close all connections. Requests are refused until ``start``."""
        with self._lock:
            server, self._server = self._server, None
        self._stopping.set()
        if server is not None:
            server.shutdown()
            server.server_close()
            server.close_connections()

    @keyword_hints
    def fail(
        self,
        status: int,
        times: int = 1,
        error_code: int = -1,
        message: str = "a fault that the test asked for",
    ) -> None:
        """Answer the next requests with an error.

        Args:
            status: HTTP status.
            times: number of requests.
            error_code: the registry's code; -1: the status.
            message: the text.
        """
        with self._lock:
            self._faults += [(status, status if error_code == -1 else error_code, message)] * times

    def delay(self, seconds: float) -> None:
        """Wait before each answer; 0 ends it."""
        with self._lock:
            self._delay_s = seconds

    def register(self, subject: str, schema: str, schema_type: str = "AVRO", **more: Any) -> int:
        """Register a schema directly, and return its id.

        Args:
            subject: the subject.
            schema: the text.
            schema_type: ``AVRO``, ``PROTOBUF`` or ``JSON``.
            more: ``references``, ``metadata`` and ``ruleSet``, as in the registry's JSON.

        Raises:
            ValueError: the registry refuses it.
        """
        body = {"schema": schema, "schemaType": schema_type, **more}
        try:
            with self._lock:
                return int(self._store.register(subject, body, normalize=False)["id"])
        except RefusedError as error:
            raise ValueError(str(error)) from error

    def associate(
        self, topic: str, subject: str, association_type: str = "value", cluster_id: str = "-"
    ) -> None:
        """Associate a subject with the keys or values of a topic."""
        body = {
            "resourceName": topic,
            "resourceNamespace": cluster_id,
            "associations": [{"subject": subject, "associationType": association_type}],
        }
        with self._lock:
            self._store.associate(body)

    def subjects(self) -> list[str]:
        """All subjects."""
        with self._lock:
            return self._store.subjects()

    def versions(self, subject: str) -> list[dict[str, Any]]:
        """The versions under a subject, as in the registry's JSON; empty if it does not exist."""
        try:
            with self._lock:
                return [dict(each) for each in self._store.versions(subject)]
        except RefusedError:
            return []

    def _answer(self, method: str, target: str, authorization: str, body: bytes) -> tuple[int, Any]:
        """Status and JSON of the answer to a request."""
        self.requests.append(f"{method} {target}")
        with self._lock:
            delay_s = self._delay_s
            fault = self._faults.pop(0) if self._faults else None
        if delay_s:
            self._stopping.wait(delay_s)
        if fault is not None:
            return fault[0], {"error_code": fault[1], "message": fault[2]}
        if self._authorizations and authorization not in self._authorizations:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        try:
            with self._lock:
                return 200, _route(self._store, method, target, body)
        except RefusedError as error:
            return error.status, {"error_code": error.code, "message": str(error)}
        except (KeyError, TypeError, ValueError) as error:
            return 400, {"error_code": 400, "message": f"the request is not valid: {error!r}"}


def _route(store: SchemaStore, method: str, target: str, body: bytes) -> Any:
    """The answer to a request, as JSON.

    Raises:
        RefusedError: the registry refuses it.
        KeyError, TypeError, ValueError: it is not valid.
    """
    url = urlsplit(target)
    query = parse_qs(url.query)
    given: Any = json.loads(body) if body else None

    def flag(name: str) -> bool:
        return query.get(name, [""])[-1].lower() == "true"

    path = url.path.removeprefix("/").split("/")
    match [method, *map(unquote, path)] if all(path) else []:
        case "GET", "subjects":
            return store.subjects()
        case "POST", "subjects", subject, "versions":
            return store.register(subject, given, flag("normalize"))
        case "POST", "subjects", subject:
            return store.look_up(subject, given, flag("normalize"), flag("deleted"))
        case "DELETE", "subjects", subject:
            return store.delete(subject)
        case "GET", "subjects", subject, "versions":
            return [each["version"] for each in store.versions(subject)]
        case "GET", "subjects", subject, "versions", version:
            return store.version(subject, version, flag("deleted"))
        case "GET", "subjects", subject, "metadata":
            wanted = dict(zip(query.get("key", []), query.get("value", []), strict=True))
            return store.with_metadata(subject, wanted, flag("deleted"))
        case "GET", "schemas", "types":
            return ["AVRO", "PROTOBUF", "JSON"]
        case "GET", "schemas", "ids", schema_id if schema_id.isdecimal():
            return store.by_id(int(schema_id))
        case "GET", "schemas", "guids", guid:
            return store.by_guid(guid)
        case "POST", "compatibility", "subjects", subject, "versions", version:
            mistakes = store.mistakes_against(subject, given, version)
            return {"is_compatible": not mistakes, "messages": mistakes}
        case "GET", "config", *subject if len(subject) < 2:
            return {"compatibilityLevel": store.level("".join(subject))}
        case "PUT", "config", *subject if len(subject) < 2:
            return {"compatibility": store.set_level("".join(subject), given["compatibility"])}
        case "GET", "mode":
            return {"mode": "READWRITE"}
        case "POST", "associations":
            return store.associate(given)
        case "GET", "associations", "resources", namespace, name:
            return store.associations(namespace, name, query.get("associationType", []))
    raise RefusedError(404, 404, f"HTTP 404 Not Found: {method} {url.path}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, port: int, ssl_context: ssl.SSLContext | None, registry: FakeSchemaRegistry) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.registry = registry
        self._ssl_context = ssl_context
        # Guarded by _lock.
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()

    def finish_request(self, request: Any, client_address: Any) -> None:
        # The handshake runs on the connection's own thread, so that a client which does not finish it blocks
        # nobody.
        if self._ssl_context is not None:
            request.settimeout(10)
            try:
                request = self._ssl_context.wrap_socket(request, server_side=True)
            except OSError:  # the client refused our certificate, or we refused its
                return
            request.settimeout(None)
        with self._lock:
            self._connections.add(request)
        try:
            super().finish_request(request, client_address)
        except OSError:  # the client has gone, or the registry was stopped
            pass
        finally:
            with self._lock:
                self._connections.discard(request)
            request.close()

    def close_connections(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for each in connections:
            with suppress(OSError):  # it is closed
                each.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_version = "FakeSchemaRegistry"

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _LONGEST_BODY_BYTES:
            self.close_connection = True
            return
        body = self.rfile.read(length)
        server = self.server
        assert isinstance(server, _Server)
        authorization = self.headers.get("Authorization", "")
        status, answer = server.registry._answer(self.command, self.path, authorization, body)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", _MEDIA_TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815  # names of http.server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: tests read ``requests``."""
