"""The slave of plain replication: copies the log that follows its own end, and reports that end.

There is no handshake and no comparison: a slave assumes that its log is a prefix of its master's. A
frame that does not begin at the end of the log closes the link, a heartbeat too.
"""

from epochmq.base.errors import PeerError
from epochmq.replication.frames import LinkState
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.plain.plain_frames import HEAD_BYTES, decode_head, encode_report
from epochmq.replication.replication_effects import (
    OWN_LINK,
    Acknowledge,
    AppendData,
    AwaitSync,
    Close,
    Effects,
    Reset,
    SendData,
    Truncate,
)
from epochmq.replication.replication_ports import LogView


class PlainSlaveCore:
    """One slave of one master, over any number of connections, one after the other."""

    def __init__(self, log: LogView, options: ReplicationOptions) -> None:
        self.state = LinkState.READY
        self.session = 0
        self.held = False
        """Always False again before a method of the node returns: the store is cut at once."""
        self.received_bytes = 0
        self._log = log
        self._options = options
        self._inbox = bytearray()
        self._end = 0
        self._body_left = 0
        self._reported = -1
        self._awaiting = False
        self.read_at_ms = 0
        self.written_at_ms = 0

    def connected(self, now: int) -> Effects:
        """Cut an incomplete record at the end, because the master sends from the first reported
        offset on.
        """
        self._forget()
        self.state = LinkState.TRANSFER
        self.read_at_ms = self.written_at_ms = now
        self.held = True
        return [Truncate(self._log.whole, "incomplete record")]

    def resumed(self, session: int, now: int) -> Effects:
        """Note that a cut of the log has ended; it began in `session`."""
        if session != self.session or not self.held:
            return []
        self.held = False
        self._end = self._log.end
        effects: Effects = []
        if self._reported < 0 and self._options.sync_before_ack and self._log.safe < self._end:
            self._awaiting = True  # the master counts the first report as well (INV-20)
            effects.append(AwaitSync(self._end))
        elif self._reported < 0:
            self._report(0 if self._empty else self._end, effects, now)
        waiting = bytes(self._inbox)
        self._inbox.clear()
        return effects + self.receive(waiting, now)

    @property
    def _empty(self) -> bool:
        return self._log.start == self._log.end

    def closed(self) -> None:
        """Note that the connection is closed."""
        self._forget()
        self.state = LinkState.READY

    def _forget(self) -> None:
        self.session += 1
        self.held = self._awaiting = False
        self._inbox.clear()
        self._body_left = 0
        self._reported = -1

    @property
    def wants(self) -> bool:
        """Whether bytes may be given now."""
        return not self.held and self.state is LinkState.TRANSFER

    @property
    def direct(self) -> int:
        """How many of the next bytes belong to the log and may be received into it directly."""
        return 0 if self.held or self._inbox else self._body_left

    def receive(self, data: bytes | bytearray | memoryview, now: int) -> Effects:
        """Handle bytes of the master; invalid bytes close the link."""
        self.read_at_ms = now
        if self._inbox:
            self._inbox += data
            data = bytes(self._inbox)
            self._inbox.clear()
        effects: Effects = []
        try:
            self._consume(memoryview(data), effects)
        except PeerError as error:
            self.closed()
            effects.append(Close(OWN_LINK, str(error)))
            return effects
        if not self.held and self._end > self._reported:
            effects.append(Acknowledge())
        return effects

    def _consume(self, view: memoryview, effects: Effects) -> None:
        at = 0
        while not self.held:
            left = len(view) - at
            if self._body_left:
                count = min(left, self._body_left)
                if count == 0:
                    break
                effects.append(AppendData(self._end, view[at : at + count]))
                self._grew(count)
                at += count
            elif left < HEAD_BYTES:
                break
            else:
                head = decode_head(view, at)
                at += HEAD_BYTES
                if head.offset != self._end:
                    self._begin(head.offset, effects)
                self._body_left = head.body_bytes
        self._inbox += view[at:]

    def _begin(self, offset: int, effects: Effects) -> None:
        """Begin an empty log at another offset, at the start of a file."""
        if not self._empty or self._end != self._log.end or offset < 0:
            raise PeerError(f"log from {offset}, where {self._end} is next")
        if offset % self._log.file_bytes:
            raise PeerError(f"the first byte of a log cannot be {offset}, inside a file")
        self._end = self._reported = offset
        self.held = True
        effects.append(Reset(offset))

    def _grew(self, count: int) -> None:
        self._end += count
        self._body_left -= count
        self.received_bytes += count

    def wrote(self, count: int, now: int) -> Effects:
        """Note that `count` bytes of log were received directly into it."""
        self.read_at_ms = now
        self._grew(count)
        return [Acknowledge()]

    def acknowledge(self, now: int) -> Effects:
        """Report the complete records, after all bytes given so far are in the log."""
        effects: Effects = []
        whole = self._log.whole
        if self.state is LinkState.TRANSFER and not self._awaiting and whole > self._reported:
            if self._options.sync_before_ack:
                self._awaiting = True
                effects.append(AwaitSync(whole))
            else:
                self._report(whole, effects, now)
        return effects

    def synced(self, session: int, now: int) -> Effects:
        """Note that the log was synced as far as `AwaitSync` of `session` asked, or further."""
        if session != self.session or not self._awaiting:
            return []
        self._awaiting = False
        effects: Effects = []
        safe = min(self._log.safe, self._log.whole)
        if safe > self._reported:
            self._report(safe, effects, now)
        return effects + self.acknowledge(now)

    def _report(self, offset: int, effects: Effects, now: int) -> None:
        self._reported = offset
        self.written_at_ms = now
        effects.append(SendData(OWN_LINK, encode_report(offset)))

    def tick(self, now: int) -> Effects:
        """Repeat the report, and close the connection to a silent master."""
        effects: Effects = []
        if self.state is not LinkState.TRANSFER or self.held:
            return effects
        if now - self.read_at_ms >= self._options.housekeeping_ms:
            self.closed()
            effects.append(Close(OWN_LINK, "the master is silent for too long"))
        elif self._reported >= 0 and now - self.written_at_ms >= self._options.heartbeat_ms:
            self._report(0 if self._empty else self._reported, effects, now)
        return effects

    def statistics(self) -> dict[str, int]:
        """Return the state as numbers."""
        return {
            "state": int(self.state),
            "acknowledged": self._reported,
            "received_bytes": self.received_bytes,
        }
