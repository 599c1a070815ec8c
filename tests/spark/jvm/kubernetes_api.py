"""The part of the Kubernetes API that Spark uses to submit a job, as a server in this process.

It accepts every object and keeps it; no pod ever runs. It shows which pods Spark would create.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"
_PATH = re.compile(r"/namespaces/([^/]+)/([^/?]+)")


class KubernetesApi:
    """The server, and `created`: the objects of each kind that were created, in order."""

    def __init__(self) -> None:
        self.created: dict[str, list[dict[str, Any]]] = {}
        self._changed = threading.Condition()
        self.server = ThreadingHTTPServer((HOST, 0), self._handler())

    @property
    def url(self) -> str:
        """The master URL for Spark."""
        return f"k8s://http://{HOST}:{self.server.server_address[1]}"

    def wait_pod(self, role: str, timeout_s: float) -> dict[str, Any]:
        """Return the first pod whose label `spark-role` is `role`.

        Raises:
            AssertionError: there is no such pod within the time.
        """

        def found() -> list[dict[str, Any]]:
            pods = self.created.get("pods", [])
            return [pod for pod in pods if pod["metadata"]["labels"].get("spark-role") == role]

        with self._changed:
            assert self._changed.wait_for(found, timeout_s), f"no {role} in {self.created}"
            return found()[0]

    def _create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        found = _PATH.search(path)
        assert found is not None, path
        namespace, kind = found.groups()
        body["metadata"] |= {"uid": "uid", "namespace": namespace}
        with self._changed:
            self.created.setdefault(kind, []).append(body)
            self._changed.notify_all()
        return body

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self, content: dict[str, Any], status: int = 200) -> None:
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length))
                self._answer(api._create(self.path, body), 201)

            do_PATCH = do_PUT = do_POST

            def do_GET(self) -> None:
                self._answer({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []})

            def do_DELETE(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        return Handler


@contextmanager
def kubernetes_api() -> Iterator[KubernetesApi]:
    """Run the server in a thread."""
    api = KubernetesApi()
    with api.server as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield api
        finally:
            server.shutdown()
