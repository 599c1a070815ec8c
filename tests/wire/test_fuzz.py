"""20,000 damaged streams: every one ends in values, PeerError or HeaderError; nothing else."""

import random

import pytest
from tests.wire.trips import header_classes

from epochmq.base.errors import HeaderError, PeerError
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.group_bodies import HeartbeatData
from epochmq.wire.bodies.namesrv_bodies import RegisterBrokerBody
from epochmq.wire.command import Command, decode, encode_frame
from epochmq.wire.frame import FrameReader
from epochmq.wire.header import Header, decode_header
from epochmq.wire.headers import (
    admin_headers,
    fast_headers,
    group_headers,
    namesrv_headers,
    offset_headers,
    pull_headers,
    send_headers,
    topic_headers,
)

STREAMS = 20_000
CLASSES: list[type[Header]] = [
    cls
    for family in (
        admin_headers,
        group_headers,
        group_headers,
        namesrv_headers,
        offset_headers,
        pull_headers,
        offset_headers,
        send_headers,
        topic_headers,
    )
    for cls in header_classes(family)
]
KEYS = sorted({key for cls in CLASSES for key in cls.__struct_encode_fields__})
VALUES = ["", "0", "-1", "007", "true", "x", "9" * 25, "1.5", "\x00", "é", "null", "A\x01B\x02"]


def stream(rng: random.Random) -> bytes:
    """One to three sound frames."""
    ext = {rng.choice(KEYS): rng.choice(VALUES) for _ in range(rng.randrange(8))}
    body = b'{"clientID":"c","consumerDataSet":[{"groupName":"g"}]}'[: rng.randrange(60)]
    command = Command(
        rng.choice((10, 11, 34, 310, 320, 361, 105, 200050, -1)),
        ext=ext or None,
        body=body,
        binary=rng.random() < 0.4,
        opaque=rng.randrange(-(2**31), 2**31),
    )
    return encode_frame(command) * rng.randrange(1, 4)


def damage(rng: random.Random, data: bytes) -> bytes:
    """Flip, cut, insert or repeat a few bytes; mostly behind the frame's length field."""
    damaged = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = (
            rng.randrange(len(damaged) + 1)
            if rng.random() < 0.3
            else min(len(damaged), rng.randrange(4, 40))
        )
        kind = rng.randrange(4)
        if kind == 0 and at < len(damaged):
            damaged[at] = rng.randrange(256)
        elif kind == 1:
            del damaged[at : at + rng.randrange(4)]
        elif kind == 2:
            damaged[at:at] = rng.randbytes(rng.randrange(4))
        elif at < len(damaged):
            damaged[at] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def interpret(cls: type[Header], command: Command) -> None:
    """Read the header as `cls` and the body as two kinds; refusals are fine."""
    try:
        decode_header(cls, command.ext)
    except HeaderError:
        pass
    for kind in (HeartbeatData, RegisterBrokerBody):
        try:
            decode_body(kind, command.body)
        except HeaderError:
            pass


def consume(rng: random.Random, data: bytes) -> int:
    """Everything that is done with a peer's bytes; the number of commands read."""
    reader = FrameReader()
    cut = rng.randrange(len(data) + 1)
    count = 0
    for piece in (data[:cut], data[cut:]):
        for frame in reader.feed(piece):
            if not frame.binary:
                fast_headers.decode_hot(frame.header)
            command = decode(frame.header, frame.binary, bytes(frame.body))
            count += 1
            interpret(rng.choice(CLASSES), command)
    return count


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(8))
def test_damaged_streams(seed: int) -> None:
    rng = random.Random(seed)
    commands = cut = 0
    for _ in range(STREAMS // 8):
        try:
            commands += consume(rng, damage(rng, stream(rng)))
        except HeaderError:
            raise
        except PeerError:
            cut += 1
    # Both outcomes must really have been exercised.
    assert commands > STREAMS // 32
    assert cut > STREAMS // 80
