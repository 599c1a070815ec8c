"""The frames between a master and its followers, with the same bytes as RocketMQ.

Big-endian. Follower to master:

    handshake  state i32 = 1 | from last file i16 | learner i16 | id i64                 (G2)
               state i32 = 1 | from last file i16 | learner i16 | length i32 | address   (G1)
    ack        state i32 = 2 | end of the follower's log i64

Master to follower:

    reply      state i32 = 1 | body bytes i32 | end i64 | epoch i32                      (G1B, G2)
               ... | 0 i64 | 0 i64                                                       (G1A)
               body: an entry per epoch, ascending: epoch i32 | start i64
    transfer   state i32 = 2 | body bytes i32 | offset i64 | epoch i32 | epoch start i64 |
               confirmed i64, then that many bytes of the log; no bytes are a heartbeat

There is no version field. The handshake alone shows the protocol of a follower: in G1 bytes 8 to 11
are a length of 1 to 50, in G2 they are the upper half of an id below 2^32, which is zero.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import pairwise

from epochmq.base.errors import PeerError
from epochmq.base.limits import (
    EPOCHS_SENT_MAX,
    HA_ADDRESS_BYTES_MAX,
    HA_BODY_BYTES_MAX,
)
from epochmq.base.ports import Buffer


class LinkState(IntEnum):
    """The state of a link; only HANDSHAKE and TRANSFER are ever sent."""

    READY = 0
    HANDSHAKE = 1
    TRANSFER = 2
    SUSPEND = 3
    SHUTDOWN = 4


class ReplicationProtocol(Enum):
    """The replication protocol, by the first RocketMQ version that uses it."""

    G1A = "5.0.0"
    G1B = "5.1.0"
    G2 = "5.1.1"


Entries = Sequence[tuple[int, int]]
"""(epoch, start offset), ascending."""

_HELLO = struct.Struct(">ihhq")
_HELLO_ADDRESS = struct.Struct(">ihhi")
_ACK = struct.Struct(">iq")
_REPLY = struct.Struct(">iiqi")
_ENTRY = struct.Struct(">iq")
_TRANSFER = struct.Struct(">iiqiqq")
_I32 = struct.Struct(">i")

HELLO_BYTES = _HELLO.size
ACK_BYTES = _ACK.size
TRANSFER_BYTES = _TRANSFER.size
ENTRY_BYTES = _ENTRY.size
_G1A_EXTRA = bytes(16)
REPLY_BYTES = {ReplicationProtocol.G1A: 36, ReplicationProtocol.G1B: 20, ReplicationProtocol.G2: 20}


@dataclass(frozen=True, slots=True)
class Hello:
    """A follower's handshake: `follower_id` in G2, `address` in G1."""

    from_last_file: bool
    learner: bool
    follower_id: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if (self.follower_id is None) == (self.address is None):
            raise PeerError("a handshake names a follower by its id or by its address")


@dataclass(frozen=True, slots=True)
class Ack:
    """A follower's acknowledgement: `offset` is the end of its log in bytes."""

    offset: int


@dataclass(frozen=True, slots=True)
class HandshakeReply:
    """The head of a master's reply to a handshake."""

    body_bytes: int
    end: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TransferHead:
    """The head of a piece of log; `body_bytes` 0 is a heartbeat."""

    body_bytes: int
    offset: int
    epoch: int
    epoch_start: int
    confirmed: int


# Frames of a follower ----------------------------------------------------------------------------


def encode_hello(hello: Hello) -> bytes:
    """Return the handshake, to be sent in one piece: Java's master misreads a split one (H9)."""
    flags = (LinkState.HANDSHAKE, hello.from_last_file, hello.learner)
    if hello.address is None:
        return _HELLO.pack(*flags, hello.follower_id)
    address = hello.address.encode()[:HA_ADDRESS_BYTES_MAX]
    return _HELLO_ADDRESS.pack(*flags, len(address)) + address


def encode_ack(offset: int) -> bytes:
    """Return an acknowledgement of the log up to `offset`."""
    return _ACK.pack(LinkState.TRANSFER, offset)


