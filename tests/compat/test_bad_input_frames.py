"""Bad frames and bad connections: what the framing forbids is cut, everybody else is served.

The bounds in time (half a frame, idle, unread answers) are tests/runtime/test_server.py's; here
hundreds of such connections stand beside one normal client.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from . import hostile
from .hostile import ONEWAY, RESPONSE, Line, binary_header, frame, json_header, pull_ext, send_ext
from .peers.epochmq import EpochCluster
from .peers.process import wait_until

UNKNOWN = hostile.UNKNOWN_CODE
FRAME_MAX = 16 << 20
HEADER_MAX = 256 << 10
HEADER = json_header(UNKNOWN, {})
BINARY = binary_header(UNKNOWN, {"key": "value"})
PORTS = ["broker", "fast port", "namesrv"]
GROWTH_BYTES_MAX = 64 << 20
SLOW = 500
"""Connections that misbehave at the same time."""


@pytest.fixture(scope="module")
def ours() -> Iterator[EpochCluster]:
    with EpochCluster() as cluster:
        hostile.create_topic(cluster)
        yield cluster


@pytest.fixture(autouse=True)
def _no_harm(ours: EpochCluster) -> Iterator[None]:
    yield from hostile.watched(ours)


@pytest.fixture(params=PORTS)
def address(ours: EpochCluster, request: pytest.FixtureRequest) -> str:
    return {
        "broker": ours.broker_addr,
        "fast port": f"127.0.0.1:{ours.broker_port - 2}",
        "namesrv": ours.namesrv_addr,
    }[request.param]


# Cut ------------------------------------------------------------------------------------------


def prefix(length: int, word: int) -> bytes:
    return struct.pack(">iI", length, word)


def text_header(**fields: str) -> bytes:
    """A JSON header whose values are written as they are given."""
    return b"{%s}" % ",".join(f'"{key}":{value}' for key, value in fields.items()).encode()


CUT = {
    "length 0": prefix(0, 0),
    "length 3": prefix(3, 0),
    "length negative": prefix(-1, 0),
    "length smallest": prefix(-(2**31), 0),
    "length one too many": prefix(FRAME_MAX - 3, 2),
    "length largest": prefix(2**31 - 1, 0),
    "encoding unknown": prefix(100, 2 << 24 | 10),
    "encoding 255": prefix(100, 255 << 24 | 10),
    "header longer than frame": prefix(20, 17),
    "no header": prefix(4, 0),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "text header": frame(b"not json"),
    "array header": frame(b"[]"),
    "no code": frame(b"{}"),
    "code is not a number": frame(text_header(code='"x"')),
    "code too large": frame(text_header(code="4294967296")),
    "opaque too large": frame(text_header(code="10", opaque="9" * 30)),
    "flag is infinite": frame(text_header(code="10", flag="1e999")),
    "ext is a list": frame(text_header(code="10", extFields="[]")),
    "ext is too many": frame(json_header(UNKNOWN, dict.fromkeys(map(str, range(257)), "x"))),
    "deep": frame(b'{"code":' + b"[" * 30_000),
    "deep ext": frame(text_header(code="10", extFields='{"a":' + "[" * 40 + "]" * 40 + "}")),
    "not utf-8": frame(b"\xff\xfe\xfd"),
    "binary too short": frame(BINARY[:10], encoding=1),
    "binary, remark lies": frame(BINARY[:13] + b"\x7f\xff\xff\xff" + BINARY[17:], encoding=1),
    "binary, remark negative": frame(BINARY[:13] + b"\xff\xff\xff\xff" + BINARY[17:], encoding=1),
    "binary, map lies": frame(BINARY[:17] + b"\x00\x00\xff\xff" + BINARY[21:], encoding=1),
    "binary, map negative": frame(BINARY[:17] + b"\x80\x00\x00\x00" + BINARY[21:], encoding=1),
    "binary, key lies": frame(BINARY[:21] + b"\x7f\xff" + BINARY[23:], encoding=1),
    "binary, cut": frame(BINARY[:-1], encoding=1),
}  # fmt: skip


@pytest.mark.parametrize("data", CUT.values(), ids=CUT)
def test_is_cut_without_an_answer(address: str, data: bytes) -> None:
    with Line(address) as line:
        line.check_serves()
        line.send(data)
        line.check_cut()
    with Line(address) as other:
        other.check_serves()


def test_what_came_before_the_garbage_is_answered(address: str) -> None:
    """Unless it came in the same piece: then it may be lost with the connection."""
    with Line(address) as line:
        line.send(frame(HEADER))
        assert line.answer().code == 3
        line.send(frame(b"{}") + frame(HEADER))
        line.check_cut()


# Served ---------------------------------------------------------------------------------------

ODD = {
    "code is text": frame(text_header(code=f'"{UNKNOWN}"', opaque="7")),
    "language is a number": frame(text_header(code=str(UNKNOWN), language="3")),
    "language is unknown": frame(text_header(code=str(UNKNOWN), language='"KLINGON"')),
    "no flag, no version": frame(text_header(code=str(UNKNOWN))),
    "unknown keys": frame(text_header(code=str(UNKNOWN), more='{"a":[1,2]}')),
    "ext of other types": frame(text_header(code=str(UNKNOWN), extFields='{"a":1,"b":{"c":[]}}')),
    "ext is null": frame(text_header(code=str(UNKNOWN), extFields="null")),
    "lone surrogate": frame(text_header(code=str(UNKNOWN), remark='"\\ud800"')),
    "control characters": frame(text_header(code=str(UNKNOWN), remark='"\x01\x02"')),
    "blanks around": frame(b"  \n" + HEADER + b"\t"),
    "body of any bytes": frame(HEADER, bytes(range(256)) * 100),
    "binary": frame(BINARY, b"", 1),
}  # fmt: skip


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_is_odd_and_served(address: str, data: bytes) -> None:
    with Line(address) as line:
        line.send(data)
        assert line.answer().code == 3
        line.check_serves()


def test_the_largest_frame_is_taken(address: str) -> None:
    body = bytes(FRAME_MAX - 8 - len(HEADER))
    with Line(address) as line:
        line.send(frame(HEADER, body))
        assert line.answer().code == 3
        line.check_serves()


@pytest.mark.parametrize("size", [HEADER_MAX, HEADER_MAX + 1, 1 << 20, FRAME_MAX - 8])
@pytest.mark.parametrize(("code", "refusal"), [(10, 13), (310, 13), (UNKNOWN, 1)])
def test_too_long_a_header_is_answered(address: str, size: int, code: int, refusal: int) -> None:
    """Other requests under way on the connection go on, also those of the same read."""
    long = json_header(code, {"i": ""})
    long = long.replace(b'"i": ""', b'"i": "' + b"x" * (size - len(long)) + b'"')
    with Line(address) as line:
        line.send(frame(HEADER) + frame(long) + frame(HEADER))
        codes = [line.answer().code for _ in range(3)]
        if size > HEADER_MAX:
            assert sorted(codes) == sorted([3, refusal, 3])
        else:
            assert codes.count(3) >= 2
        line.check_serves()


@pytest.mark.parametrize("flag", [ONEWAY, RESPONSE, RESPONSE | ONEWAY])
def test_what_wants_no_answer_gets_none(address: str, flag: int) -> None:
    """One-way garbage, and answers to what was never asked."""
    with Line(address) as line:
        for code in (10, 11, 17, 25, 34, 36, 41, 103, 105, 310, 320, UNKNOWN):
            for ext in ({}, {"topic": "../x", "queueId": "x"}, send_ext("../x"), pull_ext()):
                line.send(frame(json_header(code, ext, flag), b"garbage"))
        line.check_serves()


def test_frames_come_in_single_bytes(address: str) -> None:
    with Line(address) as line:
        line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame(json_header(UNKNOWN, {"a": "b"}), b"body"):
            line.send(bytes([byte]))
        assert line.answer().code == 3
        line.check_serves()


def test_the_peer_leaves_in_the_middle(address: str) -> None:
    whole = frame(HEADER, b"body")
    for size in range(1, len(whole), 7):
        with Line(address) as line:
            line.send(whole[:size])
    with Line(address) as other:
        other.check_serves()


# Slow and half-open ---------------------------------------------------------------------------


@pytest.fixture
def slow(address: str) -> Iterator[list[Line]]:
    lines = [Line(address) for _ in range(SLOW)]
    yield lines
    for line in lines:
        line.socket.close()


def check_normal_client(address: str) -> None:
    """Fifty requests in a row are answered without delay."""
    start = time.monotonic()
    with Line(address) as line:
        for _ in range(50):
            line.check_serves()
    assert time.monotonic() - start < 20


def test_frames_that_never_end(address: str, slow: list[Line]) -> None:
    """Slow-loris: each has begun a frame of 16 MiB; now and then one byte more comes."""
    for line in slow:
        line.send(prefix(FRAME_MAX - 4, len(HEADER)))
    for byte in HEADER[:5]:
        for line in slow:
            line.send(bytes([byte]))
        check_normal_client(address)


def test_halves_of_frames_are_freed_with_their_connections(
    ours: EpochCluster, address: str
) -> None:
    process = ours.namesrv if address == ours.namesrv_addr else ours.broker
    before = process.rss_bytes()
    for _ in range(20):
        with Line(address) as line:
            line.send(frame(HEADER, bytes(FRAME_MAX - 1_000))[:-1])
    check_normal_client(address)
    wait_until(lambda: process.rss_bytes() - before < GROWTH_BYTES_MAX, 10, "memory is freed")


@pytest.mark.parametrize("address", ["broker"], indirect=True)
def test_answers_that_nobody_reads(address: str, slow: list[Line]) -> None:
    """Each asks for half a MiB of messages and never reads."""
    with Line(address) as line:
        for _ in range(32):
            assert line.ask(310, send_ext(), bytes(8_000)).code == 0
    for line in slow[:200]:
        line.send(frame(json_header(11, pull_ext())) * 2)
    check_normal_client(address)


def test_connections_that_say_nothing(address: str, slow: list[Line]) -> None:
    check_normal_client(address)
    for line in slow[::50]:
        line.check_serves()
