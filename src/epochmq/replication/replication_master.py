"""The master's side of replication: handshakes, what is sent on each link, acknowledgements.

    READY --handshake, reply--> HANDSHAKE --first acknowledgement--> TRANSFER <--> SUSPEND

A link stays READY while the controllers are asked for its follower (`unconfirmed_followers.py`).

A link is in SUSPEND while the master has nothing to send: the follower needs log that is deleted
here, or that belongs to no epoch. It gets heartbeats meanwhile. A closed link is in SHUTDOWN.

A second link of a follower waits while the first one answers. Any client of the port can send any
id, so the first link belongs to the follower until it is silent (`_claim`).

The first acknowledgement says where to begin: 0 means the first byte kept (or, if the follower
wants, the last file), any other value is the offset. A chunk never crosses the end of a file or of
an epoch; it has the epoch that wrote its bytes. (Java's master labels the last chunk of an epoch
with the next epoch; its followers accept both.)
"""

from epochmq.base.errors import PeerError
from epochmq.base.limits import HA_LINKS_MAX
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.replication.ack_policy import NOTHING, AckStatus, Done, WaitingSends, needed, position
from epochmq.replication.frames import (
    Ack,
    Hello,
    LinkState,
    ReplicationProtocol,
    decode_from_follower,
    encode_reply,
    encode_transfer,
)
from epochmq.replication.in_sync import NEVER, InSync
from epochmq.replication.link import Chunk, Flow, ReplicaLink
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import (
    AdvanceConfirmed,
    AskReplicas,
    Close,
    Effects,
    ProposeSyncStateSet,
    SendData,
    SetProposal,
    Trouble,
)
from epochmq.replication.replication_ports import EpochRange, EpochView, LogView
from epochmq.replication.unconfirmed_followers import UnconfirmedFollowers

_STRANGER = 1 << 40
"""Followers without ids get numbers from here on; they never join the sync-state set."""

CLAIM_MS = 1000
"""A link that is silent for this long after a question gives way to a newer link."""

ANSWERED_MS = 100
"""A follower that sent something less than this time ago need not answer a heartbeat
(`follower.ANSWER_MS`)."""


