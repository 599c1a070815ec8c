"""A reader that asks for gigabytes and takes nothing makes a broker keep only megabytes."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.command import Command, decode, encode_frame, request
from epochmq.wire.frame import FrameReader
from epochmq.wire.headers.pull_headers import BulkReadHeader

from .peers import admin
from .peers.epochmq import EpochCluster
from .peers.process import wait_until

TOPIC = "Bulky"
MESSAGES, BODY = 100, b"x" * 100_000
REQUESTS = 400
GROWTH_MAX = 64 << 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[EpochCluster]:
    with EpochCluster() as running:
        admin.create_topic(running.broker_addr, TOPIC, 1)
        for _ in range(MESSAGES):
            admin.send(running.broker_addr, TOPIC, BODY)
        yield running


def resident(pid: int) -> int:
    """Bytes of memory that are a process's own: the mapped log is the page cache's."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def asked(opaque: int) -> bytes:
    header = BulkReadHeader(topic=TOPIC, queueId=0, offset=0, maxBytes=8 << 20)
    command: Command = request(RequestCode.BULK_READ, header)
    command.opaque = opaque
    return encode_frame(command)


def test_memory_stays_bounded_and_the_answers_come(cluster: EpochCluster) -> None:
    pid = cluster.broker.pid
    host, _, port = cluster.broker_addr.rpartition(":")
    before, highest = resident(pid), 0
    with socket.create_connection((host, int(port)), 10) as lazy:
        lazy.sendall(b"".join(asked(n) for n in range(1, REQUESTS + 1)))
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            highest = max(highest, resident(pid))
            admin.send(cluster.broker_addr, TOPIC, b"others are served")
        assert highest - before < GROWTH_MAX
        codes: Counter[int] = Counter()
        reader = FrameReader()
        while codes.total() < REQUESTS:
            data = lazy.recv(1 << 20)
            assert data
            for frame in reader.feed(data):
                codes[decode(frame.header, frame.binary).code] += 1
    assert set(codes) <= {ResponseCode.SUCCESS, ResponseCode.FLOW_CONTROL}
    assert codes[ResponseCode.SUCCESS] >= 1
    wait_until(lambda: resident(pid) - before < GROWTH_MAX // 2, 10, "memory given back")
