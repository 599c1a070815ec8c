"""The event heap on which all simulated hosts run: one thread, one order, one seed.

Events are ordered by (time, sequence number) and by nothing else (rule 2). True time is in
microseconds; hosts see it through their own clocks. After every event the checkers look.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from epochmq.base.errors import EnvironmentFault
from sim.checkers.base import Checker
from sim.disk import PowerCut, SimDisk
from sim.host import Host, Process
from sim.streams import Streams
from sim.trace import KEPT, Trace
from sim.violation import Violation

Call = Callable[[], None]
MS = 1000
SECOND = 1_000_000
EVENTS_MAX = 2_000_000
SPINS_MAX = 100
"""So often a process may want to wake at once again before it counts as a busy loop."""
ANYONE = -1
"""In the place of an incarnation: whichever process is there when the event comes."""


class World:
    """Hosts, time, chance, trace and checkers; knows nothing of what the hosts do."""

    def __init__(self, seed: object, keep_lines: int = KEPT) -> None:
        self.seed = seed
        self.time_us = 0
        self.streams = Streams(seed)
        self.trace = Trace(keep_lines)
        self.hosts: dict[str, Host] = {}
        self.marks: Counter[str] = Counter()
        """What happened at all: each fault kind and each `covered` point (INV-91)."""
        self.warm_after_failed_sync = False
        self.touched: Host | None = None
        """The host that the present event ran on."""
        self.on_down: list[Callable[[Host, bool], None]] = []
        """Called with (host, whether the power went) when a process ends."""
        self._heap: list[tuple[int, int, Host | None, int, str, Call]] = []
        self._sequence = 0
        self._checkers: list[Checker] = []
        self._observers: list[Callable[[World], None]] = []
        self._hearers: dict[str, list[Callable[..., None]]] = {}

    # Time -------------------------------------------------------------------------------------

    def at(self, time_us: int, label: str, call: Call, host: Host | None = None) -> None:
        """Run `call` at `time_us`, in the name of `host` if it still is the same process then."""
        self._sequence += 1
        time_us = max(time_us, self.time_us)
        incarnation = host.incarnation if host is not None else 0
        heappush(self._heap, (time_us, self._sequence, host, incarnation, label, call))

    def after(self, delay_us: int, label: str, call: Call, host: Host | None = None) -> None:
        self.at(self.time_us + delay_us, label, call, host)

    def reach(self, delay_us: int, label: str, call: Call, host: Host) -> None:
        """Run `call` in the name of whatever process is on `host` then; of none, not at all."""
        self._sequence += 1
        heappush(self._heap, (self.time_us + delay_us, self._sequence, host, ANYONE, label, call))

    def run_until(self, time_us: int, done: Callable[[], bool] | None = None) -> bool:
        """Run to `time_us`, or until `done()`; whether `done` was the reason."""
        heap = self._heap
        while heap and heap[0][0] <= time_us:
            at_us, sequence, host, incarnation, label, call = heappop(heap)
            self.time_us = at_us
            if host is not None and not self._reaches(host, incarnation, label, call):
                continue
            self.trace.line(at_us, sequence, host.name if host else "-", label)
            self.touched = host
            self._perform(host, call)
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

    def _perform(self, host: Host | None, call: Call) -> None:
        if host is None:
            call()
            return
        try:
            call()
        except PowerCut:
            self.power_off(host)
            return
        if host.process is not None:
            self.arm(host)

    # Hosts ------------------------------------------------------------------------------------

    def add_host(self, name: str, boot: Callable[[Host], Process]) -> Host:
        host = self.hosts[name] = Host(self, name, boot)
        return host

    def start(self, host: Host) -> None:
        """Start the host's process; one that cannot start stays down and is tried again."""
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
        """The process dies; the page cache lives, unless a sync failed on it.

        After a failed sync the cache holds bytes that no later sync will write: operators are
        told to reboot then, and the simulator does, unless the history is one of those that do not
        (`warm_after_failed_sync`).
        """
        if host.up and host.disk.doubtful and not self.warm_after_failed_sync:
            self.power_off(host)
        elif host.up:
            if host.disk.doubtful:
                self.mark("covered.warm_after_failed_sync")
            host.disk = host.disk.kill()
            self._down(host, power=False)

    def power_off(self, host: Host) -> None:
        """The machine loses its power; of what was not synced a drawn part is left."""
        draw = self.streams["crash"].getrandbits(64)
        host.disk = host.disk.crash(draw)
        host.machine_up = False
        host.power_cuts += 1
        self._down(host, power=True)

    def lose_disk(self, host: Host) -> None:
        """The machine goes off and its disk is lost for good; it comes back with an empty one."""
        if host.up:
            self.power_off(host)
        host.disk = SimDisk()
        host.disks_lost += 1
        self.tell("disk_lost", host)

    def exit(self, host: Host, again_us: int = SECOND // 2) -> None:
        """The process ends by itself, and is started again as a service manager would."""
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
        """The process stands still; its clocks run on."""
        host.paused = host.up

    def resume(self, host: Host) -> None:
        if not host.paused:
            return
        host.paused = False
        held, host.held = host.held, []
        for incarnation, label, call in held:
            if incarnation in (host.incarnation, ANYONE):
                self.at(self.time_us, label, call, host)

    # The one timer of a host ------------------------------------------------------------------

    def wake_soon(self, host: Host) -> None:
        host.wake_at_us = None
        self._wake_at(host, self.time_us)

    def arm(self, host: Host) -> None:
        """Wake the process at its next deadline, which the event just run may have moved."""
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
        self.at(time_us, "wake", lambda: self._wake(host, ticket), host)

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
        """From now on these rules are not asked about: a story breaks what they rest on."""
        self._checkers = [c for c in self._checkers if c.rule not in rules]
        self._observers = [
            c.observe for c in self._checkers if type(c).observe is not Checker.observe
        ]
        self._hearers.clear()

    def tell(self, fact: str, *values: object) -> None:
        """A node did something that checkers must know of; each has a method of that name."""
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
