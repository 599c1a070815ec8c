"""Raw connections for tests of bad input, and what must hold after each of them.

Frames are built here, apart from the product's own code, so that they can be wrong in every way.
"""

from __future__ import annotations

import itertools
import json
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import pytest

from .peers.epochmq import EpochCluster
from .peers.process import Process
from .peers.wire import Answer

V5_0, V5_3 = 413, 479
"""5.0.0 and 5.3.3; clients from 5.3.1 on are answered 29 where older ones are answered 1."""
UNKNOWN_CODE = 31_999
RESPONSE, ONEWAY = 1, 2
TIMEOUT_S = 10.0
TOPIC, QUEUES = "BadInput", 4

_BINARY_FIXED = struct.Struct(">hbhiii")
_opaque = itertools.count(1)

Ext = Mapping[str, object]


def json_header(
    code: int,
    ext: Ext | None = None,
    flag: int = 0,
    version: int = V5_3,
    opaque: int | None = None,
) -> bytes:
    """A JSON header as a client writes it; `opaque` is a new one unless it is given."""
    fields: dict[str, object] = {
        "code": code,
        "flag": flag,
        "language": "OTHER",
        "opaque": next(_opaque) if opaque is None else opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": version,
    }
    if ext is not None:
        fields["extFields"] = {key: str(value) for key, value in ext.items()}
    return json.dumps(fields).encode()


def binary_header(
    code: int, ext: Ext, flag: int = 0, version: int = V5_3, opaque: int | None = None
) -> bytes:
    """The same in the encoding ROCKETMQ."""
    pairs = b"".join(
        struct.pack(f">h{len(k)}si{len(v)}s", len(k), k, len(v), v)
        for k, v in ((key.encode(), str(value).encode()) for key, value in ext.items())
    )
    opaque = next(_opaque) if opaque is None else opaque
    fixed = _BINARY_FIXED.pack(code, 7, version, opaque, flag, 0)
    return fixed + struct.pack(">i", len(pairs)) + pairs


def frame(header: bytes, body: bytes = b"", encoding: int = 0) -> bytes:
    """A whole frame around a header and a body."""
    length = 4 + len(header) + len(body)
    return struct.pack(">iI", length, encoding << 24 | len(header)) + header + body


def read_header(header: bytes, encoding: int) -> dict[str, Any]:
    """A header of either encoding, as the JSON form has it."""
    if encoding == 0:
        fields: dict[str, Any] = json.loads(header)
        return fields
    code, _, version, opaque, flag, size = _BINARY_FIXED.unpack_from(header)
    at = _BINARY_FIXED.size
    remark = header[at : at + size].decode()
    ext: dict[str, str] = {}
    at += size + 4
    while at < len(header):
        key, at = _text(header, at, ">h")
        ext[key], at = _text(header, at, ">i")
    return {
        "code": code, "version": version, "opaque": opaque, "flag": flag, "remark": remark,
        "extFields": ext,
    }  # fmt: skip


def _text(header: bytes, at: int, form: str) -> tuple[str, int]:
    (size,) = struct.unpack_from(form, header, at)
    start = at + struct.calcsize(form)
    assert 0 <= size <= len(header) - start
    return header[start : start + size].decode(), start + size