def decode_from_follower(data: Buffer, at: int = 0) -> tuple[Hello | Ack, int] | None:
    """Return the frame at `at` and its end; None while the frame is incomplete.

    Raises:
        PeerError: no follower sends such bytes.
    """
    left = len(data) - at
    if left < 4:
        return None
    (state,) = _I32.unpack_from(data, at)
    if state == LinkState.TRANSFER:
        if left < ACK_BYTES:
            return None
        return Ack(_ACK.unpack_from(data, at)[1]), at + ACK_BYTES
    if state != LinkState.HANDSHAKE:
        raise PeerError(f"a follower sent state {state}")
    if left < _HELLO_ADDRESS.size:
        return None
    _, last_file, learner, length = _HELLO_ADDRESS.unpack_from(data, at)
    if length == 0:
        if left < HELLO_BYTES:
            return None
        follower_id = _HELLO.unpack_from(data, at)[3]
        return Hello(last_file == 1, learner == 1, follower_id), at + HELLO_BYTES
    if not 0 < length <= HA_ADDRESS_BYTES_MAX:
        raise PeerError(f"a handshake with an address of {length} bytes")
    end = at + _HELLO_ADDRESS.size + length
    if len(data) < end:
        return None
    return Hello(last_file == 1, learner == 1, None, _text(data, end - length, end)), end


def _text(data: Buffer, start: int, end: int) -> str:
    try:
        return bytes(data[start:end]).decode()
    except UnicodeDecodeError as error:
        raise PeerError(f"a handshake whose address is not text: {error}") from None


# Frames of a master ------------------------------------------------------------------------------


def encode_reply(generation: ReplicationProtocol, end: int, entries: Entries) -> bytes:
    """Return the reply to a handshake, with as many of the newest epochs as a Java follower
    accepts.
    """
    entries = entries[-EPOCHS_SENT_MAX:]
    epoch = entries[-1][0] if entries else -1
    head = _REPLY.pack(LinkState.HANDSHAKE, len(entries) * ENTRY_BYTES, end, epoch)
    if generation is ReplicationProtocol.G1A:
        head += _G1A_EXTRA
    return head + b"".join(_ENTRY.pack(epoch, start) for epoch, start in entries)


def decode_reply(data: Buffer) -> HandshakeReply:
    """Decode the head of a complete reply. Raises `PeerError` if it is invalid."""
    state, body_bytes, end, epoch = _REPLY.unpack_from(data)
    if state != LinkState.HANDSHAKE:
        raise PeerError(f"a master answered the handshake with state {state}")
    if body_bytes % ENTRY_BYTES or not 0 <= body_bytes <= EPOCHS_SENT_MAX * ENTRY_BYTES:
        raise PeerError(f"a handshake reply with {body_bytes} bytes of epochs")
    return HandshakeReply(body_bytes, end, epoch)


def decode_entries(data: Buffer) -> list[tuple[int, int]]:
    """Decode the epochs of a reply. Raises `PeerError` unless they rise."""
    entries: list[tuple[int, int]] = list(_ENTRY.iter_unpack(data))
    for (epoch, start), (next_epoch, next_start) in pairwise(entries):
        if next_epoch <= epoch or next_start < start:
            raise PeerError(f"a master's epochs do not rise: {epoch}-{start}, {next_epoch}")
    if entries and (entries[0][0] < 0 or entries[0][1] < 0):
        raise PeerError("a master's first epoch is negative")
    return entries


def encode_transfer(
    body_bytes: int, offset: int, epoch: int, epoch_start: int, confirmed: int
) -> bytes:
    """Return the head of a piece of log; `body_bytes` 0 is a heartbeat."""
    return _TRANSFER.pack(LinkState.TRANSFER, body_bytes, offset, epoch, epoch_start, confirmed)


def decode_transfer(data: Buffer, at: int = 0) -> TransferHead:
    """Decode the complete head at `at`. Raises `PeerError` if it is invalid."""
    state, body_bytes, offset, epoch, epoch_start, confirmed = _TRANSFER.unpack_from(data, at)
    if state != LinkState.TRANSFER:
        raise PeerError(f"a master sent state {state} where log was due")
    if not 0 <= body_bytes <= HA_BODY_BYTES_MAX:
        raise PeerError(f"a master announced {body_bytes} bytes of log")
    return TransferHead(body_bytes, offset, epoch, epoch_start, confirmed)
