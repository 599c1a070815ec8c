"""Frames: cutting a byte stream into headers and bodies.

Layout, big-endian: int32 length of what follows; int8 header encoding (0 JSON, 1 binary); 24 bits
header length; header; body.
"""

from struct import Struct

import msgspec

from epochmq.base.errors import PeerError
from epochmq.base.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX
from epochmq.base.ports import Buffer

PREFIX = Struct(">ii")
PREFIX_BYTES = PREFIX.size
TYPE_JSON = 0
TYPE_BINARY = 1

ROOM_BYTES = 128 * 1024
"""A frame of which so much is there, and so much is missing, gets room for more at once."""
ROOM_GROWTH = 4
"""The room is so many times what is there: who wants 16 MiB of it has to send a quarter first."""

_LENGTH_BYTES = 4
_LENGTH_MAX = FRAME_BYTES_MAX - _LENGTH_BYTES
END_BYTES = 1024
"""So much of each end of a header that is too long is kept."""

_HEADER_BITS = 24
_HEADER_MASK = (1 << _HEADER_BITS) - 1
_unpack_prefix = PREFIX.unpack_from

_HTTP = "HTTP/1"
_OTHER_PROTOCOLS = {
    int.from_bytes(b"PRI ", "big"): "HTTP/2 (gRPC)",
    **{
        int.from_bytes(verb, "big"): _HTTP
        for verb in (b"GET ", b"PUT ", b"POST", b"HEAD", b"OPTI", b"DELE", b"CONN", b"PATC")
    },
    int.from_bytes(b"\x16\x03", "big"): "TLS",
}
"""What the first four, or two, bytes of other protocols are as a length: too long for a frame."""


class RawFrame(msgspec.Struct, gc=False):
    """One whole frame; `body` is a view that is valid until the reader is fed again."""

    header: bytes
    binary: bool
    body: memoryview


class LongHeader(msgspec.Struct, gc=False):
    """What is kept of a frame whose header is too long: both ends of that header."""

    head: bytes
    tail: bytes
    size: int
    """The header's, in bytes."""
    binary: bool


def check_prefix(length: int, word: int) -> int:
    """Check the first two words of a frame; return the header's length in bytes.

    Raises `PeerError` for a length, an encoding or a header length outside the protocol.
    """
    header = word & _HEADER_MASK
    other = _OTHER_PROTOCOLS.get(length) or _OTHER_PROTOCOLS.get(length >> 16)
    if other is not None:
        raise PeerError(f"the peer speaks {other} here, not the remoting protocol")
    if not _LENGTH_BYTES <= length <= _LENGTH_MAX:
        raise PeerError(f"a frame of {length} bytes is outside 4..{_LENGTH_MAX}")
    if word >> _HEADER_BITS not in (TYPE_JSON, TYPE_BINARY):
        raise PeerError(f"header encoding {(word >> _HEADER_BITS) & 0xFF} is unknown")
    if header > length - _LENGTH_BYTES:
        raise PeerError(f"a header of {header} bytes does not fit a frame of {length}")
    return header


def prefix(header_size: int, body_size: int, binary: bool = False) -> bytes:
    """The 8 bytes before a header of `header_size`, with a body of `body_size` to follow."""
    return PREFIX.pack(
        _LENGTH_BYTES + header_size + body_size, int(binary) << _HEADER_BITS | header_size
    )


