"""The event heap of the simulation, on which all simulated hosts run: one thread, one seed.

Events are ordered by (time, sequence number) only (rule 2). True time is in microseconds; hosts see
it through their own clocks. Checkers run after every event.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from epochmq.base.errors import EnvironmentFault
from sim.kernel.checker import Checker
from sim.kernel.disk import PowerCut, SimDisk
from sim.kernel.host import Host, Process
from sim.kernel.streams import Streams
from sim.kernel.trace import KEPT, Trace
from sim.kernel.violation import Violation

Call = Callable[[], None]
MS = 1000
SECOND = 1_000_000
EVENTS_MAX = 2_000_000
SPINS_MAX = 100
"""How often a process may wake again at the same time before it counts as a busy loop."""
WAKE = "wake"
"""Label of the event at which a host's timer ends."""
ANYONE = -1
"""In place of an incarnation: any process on the host when the event runs."""


class World:
    """Hosts, time, random streams, trace and checkers; it does not know what hosts do."""

    def __init__(self, seed: object, keep_lines: int = KEPT) -> None:
        self.seed = seed
        self.time_us = 0
        self.streams = Streams(seed)
        self.trace = Trace(keep_lines)
        self.hosts: dict[str, Host] = {}
        self.marks: Counter[str] = Counter()
        """Counts of events that happened: each fault kind and each `covered` point (INV-91)."""
        self.warm_after_failed_sync = False
        self.touched: Host | None = None
        """The host of the current event."""
        self.on_down: list[Callable[[Host, bool], None]] = []
        """Called with (host, whether the power failed) when a process ends."""
        self._heap: list[tuple[int, int, Host | None, int, str, Call]] = []
        self._sequence = 0
        self._checkers: list[Checker] = []
        self._observers: list[Callable[[World], None]] = []
        self._hearers: dict[str, list[Callable[..., None]]] = {}

    # Time -------------------------------------------------------------------------------------

    def at(self, time_us: int, label: str, call: Call, host: Host | None = None) -> None:
        """Run `call` at `time_us` for `host`, if the host still has the same process then."""
        self._sequence += 1
        time_us = max(time_us, self.time_us)
        incarnation = host.incarnation if host is not None else 0
        heappush(self._heap, (time_us, self._sequence, host, incarnation, label, call))

    def after(self, delay_us: int, label: str, call: Call, host: Host | None = None) -> None:
        self.at(self.time_us + delay_us, label, call, host)

    def reach(self, delay_us: int, label: str, call: Call, host: Host) -> None:
        """Run `call` after `delay_us` for any process on `host`; without a process it is
        dropped.
        """
        self._sequence += 1
        heappush(self._heap, (self.time_us + delay_us, self._sequence, host, ANYONE, label, call))

    def run_until(self, time_us: int, done: Callable[[], bool] | None = None) -> bool:
        """Run events up to `time_us`, or until `done()` is true; returns whether it was."""
        heap = self._heap
        while heap and heap[0][0] <= time_us:
            at_us, sequence, host, incarnation, label, call = heappop(heap)
            self.time_us = at_us
            if host is not None and not self._reaches(host, incarnation, label, call):
                continue
            self.trace.line(at_us, sequence, host.name if host else "-", label)
            self.touched = host
            self._perform(host, label, call)
            for observe in self._observers:
                observe(self)
            if self.trace.count > EVENTS_MAX:
                raise Violation("INV-90", f"{EVENTS_MAX} events and no end: a livelock")
            if done is not None and done():
                return True
        self.time_us = max(self.time_us, time_us)
        return False

    def _reaches(self, host: Host, incarnation: int, label: str, call: Call) -> bool:
        if host.incarnation != incarnation and (incarnation != ANYONE or host.process is None):
            return False
        if host.paused:
            host.held.append((incarnation, label, call))
            return False
        return True

    def _perform(self, host: Host | None, label: str, call: Call) -> None:
        if host is None:
            call()
            return
        try:
            call()
        except PowerCut:
            self.power_off(host)
            return
        if host.process is not None and label != WAKE:  # `_wake` has set the timer itself
            self.arm(host)

    # Hosts ------------------------------------------------------------------------------------

    def add_host(self, name: str, boot: Callable[[Host], Process]) -> Host:
        host = self.hosts[name] = Host(self, name, boot)
        return host

    def start(self, host: Host) -> None:
        """Start the host's process; one that cannot start stays down and is retried."""
        if host.up:
            return
        host.machine_up = True
        host.incarnation += 1
        host.starts += 1
        host.paused = False
        host.held.clear()
        host.wake_at_us = None
        try:
            host.process = host.boot(host)
        except PowerCut:
            self.power_off(host)
        except EnvironmentFault as error:
            self.mark(f"start.{type(error).__name__}")
            host.disk = host.disk.kill()
            self.at(self.time_us + SECOND, f"start {host.name}", lambda: self.start(host))
        else:
            self.wake_soon(host)

    def kill(self, host: Host) -> None:
        """Kill the process; the page cache survives, unless a sync has failed on it.

        After a failed sync the cache has bytes that no later sync will write. Operators must reboot
        then, and the simulator does, unless the history sets `warm_after_failed_sync`.
        """
        if host.up and host.disk.doubtful and not self.warm_after_failed_sync:
            self.power_off(host)
        elif host.up:
            if host.disk.doubtful:
                self.mark("covered.warm_after_failed_sync")
            host.disk = host.disk.kill()
            self._down(host, power=False)

    def power_off(self, host: Host) -> None:
        """Cut the power: of the data that was not synced, a random part survives."""
        draw = self.streams["crash"].getrandbits(64)
        host.disk = host.disk.crash(draw)
        host.machine_up = False
        host.power_cuts += 1
        self._down(host, power=True)

    def lose_disk(self, host: Host) -> None:
        """Cut the power and lose the disk; the machine returns with an empty one."""
        if host.up:
            self.power_off(host)
        host.disk = SimDisk()
        host.disks_lost += 1
        self.tell("disk_lost", host)

    def exit(self, host: Host, again_us: int = SECOND // 2) -> None:
        """End the process, and restart it after `again_us` as a service manager would."""
        self.kill(host)
        self.after(again_us, f"start {host.name}", lambda: self.start(host))

    def _down(self, host: Host, power: bool) -> None:
        host.process = None
        host.incarnation += 1
        host.paused = False
        host.held.clear()
        for told in self.on_down:
            told(host, power)

    def pause(self, host: Host) -> None:
        """Pause the process; its clocks continue."""
        host.paused = host.up

    def resume(self, host: Host) -> None:
        if not host.paused:
            return
        host.paused = False
        held, host.held = host.held, []
        for incarnation, label, call in held:
            if incarnation in (host.incarnation, ANYONE):
                self.at(self.time_us, label, call, host)

    # The timer of a host ----------------------------------------------------------------------

    def wake_soon(self, host: Host) -> None:
        host.wake_at_us = None
        self._wake_at(host, self.time_us)

    def arm(self, host: Host) -> None:
        """Set the timer to the process's next deadline, which the last event may have changed."""
        deadline = getattr(host.process, "next_deadline", None)
        if deadline is None:
            return
        at_ms = deadline()
        if at_ms is not None:
            self._wake_at(host, max(host.clock.true_us_of(at_ms), self.time_us + 1))

    def _wake_at(self, host: Host, time_us: int) -> None:
        if host.wake_at_us is not None and self.time_us <= host.wake_at_us <= time_us:
            return
        host.wake_at_us = time_us
        host.wake_ticket += 1
        ticket = host.wake_ticket
        self.at(time_us, WAKE, lambda: self._wake(host, ticket), host)

    def _wake(self, host: Host, ticket: int) -> None:
        if ticket != host.wake_ticket or host.process is None:
            return
        host.wake_at_us = None
        now = host.now
        at_ms = host.process.wake(now)
        if at_ms is not None:
            host.spins = host.spins + 1 if at_ms <= now else 0
            if host.spins > SPINS_MAX:
                raise Violation("INV-90", "it wakes for a deadline that is over", (host.name,))
            self._wake_at(host, max(host.clock.true_us_of(at_ms), self.time_us + 1))

    # Checking ---------------------------------------------------------------------------------

    def check_with(self, checkers: Iterable[Checker]) -> None:
        self._hearers.clear()
        for checker in checkers:
            self._checkers.append(checker)
            if type(checker).observe is not Checker.observe:
                self._observers.append(checker.observe)

    def forget_checkers(self, *rules: str) -> None:
        """Disable these rules from now on: a scenario violates what they depend on."""
        self._checkers = [c for c in self._checkers if c.rule not in rules]
        self._observers = [
            c.observe for c in self._checkers if type(c).observe is not Checker.observe
        ]
        self._hearers.clear()

    def tell(self, fact: str, *values: object) -> None:
        """Report a fact about a node to all checkers with a method of that name."""
        hearers = self._hearers.get(fact)
        if hearers is None:
            found = (getattr(checker, fact, None) for checker in self._checkers)
            hearers = self._hearers[fact] = [heard for heard in found if heard is not None]
        for heard in hearers:
            heard(*values)

    def finish(self) -> None:
        for checker in self._checkers:
            checker.finish(self)

    def mark(self, name: str) -> None:
        self.marks[name] += 1

    def states(self) -> list[str]:
        return [host.state_line() for _, host in sorted(self.hosts.items())]
