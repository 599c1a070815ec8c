"""Frames: splits a byte stream into headers and bodies.

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
"""A buffer is enlarged for a frame when at least this much has arrived and this much is missing."""
ROOM_GROWTH = 4
"""The buffer has at most this many times the bytes that arrived, so a peer must send a quarter of a
large frame before all its memory is allocated."""

_LENGTH_BYTES = 4
_LENGTH_MAX = FRAME_BYTES_MAX - _LENGTH_BYTES
END_BYTES = 1024
"""Bytes that are kept of each end of a header that is too long."""

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
"""The first four (or two) bytes of other protocols, read as a length: too long for a frame."""


class RawFrame(msgspec.Struct, gc=False):
    """One whole frame; `body` is a view that is valid until the reader gets more data."""

    header: bytes
    binary: bool
    body: memoryview


class LongHeader(msgspec.Struct, gc=False):
    """Both ends of a header that is too long; the rest of the frame is dropped."""

    head: bytes
    tail: bytes
    size: int
    """Length of the header in bytes."""
    binary: bool


def check_prefix(length: int, word: int) -> int:
    """Check the first two words of a frame. Return the length of its header in bytes.

    Raises:
        PeerError: the length, the encoding or the length of the header is not allowed.
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
    """Return the 8 bytes before a header of `header_size` and a body of `body_size` bytes."""
    return PREFIX.pack(
        _LENGTH_BYTES + header_size + body_size, int(binary) << _HEADER_BITS | header_size
    )


class FrameReader:
    """Splits the received bytes into frames. A frame may arrive in pieces; its size is limited.

    A frame that lies whole in the received data is returned as a view of it. A frame that arrives
    in pieces is joined in a buffer: by copying, or, if it is large, by reading the rest directly
    into the buffer (`make_room`). Clients accept longer headers than servers. A frame whose header
    is too long is dropped once it is whole; both ends of the header are added to `long_headers`.
    """

    __slots__ = ("_header_max", "_part", "_want", "long_headers", "partial_since", "room")

    def __init__(self, header_max: int = HEADER_BYTES_MAX) -> None:
        self._header_max = header_max
        self._part: bytearray | None = None
        self._want = PREFIX_BYTES
        self.partial_since: int | None = None
        """The `now` at which the unfinished frame began; None if there is none."""
        self.room: memoryview | None = None
        """The missing part of a large frame. The caller writes into it and then calls `filled`."""
        self.long_headers: list[LongHeader] = []

    @property
    def pending_bytes(self) -> int:
        """Bytes that are kept of an unfinished frame."""
        return len(self._part) if self._part is not None else 0

    def begin_again(self, now: int) -> None:
        """Count the age of an unfinished frame from `now` on: nothing was read for some time."""
        if self.partial_since is not None:
            self.partial_since = now

    def drop(self) -> None:
        """Drop an unfinished frame, when no more data can arrive."""
        self._part = self.partial_since = self.room = None

    def make_room(self) -> bool:
        """Provide `room` for the rest of a large unfinished frame. Return whether there is room
        now.

        There is room only after a certain part of the frame arrived, and in proportion to that
        part. While there is room, `feed` must not be called.
        """
        part = self._part
        if part is None or len(part) < ROOM_BYTES or self._want - len(part) < ROOM_BYTES:
            return False
        self._grow(part)
        return True

    def _grow(self, part: bytearray) -> None:
        """Copy `part` into a larger buffer; the rest of that buffer is the room."""
        have, size = len(part), self._want
        while size > ROOM_GROWTH * have:
            size = size // ROOM_GROWTH + 1  # the last buffer then has exactly the size of the frame
        larger = bytearray(size)
        larger[:have] = part
        self.room = memoryview(larger)[have:]
        self._part = larger

    def filled(self, count: int) -> bytearray | None:
        """Note that `count` bytes of `room` were written. Return the frame when it is whole."""
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
        """Complete the unfinished frame from `data`.

        The caller must feed the rest of `data`.

        Returns:
            The number of bytes used, and the frame if it is whole.

        Raises:
            PeerError: as `feed`.
        """
        taken, part = self._fill_part(memoryview(data)), self._part
        assert part is not None
        if len(part) < self._want:
            return taken, None
        self._part = self.partial_since = None
        return taken, part

    def feed(self, data: Buffer, now: int = 0) -> list[RawFrame]:
        """Add `data` and return the frames that are whole now, in order.

        Raises:
            PeerError: a frame begins with an impossible prefix; the reader cannot be used any more.
        """
        view = memoryview(data)
        if self._part is None and len(view) >= PREFIX_BYTES:  # the usual case: one whole JSON frame
            length, header = _unpack_prefix(view)
            if length + _LENGTH_BYTES == len(view) and 0 <= header <= self._header_max:
                body = PREFIX_BYTES + header
                if body <= len(view) <= _LENGTH_MAX:
                    return [RawFrame(bytes(view[PREFIX_BYTES:body]), False, view[body:])]
        frames: list[RawFrame] = []
        start = self._finish_part(view, frames) if self._part is not None else 0
        if self._part is None:
            start = _cut(view, start, frames, self._header_max, self.long_headers)
            self._keep(view, start, now)
        return frames

    def _keep(self, view: memoryview, start: int, now: int) -> None:
        """Keep the unfinished frame at the end of `view`."""
        if start == len(view):
            self.partial_since = None
            return
        self.partial_since = now
        self._part = bytearray(view[start:])
        self._want = self._wanted(self._part)

    def _finish_part(self, view: memoryview, frames: list[RawFrame]) -> int:
        """Fill the unfinished frame as `_fill_part` does; if it is whole, add it to `frames`."""
        taken, part = self._fill_part(view), self._part
        assert part is not None
        if len(part) == self._want:
            _cut(memoryview(part), 0, frames, self._header_max, self.long_headers)
            self._part = None
        return taken

    def _fill_part(self, view: memoryview) -> int:
        """Add bytes of `view` to the unfinished frame. Return how many bytes were used."""
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
        """Return the size of the frame that begins with `part`, or of its prefix if that is
        incomplete.
        """
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
    """Append every whole frame of `view` from `start` on to `frames`. Return where the
    rest begins.
    """
    last = len(view) - PREFIX_BYTES
    while start <= last:
        length, header = _unpack_prefix(view, start)
        binary = False
        # A correct JSON frame needs no function call; all other frames are checked here.
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
