"""Brokers of one group in one process: real stores on simulated disks, links that are calls."""

from dataclasses import replace

from sim.kernel.disk import SimDisk
from tests.store.replicas import REPLICATED, WALL, fill, log_bytes, opened

from epochmq.base.safeguards import SAFE, Safeguards
from epochmq.replication.linked_node import run_inline
from epochmq.replication.options import ReplicationOptions
from epochmq.replication.replication_effects import (
    Close,
    ProposeSyncStateSet,
    SendData,
    SetProposal,
    Trouble,
)
from epochmq.replication.replication_node import ReplicationNode
from epochmq.store.draft import Appended
from epochmq.store.epochs import EpochFile
from epochmq.store.options import StoreOptions

ALL_ACK = ReplicationOptions(all_ack=True, transfer_batch_bytes=700, confirm_interval_ms=0)


class Broker:
    """One replica: its disk outlives it."""

    def __init__(
        self,
        number: int,
        options: ReplicationOptions = ALL_ACK,
        store_options: StoreOptions = REPLICATED,
        safeguards: Safeguards = SAFE,
    ) -> None:
        self.number = number
        self.options = options
        self.store_options = store_options
        self.safeguards = safeguards
        self.troubles: list[str] = []
        self.proposals: list[SetProposal] = []
        self.now = 1000
        self.appends = 0
        self.open(SimDisk())

    def open(self, disk: SimDisk) -> None:
        self.disk = disk
        self.run_blocking = run_inline
        """Runs blocking steps; a test may put another function here, until a restart."""
        self.store = opened(disk, self.store_options, safeguards=self.safeguards)
        self.node = ReplicationNode(
            self.store,
            EpochFile(disk),
            self.options,
            own_id=self.number,
            safeguards=self.safeguards,
            run_blocking=lambda call, then: self.run_blocking(call, then),
        )

    def kill(self) -> None:
        """The process dies and starts again; the machine lives."""
        self.open(self.disk.kill())

    def cut_power(self, seed: int = 1) -> None:
        self.open(self.disk.crash(seed))

    @property
    def end(self) -> int:
        return self.store.pointers.appended

    @property
    def confirmed(self) -> int:
        return self.store.pointers.confirmed

    @property
    def epochs(self) -> list[tuple[int, int]]:
        return [(entry.epoch, entry.start) for entry in self.node.epochs.entries]

    def lead(self, epoch: int, *members: int, set_epoch: int = 1) -> None:
        chosen = frozenset(members or {self.number})
        self.node.become_master(epoch, chosen, set_epoch, self.now, WALL)

    def follow(self, epoch: int, unclean_epoch: int = 0) -> None:
        self.node.become_follower(
            epoch,
            self.now,
            WALL,
            learner=self.options.learner,
            unclean_epoch=unclean_epoch,
        )

    def write(self, count: int) -> list[Appended]:
        """Append messages that no other broker writes."""
        self.appends += 1
        placed = fill(self.store, count, seed=self.number * 100 + self.appends)
        self.node.appended(self.now)
        return placed

    def bytes(self, upto: int | None = None) -> bytes:
        return log_bytes(self.store, upto)


class Cable:
    """A follower's connection to a master."""

    numbers = 0

    def __init__(self, master: Broker, follower: Broker) -> None:
        Cable.numbers += 1
        self.link = Cable.numbers
        self.master = master
        self.follower = follower
        self.up = False
        self.carry_effects()  # what earlier roles and links left
        self.up = True
        master.node.link_accepted(self.link, f"broker {follower.number}", master.now)
        follower.node.dialled(follower.now)

    def run(self, upto: int | None = None) -> "Cable":
        """Carry everything both ways until nothing moves, or the follower's log ends at `upto`."""
        moved = True
        while moved and self.up:
            moved = self.carry_effects()
            chunk = self.master.node.next_chunk(self.link, self.master.now) if self.up else None
            if chunk is not None:
                size = chunk.size
                if upto is not None and chunk.offset + size >= upto:
                    size = max(0, upto - chunk.offset)
                body = bytes(self.master.store.slice(chunk.offset, size)) if size else b""
                assert len(body) == size
                self.follower.node.received(chunk.head + body, self.follower.now, WALL)
                moved = True
                if size < chunk.size:
                    self.carry_effects()
                    self.cut()
        return self

    def carry_effects(self) -> bool:
        """Deliver what both brokers want done; whether there was anything."""
        moved = False
        for broker, is_master in ((self.master, True), (self.follower, False)):
            for effect in broker.node.pop_effects():
                moved = True
                if isinstance(effect, Trouble):
                    broker.troubles.append(effect.text)
                elif isinstance(effect, ProposeSyncStateSet):
                    broker.proposals.append(effect.proposal)
                elif isinstance(effect, Close):
                    if effect.link == (self.link if is_master else 0):
                        self.cut()
                elif self.up and isinstance(effect, SendData):
                    if is_master:
                        self.follower.node.received(effect.data, self.follower.now, WALL)
                    else:
                        self.master.node.link_received(self.link, effect.data, self.master.now)
        return moved

    def cut(self) -> None:
        if self.up:
            self.up = False
            self.master.node.link_closed(self.link, self.master.now)
            self.follower.node.hung_up(self.follower.now)


def group(count: int, options: ReplicationOptions = ALL_ACK) -> list[Broker]:
    return [Broker(number, options) for number in range(1, count + 1)]


def replicate(
    master: Broker,
    follower: Broker,
    epoch: int,
    upto: int | None = None,
    *,
    unclean_epoch: int = 0,
) -> Cable:
    """`follower` copies from `master`, as far as `upto`."""
    follower.follow(epoch, unclean_epoch)
    return Cable(master, follower).run(upto)


SYNC = replace(REPLICATED, sync_flush=True)
