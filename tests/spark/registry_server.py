"""A schema registry of the tests: what Confluent's and Apicurio's answer, over loopback."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


@dataclass
class RegistryServer:
    """Schemas by subject and version; `failures` answers come before the true ones."""

    subjects: dict[str, list[int]] = field(default_factory=dict)
    """By subject: the numbers of its versions, the newest last."""
    texts: dict[int, str] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    """By number: `schemaType` of Confluent's protocol; none: Avro."""
    descriptors: dict[int, str] = field(default_factory=dict)
    """By number: what Confluent's protocol gives with `format=serialized`; none: the text."""
    references: dict[int, list[dict[str, object]]] = field(default_factory=dict)
    """By number: what Confluent's protocol tells of other schemas."""
    failures: list[tuple[int, bytes]] = field(default_factory=list)
    """Status and body of the next answers."""
    user: str | None = None
    """`user:password` that is wanted; None: nobody is asked."""
    asked: list[str] = field(default_factory=list)
    """Paths of all requests."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, subject: str, text: str, number: int, kind: str | None = None) -> None:
        """Register a version of `subject`."""
        self.texts[number] = text
        if kind is not None:
            self.kinds[number] = kind
        self.subjects.setdefault(subject, []).append(number)

    def _wrapped(self, number: int, query: str) -> bytes:
        """Return a schema as Confluent's protocol does."""
        found: dict[str, object] = {"schema": self.texts[number]}
        if query == "format=serialized" and number in self.descriptors:
            found["schema"] = self.descriptors[number]
        if number in self.kinds:
            found["schemaType"] = self.kinds[number]
        if number in self.references:
            found["references"] = self.references[number]
        return json.dumps(found).encode()

    def answer(self, path: str, user: str | None) -> tuple[int, bytes]:
        self.asked.append(path)
        if self.failures:
            return self.failures.pop(0)
        if self.user is not None and user != self.user:
            return 401, b'{"error_code": 401}'
        path, _, query = path.partition("?")
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match parts:
            case ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                number = self.subjects[subject][-1]
                return 200, self._wrapped(number, query)
            case ["subjects", subject, "versions", version] if version.isdigit() and 0 < int(
                version
            ) <= len(self.subjects.get(subject, ())):
                return 200, self._wrapped(self.subjects[subject][int(version) - 1], query)
            case ["schemas", "ids", number] if int(number) in self.texts:
                return 200, self._wrapped(int(number), query)
            case ["apis", "registry", "v2", "groups", group, "artifacts", artifact] if (
                f"{group}/{artifact}" in self.subjects
            ):
                return 200, self.texts[self.subjects[f"{group}/{artifact}"][-1]].encode()
            case ["apis", "registry", "v3", "groups", group, "artifacts", artifact, *version] if (
                version == ["versions", "branch=latest", "content"]
                and f"{group}/{artifact}" in self.subjects
            ):
                return 200, self.texts[self.subjects[f"{group}/{artifact}"][-1]].encode()
            case ["apis", "registry", "v2", "ids", "globalIds", number] | [
                "apis",
                "registry",
                "v3",
                "ids",
                "contentIds",
                number,
            ] if int(number) in self.texts:
                return 200, self.texts[int(number)].encode()
        return 404, b'{"error_code": 40401, "message": "not found"}'


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """Run a registry until the block ends."""
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "")
            user = base64.b64decode(given.removeprefix("Basic ")).decode() if given else None
            status, body = registry.answer(self.path, user)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", body.decode())
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
