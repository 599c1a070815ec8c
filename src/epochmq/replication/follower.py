"""The follower's side of replication: handshake, truncation, copying, acknowledgements.

    READY --connected--> HANDSHAKE --reply, truncation--> TRANSFER
                                   --no common point----> SUSPEND, until an operator has helped

The follower checks the reply first: a peer whose last epoch is smaller than the epoch from the
controller is deposed. The log is cut durably where it differs from the master's, before anything
else happens (rocketmq#10666). It is never cut below the confirmed offset (INV-15), except if the
controllers report an unclean election after the last epoch of this log. In this case an operator
accepted the loss, and the bytes are kept in `cut/`. The rest of the log is acknowledged at once,
and the master sends from there.

The entry of an epoch is durable before its first byte is written (INV-14): the reply names all
epochs, and those that a frame reaches are saved before its body is taken. Frames must follow each
other without gap or overlap.

While an effect runs that `resumed` must follow, the core takes no bytes.
"""

from collections.abc import Sequence

from epochmq.base.errors import PeerError
from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.replication.frames import (
    REPLY_BYTES,
    TRANSFER_BYTES,
    HandshakeReply,
    Hello,
    LinkState,
    ReplicationProtocol,
    TransferHead,
    decode_entries,
    decode_reply,
    decode_transfer,
    encode_ack,
    encode_hello,
)
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import (
    OWN_LINK,
    Acknowledge,
    AdvanceConfirmed,
    AppendData,
    AwaitSync,
    Close,
    Effects,
    Persist,
    Reset,
    SendData,
    Trouble,
    Truncate,
)
from epochmq.replication.replication_ports import EpochView, LogView

ANSWER_MS = 100
"""A heartbeat of the master is answered unless the follower sent something less than this time ago:
a master whose lease ends must know which members are there (ADR 0044)."""

HANDSHAKE_MS = 5000
"""The connection is closed if the master does not answer the handshake within this time."""


