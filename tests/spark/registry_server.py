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
    """By number: what each protocol tells of other schemas."""
    knows_references: bool = True
    """False for an old registry of Apicurio's."""
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
            case ["apis", "registry", "v2" | "v3" as protocol, *rest]:
                return self._apicurio(protocol == "v3", rest)
        return 404, b'{"error_code": 40401, "message": "not found"}'

    def _apicurio(self, is_v3: bool, parts: list[str]) -> tuple[int, bytes]:
        """Return what Apicurio's own protocol does."""
        number, rest = 0, ["none"]
        match parts:
            case ["ids", "contentIds" | "globalIds" as kind, text, *rest]:
                number = int(text) if (kind == "contentIds") == is_v3 else 0
            case ["groups", group, "artifacts", artifact, "meta"] if not is_v3:
                versions = self.subjects.get(f"{group}/{artifact}", [0])
                number, rest = versions[-1], ["meta"]
            case ["groups", group, "artifacts", artifact, "versions", version, *rest]:
                versions = self.subjects.get(f"{group}/{artifact}", [])
                at = len(versions) if version == "branch=latest" else int(version)
                number = versions[at - 1] if 0 < at <= len(versions) else 0
                if is_v3 and rest == ["content"]:
                    rest = []
        if number in self.texts:
            match rest:
                case []:
                    return 200, self.texts[number].encode()
                case ["meta"]:
                    return 200, json.dumps({"globalId": number}).encode()
                case ["references"] if self.knows_references:
                    return 200, json.dumps(self.references.get(number, [])).encode()
        return 404, b'{"error_code": 404}'


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
