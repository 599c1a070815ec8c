"""Messages and memberships as bytes: one version byte, then MessagePack of bounded structs."""

import msgspec

from epochmq.base import limits
from epochmq.base.errors import PeerError
from epochmq.raft.raft_messages import AnyMessage, VotersAndLearners

VERSION = 1
"""First byte of every message; another one is a peer we do not understand."""

_PREFIX = bytes([VERSION])
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyMessage)
_members = msgspec.msgpack.Decoder(VotersAndLearners)


def encode(message: AnyMessage) -> bytes:
    """The bytes of one message."""
    return _PREFIX + _encoder.encode(message)


def decode(data: bytes) -> AnyMessage:
    """The message in `data`; `PeerError` for anything else."""
    if len(data) > limits.RAFT_MESSAGE_BYTES_MAX:
        raise PeerError(f"Raft message of {len(data)} bytes is over the limit")
    if data[:1] != _PREFIX:
        raise PeerError(f"Raft message of unknown version {data[:1]!r}; this node speaks {VERSION}")
    try:
        message: AnyMessage = _decoder.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise PeerError(f"Raft message cannot be read: {problem}") from None
    return message


def encode_members(members: VotersAndLearners) -> bytes:
    """What an entry of kind CHANGE holds."""
    return _encoder.encode(members)


def decode_members(data: bytes) -> VotersAndLearners:
    """The membership in a CHANGE entry; `PeerError` for anything else."""
    try:
        return _members.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise PeerError(f"Raft membership cannot be read: {problem}") from None
