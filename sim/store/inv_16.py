"""INV-16: recovery is idempotent and durable, and ends at a record's boundary."""

from epochmq.store.options import StoreOptions
from epochmq.store.store import Store
from sim.kernel.checker import Checker
from sim.kernel.disk import SimDisk
from sim.kernel.host import Host
from sim.kernel.violation import Violation
from sim.kernel.workload import HOST

Found = tuple[int, bytes, list[tuple[str, int, int, int]]]


def found_by(store: Store) -> Found:
    """What recovery made: the log's end, its bytes, the queues' ends."""
    queues = sorted(
        (topic, queue_id, *store.queue_bounds(topic, queue_id))
        for topic in store.topics()
        for queue_id in store.queues(topic)
    )
    return store.pointers.appended, log_bytes(store, store.pointers.appended), queues


def log_bytes(store: Store, end: int) -> bytes:
    """The log from its first byte kept to `end`."""
    parts = [
        bytes(segment.view[: max(0, end - segment.start)])
        for segment in store._log.segments
        if segment.start < end
    ]
    return b"".join(parts)


class Recovers(Checker):
    """Opens each recovered disk again: as a killed process leaves it, and after a power cut."""

    rule = "INV-16"

    def __init__(self, one_in: int = 1) -> None:
        self.one_in = one_in
        self.count = 0

    def recovered(self, host: Host, store: Store) -> None:
        self.count += 1
        if self.count % self.one_in:
            return
        want = found_by(store)
        for name, disk in (
            ("second recovery", host.disk.kill()),
            ("recovery after a power cut", host.disk.crash(f"{host.name}.{self.count}")),
        ):
            if self.open(disk, store.options, host) != want:
                raise Violation(self.rule, f"a {name} differs", (host.name,), (want[0],))

    def open(self, disk: SimDisk, options: StoreOptions, host: Host) -> Found:
        return found_by(Store.open(disk, options, HOST, host.wall))