class FollowerCore:
    """One follower of one master, over any number of connections, one after the other.

    Args:
        log: the log.
        epochs: the epochs of the log.
        options: the options.
        own_id: broker id of this follower.
        epoch: the master's epoch, from the controller.
        learner: whether this follower is a learner.
        unclean_epoch: the last epoch that began with an unclean election; 0 if there is none.
        generation: the replication protocol to use.
        own_address: address of this follower, for protocols without ids.
        safeguards: switches of the simulator.
    """

    def __init__(
        self,
        log: LogView,
        epochs: EpochView,
        options: ReplicationOptions,
        own_id: int,
        epoch: int,
        *,
        learner: bool = False,
        unclean_epoch: int = 0,
        generation: ReplicationProtocol = ReplicationProtocol.G2,
        own_address: str = "",
        safeguards: Safeguards = SAFE,
    ) -> None:
        self.state = LinkState.READY
        self.epoch = epoch
        """The master's epoch, from the controller."""
        self.unclean_epoch = unclean_epoch
        """The last epoch that began with an unclean election, from the controllers; 0: none."""
        self.session = 0
        """Counts connections and their ends."""
        self.held = False
        """No bytes are taken until `resumed`."""
        self.received_bytes = 0
        self.suspended: str | None = None
        """Why an operator must help."""
        self.master_end = 0
        self._log = log
        self._epochs = epochs
        self._options = options
        self._safeguards = safeguards
        name = None if generation is ReplicationProtocol.G2 else own_address
        number = own_id if name is None else None
        self._hello = encode_hello(Hello(options.from_last_file, learner, number, name))
        self._reply_bytes = REPLY_BYTES[generation]
        self._inbox = bytearray()
        self._reply: HandshakeReply | None = None
        self._entries: list[tuple[int, int]] = []
        """The master's epochs, in order."""
        self._last_epoch = -1
        self._late: tuple[tuple[int, int], ...] = ()
        self._end = 0
        self._body_left = 0
        self._confirmed = 0
        self._told_confirmed = -1
        self._acked = -1
        self._awaiting = False
        self._asked = False
        """A heartbeat arrived and is not answered yet."""
        self.read_at_ms = 0
        self.written_at_ms = 0
        self._received_before = 0
        self._log_at_ms: int | None = None
        """Since when log is expected but only heartbeats arrive; None after that was reported."""

    # The connection ---------------------------------------------------------------------------

    def connected(self, now: int) -> Effects:
        """Note that the connection is open. Return the handshake, to be sent in one write."""
        self._forget()
        self.state = LinkState.HANDSHAKE
        self.read_at_ms = self.written_at_ms = self._log_at_ms = now
        return [SendData(OWN_LINK, self._hello)]

    def closed(self) -> None:
        """Note that the connection is closed."""
        self._forget()
        if self.state is not LinkState.SUSPEND:
            self.state = LinkState.READY

    def _forget(self) -> None:
        self.session += 1
        self._received_before = self.received_bytes
        self.held = self._awaiting = self._asked = False
        self._inbox.clear()
        self._reply = None
        self._body_left = 0
        self._acked = -1
        self._told_confirmed = -1
        self._late = ()

    @property
    def master_entries(self) -> list[tuple[int, int]]:
        """The master's epochs, from its handshake and its frames."""
        return self._entries

    @property
    def wants(self) -> bool:
        """Whether bytes may be given now."""
        return not self.held and self.state in (LinkState.HANDSHAKE, LinkState.TRANSFER)

    @property
    def direct(self) -> int:
        """How many of the next bytes belong to the log and may be received into it directly
        (`wrote`).
        """
        return 0 if self.held or self._inbox else self._body_left

    def receive(self, data: bytes | bytearray | memoryview, now: int) -> Effects:
        """Handle bytes of the master; the effects may refer to `data`. Invalid bytes close the
        link.
        """
        self.read_at_ms = now
        if self._inbox:
            self._inbox += data
            data = bytes(self._inbox)
            self._inbox.clear()
        effects: Effects = []
        try:
            self._consume(memoryview(data), effects, now)
            self._finish(effects, now)
        except PeerError as error:
            self._drop(str(error), effects)
        return effects

    def wrote(self, count: int, now: int) -> Effects:
        """Note that `count` bytes of log were received directly into it."""
        self.read_at_ms = now
        effects: Effects = []
        self._grew(count, effects)
        self._finish(effects, now)
        return effects

    def resumed(self, session: int, now: int) -> Effects:
        """Note that an effect which stopped the core has ended; it began in `session`."""
        if session != self.session or not self.held:
            return []
        self.held = False
        effects: Effects = []
        try:
            self._end = self._log.end
            if self.state is LinkState.HANDSHAKE:
                self._transfer(effects, now)
            waiting = bytes(self._inbox)
            self._inbox.clear()
            self._consume(memoryview(waiting), effects, now)
            self._finish(effects, now)
        except PeerError as error:
            self._drop(str(error), effects)
        return effects

    def _drop(self, reason: str, effects: Effects) -> None:
        self.closed()
        effects.append(Close(OWN_LINK, reason))

    def _consume(self, view: memoryview, effects: Effects, now: int) -> None:
        """Handle complete frames and parts of bodies; keep the rest for later."""
        at = 0
        while not self.held:
            left = len(view) - at
            if self._body_left:
                count = min(left, self._body_left)
                if count == 0:
                    break
                effects.append(AppendData(self._end, view[at : at + count]))
                self._grew(count, effects)
                at += count
            elif self.state is LinkState.HANDSHAKE:
                used = self._shake(view[at:], effects, now)
                if not used:
                    break
                at += used
            elif self.state is LinkState.TRANSFER:
                if left < TRANSFER_BYTES:
                    break
                head = decode_transfer(view, at)
                at += TRANSFER_BYTES
                self._head(head, effects)
            else:
                return
        self._inbox += view[at:]

    # The handshake ----------------------------------------------------------------------------

    def _shake(self, view: memoryview, effects: Effects, now: int) -> int:
        """Return the number of bytes used; 0 while the reply is incomplete."""
        if self._reply is None:
            if len(view) < self._reply_bytes:
                return 0
            reply = decode_reply(view)
            if self._safeguards.epoch_check_on_append and reply.epoch < self.epoch:
                raise PeerError(
                    f"the peer's last epoch is {reply.epoch}, the controller gave {self.epoch}"
                )
            self._reply = reply
            if reply.body_bytes:
                return self._reply_bytes
            self._compare(reply, [], effects, now)
            return self._reply_bytes
        size = self._reply.body_bytes
        if len(view) < size:
            return 0
        self._compare(self._reply, decode_entries(view[:size]), effects, now)
        return size

    def _compare(
        self, reply: HandshakeReply, entries: list[tuple[int, int]], effects: Effects, now: int
    ) -> None:
        """Find where the two logs differ, and cut there."""
        log = self._log
        self._entries = entries
        self.master_end = reply.end
        self.held = True
        if log.start == log.end:
            effects.append(Truncate(log.end, "nothing is here yet"))
            return
        # An incomplete record at the end does not count, because it was never acknowledged.
        point = self._epochs.consistent_point(log.whole, entries, reply.end, log.confirmed)
        lost = self._why_lost(point)
        if point is not None and lost is None:
            effects.append(Truncate(point, f"the master of epoch {reply.epoch} goes on there"))
        elif max(self._epochs.last_epoch, 0) < self.unclean_epoch <= self.epoch:
            lost = f"{lost}; the election of epoch {self.unclean_epoch} was unclean"
            effects.append(Trouble(f"{lost}: what this log holds more is moved to cut/"))
            start = log.start if point is None else max(point, log.start)
            effects.append(Truncate(start, lost, operator=True))
        else:
            self.suspend(str(lost), effects)

    def _why_lost(self, point: int | None) -> str | None:
        log = self._log
        if point is None:
            return "no epoch of this log is known to the master"
        if point < log.start:
            return f"this log parts from the master's at {point}, before its first byte {log.start}"
        if point < log.confirmed:
            return (
                f"following the master would take back what is confirmed here, from {point} to"
                f" {log.confirmed}"
            )
        return None

    def suspend(self, reason: str, effects: Effects) -> None:
        """Stop until an operator has decided; the replica stays outside of the sync-state set."""
        again = self.suspended == reason
        self._drop(reason, effects)
        self.state = LinkState.SUSPEND
        self.suspended = reason
        if not again:
            effects.append(
                Trouble(
                    f"{reason}; compare the replicas, then move the log of this replica away,"
                    " so that it is copied from the start"
                )
            )

    def _transfer(self, effects: Effects, now: int) -> None:
        """Start the transfer, after the logs agree.

        The first acknowledgement says where to begin; a Java master waits up to 5 s for it.
        """
        self.state = LinkState.TRANSFER
        self.suspended = None
        self._last_epoch = self._epochs.last_epoch
        self._confirmed = self._told_confirmed = self._log.confirmed
        if self._log.start == self._log.end:
            self._ack(0, effects, now)
            self._acked = self._end

    # Log --------------------------------------------------------------------------------------

    def _head(self, head: TransferHead, effects: Effects) -> None:
        """Check the head of a frame; its next `body_bytes` bytes are log."""
        if head.offset != self._end:
            if self._log.start != self._end or self._acked != self._end or head.offset < 0:
                raise PeerError(f"log from {head.offset}, where {self._end} is next")
            if not head.body_bytes:
                return
            self._begin_at(head.offset, effects)
        size = head.body_bytes
        self._asked = not size
        file_bytes = self._log.file_bytes
        if size and head.offset // file_bytes != (head.offset + size - 1) // file_bytes:
            raise PeerError(
                f"{size} bytes from {head.offset} cross the end of a log file; all replicas need"
                f" the same mappedFileSizeCommitLog, which is {file_bytes} here"
            )
        self._learn(head)
        self._persist(self._due(head.offset, size), effects)
        self._body_left = size
        self._confirmed = max(self._confirmed, head.confirmed)

    def _begin_at(self, offset: int, effects: Effects) -> None:
        """Begin an empty log where the master's begins, at the start of a file."""
        if offset % self._log.file_bytes:
            raise PeerError(f"the first byte of a log cannot be {offset}, inside a file")
        self._end = self._acked = offset
        self.held = True
        effects.append(Reset(offset))

    def _learn(self, head: TransferHead) -> None:
        """Check the epoch of a frame against all known epochs."""
        if head.epoch < 0 and not head.body_bytes:
            return
        known = dict(self._entries).get(head.epoch)
        if not self._safeguards.epoch_check_on_append:
            if known is None and head.epoch > self._last_epoch:
                self._entries.append((head.epoch, head.epoch_start))
            return
        if head.epoch < self._last_epoch:
            raise PeerError(f"log of epoch {head.epoch} after that of {self._last_epoch}")
        if known is None and head.epoch > self._last_epoch:
            last = self._entries[-1] if self._entries else (-1, 0)
            if head.epoch <= last[0] or head.epoch_start < last[1]:
                raise PeerError(f"epoch {head.epoch} from {head.epoch_start} is not the master's")
            self._entries.append((head.epoch, head.epoch_start))
        elif known is not None and known != head.epoch_start:
            raise PeerError(f"epoch {head.epoch} began at {known}, now at {head.epoch_start}")

    def _due(self, offset: int, size: int) -> tuple[tuple[int, int], ...]:
        """Return the epochs that begin not later than the bytes `[offset, offset + size)`."""
        return tuple(
            (epoch, start)
            for epoch, start in self._entries
            if epoch > self._last_epoch and (start <= offset or start < offset + size)
        )

    def _persist(self, due: Sequence[tuple[int, int]], effects: Effects) -> None:
        if not due:
            return
        self._last_epoch = due[-1][0]
        if self._safeguards.epoch_entry_before_data:
            self.held = True
            effects.append(Persist(tuple(due)))
        else:
            self._late = tuple(due)

    def _grew(self, count: int, effects: Effects) -> None:
        self._end += count
        self.received_bytes += count
        self._body_left -= count
        if self._late and not self._body_left:
            effects.append(Persist(self._late))
            self._late = ()

    # Acknowledgements -------------------------------------------------------------------------

    def _finish(self, effects: Effects, now: int) -> None:
        """Advance the confirmed offset and acknowledge, after each piece of data."""
        if self.state is not LinkState.TRANSFER or self.held:
            return
        confirmed = min(self._confirmed, self._end)
        if confirmed > self._told_confirmed:
            self._told_confirmed = confirmed
            effects.append(AdvanceConfirmed(confirmed))
        if self._end > self._acked:
            effects.append(Acknowledge())
        elif self._asked and now - self.written_at_ms >= ANSWER_MS:
            self._ack_again(effects, now)
        self._asked = False

    def _ack_again(self, effects: Effects, now: int) -> None:
        """Repeat the last acknowledgement, which shows that this follower is alive."""
        empty = self._log.start == self._log.end
        self._ack(0 if empty else self._acked, effects, now)

    def acknowledge(self, now: int) -> Effects:
        """Acknowledge the complete records, after all bytes given so far are in the log.

        With SYNC_FLUSH they are acknowledged only when they are on the device.
        """
        effects: Effects = []
        if self.state is not LinkState.TRANSFER or self.held or self._awaiting:
            return effects
        whole = self._log.whole
        if whole > self._acked:
            syncs = self._options.sync_before_ack and self._safeguards.follower_syncs_before_ack
            if not syncs:
                self._ack(whole, effects, now)
            else:
                self._awaiting = True
                effects.append(AwaitSync(whole))
        return effects

    def synced(self, session: int, now: int) -> Effects:
        """Note that the log was synced as far as `AwaitSync` of `session` asked, or further."""
        if session != self.session or not self._awaiting:
            return []
        self._awaiting = False
        effects: Effects = []
        safe = min(self._log.safe, self._log.whole)
        if safe > self._acked:
            self._ack(safe, effects, now)
        return effects + self.acknowledge(now)

    def _ack(self, offset: int, effects: Effects, now: int) -> None:
        self._acked = offset
        self.written_at_ms = now
        effects.append(SendData(OWN_LINK, encode_ack(offset)))

    # Time -------------------------------------------------------------------------------------

    def tick(self, now: int) -> Effects:
        """Send heartbeats, and close the connection to a silent master."""
        effects: Effects = []
        if self.state is LinkState.HANDSHAKE and not self.held:
            if now - self.written_at_ms >= HANDSHAKE_MS:
                self._drop("the handshake was not answered", effects)
        elif self.state is LinkState.TRANSFER:
            if now - self.read_at_ms >= self._options.housekeeping_ms and not self.held:
                self._drop("the master is silent for too long", effects)
            elif now - self.written_at_ms >= self._options.heartbeat_ms and self._acked >= 0:
                self._ack_again(effects, now)
            self._check_starved(effects, now)
        return effects

    def _check_starved(self, effects: Effects, now: int) -> None:
        """Report a master that has more log but sends only heartbeats: it lacks the next bytes."""
        since = self._log_at_ms
        if since is None or self.received_bytes > self._received_before:
            self._log_at_ms = None
        elif self.master_end > self._end and now - since >= self._options.housekeeping_ms:
            self._log_at_ms = None
            effects.append(
                Trouble(
                    f"the master sends no log, though it has some beyond {self._end}: most likely"
                    " it has deleted what comes next; move the log of this replica away, so that"
                    " it is copied from the start"
                )
            )

    def next_deadline(self, now: int) -> int:
        """Return when `tick` must be called at the latest."""
        options = self._options
        if self.state is LinkState.HANDSHAKE:
            return self.written_at_ms + HANDSHAKE_MS
        if self.state is LinkState.TRANSFER:
            return min(
                self.written_at_ms + options.heartbeat_ms,
                self.read_at_ms + options.housekeeping_ms,
            )
        return now + options.heartbeat_ms

    def statistics(self) -> dict[str, int]:
        """Return the state as numbers."""
        return {
            "state": int(self.state),
            "acknowledged": self._acked,
            "received_bytes": self.received_bytes,
            "master_end": self.master_end,
        }