class FrameReader:
    """Cuts what a connection delivers into frames; resumes at any byte; bounded by limits.

    A frame that lies whole in the fed data is handed out as a view of it; one that came in pieces
    is joined first in a buffer of its own: by copying, or, where it is large, by reading the rest
    to where it belongs (`make_room`). Who asks takes longer headers than who serves; a frame whose
    header is too long is dropped once it is whole, and its ends are put into `long_headers`.
    """

    __slots__ = ("_header_max", "_part", "_want", "long_headers", "partial_since", "room")

    def __init__(self, header_max: int = HEADER_BYTES_MAX) -> None:
        self._header_max = header_max
        self._part: bytearray | None = None
        self._want = PREFIX_BYTES
        self.partial_since: int | None = None
        """When the unfinished frame began (the `now` of that feed), None when there is none."""
        self.room: memoryview | None = None
        """What is missing of a large frame, to be written by who reads; then call `filled`."""
        self.long_headers: list[LongHeader] = []

    @property
    def pending_bytes(self) -> int:
        """Bytes kept for an unfinished frame."""
        return len(self._part) if self._part is not None else 0

    def drop(self) -> None:
        """Let go of an unfinished frame, up to 16 MiB, once no more can come."""
        self._part = self.partial_since = self.room = None

    def make_room(self) -> bool:
        """Keep room for more of a large unfinished frame; whether there is some now.

        Only once a good part is there, and in proportion to that. While there is room nothing is
        fed.
        """
        part = self._part
        if part is None or len(part) < ROOM_BYTES or self._want - len(part) < ROOM_BYTES:
            return False
        self._grow(part)
        return True

    def _grow(self, part: bytearray) -> None:
        """Put `part` into a larger buffer, whose rest is the room."""
        have, size = len(part), self._want
        while size > ROOM_GROWTH * have:
            size = size // ROOM_GROWTH + 1  # so that the last step ends with the frame
        larger = bytearray(size)
        larger[:have] = part
        self.room = memoryview(larger)[have:]
        self._part = larger

    def filled(self, count: int) -> bytearray | None:
        """`count` bytes of `room` were written: the frame's bytes once it is whole."""
        part = self._part
        assert self.room is not None
        assert part is not None
        self.room = self.room[count:]
        if self.room:
            return None
        if len(part) < self._want:
            self._grow(part)
            return None
        self.drop()
        return part

    def feed_rest(self, data: Buffer) -> tuple[int, bytearray | None]:
        """Complete the unfinished frame from `data`: bytes taken, and the frame's once it is whole.

        The rest of `data` is still to be fed. Raises `PeerError` as `feed` does.
        """
        taken, part = self._fill_part(memoryview(data)), self._part
        assert part is not None
        if len(part) < self._want:
            return taken, None
        self._part = self.partial_since = None
        return taken, part

    def feed(self, data: Buffer, now: int = 0) -> list[RawFrame]:
        """Take `data` in; return the frames that are whole now, in order.

        Raises `PeerError` at the first impossible prefix; the reader is of no more use then.
        """
        view = memoryview(data)
        frames: list[RawFrame] = []
        start = self._finish_part(view, frames) if self._part is not None else 0
        if self._part is None:
            start = _cut(view, start, frames, self._header_max, self.long_headers)
            self._keep(view, start, now)
        return frames

    def _keep(self, view: memoryview, start: int, now: int) -> None:
        """Remember the unfinished frame at the end of `view`."""
        if start == len(view):
            self.partial_since = None
            return
        self.partial_since = now
        self._part = bytearray(view[start:])
        self._want = self._wanted(self._part)

    def _finish_part(self, view: memoryview, frames: list[RawFrame]) -> int:
        """As `_fill_part`; a frame that is whole now joins `frames`."""
        taken, part = self._fill_part(view), self._part
        assert part is not None
        if len(part) == self._want:
            _cut(memoryview(part), 0, frames, self._header_max, self.long_headers)
            self._part = None
        return taken

    def _fill_part(self, view: memoryview) -> int:
        """Add to the unfinished frame from `view`; return how many bytes of `view` it took."""
        part = self._part
        assert part is not None
        taken = 0
        while len(part) < self._want and taken < len(view):
            step = view[taken : taken + self._want - len(part)]
            part += step
            taken += len(step)
            if len(part) == PREFIX_BYTES:
                self._want = self._wanted(part)
        return taken

    def _wanted(self, part: bytearray) -> int:
        """The size of the whole frame that starts `part`, as far as it can be known."""
        if len(part) < PREFIX_BYTES:
            return PREFIX_BYTES
        length, word = _unpack_prefix(part)
        check_prefix(length, word)
        return _LENGTH_BYTES + int(length)


def _cut(
    view: memoryview,
    start: int,
    frames: list[RawFrame],
    header_max: int,
    long_headers: list[LongHeader],
) -> int:
    """Append every whole frame of `view` from `start` to `frames`; return where the rest begins."""
    last = len(view) - PREFIX_BYTES
    while start <= last:
        length, header = _unpack_prefix(view, start)
        binary = False
        # A sound JSON frame passes without a call; anything else is looked at closely.
        if not 0 <= header <= header_max or not header + 4 <= length <= _LENGTH_MAX:
            binary = header >> _HEADER_BITS == TYPE_BINARY
            header = check_prefix(length, header)
        body = start + PREFIX_BYTES + header
        stop = start + _LENGTH_BYTES + length
        if stop > len(view):
            break
        if header <= header_max:
            data = bytes(view[start + PREFIX_BYTES : body])
            frames.append(RawFrame(data, binary, view[body:stop]))
        else:
            long_headers.append(_ends_of(view[start + PREFIX_BYTES : body], binary))
        start = stop
    return start


def _ends_of(header: memoryview, binary: bool) -> LongHeader:
    return LongHeader(bytes(header[:END_BYTES]), bytes(header[-END_BYTES:]), len(header), binary)
