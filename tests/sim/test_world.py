"""Order, incarnations, pauses, timers and clocks of the simulated world."""

import pytest
from sim.kernel.clocks import BOOT_MS, WALL_MS, HostClock
from sim.kernel.host import Host
from sim.kernel.streams import SeededRng, Streams
from sim.kernel.violation import Violation
from sim.kernel.world import MS, SECOND, World

from epochmq.base.errors import DiskFull


class Idle:
    """A process that wakes at given times."""

    def __init__(self, host: Host, wakes: list[int]) -> None:
        self.host = host
        self.wakes = wakes
        self.woken: list[int] = []

    def wake(self, now: int) -> int | None:
        self.woken.append(now - BOOT_MS)
        return self.next_deadline()

    def next_deadline(self) -> int | None:
        return next((BOOT_MS + w for w in self.wakes if BOOT_MS + w > self.host.now), None)

    def state_line(self) -> str:
        return "idle"


def one_host(wakes: list[int] | None = None) -> tuple[World, Host]:
    world = World(1)
    host = world.add_host("h", lambda h: Idle(h, wakes or []))
    world.start(host)
    return world, host


def test_events_run_by_time_then_by_order() -> None:
    world, seen = World(1), []
    for name, at in (("b", 2), ("c", 2), ("a", 1), ("late", 9)):
        world.at(at, name, lambda n=name: seen.append(n))
    assert not world.run_until(5)
    assert seen == ["a", "b", "c"]
    assert world.run_until(20, lambda: len(seen) == 4)
    assert world.time_us == 9


def test_an_event_dies_with_the_process_it_was_meant_for() -> None:
    world, host = one_host()
    seen: list[str] = []
    world.at(5, "old", lambda: seen.append("old"), host)
    world.reach(5, "anyone", lambda: seen.append("anyone"), host)
    world.kill(host)
    world.reach(2, "nobody", lambda: seen.append("nobody"), host)
    world.run_until(3)
    world.start(host)
    world.run_until(9)
    assert seen == ["anyone"]
    assert (host.starts, host.state_line()) == (2, f"h#{host.incarnation}: idle")


def test_a_paused_host_catches_up() -> None:
    world, host = one_host()
    seen: list[int] = []
    world.at(5, "one", lambda: seen.append(world.time_us), host)
    world.reach(6, "two", lambda: seen.append(world.time_us), host)
    world.pause(host)
    world.run_until(50)
    assert seen == []
    assert "(paused)" in host.state_line()
    world.resume(host)
    world.run_until(51)
    assert seen == [50, 50]


def test_a_host_wakes_at_its_deadlines() -> None:
    world, host = one_host([10, 25])
    world.run_until(SECOND)
    assert isinstance(host.process, Idle)
    assert host.process.woken == [0, 10, 25]
    host.process.wakes = [2000]
    world.at(SECOND, "moved", lambda: None, host)
    world.run_until(3 * SECOND)
    assert host.process.woken[-1] == 2000


def test_power_goes_in_the_middle_of_an_event() -> None:
    world, host = one_host()
    host.disk.stop_at = 2
    told: list[tuple[str, bool]] = []
    world.on_down.append(lambda h, power: told.append((h.name, power)))
    world.at(1, "write", lambda: host.disk.write_file("f", b"x"), host)
    world.run_until(2)
    assert told == [("h", True)]
    assert (host.up, host.machine_up, host.state_line()) == (False, False, "h: down")
    assert host.disk.read_file("f") is None


def test_a_host_that_cannot_start_tries_again() -> None:
    tries: list[int] = []

    def boot(host: Host) -> Idle:
        tries.append(host.world.time_us)
        if len(tries) < 3:
            raise DiskFull("no space")
        return Idle(host, [])

    world = World(1)
    host = world.add_host("h", boot)
    world.start(host)
    world.run_until(5 * SECOND)
    assert tries == [0, SECOND, 2 * SECOND]
    assert host.up
    assert world.marks["start.DiskFull"] == 2


def test_a_livelock_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.kernel.world.EVENTS_MAX", 100)
    world = World(1)

    def again() -> None:
        world.after(0, "again", again)

    again()
    with pytest.raises(Violation, match="livelock"):
        world.run_until(1)


def test_clocks_drift_and_step() -> None:
    clock = HostClock(drift_ppm=1000, wall_offset_ms=7)
    clock.true_us = 1000 * SECOND
    assert clock.now_ms() == BOOT_MS + 1_001_000
    clock.step_wall(-3_600_000)
    assert clock.wall_ms() == WALL_MS + 7 + 1_001_000 - 3_600_000
    for now in (BOOT_MS + 1, BOOT_MS + 999, BOOT_MS + 12345):
        clock.true_us = clock.true_us_of(now)
        assert clock.now_ms() >= now
        clock.true_us -= 1
        assert clock.now_ms() < now


def test_streams_do_not_move_each_other() -> None:
    one, two = Streams(7), Streams(7)
    one["net"].random()
    assert one["disk"].random() == two["disk"].random()
    assert Streams(8)["disk"].random() != two["net"].random()
    assert SeededRng(one["x"]).randrange(3) in range(3)
    assert MS * 1000 == SECOND
