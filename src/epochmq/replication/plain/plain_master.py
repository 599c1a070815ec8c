"""The master of plain replication: sends its log to slaves, and counts how much they hold.

ASYNC_MASTER acknowledges what it stored itself. SYNC_MASTER waits until `inSyncReplicas` brokers,
including itself, hold a message. Slaves have no names here: each connection counts once. With slave
acting master, not more slaves count than the name servers report as alive. If fewer are in sync
than a send needs, the send is refused.
"""

from dataclasses import dataclass, field

from epochmq.base.limits import HA_LINKS_MAX
from epochmq.replication.ack_policy import AckStatus, Done, WaitingSends
from epochmq.replication.link import Chunk, Flow
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.plain.plain_frames import decode_reports, encode_head
from epochmq.replication.replication_effects import Close, Effects, SendData, Trouble
from epochmq.replication.replication_ports import LogView


@dataclass(slots=True, eq=False)
class PlainLink:
    """The link of one slave. Times are monotonic ms."""

    number: int
    peer: str
    read_at_ms: int
    written_at_ms: int
    next: int = -1
    """Offset of the next byte to send; -1 before the first report."""
    ack: int = -1
    sent_bytes: int = 0
    inbox: bytearray = field(default_factory=bytearray)


class PlainMasterCore:
    """The core of a plain master. Methods return effects; `next_chunk` gives data for a link."""

    def __init__(self, log: LogView, options: ReplicationOptions, *, sync: bool) -> None:
        self.links: dict[int, PlainLink] = {}
        self.waits = WaitingSends()
        self.fenced: str | None = None
        self.bad_acks = 0
        self.alive: int | None = None
        """Number of living members, including this one; None if there are no acting masters."""
        self._log = log
        self._options = options
        self._sync = sync
        self._known_end = log.end
        self._flow = Flow(options.flow_bytes_per_second if options.flow_control else None)

    # Links ------------------------------------------------------------------------------------

    def accepted(self, number: int, peer: str, now: int) -> Effects:
        """Note a new connection."""
        if len(self.links) >= HA_LINKS_MAX:
            return [Close(number, f"more than {HA_LINKS_MAX} replication links")]
        self.links[number] = PlainLink(number, peer, now, now)
        return []

    def closed(self, number: int, now: int) -> Effects:
        """Note that a link is closed."""
        del now
        self.links.pop(number, None)
        self._release()
        return []

    def received(self, number: int, data: bytes | bytearray | memoryview, now: int) -> Effects:
        """Handle reports. Only the newest one of a read counts, but each must be possible (S08)."""
        link = self.links.get(number)
        if link is None:
            return []
        link.read_at_ms = now
        link.inbox += data
        reports, used = decode_reports(link.inbox)
        del link.inbox[:used]
        for report in reports:
            if not 0 <= report <= self._log.end:
                del self.links[number]
                return self._refuse(link, report)
        if reports:
            if link.next < 0:
                link.next = self._begin(reports[0])
            link.ack = reports[-1]
            self._release()
        return []

    def _refuse(self, link: PlainLink, report: int) -> Effects:
        self.bad_acks += 1
        reason = f"a slave reported {report}, the log ends at {self._log.end}"
        effects: Effects = [Close(link.number, reason)]
        if link.next < 0:
            # Probably this master lost the end of its log in a power failure. One log is wrong.
            effects.append(Trouble(f"{reason} ({link.peer}); compare the two logs"))
        return effects

    def _begin(self, offset: int) -> int:
        """Return the offset to begin at; a slave without a log begins with the last file, as in
        RocketMQ.
        """
        log = self._log
        return offset or max(log.start, log.end - log.end % log.file_bytes)

    # Acknowledging ----------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The offset up to which enough brokers hold the log; -1 if there are too few brokers."""
        own = self._log.safe
        if not self._sync:
            return own
        acks = sorted((link.ack for link in self.links.values()), reverse=True)
        need = self._needed
        if need == 1:
            return own
        return min(own, acks[need - 2]) if need - 2 < len(acks) else -1

    @property
    def _in_sync(self) -> int:
        """Number of brokers that count, including this one."""
        return 1 + self.near if self.alive is None else min(1 + self.near, max(self.alive, 1))

    @property
    def _needed(self) -> int:
        """Number of brokers that must hold a message, including this one."""
        options, need = self._options, max(self._options.in_sync_replicas, 1)
        if options.auto_in_sync_replicas:
            need = max(min(need, self._in_sync), options.min_in_sync_replicas, 1)
        return need

    @property
    def near(self) -> int:
        """Number of slaves that are behind by at most haMaxGapNotInSync."""
        limit = max(0, self._log.end - self._options.gap_max_bytes)
        return sum(link.ack >= limit for link in self.links.values())

    def _release(self) -> None:
        if self.waits and self.fenced is None:
            self.waits.release(self.position)

    def appended(self, now: int) -> Effects:
        """Note that the own log grew."""
        del now
        self._known_end = self._log.end
        self._release()
        return []

    def moved(self, now: int) -> Effects:
        """Note that the own log was synced."""
        del now
        self._release()
        return []

    def when_acked(self, offset: int, deadline_at_ms: int, done: Done) -> None:
        """Call `done` once, when enough brokers hold the log up to `offset`."""
        if self.fenced is not None:
            done(AckStatus.FENCED)
        elif self.waits.is_first(offset) and self.position >= offset:
            done(AckStatus.ACKED)
        else:
            self.waits.add(offset, deadline_at_ms, done)

    def refusal(self, now: int) -> AckStatus | None:
        """Return why a send must be refused now, or None.

        Without acting masters, RocketMQ checks the minimum only if enableAutoInSyncReplicas is set.
        """
        del now
        if self.fenced is not None:
            return AckStatus.FENCED
        looks = self.alive is not None or self._options.auto_in_sync_replicas
        if self._sync and looks and self._needed > self._in_sync:
            return AckStatus.NOT_ENOUGH
        return None

    def change_options(self, options: ReplicationOptions) -> None:
        """Replace the options; sends that wait may be answered now."""
        self._options = options
        self._release()

    def fence(self, reason: str) -> None:
        """Stop acknowledging; waiting sends get FENCED."""
        self.fenced = self.fenced or reason
        self.waits.fail(AckStatus.FENCED)

    # Sending ----------------------------------------------------------------------------------

    def next_chunk(self, number: int, now: int) -> Chunk | None:
        """Return the next data for a link that has room, or None."""
        link = self.links.get(number)
        if link is None or link.next < 0:
            return None
        log, offset, end = self._log, link.next, self._known_end
        if not log.start <= offset < end:
            return None
        size = min(end, offset - offset % log.file_bytes + log.file_bytes) - offset
        size = min(size, self._options.batch_bytes)
        allowed = self._flow.allowance(now)
        if allowed is not None:
            size = min(size, allowed)
        if size == 0:
            return None
        self._flow.sent(size)
        link.next = offset + size
        link.sent_bytes += size
        link.written_at_ms = now
        return Chunk(encode_head(offset, size), offset, size)

    def tick(self, now: int) -> Effects:
        """Send heartbeats, close silent links, and end sends whose deadline is over."""
        effects: Effects = []
        self.waits.expire(now)
        for link in list(self.links.values()):
            if now - link.read_at_ms >= self._options.housekeeping_ms:
                del self.links[link.number]
                effects.append(Close(link.number, "silent for too long"))
            elif link.next >= 0 and now - link.written_at_ms >= self._options.heartbeat_ms:
                link.written_at_ms = now
                effects.append(SendData(link.number, encode_head(link.next, 0)))
        self._release()
        return effects

    def sent_bytes(self) -> dict[int, int]:
        """Return the bytes of log sent by link, since the start of the link."""
        return {link.number: link.sent_bytes for link in self.links.values()}

    def statistics(self) -> dict[str, int]:
        """Return the state as numbers."""
        return {
            "links": len(self.links),
            "acknowledged": self.position,
            "waiting": len(self.waits),
            "released": self.waits.released,
            "timed_out": self.waits.timed_out,
            "bad_acks": self.bad_acks,
            "sent_bytes": sum(link.sent_bytes for link in self.links.values()),
        }
