"""The simulated network: messages that may be lost, and reliable streams (TCP).

A message goes from host to host with a random delay; it may be lost, duplicated or cut off. A
stream keeps its order and all bytes: what a cut holds back arrives after the cut heals. When a
process is killed, its streams are reset after the bytes that it wrote, which its machine still
sends. A machine without power sends nothing more, not even bytes held back by a cut, and resets
streams once it is back. Nothing arrives on a broken stream.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sim.kernel.host import Host
from sim.kernel.world import MS, World

Deliver = Callable[[], None]


@dataclass
class Weather:
    """Properties of the network, which faults change."""

    delay_min_us: int = 200
    delay_max_us: int = 2 * MS
    loss_permille: int = 0
    double_permille: int = 0
    resend_us: int = 200 * MS
    """The time (µs) after which a stream continues when a cut heals."""


class Net:
    """All links between all hosts."""

    def __init__(self, world: World, weather: Weather | None = None) -> None:
        self.world = world
        self.weather = weather or Weather()
        self._chance = world.streams["net"]
        self._cuts: dict[tuple[str, str], int] = {}
        self._slow: dict[tuple[str, str], int] = {}
        self.streams: list[Stream] = []
        world.on_down.append(self._process_gone)

    # Faults -----------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Block all traffic from `source` to `target` until as many calls of `heal`."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        left = self._cuts.get((source, target), 0) - 1
        if left > 0:
            self._cuts[source, target] = left
        else:
            self._cuts.pop((source, target), None)
        if left <= 0:
            self._go_on(source, target)

    def heal_all(self) -> None:
        for source, target in sorted(self._cuts):
            self._cuts.pop((source, target))
            self._go_on(source, target)
        self._slow.clear()

    def slow(self, source: str, target: str, extra_us: int) -> None:
        """Delay traffic in this direction by up to `extra_us` more; 0 ends it."""
        if extra_us:
            self._slow[source, target] = extra_us
        else:
            self._slow.pop((source, target), None)

    @property
    def troubled(self) -> set[tuple[str, str]]:
        """Return the directions that are cut or slow."""
        return {*self._cuts, *self._slow}

    @property
    def is_whole(self) -> bool:
        """Whether nothing is cut."""
        return not self._cuts

    def passes(self, source: str, target: str) -> bool:
        return (source, target) not in self._cuts

    def reset(self, one: str, other: str) -> None:
        """Break all streams between two hosts and notify both ends."""
        for stream in [s for s in self.streams if {h.name for h in s.hosts} == {one, other}]:
            stream.reset()

    # Messages ---------------------------------------------------------------------------------

    def delay(self, source: str, target: str) -> int:
        weather = self.weather
        spread = weather.delay_max_us - weather.delay_min_us
        drawn = weather.delay_min_us + int(self._chance.random() * spread)
        extra = self._slow.get((source, target))
        return drawn + int(self._chance.random() * extra) if extra else drawn

    def send(self, source: Host, target: Host, label: str, deliver: Deliver) -> None:
        """Send one datagram; `deliver` runs on `target` if it has a process then."""
        if (source.name, target.name) in self._cuts:
            return
        weather, permille = self.weather, self._chance.random() * 1000
        if permille < weather.loss_permille:
            self.world.mark("net.loss")
            return
        self._carry(source, target, label, deliver)
        if permille > 1000 - weather.double_permille:
            self.world.mark("net.double")
            self._carry(source, target, label, deliver)

    def _carry(self, source: Host, target: Host, label: str, deliver: Deliver) -> None:
        delay = self.delay(source.name, target.name)
        self.world.reach(delay, label, deliver, target)

    # Streams ----------------------------------------------------------------------------------

    def connect(self, source: Host, target: Host, accept: "Accept", ends: "Ends") -> None:
        """Open a stream: `accept` runs on the target, then `ends.opened` on the source.

        `ends.refused` runs on the source when no process listens. A cut gives no answer, so the
        caller needs a timeout.
        """
        stream = Stream(self, source, target)

        def reach() -> None:
            if target.process is None:
                if target.machine_up:
                    stream.signal(0, "refused", ends.refused)
            else:
                self.world.reach(0, f"accept {source.name}", greet, target)

        def greet() -> None:
            if source.incarnation != stream.incarnations[0]:
                return
            stream.incarnations[1] = target.incarnation
            self.streams.append(stream)
            stream.open = True
            stream.signal(0, f"connected {target.name}", lambda: ends.opened(stream))
            accept(stream)

        if self.passes(source.name, target.name):
            self.world.after(self.delay(source.name, target.name), "connect", reach)

    def _process_gone(self, host: Host, power: bool) -> None:
        for stream in [s for s in self.streams if host in s.hosts]:
            stream.end_gone(stream.hosts.index(host), power)

    def _go_on(self, source: str, target: str) -> None:
        for stream in list(self.streams):
            names = [host.name for host in stream.hosts]
            if source in names and target in names:
                stream.go_on(names.index(source))


Accept = Callable[["Stream"], None]


@dataclass
class Ends:
    """Callbacks of the side that opens a stream."""

    opened: Accept
    refused: Callable[[], None]


class Stream:
    """Bytes in both directions between two processes; end 0 opened the stream, end 1 accepted
    it.
    """

    def __init__(self, net: Net, source: Host, target: Host) -> None:
        self.net = net
        self.hosts = (source, target)
        self.incarnations = [source.incarnation, target.incarnation]
        self.open = False
        self.broken = False
        """It was open and is broken now."""
        self.gone = [False, False]
        """By end: whether it vanished without notice (power) or was closed."""
        self.on_bytes: list[Callable[[bytes], None]] = [_ignore, _ignore]
        self.on_closed: list[Callable[[], None]] = [_nothing, _nothing]
        self.on_request: Callable[[Any], None] = _ignore
        self.on_answer: Callable[[Any], None] = _ignore
        self.on_told: Callable[[Any], None] = _ignore
        """For users that send values instead of bytes (`sim.kernel.rpc`)."""
        self.in_flight = [0, 0]
        """Bytes in flight to each end, including held ones; used for the sender's window."""
        self._arrives_us = [0, 0]
        self._held: list[list[tuple[str, Deliver]]] = [[], []]

    def send(self, end: int, data: bytes) -> None:
        """Write from `end`; the bytes arrive in order, unless the stream breaks before."""
        if self.open and not self.gone[end]:
            other = 1 - end
            self.in_flight[other] += len(data)
            label = f"bytes {self.hosts[end].name} {len(data)}"
            self.signal(other, label, lambda: self._deliver(other, data))

    def _deliver(self, end: int, data: bytes) -> None:
        self.in_flight[end] -= len(data)
        if self.open and not self.gone[end]:
            self.on_bytes[end](data)

    def signal(self, end: int, label: str, call: Deliver) -> None:
        """Run `call` at `end` after all bytes sent to it before, once no cut is in between."""
        source, target = self.hosts[1 - end], self.hosts[end]
        net = self.net
        if self._held[end] or not net.passes(source.name, target.name):
            self._held[end].append((label, call))
            return
        world = net.world
        at_us = world.time_us + net.delay(source.name, target.name)
        at_us = self._arrives_us[end] = max(at_us, self._arrives_us[end] + 1)

        def arrive() -> None:
            if self.broken:
                return
            if target.incarnation == self.incarnations[end]:
                if not self.gone[end]:
                    call()
            elif self.open:
                self.end_gone(end, power=False)  # bytes for another process: reset

        world.reach(at_us - world.time_us, label, arrive, target)

    def go_on(self, source_end: int) -> None:
        """The direction from `source_end` is open again: deliver what was held after a resend."""
        end = 1 - source_end
        held, self._held[end] = self._held[end], []
        base = self.net.world.time_us + self.net.weather.resend_us
        self._arrives_us[end] = max(self._arrives_us[end], base)
        for label, call in held:
            self.signal(end, label, call)

    def close(self, end: int) -> None:
        """Close from `end`; the other end learns of it after the bytes that were sent."""
        if self.open and not self.gone[end]:
            self.gone[end] = True
            self._tell_closed(1 - end)

    def reset(self) -> None:
        """Break the stream: bytes in flight are lost, and both ends are notified."""
        self._finish()
        for end, host in enumerate(self.hosts):
            if not self.gone[end] and host.incarnation == self.incarnations[end]:
                self.gone[end] = True
                self.net.world.after(1, "reset", self.on_closed[end], host)

    def _tell_closed(self, end: int) -> None:
        def closed() -> None:
            if self.open and not self.gone[end]:
                self._finish()
                self.gone[end] = True
                self.on_closed[end]()

        if self.gone[end]:
            self._finish()
        else:
            self.signal(end, f"closed {self.hosts[1 - end].name}", closed)

    def _finish(self) -> None:
        self.open, self.broken = False, True
        if self in self.net.streams:
            self.net.streams.remove(self)

    def end_gone(self, end: int, power: bool) -> None:
        """The process at `end` has ended: reset the other end, unless the power failed."""
        already, self.gone[end] = self.gone[end], True
        if power:
            self._held[1 - end].clear()
        if not power and (not already or not self.gone[1 - end]):
            self._tell_closed(1 - end)
        elif self.gone[1 - end]:
            self._finish()


def _ignore(_data: Any) -> None:
    return


def _nothing() -> None:
    return
