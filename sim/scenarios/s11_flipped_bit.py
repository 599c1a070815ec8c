"""S11 (NATS): a flipped bit on a minority spreads when that node is elected.

Expected: checksums of all records are looked at; who finds damage below what was confirmed is not
electable until it has fetched the lost part again.
"""

from collections.abc import Iterator

from epochmq.model.record import body_span
from epochmq.store.store import Store
from sim.kernel.host import Host
from sim.scenarios.script import Missed, Step
from sim.scenarios.story import Story as Base


class Story(Base):
    name = "S11"

    def script(self) -> Iterator[Step]:
        a = self.master()
        b, c = self.others(a)
        yield self.noise(100, 400)
        at = self.pick(self.broker(c).store)
        self.world.power_off(self.host(c))
        self.flip(self.host(c), at)
        self.cut((a, b), self.controllers)
        self.world.start(self.host(c))
        yield self.noise(500, 1500)
        self.mend()
        yield lambda: c in self.members()
        yield self.noise(20, 200)
        self.cut((a, b), self.controllers)
        for name in (a, b):
            self.world.power_off(self.host(name))
        yield lambda: self.is_master(c)
        yield self.noise(50, 200)

    def pick(self, store: Store) -> int:
        """A byte of a confirmed record's body, in the log's last file: recovery reads that one."""
        size, confirmed = store.file_bytes, store.pointers.confirmed
        at, found = confirmed - confirmed % size, []
        while at < confirmed:
            record = store.message_at(at)
            if record is None:
                break
            begin, end = body_span(record, 0)
            found.append(at + (begin + end) // 2)
            at += len(record)
        if not found:
            raise Missed
        return found[self.world.streams["story"].randrange(len(found))]

    def flip(self, host: Host, at: int) -> None:
        size = self.store_options.commit_log_file_bytes
        inode = host.disk.inode_at(f"commitlog/{at - at % size:020d}")
        if inode is None:
            raise Missed
        inode.data[at % size] ^= 4
        inode.durable[at % size] ^= 4
        self.world.tell("disk_damaged", host)
