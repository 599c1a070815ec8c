"""A server in a process of its own that a test attacks, and plain connections to it."""

import json
import re
import resource
import signal
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compat.peers.process import wait_until

from epochmq.wire.codes import RequestCode

START_S = 60.0
ANSWER_S = 60.0
TURN_MS_MAX = 200
"""A turn of the loop may take so long; the watchdog counts those over 50, 100, 200, 500 ms ..."""


def frame(
    code: int, ext: Mapping[str, object] | None = None, body: bytes = b"", **fields: object
) -> bytes:
    """A request with a JSON header, built apart from the product's code."""
    header: dict[str, object] = {"code": code, "language": "OTHER", "version": 479, "opaque": 1}
    header["flag"] = 0
    header["extFields"] = {key: str(value) for key, value in (ext or {}).items()}
    return pack_frame(json.dumps({**header, **fields}).encode(), body)


def pack_frame(header: bytes, body: bytes = b"") -> bytes:
    """A frame around any header."""
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


@dataclass(frozen=True)
class Answer:
    """What came back."""

    code: int
    remark: str
    ext: dict[str, str]
    body: bytes
    opaque: int


class Line:
    """One connection that blocks."""

    def __init__(
        self, port: int, timeout_s: float = ANSWER_S, tls: ssl.SSLContext | None = None
    ) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock)

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def call(self, code: int, ext: Mapping[str, object] | None = None, body: bytes = b"") -> Answer:
        """Ask, and wait for the answer."""
        self.sock.sendall(frame(code, ext, body))
        return self.read_answer()

    def read_answer(self) -> Answer:
        """The next frame; `ConnectionError` when the server closed the connection."""
        (length,) = struct.unpack(">i", self._exactly(4))
        data = self._exactly(length)
        size = int.from_bytes(data[1:4], "big")
        header = json.loads(data[4 : 4 + size])
        return Answer(
            header["code"],
            header.get("remark") or "",
            header.get("extFields") or {},
            data[4 + size :],
            header["opaque"],
        )

    def is_closed(self) -> bool:
        """Whether the server closes the connection without another word; waits for either."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed by the server")
            data += piece
        return data


@dataclass
class Server:
    """One running server; its log is in `log_file`."""

    child: subprocess.Popen[bytes]
    port: int
    log_file: Path

    def line(self, timeout_s: float = ANSWER_S) -> Line:
        """A new connection to its main port."""
        return Line(self.port, timeout_s)

    def figures(self) -> dict[str, str]:
        """Its runtime information."""
        with self.line() as line:
            answer = line.call(int(RequestCode.GET_BROKER_RUNTIME_INFO))
        assert answer.code == 0, answer
        table: dict[str, str] = json.loads(answer.body)["table"]
        return table

    def turns(self) -> dict[int, int]:
        """How many turns of its loop took longer than so many ms, since its start."""
        pairs = self.figures()["epochmqLoopTurnsOverMs"].split(",")
        return {int(ms): int(count) for ms, _, count in (pair.partition(":") for pair in pairs)}

    @contextmanager
    def check_turns(self, over_ms: int = TURN_MS_MAX) -> Iterator[None]:
        """Fail when a turn of the loop takes longer than `over_ms` while the block runs."""
        before = self.turns()
        yield
        slow = self.turns()[over_ms] - before[over_ms]
        assert slow == 0, f"{slow} turns over {over_ms} ms; {self.log_tail()}"

    def send(self, topic: str = "Attacked", body: bytes = b"x") -> Answer:
        """One message through a connection of its own; the topic is created when it is new."""
        with self.line() as line:
            return send_message(line, topic, body)

    def log_tail(self, size: int = 4_000) -> str:
        return self.log_file.read_text(errors="replace")[-size:]

    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace")

    def wait_for_log(self, text: str) -> None:
        """Wait until its log contains `text`: a thread writes the log, after the answers."""
        wait_until(lambda: text in self.log_text(), ANSWER_S, f"{text!r} in {self.log_file}")

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(START_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
        return self.child.wait()


def send_message(line: Line, topic: str, body: bytes = b"x", properties: str = "") -> Answer:
    """SEND_MESSAGE to queue 0."""
    ext: dict[str, Any] = {
        "producerGroup": "attackers", "topic": topic, "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0, "bornTimestamp": 0, "flag": 0,
        "properties": properties, "reconsumeTimes": 0, "unitMode": "false", "batch": "false",
    }  # fmt: skip
    return line.call(int(RequestCode.SEND_MESSAGE), ext, body)


@contextmanager
def running(
    kind: str,
    home: Path,
    settings: Mapping[str, object],
    *,
    args: Sequence[str] = (),
    descriptors: int | None = None,
    stderr: int = subprocess.DEVNULL,
) -> Iterator[Server]:
    """`epochmq KIND` with these options until the block ends; `descriptors` is its hard limit."""
    home.mkdir(parents=True, exist_ok=True)
    log_file = home / f"{kind}.log"
    argv = [sys.executable, "-m", "epochmq", kind, "--log-file", str(log_file), *args]
    for key, value in settings.items():
        argv += ["--set", f"{key}={value}"]
    child = subprocess.Popen(
        argv,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        preexec_fn=_limited(descriptors),
    )
    assert child.stdout is not None
    try:
        ready = child.stdout.readline().decode()
        found = re.search(r" on \S+?:(\d+)", ready)
        assert found, f"{kind} did not start: {ready!r} {_read(log_file)}"
        server = Server(child, int(found[1]), log_file)
        yield server
        server.stop()
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        child.stdout.close()
        if child.stderr is not None:
            child.stderr.close()


def _limited(descriptors: int | None) -> Callable[[], None] | None:
    if descriptors is None:
        return None
    number = descriptors
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


def _read(file: Path) -> str:
    return file.read_text(errors="replace")[-4_000:] if file.exists() else ""


@contextmanager
def running_broker(
    home: Path, settings: Mapping[str, object] | None = None, **given: Any
) -> Iterator[Server]:
    """A broker without a name server on a free port of loopback."""
    own = {
        "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
        "listenPort": 0, "haListenPort": 0, "fastListenPort": 0,
        "storePathRootDir": home / "store",
        "mappedFileSizeCommitLog": 16 * 1024 * 1024, "mappedFileSizeConsumeQueue": 60_000,
        "maxIndexNum": 10_000, "maxHashSlotNum": 1_000,
    }  # fmt: skip
    with running("broker", home, {**own, **(settings or {})}, **given) as server:
        yield server


@contextmanager
def running_name_server(
    home: Path, settings: Mapping[str, object] | None = None, **given: Any
) -> Iterator[Server]:
    """A name server on a free port of loopback."""
    own = {"bindAddress": "127.0.0.1", "listenPort": 0, "kvConfigPath": home / "kvConfig.json"}
    with running("namesrv", home, {**own, **(settings or {})}, **given) as server:
        yield server