class MasterCore:
    """The core of a master in one epoch. Methods return effects; `next_chunk` gives data for a
    link.
    """

    def __init__(
        self,
        log: LogView,
        epochs: EpochView,
        in_sync: InSync,
        options: ReplicationOptions,
        safeguards: Safeguards = SAFE,
        registered: frozenset[int] | None = None,
    ) -> None:
        self.in_sync = in_sync
        self.links: dict[int, ReplicaLink] = {}
        self.waits = WaitingSends()
        self.fenced: str | None = None
        self.past_lease = False
        """The lease is over: only what the whole set holds is acknowledged, and the set does not
        change, because no controller could change it (ADR 0044)."""
        self.ping_ms = 0
        """Interval of heartbeats, so that silence is noticed within the length of a lease; 0: the
        usual interval."""
        self.bad_acks = 0
        self._log = log
        self._epochs = epochs
        self._options = options
        self._safeguards = safeguards
        self._flow = Flow(options.flow_bytes_per_second if options.flow_control else None)
        self._known_end = log.end
        self._counted_end = 0
        """End of the own log when acknowledgements were computed last."""
        self._strangers: dict[str, int] = {}
        """Numbers of connected followers without ids, by address."""
        self._strangers_count = 0
        self._unconfirmed = UnconfirmedFollowers(registered)
        self._claims: dict[int, tuple[ReplicaLink, Hello, int]] = {}
        """By number of the older link: the newer link of the same follower, and since when it
        waits."""

    # Links ------------------------------------------------------------------------------------

    def accepted(self, link: int, peer: str, now: int) -> Effects:
        """Note a new connection."""
        if len(self.links) >= HA_LINKS_MAX:
            return [Close(link, f"more than {HA_LINKS_MAX} replication links")]
        self.links[link] = ReplicaLink(link, peer, now, now)
        return []

    def closed(self, number: int, now: int) -> Effects:
        """Note that a link is closed, by either side."""
        link = self.links.pop(number, None)
        if link is None:
            return []
        link.state = LinkState.SHUTDOWN
        self._unconfirmed.drop(number)
        effects: Effects = []
        for older, (newer, hello, _) in list(self._claims.items()):
            if newer is link:
                del self._claims[older]
            elif older == number:
                del self._claims[older]
                self.in_sync.unlinked(link.follower_id, number, now)
                self._admit(newer, hello, effects, now)
        if link.hello is not None:
            self._forget_stranger(link)
            self.in_sync.unlinked(link.follower_id, number, now)
        return effects + self._moved(now)

    def _forget_stranger(self, link: ReplicaLink) -> None:
        others = (other.follower_id for other in self.links.values())
        if link.generation is ReplicationProtocol.G1A and link.follower_id not in others:
            assert link.hello is not None
            self._strangers.pop(str(link.hello.address), None)

    def received(self, number: int, data: bytes | bytearray | memoryview, now: int) -> Effects:
        """Handle bytes of a link; bytes that no follower sends close it."""
        link = self.links.get(number)
        if link is None:
            return []
        link.read_at_ms = now
        link.inbox += data
        effects: Effects = []
        try:
            self._frames(link, effects, now)
        except PeerError as error:
            self._cut(link, str(error), effects, now)
        if number in self._claims:
            newer, _, _ = self._claims[number]
            self._cut(newer, f"follower {link.follower_id} answers on another link", effects, now)
        return effects

    def _frames(self, link: ReplicaLink, effects: Effects, now: int) -> None:
        at, last = 0, None
        while (found := decode_from_follower(link.inbox, at)) is not None:
            frame, at = found
            if isinstance(frame, Hello):
                self._hello(link, frame, effects, now)
            else:
                self._check_ack(link, frame)
                if link.state is LinkState.HANDSHAKE:
                    link.next = self._begin(link, frame.offset)
                    link.state = LinkState.TRANSFER
                last = frame  # only the newest of one read counts
        del link.inbox[:at]
        if last is not None:
            self._acked(link, last, effects, now)

    def _cut(self, link: ReplicaLink, reason: str, effects: Effects, now: int) -> None:
        effects += self.closed(link.number, now)
        effects.append(Close(link.number, reason))

    def _hello(self, link: ReplicaLink, hello: Hello, effects: Effects, now: int) -> None:
        if link.hello is not None:
            if hello != link.hello:
                raise PeerError("a second handshake that says something else")
            return  # a Java follower repeats it until it has the answer
        if hello.follower_id is not None:
            follower_id = hello.follower_id
            if follower_id == self.in_sync.own_id or not 0 < follower_id < 1 << 32:
                raise PeerError(f"a follower calls itself {follower_id}")
        else:
            link.generation = ReplicationProtocol.G1A
            follower_id = self._number_of(str(hello.address))
        link.hello, link.follower_id = hello, follower_id
        in_sync = self.in_sync
        if self._unconfirmed.is_known(hello, in_sync.committed | in_sync.effective):
            self._enter(link, hello, effects, now)
        elif self._unconfirmed.hold(link, hello):
            effects.append(AskReplicas())

    def replicas_told(self, registered: frozenset[int], now: int) -> Effects:
        """Handle the controllers' answer with the registered ids; see `UnconfirmedFollowers`."""
        effects: Effects = []
        waited, ask_again = self._unconfirmed.set_registered(registered)
        if ask_again:
            effects.append(AskReplicas())
        for link, hello in waited:
            if link.follower_id not in registered:
                reason = f"follower {link.follower_id} is not registered with the controllers"
                self._cut(link, reason, effects, now)
                continue
            try:
                self._enter(link, hello, effects, now)
            except PeerError as error:
                self._cut(link, str(error), effects, now)
        return effects

    def _enter(self, link: ReplicaLink, hello: Hello, effects: Effects, now: int) -> None:
        follower_id = link.follower_id
        replica = self.in_sync.replicas.get(follower_id)
        older = None if replica is None or replica.link is None else self.links.get(replica.link)
        if older is None:
            self._admit(link, hello, effects, now)
        else:
            self._claim(link, hello, older, effects, now)

    def _number_of(self, address: str) -> int:
        number = self._strangers.get(address)
        if number is None:
            number = self._strangers[address] = _STRANGER + self._strangers_count
            self._strangers_count += 1
        return number

    def _claim(
        self, link: ReplicaLink, hello: Hello, older: ReplicaLink, effects: Effects, now: int
    ) -> None:
        """Ask the older link of a follower for a sign of life, before the newer one replaces it."""
        if now - older.read_at_ms < ANSWERED_MS or older.number in self._claims:
            raise PeerError(f"follower {link.follower_id} is connected by another link")
        self._claims[older.number] = link, hello, now
        if older.state >= LinkState.TRANSFER:
            effects.append(SendData(older.number, self._heartbeat(older, now)))

    def _admit(self, link: ReplicaLink, hello: Hello, effects: Effects, now: int) -> None:
        """Answer the handshake: `link` belongs to its follower."""
        learner = hello.learner or hello.follower_id is None
        self.in_sync.linked(link.follower_id, link.number, learner, now)
        link.state = LinkState.HANDSHAKE
        link.written_at_ms = now
        entries = [(entry.epoch, entry.start) for entry in self._epochs.newest()]
        reply = encode_reply(link.generation, self._log.end, entries)
        effects.append(SendData(link.number, reply))

    # Acknowledgements -------------------------------------------------------------------------

    def _check_ack(self, link: ReplicaLink, ack: Ack) -> None:
        """Check 0 <= ack <= appended; otherwise the link is closed and counted (S08,
        rocketmq#3015).
        """
        if link.state is LinkState.READY:
            raise PeerError("an acknowledgement before the handshake")
        if self._safeguards.bounded_ack and not 0 <= ack.offset <= self._log.end:
            self.bad_acks += 1
            raise PeerError(f"an acknowledgement of {ack.offset}, the log ends at {self._log.end}")

    def _acked(self, link: ReplicaLink, ack: Ack, effects: Effects, now: int) -> None:
        link.ack = ack.offset
        in_sync = self.in_sync
        in_sync.acked(link.follower_id, ack.offset, self._log.end, now)
        # An acknowledgement of a member does not change the set; `tick` finds slow members.
        effects += self._moved(now, look=link.follower_id not in in_sync.committed)

    def _begin(self, link: ReplicaLink, offset: int) -> int:
        if offset:
            return offset
        log = self._log
        if link.hello is not None and link.hello.from_last_file:
            return max(log.start, log.end - log.end % log.file_bytes)
        return log.start

    def _moved(self, now: int, *, look: bool = True) -> Effects:
        """Update what depends on acknowledgements; with `look` also the sync-state set."""
        if self.fenced is not None:
            return []
        effects: Effects = []
        in_sync = self.in_sync
        # The proposal comes first, because acknowledgements of the new member count from then on.
        look = look and not self.past_lease
        proposal = in_sync.next_proposal(self._log.end, now) if look else None
        if proposal is not None:
            effects.append(ProposeSyncStateSet(proposal))
        own = self._counted_end = self._log.safe
        if in_sync.confirm(own, now):
            effects.append(AdvanceConfirmed(in_sync.confirmed))
        if self.waits:
            self.waits.release(self._acknowledged(own))
        return effects

    def _acknowledged(self, own: int) -> int:
        """Return the offset up to which waiting sends are acknowledged."""
        in_sync = self.in_sync
        if self.past_lease and not self._safeguards.whole_set_past_lease:
            replicas = in_sync.replicas
            there = [m for m in in_sync.effective if m in replicas and replicas[m].link is not None]
            return min([own, *in_sync.acks(there, own)])
        return position(in_sync, own, self._options)

    def is_whole(self, now: int, span_ms: int) -> bool:
        """Whether every counted member is linked and was heard in the last `span_ms`.

        Then the master needs no lease to acknowledge what all of them hold: a new master would be
        one of them, and a follower that takes up a newer epoch leaves first (ADR 0044). This does
        not hold for a set of one, or for a policy that does not wait for all members: no member
        could report an election.
        """
        in_sync, options = self.in_sync, self._options
        least = max(2, options.min_in_sync_replicas)
        if not options.all_ack or len(in_sync.committed) < least:
            return False
        if not self._safeguards.whole_set_past_lease:
            return True
        others = (m for m in in_sync.effective if m != in_sync.own_id)
        return all(self._heard_since(member, now - span_ms) for member in others)

    def _heard_since(self, member: int, since_ms: int) -> bool:
        replica = self.in_sync.replicas.get(member)
        if replica is None or replica.link is None or replica.ack == NEVER:
            return False
        link = self.links.get(replica.link)
        return link is not None and link.read_at_ms >= since_ms

    def moved(self, now: int) -> Effects:
        """Note that the own log was synced, or that time passed."""
        return self._moved(now)

    def appended(self, now: int) -> Effects:
        """Note that the own log grew. It does not wait for the disk."""
        before, self._known_end = self._known_end, self._log.end
        in_sync = self.in_sync
        in_sync.appended(before, self._known_end, now)
        return self._moved(now, look=False) if self._own_log_decides() else []

    def _own_log_decides(self) -> bool:
        """Whether growth of the own log can change what is acknowledged or confirmed.

        It cannot while the other members' acknowledgements count and none of them is ahead of what
        the own log was when it was counted last.
        """
        in_sync = self.in_sync
        members = in_sync.effective
        return (
            len(members) == 1
            or needed(self._options, len(members)) == 1
            or max(in_sync.acks(members, 0)) > self._counted_end
        )

    def when_acked(self, offset: int, deadline_at_ms: int, done: Done) -> None:
        """Call `done` once, when enough replicas hold the log up to `offset`.

        Args:
            offset: end of the send in bytes.
            deadline_at_ms: monotonic deadline.
            done: called with the result.
        """
        if self.fenced is not None:
            done(AckStatus.FENCED)
        elif self.waits.is_first(offset) and self._acknowledged(self._log.safe) >= offset:
            done(AckStatus.ACKED)
        else:
            self.waits.add(offset, deadline_at_ms, done)

    def refusal(self, now: int) -> AckStatus | None:
        """Return why a send must be refused now, or None."""
        if self.fenced is not None:
            return AckStatus.FENCED
        least = self._options.min_in_sync_replicas
        if least > 1 and self.in_sync.live_count(now) < least:
            return AckStatus.NOT_ENOUGH
        return None

    def change_options(self, options: ReplicationOptions) -> None:
        """Change what may change at run time: numbers of replicas, times, and sizes."""
        self._options = options
        self.in_sync.change_options(options)

    def fence(self, reason: str) -> None:
        """Stop acknowledging and changing anything until `unfence`; waiting sends get FENCED."""
        if self.fenced is None:
            self.fenced = reason
        self.waits.fail(AckStatus.FENCED)

    def unfence(self, now: int) -> Effects:
        """Continue, after this broker is known to be the master of its epoch again."""
        self.fenced = None
        return self._moved(now)

    # The set ----------------------------------------------------------------------------------

    def set_committed(self, members: frozenset[int], set_epoch: int, now: int) -> Effects:
        """Note the controller's set; see `InSync.set_committed`."""
        in_sync = self.in_sync
        if set_epoch == in_sync.set_epoch and members != in_sync.committed:
            return [Trouble(f"two sync-state sets of epoch {set_epoch}: {sorted(members)}")]
        if in_sync.own_id not in members:
            return [Trouble(f"the set of epoch {set_epoch} is without us: {sorted(members)}")]
        in_sync.set_committed(members, set_epoch, now)
        return self._moved(now)

    def proposal_failed(self, proposal: SetProposal, now: int, refused: bool) -> Effects:
        """Note that a proposal failed; see `InSync.proposal_failed`."""
        self.in_sync.proposal_failed(proposal, now, refused)
        return self._moved(now)

    # Sending ----------------------------------------------------------------------------------

    def next_chunk(self, number: int, now: int) -> Chunk | None:
        """Return the next data for a link that has room, or None."""
        link = self.links.get(number)
        if link is None or link.state < LinkState.TRANSFER:
            return None
        log, end = self._log, self._known_end
        if link.next >= end:
            return self._boundary(link, now)
        entry = self._epochs.entry_at(link.next)
        if entry is None or link.next < log.start:
            link.state = LinkState.SUSPEND
            return None
        link.state = LinkState.TRANSFER
        offset = link.next
        size = min(end, entry.end, offset - offset % log.file_bytes + log.file_bytes) - offset
        size = min(size, self._options.batch_bytes)
        allowed = self._flow.allowance(now)
        if allowed is not None:
            size = min(size, allowed)
        if size == 0:
            return None
        self._flow.sent(size)
        replica = self.in_sync.replicas.get(link.follower_id)
        if replica is not None:
            replica.sent(end, now)
        link.next = offset + size
        link.sent_bytes += size
        is_last = link.next == end and entry is self._epochs.entries[-1]
        return self._chunk(link, size, offset, entry, now, is_last=is_last)

    def _boundary(self, link: ReplicaLink, now: int) -> Chunk | None:
        """Tell a follower that has everything about a new epoch, if it does not know it
        yet (S06).
        """
        entries = self._epochs.entries
        if not entries or entries[-1].epoch == link.epoch_told or entries[-1].start != link.next:
            return None
        return self._chunk(link, 0, link.next, entries[-1], now)

    def _chunk(
        self,
        link: ReplicaLink,
        size: int,
        offset: int,
        entry: EpochRange | None,
        now: int,
        *,
        is_last: bool = False,
    ) -> Chunk:
        confirmed = self.in_sync.confirmed
        epoch, start = (entry.epoch, entry.start) if entry else (-1, 0)
        link.written_at_ms, link.epoch_told, link.confirmed_told = now, epoch, confirmed
        head = encode_transfer(size, offset, epoch, start, confirmed)
        return Chunk(head, offset, size, is_last)

    # Time -------------------------------------------------------------------------------------

    def tick(self, now: int) -> Effects:
        """Send heartbeats, close silent links, end sends past their deadline, and check slow
        members.
        """
        effects: Effects = []
        self.waits.expire(now)
        for older, (_, _, since) in list(self._claims.items()):
            if now - since >= CLAIM_MS:
                silent = self.links[older]
                reason = (
                    f"follower {silent.follower_id} is silent on this connection and opened"
                    " another one"
                )
                self._cut(silent, reason, effects, now)
        for link in list(self.links.values()):
            if now - link.read_at_ms >= self._options.housekeeping_ms:
                self._cut(link, "silent for too long", effects, now)
            elif self._heartbeat_due(link, now):
                effects.append(SendData(link.number, self._heartbeat(link, now)))
                if link.state is LinkState.SUSPEND and not link.suspended_told:
                    link.suspended_told = True
                    effects.append(
                        Trouble(
                            f"follower {link.follower_id} asks for log from {link.next}, which is"
                            f" not kept here (from {self._log.start}): the follower must copy the"
                            " log from the start"
                        )
                    )
        return effects + self._moved(now)

    def _heartbeat_due(self, link: ReplicaLink, now: int) -> bool:
        if link.state < LinkState.TRANSFER:
            return False
        silent_ms = now - link.written_at_ms
        if silent_ms >= (self.ping_ms or self._options.heartbeat_ms):
            return True
        # Otherwise an idle follower would learn the confirmed offset only with the next message.
        news = self.in_sync.confirmed > link.confirmed_told and link.next >= self._known_end
        return news and silent_ms >= self._options.confirm_interval_ms

    def _heartbeat(self, link: ReplicaLink, now: int) -> bytes:
        entries = self._epochs.entries
        entry = self._epochs.entry_at(link.next) or (entries[-1] if entries else None)
        return self._chunk(link, 0, link.next, entry, now).head

    def next_deadline(self, now: int) -> int:
        """Return when `tick` must be called at the latest."""
        options = self._options
        beat_ms = self.ping_ms or options.heartbeat_ms
        due = now + beat_ms
        for link in self.links.values():
            due = min(due, link.read_at_ms + options.housekeeping_ms)
            due = min(due, link.written_at_ms + beat_ms)
            if link.confirmed_told < self.in_sync.confirmed:
                due = min(due, link.written_at_ms + options.confirm_interval_ms)
        for moment in (
            *(since + CLAIM_MS for _, _, since in self._claims.values()),
            self.waits.first_deadline,
            self._flow.next_at_ms(now),
            self.in_sync.next_deadline(),
        ):
            if moment is not None:
                due = min(due, moment)
        return due

    def sent_bytes(self) -> dict[int, int]:
        """Return the bytes of log sent by link, since the start of the link."""
        return {link.number: link.sent_bytes for link in self.links.values()}

    def statistics(self) -> dict[str, int]:
        """Return the state as numbers."""
        own = self._log.safe
        return {
            "links": len(self.links),
            "confirmed": self.in_sync.confirmed,
            "acknowledged": max(NOTHING, position(self.in_sync, own, self._options)),
            "waiting": len(self.waits),
            "released": self.waits.released,
            "timed_out": self.waits.timed_out,
            "bad_acks": self.bad_acks,
            "sent_bytes": sum(link.sent_bytes for link in self.links.values()),
        }
