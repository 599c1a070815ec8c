"""Twenty thousand damaged frames over real sockets: whole answers or a cut, and no harm done.

Each frame goes over a connection of its own and is followed by a sound one, which is answered
unless the damage swallowed it or the connection was cut.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from tests.tiers import choose

from epochmq.client.aio import Producer, PullConsumer
from epochmq.model.message import Message

from . import hostile
from .hostile import UNKNOWN_CODE, Line, Watch, check_remark, frame, json_header, split_frames
from .hostile_frames import BROKER, NAMESRV, TOPIC, Golden, draw
from .peers.epochmq import EpochCluster

FRAMES = int(os.environ.get("EPOCHMQ_FUZZ_FRAMES", choose(sample=5_000, soak=20_000)))
SEED = int(os.environ.get("EPOCHMQ_FUZZ_SEED", "20221"))
ONLY = os.environ.get("EPOCHMQ_FUZZ_ONLY")
NUMBERS = range(FRAMES) if ONLY is None else range(int(ONLY), int(ONLY) + 1)
WARM_UP = 500 if ONLY is None else 0
GROWTH_BYTES_MAX = 64 << 20
AT_ONCE = 50
SOUND = "Sound"


@dataclass(frozen=True)
class Target:
    """Who is sent which frames."""

    address: str
    goldens: list[Golden]


@pytest.fixture(scope="module")
def ours() -> Iterator[EpochCluster]:
    # Nothing delayed comes due while the queues' ends are compared.
    with EpochCluster(broker_config={"messageDelayLevel": "1h 2h 3h 4h"}) as cluster:
        hostile.create_topic(cluster, TOPIC)
        hostile.create_topic(cluster, SOUND)
        yield cluster


def targets(ours: EpochCluster) -> list[Target]:
    """By turns: most for the broker."""
    broker = Target(ours.broker_addr, BROKER)
    fast = Target(f"127.0.0.1:{ours.broker_port - 2}", BROKER)
    namesrv = Target(ours.namesrv_addr, NAMESRV)
    return [broker, broker, broker, namesrv, broker, broker, fast, broker, broker, namesrv]


def replay(number: int) -> str:
    """How to send this frame alone; harm that only many do together needs the whole run."""
    return (
        f"frame {number}; replay it by EPOCHMQ_FUZZ_SEED={SEED} EPOCHMQ_FUZZ_ONLY={number}"
        " pytest tests/compat/test_fuzz_sockets.py"
    )


def open_and_send(target: Target, number: int) -> socket.socket:
    """Send one damaged frame and a sound one, and say that no more comes."""
    line = Line(target.address)
    line.send(draw(SEED, number, target.goldens) + frame(json_header(UNKNOWN_CODE, {})))
    try:
        line.socket.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # cut already
    return line.socket


def read_all(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    pieces = []
    try:
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    except ConnectionResetError:
        pass  # it was cut while bytes of ours were under way
    return b"".join(pieces)


def judge(data: bytes) -> str:
    """Whole frames, nothing of the inside; what became of the connection."""
    remarks = [fields.get("remark") or "" for fields, _ in split_frames(data)]
    for remark in remarks:
        check_remark(remark)
    if any(remark.endswith(f"type {UNKNOWN_CODE} not supported") for remark in remarks):
        return "served"
    return "answered" if remarks else "cut"


def outcome(connection: socket.socket, number: int) -> str:
    """Read what frame `number` led to, and judge it."""
    try:
        return judge(read_all(connection))
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}: {replay(number)}") from error


def run(ours: EpochCluster, numbers: range) -> Counter[str]:
    """Send these frames, `AT_ONCE` at a time; how often what happened."""
    turns = targets(ours)
    seen: Counter[str] = Counter()
    for first in range(numbers.start, numbers.stop, AT_ONCE):
        batch = range(first, min(first + AT_ONCE, numbers.stop))
        with ExitStack() as stack:
            sockets = [
                stack.enter_context(open_and_send(turns[number % len(turns)], number))
                for number in batch
            ]
            for number, connection in zip(batch, sockets, strict=True):
                seen[outcome(connection, number)] += 1
        assert ours.broker.is_alive, f"the broker died at or before {replay(batch[-1])}"
        assert ours.namesrv.is_alive, f"the name server died at or before {replay(batch[-1])}"
    return seen


async def use(namesrv: str, text: str) -> list[str]:
    """A normal client sends one message and reads all there are."""
    async with Producer(namesrv, "FuzzCheck", retries=0) as producer:
        queue = (await producer.queues(SOUND))[0]
        await producer.send(Message(SOUND, text.encode()), queue=queue)
    async with PullConsumer(namesrv, "FuzzCheck") as consumer:
        return [message.body.decode() for message in (await consumer.pull(queue, 0)).messages]


def ends(ours: EpochCluster) -> dict[tuple[str, int], str]:
    """Where the queues of the damaged messages end."""
    with Line(ours.broker_addr) as line:
        topics = (TOPIC, "%RETRY%FuzzedGroup", SOUND)
        places = [(topic, queue) for topic in topics for queue in range(hostile.QUEUES)]
        return {
            (topic, queue): line.ask(30, {"topic": topic, "queueId": queue}).ext["offset"]
            for topic, queue in places
        }


@pytest.mark.fuzz
def test_damaged_frames_do_no_harm(ours: EpochCluster) -> None:
    watches = [Watch(ours.broker), Watch(ours.namesrv)]
    run(ours, range(FRAMES, FRAMES + WARM_UP))  # first uses are not growth
    before = [ours.broker.rss_bytes(), ours.namesrv.rss_bytes()]
    seen = run(ours, NUMBERS)
    growth = [ours.broker.rss_bytes() - before[0], ours.namesrv.rss_bytes() - before[1]]
    print(f"{dict(seen)}, grown by {[size >> 20 for size in growth]} MiB, seed {SEED}")
    for watch in watches:
        watch.check()
    assert max(growth) < GROWTH_BYTES_MAX
    if ONLY is None:  # both must really have been exercised
        assert min(seen["served"], seen["cut"]) > FRAMES // 5, seen
    assert asyncio.run(use(ours.namesrv_addr, "first")) == ["first"]


@pytest.mark.fuzz
def test_what_they_left_survives_a_crash(ours: EpochCluster) -> None:
    """Recovery reads every record that came of a damaged frame."""
    before = ends(ours)
    ours.kill9_broker()
    ours.start_broker()
    assert ends(ours) == before
    assert asyncio.run(use(ours.namesrv_addr, "second"))[-1] == "second"
