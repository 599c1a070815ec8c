"""A learner's side of replication without a log of its own: what a broker's master sends, as it is.

Pure: `needs` says how many bytes of heads come next, `left` how many bytes of log; whoever reads
the socket gives both. Nothing is ever acknowledged for anybody's sake: as an async learner it does
not count for what is confirmed, and acknowledgements only keep the link alive.

Frames as in `replication.frames`; the checks are those of `replication.follower`: offsets without
gap, epochs that rise and begin where they began before.
"""

from collections.abc import Sequence
from typing import NamedTuple

from epochmq.base.errors import PeerError, StoreDamaged
from epochmq.base.limits import BROKER_ID_MAX
from epochmq.replication.frames import (
    REPLY_BYTES,
    TRANSFER_BYTES,
    HandshakeReply,
    Hello,
    ReplicationProtocol,
    TransferHead,
    decode_entries,
    decode_reply,
    decode_transfer,
    encode_ack,
    encode_hello,
)
from epochmq.store.epochs import OPEN_END, consistent_point

LEARNER_IDS = BROKER_ID_MAX - 1
"""So many ids above `BROKER_ID_MAX` belong to no broker; a link of an id ends its older one."""


class EpochStart(NamedTuple):
    """An epoch and where it starts."""

    epoch: int
    start: int


class Learner:
    """One connection's state; `offset` is the next byte of log that is wanted, 0 for the first."""

    def __init__(self, number: int, offset: int, known: Sequence[tuple[int, int]] = ()) -> None:
        self.offset = offset
        self.entries: list[EpochStart] = []
        """The master's epochs, from its handshake and its frames."""
        self.confirmed: int | None = None
        """What no failover takes back, as the master last said; None before its first frame."""
        self.left = 0
        """So many of the next bytes are log."""
        self._number = BROKER_ID_MAX + 1 + number % LEARNER_IDS
        self._known = [EpochStart(*each) for each in known]
        """Of what was read before, up to `offset`."""
        self._reply: HandshakeReply | None = None
        self._agreed = False

    def hello(self) -> bytes:
        """The handshake, in one write."""
        return encode_hello(Hello(False, True, self._number))

    @property
    def needs(self) -> int:
        """How many bytes of heads come next; 0 while log is due."""
        if self._reply is None:
            return REPLY_BYTES[ReplicationProtocol.G2]
        if not self._agreed:
            return self._reply.body_bytes
        return 0 if self.left else TRANSFER_BYTES

    def took(self, count: int) -> None:
        """`count` bytes of log have come."""
        self.offset += count
        self.left -= count

    def head(self, data: bytes) -> bytes:
        """Exactly `needs` bytes; what is to be sent back, if anything.

        `PeerError` for what no master sends, `StoreDamaged` when its log is not the one known.
        """
        if self._reply is None:
            self._reply = decode_reply(data)
            return b"" if self._reply.body_bytes else self._agree(self._reply, [])
        if not self._agreed:
            return self._agree(self._reply, decode_entries(data))
        self._frame(decode_transfer(data))
        return b""

    def _agree(self, reply: HandshakeReply, entries: list[tuple[int, int]]) -> bytes:
        self.entries = [EpochStart(*each) for each in entries]
        point: int | None = reply.end
        if self._known and self.offset:
            point = consistent_point(self._known, self.offset, entries, reply.end)
        if point is None or point < self.offset:
            raise StoreDamaged(
                f"the broker's log, which ends at {reply.end}, is not the one that was read up to"
                f" {self.offset}: they part at {point}; compare the replicas before going on"
            )
        self._agreed = True
        return encode_ack(self.offset)

    def ack(self) -> bytes:
        """So that the master does not take us for dead."""
        return encode_ack(self.offset)

    def _frame(self, head: TransferHead) -> None:
        if head.offset != self.offset:
            if self.offset or head.offset < 0:
                raise PeerError(f"log from {head.offset}, where {self.offset} is next")
            self.offset = head.offset  # the first byte that the master keeps
        if head.body_bytes or head.epoch >= 0:
            self._learn(head)
        self.left = head.body_bytes
        self.confirmed = max(head.confirmed, self.confirmed or 0)

    def _learn(self, head: TransferHead) -> None:
        known = dict(self.entries).get(head.epoch)
        last = self.entries[-1] if self.entries else EpochStart(-1, 0)
        if known is None and head.epoch > last.epoch and head.epoch_start >= last.start:
            self.entries.append(EpochStart(head.epoch, head.epoch_start))
        elif known is None and head.epoch > last.epoch:
            raise PeerError(f"epoch {head.epoch} from {head.epoch_start} is not the master's")
        elif known is not None and known != head.epoch_start:
            raise PeerError(f"epoch {head.epoch} began at {known}, now at {head.epoch_start}")

    def epoch_at(self, offset: int) -> tuple[int | None, int]:
        """Whose byte it is, as far as known, and where that epoch ends."""
        for index in range(len(self.entries) - 1, -1, -1):
            if self.entries[index].start <= offset:
                later = (entry.start for entry in self.entries[index + 1 :])
                end = next((start for start in later if start > offset), OPEN_END)
                return self.entries[index].epoch, end
        return None, self.entries[0].start if self.entries else OPEN_END
