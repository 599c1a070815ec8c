"""Reads of each frame what a relay needs: its size, code, opaque and flag."""

import msgspec

from epochmq.base.limits import FRAME_BYTES_MAX
from epochmq.wire.binary_header import decode as decode_binary
from epochmq.wire.command import FLAG_RESPONSE, Command, decode, encode_frame
from epochmq.wire.frame import PREFIX, PREFIX_BYTES, TYPE_BINARY, RawFrame, check_prefix, prefix
from epochmq.wire.header import I32

_HEADER_BITS = 24
_LENGTH_BYTES = 4
_LENGTH_MAX = FRAME_BYTES_MAX - _LENGTH_BYTES
_unpack_prefix = PREFIX.unpack_from


class FrameHead(msgspec.Struct, gc=False):
    """The fields of a header that a relay reads; the rest is passed on as it is."""

    code: I32
    opaque: I32 = 0
    flag: I32 = 0


RelayedFrame = tuple[int, int, FrameHead]
"""(start, stop, head) of a whole frame `data[start:stop]`. A named tuple costs more to make."""


_decode_json = msgspec.json.Decoder(FrameHead).decode


def read_frames(data: memoryview, start: int, size: int, header_max: int) -> list[RelayedFrame]:
    """Return the whole frames of `data[start:size]`, up to one whose header is too long.

    Raises:
        PeerError: a frame is not valid.
    """
    frames = []
    last = size - PREFIX_BYTES
    while start <= last:
        length, header = _unpack_prefix(data, start)
        binary = False
        # A correct JSON frame needs no function call; all other frames are checked here.
        if not 0 <= header <= header_max or not header + _LENGTH_BYTES <= length <= _LENGTH_MAX:
            binary = header >> _HEADER_BITS == TYPE_BINARY
            header = check_prefix(length, header)
        begin = start + PREFIX_BYTES
        stop = start + _LENGTH_BYTES + length
        if stop > size or header > header_max:
            break
        frames.append((start, stop, read_head(data[begin : begin + header], binary=binary)))
        start = stop
    return frames


def read_head(header: memoryview, *, binary: bool) -> FrameHead:
    """Return the head of a frame. Raises `PeerError` if the header is not valid."""
    if binary:
        fields = decode_binary(header)
        return FrameHead(fields.code, fields.opaque, fields.flag)
    try:
        return _decode_json(header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        command = decode(bytes(header), binary=False)
        return FrameHead(command.code, command.opaque, command.flag)


def whole_frame(frame: RawFrame) -> memoryview:
    """Return the bytes of a frame that the reader has split into header and body."""
    head = prefix(len(frame.header), len(frame.body), frame.binary)
    return memoryview(b"".join((head, frame.header, frame.body)))


def answer_frame(opaque: int, code: int, remark: str) -> bytes:
    """Return a whole frame that answers the request `opaque` without a body."""
    return encode_frame(Command(code, opaque=opaque, flag=FLAG_RESPONSE, remark=remark))