def split_frames(data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """(header, body) of each frame; the data must hold whole frames only."""
    at = 0
    while at < len(data):
        length, word = struct.unpack_from(">iI", data, at)
        size = word & 0xFFFFFF
        end = at + 4 + length
        assert 4 + size <= length <= len(data) - at - 4, "a frame of the server is not whole"
        yield read_header(data[at + 8 : at + 8 + size], word >> 24), data[at + 8 + size : end]
        at = end


def check_remark(remark: str) -> None:
    """Nothing of the server's inside shows."""
    for trace in ("Traceback", 'File "', ".py"):
        assert trace not in remark, remark


@dataclass(frozen=True)
class Case:
    """One request that breaks a rule, and the answer it must get.

    `remark` is a part of the answer's remark, `fields` what its extFields must have; `version` is
    the client's.
    """

    name: str
    code: int
    ext: Ext
    answer: int
    remark: str = ""
    body: bytes = b""
    version: int = V5_3
    fields: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def each_case(*cases: Case) -> pytest.MarkDecorator:
    """Run a test for each case, under the case's name."""
    return pytest.mark.parametrize("case", cases, ids=str)


class Line:
    """One connection to a server."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are; a connection that the server closed is not a failure."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def ask(
        self, code: int, ext: Ext | None = None, body: bytes = b"", version: int = V5_3
    ) -> Answer:
        """One request with a JSON header, and its answer."""
        self.send(frame(json_header(code, ext, version=version), body))
        return self.answer()

    def answer(self) -> Answer:
        """The next answer; what the server asks of us meanwhile is passed over."""
        while True:
            header, body = self.read()
            if header["flag"] & RESPONSE:
                break
        remark = header.get("remark") or ""
        check_remark(remark)
        return Answer(header["code"], remark, header.get("extFields") or {}, body)

    def read(self) -> tuple[dict[str, Any], bytes]:
        """The next frame."""
        head = self._exactly(4)
        data = head + self._exactly(struct.unpack(">i", head)[0])
        return next(split_frames(data))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the server closed the connection")
            data += piece
        return bytes(data)

    def check_serves(self) -> None:
        """The connection is still good: an unknown code is answered, and only that."""
        answer = self.ask(UNKNOWN_CODE, {})
        assert answer.code == 3, answer
        assert answer.remark == f" request type {UNKNOWN_CODE} not supported"

    def check_cut(self) -> None:
        """The server closes the connection and says nothing."""
        try:
            rest = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return
        assert rest == b"", rest[:200]


def check_case(address: str, case: Case) -> Answer:
    """The case's answer comes, and the connection serves on."""
    with Line(address) as line:
        answer = line.ask(case.code, case.ext, case.body, case.version)
        assert answer.code == case.answer, answer
        assert case.remark in answer.remark, answer
        assert {key: answer.ext.get(key) for key in case.fields} == dict(case.fields), answer
        line.check_serves()
    return answer


class Watch:
    """A server process that must live on and log neither a traceback nor an error."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._seen = process.log.stat().st_size

    def check(self) -> None:
        """Look at what was logged since the last look."""
        with self._process.log.open("rb") as log:
            log.seek(self._seen)
            new = log.read()
        self._seen += len(new)
        assert self._process.is_alive, self._process.log_tail()
        for bad in (b"Traceback", b" ERROR ", b" CRITICAL "):
            assert bad not in new, new.decode(errors="replace")[:8_000]


def watched(cluster: EpochCluster) -> Iterator[None]:
    """Around each test: both servers took no harm."""
    watches = [Watch(cluster.broker), Watch(cluster.namesrv)]
    yield
    for watch in watches:
        watch.check()


def create_topic(cluster: EpochCluster, topic: str = TOPIC, **more: object) -> Answer:
    """A topic of four queues, unless `more` says otherwise."""
    with Line(cluster.broker_addr) as line:
        answer = line.ask(17, topic_ext(topic, **more))
    assert answer.code == 0, answer
    return answer


def without_none(ext: Ext) -> dict[str, object]:
    """None stands for a field that is left out."""
    return {key: value for key, value in ext.items() if value is not None}


def topic_ext(topic: str | None = "NewTopic", **more: object) -> dict[str, object]:
    """UPDATE_AND_CREATE_TOPIC's fields."""
    ext: dict[str, object] = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": QUEUES,
        "writeQueueNums": QUEUES, "perm": 6, "topicFilterType": "SINGLE_TAG", "order": "false",
    }  # fmt: skip
    return without_none({**ext, **more})


def send_ext(topic: str | None = TOPIC, **more: object) -> dict[str, object]:
    """SEND_MESSAGE_V2's fields, by their one-letter keys."""
    ext: dict[str, object] = {
        "a": "BadProducer", "b": topic, "c": "TBW102", "d": QUEUES, "e": 0, "f": 0,
        "g": 1663545600000, "h": 0, "i": "", "j": 0, "k": "false", "m": "false",
    }  # fmt: skip
    return without_none({**ext, **more})


_LONG_NAMES = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
    "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    "j": "reconsumeTimes", "k": "unitMode", "m": "batch",
}  # fmt: skip


def long_send_ext(topic: str | None = TOPIC, **more: object) -> dict[str, object]:
    """The same by SEND_MESSAGE's long names; `more` still has the short ones."""
    return {_LONG_NAMES[key]: value for key, value in send_ext(topic, **more).items()}


def pull_ext(**more: object) -> dict[str, object]:
    """PULL_MESSAGE's fields: all of a queue, subscription in the header."""
    ext: dict[str, object] = {
        "consumerGroup": "BadConsumer", "topic": TOPIC, "queueId": 0, "queueOffset": 0,
        "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subscription": "*", "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip
    return without_none({**ext, **more})


def batch_record(body: bytes) -> bytes:
    """One record of a batch, without properties."""
    return struct.pack(">IIIiI", 22 + len(body), 0, 0, 0, len(body)) + body + b"\0\0"
