"""An HTTP proxy before an object store that spoils some requests.

Run as `python -m tests.tables.faulty_proxy --port PORT --target HOST:PORT`.

A request that is spoiled is refused with 503, or its connection is closed before the store gets it,
or after the store has carried it out: then the client does not know whether it happened.
"""

import argparse
import http.client
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Lock

REFUSED, LOST, UNANSWERED = "refused", "lost", "unanswered"
FAULTS = (REFUSED, LOST, UNANSWERED)
SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "expect"}


class Faults:
    """Draws a fault for `share` of the requests, the same ones for each seed.

    The answer to the first PUT (or `method`) of each path that contains `unanswered` is lost in any
    case.
    """

    def __init__(self, seed: int, share: float, unanswered: str, method: str = "PUT") -> None:
        self._method = method
        self._rng = Random(seed)
        self._share = share
        self._unanswered = unanswered
        self._put: set[str] = set()
        self._lock = Lock()

    def draw(self, command: str, path: str) -> str | None:
        with self._lock:
            if command == self._method and self._unanswered and self._unanswered in path:
                if path not in self._put:
                    self._put.add(path)
                    return UNANSWERED
            return self._rng.choice(FAULTS) if self._rng.random() < self._share else None


def handler(target: str, faults: Faults) -> type[BaseHTTPRequestHandler]:
    """Return a handler of requests that asks the store at `target`, which is host:port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self._body()
            fault = faults.draw(self.command, self.path)
            if fault == LOST:
                self._cut()
                return
            if fault == REFUSED:
                self._answer(503, {"Content-Type": "application/xml"}, SLOW_DOWN)
                return
            store = http.client.HTTPConnection(target, timeout=60)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
            store.request(self.command, self.path, body, headers)
            found = store.getresponse()
            data = found.read()
            if fault == UNANSWERED:
                self._cut()
                return
            kept = {k: v for k, v in found.getheaders() if k.lower() not in _HOP_BY_HOP}
            length = found.getheader("Content-Length") if self.command == "HEAD" else None
            self._answer(found.status, kept, data, length)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _any

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                data = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return data
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _answer(
            self, status: int, headers: dict[str, str], data: bytes, length: str | None = None
        ) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", length or str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _cut(self) -> None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--unanswered", default="")
    parser.add_argument("--method", default="PUT")
    given = parser.parse_args()
    faults = Faults(given.seed, given.share, given.unanswered, given.method)
    made = handler(given.target, faults)
    ThreadingHTTPServer(("127.0.0.1", given.port), made).serve_forever()


if __name__ == "__main__":
    main()
