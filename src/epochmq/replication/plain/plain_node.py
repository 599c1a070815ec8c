"""A store and its fixed role in plain replication; the counterpart of `replication_node.py`."""

from functools import partial

from epochmq.base.errors import EnvironmentFault, OurBug, PeerError
from epochmq.replication.ack_policy import AckStatus, Done
from epochmq.replication.copying import Copying
from epochmq.replication.link import Chunk
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.plain.plain_master import PlainMasterCore
from epochmq.replication.plain.slave import PlainSlaveCore
from epochmq.replication.replication_effects import (
    OWN_LINK,
    Acknowledge,
    AppendData,
    AwaitSync,
    Close,
    Effect,
    Effects,
    Reset,
    SendData,
    Trouble,
    Truncate,
)
from epochmq.replication.replication_ports import StoreView
from epochmq.store.store import Store


class PlainNode(Copying):
    """One broker's plain replication: `master`, `slave`, or neither before the start."""

    def __init__(self, store: Store, options: ReplicationOptions) -> None:
        super().__init__(store)
        self.options = options
        self.log = StoreView(store)
        self.master: PlainMasterCore | None = None
        self.slave: PlainSlaveCore | None = None
        self.alive: int | None = None
        """Number of living members, if there are acting masters; see `count_alive`."""

    def become_master(self, now: int, *, sync: bool) -> None:
        """Become ASYNC_MASTER, or with `sync` SYNC_MASTER."""
        self.leave(now)
        self.store.seal_tail()
        self.master = PlainMasterCore(self.log, self.options, sync=sync)
        self.master.alive = self.alive

    def count_alive(self, members: int) -> None:
        """Set the number of living members that the name servers report; sends may need fewer
        replicas then.
        """
        self.alive = members
        if self.master is not None:
            self.master.alive = members

    def change_options(self, options: ReplicationOptions) -> None:
        """Change what sends wait for, including those that wait; the rest changes with the next
        role.
        """
        self.options = options
        if self.master is not None:
            self.master.change_options(options)

    def become_slave(self, now: int) -> None:
        """Become SLAVE; the caller connects and calls `dialled`."""
        self.leave(now)
        self.slave = PlainSlaveCore(self.log, self.options)

    def leave(self, now: int) -> None:
        """Give up the role."""
        self._now = now
        if self.master is not None:
            self.master.fence("another role")
            self._out += [Close(link, "another role") for link in self.master.links]
        if self.slave is not None:
            self.slave.closed()
            self._out.append(Close(OWN_LINK, "another role"))
        self.master = self.slave = None

    # The master -------------------------------------------------------------------------------

    def link_accepted(self, link: int, peer: str, now: int) -> None:
        """Note a new connection; it is closed unless this broker is the master."""
        if self.master is None:
            self._out.append(Close(link, "this broker is not the master"))
        else:
            self._carry_out(self.master.accepted(link, peer, now))

    def link_received(self, link: int, data: bytes | bytearray | memoryview, now: int) -> None:
        """Handle bytes of a slave."""
        if self.master is not None:
            self._carry_out(self.master.received(link, data, now))

    def link_closed(self, link: int, now: int) -> None:
        """Note that a link is closed."""
        if self.master is not None:
            self._carry_out(self.master.closed(link, now))

    def next_chunk(self, link: int, now: int) -> Chunk | None:
        """Return the next data for a link that has room, or None."""
        return self.master.next_chunk(link, now) if self.master is not None else None

    def appended(self, now: int) -> None:
        """Note that the store grew; called once for all appends of a turn, before the
        links send.
        """
        self._now = now
        master, store = self.master, self.store
        if master is None:
            return
        if store.options.transient_pool:
            store.commit()
        self._carry_out(master.appended(now))
        if store.options.sync_flush and store.needs_sync:
            store.when_synced(store.pointers.appended, partial(self._synced_here, master))

    def _synced_here(self, master: PlainMasterCore, synced: bool) -> None:
        if synced and master is self.master:
            self._carry_out(master.moved(self._now))

    def when_acked(self, offset: int, deadline_at_ms: int, done: Done) -> None:
        """See `PlainMasterCore.when_acked`; `done` gets FENCED if this broker is not the master."""
        if self.master is None:
            done(AckStatus.FENCED)
        else:
            self.master.when_acked(offset, deadline_at_ms, done)

    def refusal(self, now: int) -> AckStatus | None:
        """Return why a send must be refused now, or None."""
        return AckStatus.FENCED if self.master is None else self.master.refusal(now)

    def fence(self, reason: str) -> None:
        """Stop acknowledging."""
        if self.master is not None:
            self.master.fence(reason)

    @property
    def _copier(self) -> PlainSlaveCore | None:
        return self.slave

    # Time and effects -------------------------------------------------------------------------

    def tick(self, now: int, wall: int = 0) -> None:
        """Do what is due at `now`."""
        del wall
        self._now = now
        core = self.master or self.slave
        if core is not None:
            self._carry_out(core.tick(now))

    def _carry_out(self, effects: Effects) -> None:
        held = False
        for effect in effects:
            try:
                self._do(effect)
            except (EnvironmentFault, PeerError) as error:
                self._give_up(str(error))
                return
            held = held or isinstance(effect, Truncate | Reset)
        if held and self.slave is not None:
            self._carry_out(self.slave.resumed(self.slave.session, self._now))

    def _do(self, effect: Effect) -> None:
        store = self.store
        if isinstance(effect, SendData | Close | Trouble):
            self._out.append(effect)
        elif isinstance(effect, AppendData):
            store.append_raw(effect.offset, effect.data)
        elif isinstance(effect, Acknowledge):
            if self.slave is not None:
                self._carry_out(self.slave.acknowledge(self._now))
        elif isinstance(effect, Truncate):
            if effect.offset < store.pointers.appended:
                store.truncate(effect.offset, effect.reason)
        elif isinstance(effect, Reset):
            store.reset_to(effect.offset)
        elif isinstance(effect, AwaitSync):
            self._await_sync(effect.offset)
        else:
            raise OurBug(f"nobody carries out {effect}")

    def transferred(self) -> dict[int, int]:
        """Return bytes of log by link since its start; 0 is the link to the master."""
        if self.master is not None:
            return {link.number: link.sent_bytes for link in self.master.links.values()}
        return {0: self.slave.received_bytes} if self.slave is not None else {}

    def statistics(self) -> dict[str, int]:
        """Return the state of the present role as numbers."""
        core = self.master or self.slave
        return core.statistics() if core is not None else {}
