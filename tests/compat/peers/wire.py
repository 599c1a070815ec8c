"""The least of the remoting protocol that a test needs, written apart from ours.

One request, one answer, one connection at a time: an independent pair of eyes, not a client.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_opaque = itertools.count(1)
_VERSION = 479  # 5.3.3
GET_METADATA = 1005
GET_SYNC_STATE_DATA = 1006


@dataclass(frozen=True)
class Answer:
    """A response: its code, remark, extFields and body."""

    code: int
    remark: str
    ext: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """The body, whether the server quotes integer keys or not (fastjson does not)."""
        text = self.body.decode()
        try:
            return json.loads(text)  # what looks like such a key may be part of a value
        except ValueError:
            return json.loads(re.sub(r"([{,])\s*(-?\d+)\s*:", r'\1"\2":', text))


def frame(code: int, ext: Mapping[str, object], body: bytes = b"", flag: int = 0) -> bytes:
    """A request frame with a JSON header."""
    header = json.dumps(
        {
            "code": code,
            "language": "OTHER",
            "version": _VERSION,
            "opaque": next(_opaque),
            "flag": flag,
            "extFields": {key: str(value) for key, value in ext.items()},
            "serializeTypeCurrentRPC": "JSON",
        }
    ).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("the server closed the connection")
        data += piece
    return bytes(data)


def read_answer(connection: socket.socket) -> Answer:
    """The next frame of a connection, which must be a JSON response."""
    length, sizes = struct.unpack(">ii", _read(connection, 8))
    rest = _read(connection, length - 4)
    header_size = sizes & 0xFFFFFF
    header = json.loads(rest[:header_size])
    return Answer(
        code=header["code"],
        remark=header.get("remark") or "",
        ext=header.get("extFields") or {},
        body=rest[header_size:],
    )


def call(
    address: str, code: int, ext: Mapping[str, object], body: bytes = b"", timeout_s: float = 10
) -> Answer:
    """Connect, ask once, close."""
    host, _, port = address.rpartition(":")
    where = (host.strip("[]"), int(port))
    with socket.create_connection(where, timeout=timeout_s) as connection:
        connection.sendall(frame(code, ext, body))
        return read_answer(connection)


def is_registered(namesrv: str, broker: str) -> bool:
    """Whether the name server's cluster info (106) names the broker's address."""
    try:
        return f'"{broker}"'.encode() in call(namesrv, 106, {"any": "1"}, timeout_s=3).body
    except OSError:
        return False


def sync_state(controller: str, broker_name: str) -> dict[str, Any]:
    """What the leading controller knows of a broker group (1006); `KeyError` when nothing."""
    body = json.dumps([broker_name]).encode()
    answer = call(controller, GET_SYNC_STATE_DATA, {}, body, timeout_s=3)
    if answer.code != 0:
        raise ValueError(f"{answer.code} {answer.remark}")
    found: dict[str, Any] = answer.json()["replicasInfoTable"][broker_name]
    return found
