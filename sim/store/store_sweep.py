"""Crash tests of the store: short scripts, cut at every disk operation (INV-16, INV-17, INV-20).

For each operation the script runs up to it, then the process is killed or the power fails, and the
store is opened twice. All promised messages must be there, and truncated bytes must not reappear
after new messages (rocketmq#10666).
"""

from itertools import count
from random import Random

from epochmq.store.draft import Appended
from epochmq.store.options import StoreOptions
from epochmq.store.store import Store
from sim.kernel.clocks import WALL_MS
from sim.kernel.disk import PowerCut, SimDisk
from sim.kernel.violation import Violation
from sim.kernel.workload import HOST, draft, number_of
from sim.store.inv_16 import found_by
from sim.store.store_world import small_options

STEPS = 6


class Script:
    """One random script; `run` plays it on an empty disk up to an operation."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.options: StoreOptions = small_options(Random(f"{seed}:options"))
        self.mounted = ("commitlog",) if Random(f"{seed}:mounts").randrange(3) == 0 else ()
        """The log may be on a file system of its own."""
        self.disk = SimDisk(mounted=self.mounted)
        self.wall = WALL_MS
        self.placed: dict[int, Appended] = {}
        self.promised: dict[int, Appended] = {}
        """Messages that must survive a power cut."""

    def run(self, stop_at: int | None) -> bool:
        """Play the script; returns whether it was cut."""
        self.disk, self.wall = SimDisk(mounted=self.mounted), WALL_MS
        self.placed, self.promised = {}, {}
        self.disk.stop_at = stop_at
        try:
            self._play(Random(f"{self.seed}:script"))
        except PowerCut:
            return True
        return False

    def _play(self, chance: Random) -> None:
        store = Store.open(self.disk, self.options, HOST, self.wall, boot="first")
        now = number = 0
        for _ in range(STEPS):
            passed = chance.choice((1, 5, 40, 4000))
            now, self.wall = now + passed, self.wall + passed
            what = chance.randrange(8)
            drafts = [draft(number + i, chance, 900) for i in range(chance.choice((1, 2, 5)))]
            if what < 4:
                self._append(store, drafts, number)
                number += len(drafts)
            elif what < 6:
                store.sync()
                self.promised.update(self.placed)
            elif what < 7:
                store.tick(now, self.wall)
                store.chores.run_all()
            else:
                store.close(self.wall)
                self.promised.update(self.placed)
                store = Store.open(self.disk, self.options, HOST, self.wall, boot="first")

    def _append(self, store: Store, drafts: list, first: int) -> None:  # type: ignore[type-arg]
        for number, place in enumerate(store.append(drafts, self.wall), first):
            if isinstance(place, Appended):
                self.placed[number] = place

    # After the cut ------------------------------------------------------------------------------

    def check(self, operation: int) -> None:
        """Check both a kill and a power cut at `operation`."""
        for power in (False, True):
            name = f"{self.seed}.{operation}"
            disk = self.disk.crash(name) if power else self.disk.kill()
            where = f"seed {self.seed}, operation {operation}, {'power' if power else 'kill'}"
            must = self.promised
            if not power and not self.options.transient_pool:
                must = self.placed
            self._check_store(disk, must, where, "second" if power else "first")

    def _check_store(self, disk: SimDisk, must: dict[int, Appended], where: str, boot: str) -> None:
        store = Store.open(disk, self.options, HOST, self.wall, boot=boot)
        found = found_by(store)
        for number, place in must.items():
            record = store.message_at(place.offset)
            if record is None or number_of(record) != number:
                raise Violation("INV-20", f"{where}: message {number} is lost")
        for problem in store.verify().problems:
            raise Violation("INV-17", f"{where}: {problem}")
        if found_by(Store.open(disk.kill(), self.options, HOST, self.wall)) != found:
            raise Violation("INV-16", f"{where}: a second recovery differs")
        disk = disk.crash("again")
        again = Store.open(disk, self.options, HOST, self.wall)
        if found_by(again) != found:
            raise Violation("INV-16", f"{where}: recovery was not durable")
        self._live_on(again, disk, where)

    def _live_on(self, store: Store, disk: SimDisk, where: str) -> None:
        chance = Random(where)
        wall = self.wall + 60_000
        store.append([draft(7_000_000 + i, chance) for i in range(2)], wall)
        store.sync()
        end = store.pointers.appended
        later = Store.open(disk.crash("later"), self.options, HOST, wall)
        if later.pointers.appended != end:
            raise Violation("INV-16", f"{where}: cut messages came back")


def sweep(seed: int) -> int:
    """Test every crash point of one script; returns how many there were."""
    script = Script(seed)
    for operation in count(1):
        if not script.run(operation):
            return operation - 1
        script.check(operation)
    raise AssertionError("the script never ends")
