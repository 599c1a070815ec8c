"""Runs a store on the event heap: syncs and chores are steps with random latency (rule 5).

Like `store/store_service.py` on the loop, it runs one blocking step at a time: a sync of the log
when one is due, else the next chore; and a tick every 20 ms. The call and the report of its end are
two events, so that a crash may come in between.
"""

from collections.abc import Callable

from epochmq.base.errors import EnvironmentFault
from epochmq.store.store import Store
from sim.kernel.host import Host

TICK_MS = 20
Step = Callable[[], None]


class StoreShell:
    """Runs one store for one process."""

    def __init__(self, host: Host, store: Store, sync_us: int = 300) -> None:
        self.host = host
        self.store = store
        self.sync_us = sync_us
        """The mean latency (µs) of a blocking step on this host's disk."""
        self._chance = host.world.streams[f"sync:{host.name}"]
        self._tick_at = host.now
        self.busy = False

    def wake(self, now: int) -> None:
        """Tick when due, and start the next blocking step."""
        if now >= self._tick_at:
            self._tick_at = now + TICK_MS
            self.host.disk.wall_ms = self.host.wall
            self.store.tick(now, self.host.wall)
        self.pump()

    @property
    def next_deadline(self) -> int:
        return self._tick_at

    def pump(self) -> None:
        """Start a sync or a chore when none runs; call this after appends."""
        store = self.store
        if self.busy or store.closed or store.fenced is not None:
            return
        if store.flush_due(self.host.now):
            self.sync()
        elif (step := store.chores.next_step()) is not None:
            self.blocking("chore", step, lambda: None, store.chores.failed)

    def sync(self) -> None:
        """Start a sync of the log now."""
        store = self.store
        try:
            offset, call = store.sync_point()
        except EnvironmentFault as error:
            store.sync_failed(error)
            return
        self.blocking("sync", call, lambda: store.synced_to(offset), store.sync_failed)

    def blocking(
        self, label: str, call: Step, done: Step, failed: Callable[[EnvironmentFault], None]
    ) -> None:
        """Run `call` as a blocking step; then call `done`, or `failed` with its error."""
        self.busy = True
        host, world = self.host, self.host.world
        errors: list[EnvironmentFault] = []

        def act() -> None:
            try:
                call()
            except EnvironmentFault as error:
                errors.append(error)
            world.after(self.latency(), f"{label} done", report, host)

        def report() -> None:
            self.busy = False
            if errors:
                failed(errors[0])
            else:
                done()
            self.pump()

        world.after(self.latency(), label, act, host)

    def latency(self) -> int:
        return max(1, int(self._chance.expovariate(2 / self.sync_us)) * self.host.slow)


def log_span(store: Store, start: int, stop: int) -> bytes:
    """The log's bytes `[start, stop)`."""
    parts: list[bytes] = []
    while start < stop:
        part = bytes(store.slice(start, stop - start))
        if not part:
            break
        parts.append(part)
        start += len(part)
    return b"".join(parts)
